"""A standby's state store: it follows the changelog, and reads the rest when the standby takes over."""

import time
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.settings import Settings
from tests.harness.check import assert_exactly_once
from tests.harness.feed import feed, made_up
from tests.harness.topics import Make
from tests.harness.wait import wait_until
from tests.worker.support import Watching, open_store, run_until, running

pytestmark = pytest.mark.kafka


def test_it_follows_committed_entries_and_completes_the_rest(make: Make) -> None:
    settings = make(worker={"batch_items": 50})
    feed(settings, made_up(200))
    run_until(settings, 200)
    store = open_store(settings)
    wait_until(lambda: store.follow() or len(store.dedup), "it has followed")
    followed = len(store.dedup)
    feed(settings, made_up(200, seed=2))
    run_until(settings, 200)
    progress: list[tuple[int, int]] = []
    restored = store.complete(lambda done, total: progress.append((done, total)))
    fresh = open_store(settings)
    fresh.complete(lambda done, total: None)
    assert len(store.dedup) == len(fresh.dedup) > followed
    assert restored.offsets == {0: 400}
    assert progress[-1][0] == progress[-1][1]
    assert store.dedup.watermark == fresh.dedup.watermark
    store.close()
    fresh.close()


class _Standby(Watching):
    standing_by = 0

    def loop_completed(self, tasks: Sequence[str]) -> None:
        self.standing_by += not tasks


def test_a_standby_has_read_the_changelog_before_it_takes_over(make: Make) -> None:
    settings = make(worker={"batch_items": 50})
    made: list[Deduplicator] = []

    def deduplicator(settings: Settings) -> Deduplicator:
        made.append(Deduplicator(settings))
        return made[-1]

    standby = _Standby()
    with ExitStack() as stack:
        active = stack.enter_context(running(settings))
        assert active.opened.wait(30)
        stack.enter_context(running(settings, standby, deduplicator=deduplicator))
        sent = feed(settings, made_up(500))
        wait_until(lambda: active.judged >= 500 and made and len(made[0]), "the standby has read something")
        wait_until(lambda: standby.standing_by >= 3, "it stands by")
        assert not standby.opened.is_set()
        time.sleep(1)
        followed = len(made[0])
        active.stop.set()
        assert standby.opened.wait(30)
        assert len(made) == 1, "it keeps the index that it had"
        assert standby.remembered == followed
    assert_exactly_once(settings, sent)
