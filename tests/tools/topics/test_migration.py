"""A migration under load: nothing is lost or judged twice, and later verdicts are as if the new scheme were old."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from stream_dedup.errors import ChangelogError, MigrationError
from stream_dedup.kafka.runtime import Runtime
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.topics.migration import Migration, MigrationProgress
from stream_dedup.worker.worker import Worker
from tests.harness.check import assert_exactly_once, from_scratch, header, outcome
from tests.harness.feed import START, article, feed, made_up
from tests.harness.topics import Make, under_another_scheme
from tests.worker.support import run_until, running

pytestmark = pytest.mark.kafka
Names = Callable[[str], str]


def clock() -> float:
    """Wall time shortly after the made-up items, which are from 2023."""
    return START / 1000 + 60


def renamed(name: bytes, count: int, seed: int) -> list[tuple[bytes | None, bytes | None]]:
    return [(name + key, value.replace(b'"id": "', b'"id": "' + name)) for key, value in made_up(count, seed)]


def test_new_workers_decide_as_if_they_had_seen_everything(make: Make, topic_name: Names) -> None:
    old = make(worker={"batch_items": 100})
    new = under_another_scheme(old, topic_name("new-changelog"))
    sent = feed(old, renamed(b"a-", 800, 1))
    phases: list[str] = []
    let_through = len(sent) + 401  # for now: more than there will be
    is_caught_up = threading.Event()

    def report(progress: MigrationProgress) -> None:
        phases.append(progress.phase)
        if progress.phase == "wait" and progress.read >= let_through:
            is_caught_up.set()

    done: list[MigrationProgress] = []
    moving = threading.Thread(target=lambda: done.append(Migration(new, report, clock).run()))
    last = b"last", article("last", "A ferry brought forty goats to the island, where nobody had expected them.")
    with running(old, runtime=Runtime(wall=clock)):
        moving.start()
        sent += feed(old, [*renamed(b"b-", 400, 1), last])  # copies of the first, while the migration runs
        let_through = sum(kind != "duplicate" for kind, *_ in from_scratch(old, sent).values())
        assert is_caught_up.wait(60)
    moving.join(60)
    assert done[0].read == let_through
    assert phases[-1] == "done"
    sent += feed(new, renamed(b"c-", 500, 1))
    run_until(new, 500)
    assert_exactly_once(new, sent)
    came = outcome(new).verdicts()
    expected = from_scratch(new, sent)
    after = [record.key for record in sent[-500:]]
    assert {key: came[key] for key in after} == {key: expected[key] for key in after}


def test_copies_of_shadow_mode_are_not_judged(make: Make, topic_name: Names) -> None:
    old = make(policy={"shadow": True})
    new = under_another_scheme(old, topic_name("new-changelog"))
    sent = feed(old, [*made_up(200), (b"bad", b"{")])
    run_until(old, 201)
    came = outcome(old)
    assert len(came.output) == 201
    assert len(came.duplicates) > 10
    moved = Migration(new, lambda progress: None, clock).run()
    assert moved.read == 200 - len(came.duplicates), "neither the dead letter"
    sent += feed(new, renamed(b"c-", 200, 1))
    run_until(new, 200)
    verdicts = outcome(new).verdicts()
    expected = from_scratch(new, sent)
    last = [record.key for record in sent[-200:]]
    assert {key: verdicts[key] for key in last} == {key: expected[key] for key in last}


def test_an_interrupted_migration_resumes_and_workers_refuse_its_changelog(
    make: Make, topic_name: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make(worker={"batch_items": 100})
    new = under_another_scheme(old, topic_name("new-changelog"))
    sent = feed(old, made_up(700))
    run_until(old, 700)
    commit = Migration._commit
    committed: list[int] = []

    def two_batches(self: Migration, producer: Any, items: Any, *, complete: bool) -> None:
        commit(self, producer, items, complete=complete)
        committed.append(len(items))
        if len(committed) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Migration, "_commit", two_batches)
        with pytest.raises(KeyboardInterrupt):
            Migration(new, lambda progress: None, clock).run()
    with pytest.raises(ChangelogError, match="is not complete: run `stream-dedup migrate`"):
        Worker(new).run(threading.Event())
    done = Migration(new, lambda progress: None, clock).run()
    assert done.phase == "done"
    assert done.read == len(outcome(old).output) - sum(committed)
    again = Migration(new, lambda progress: None, clock).run()
    assert (again.read, again.remembered) == (0, done.remembered)
    sent += feed(new, renamed(b"more-", 50, 1))
    run_until(new, 50)
    assert_exactly_once(new, sent)


def test_stories_are_kept_even_if_the_new_scheme_does_not_find_the_originals(make: Make, topic_name: Names) -> None:
    old = make()
    new = under_another_scheme(old, topic_name("new-changelog"), family="simhash", hamming=1)
    sent = feed(old, made_up(300, updates=0.5))
    run_until(old, 300)
    updates = {record.key: header(record, "dedup-story") for record in outcome(old).output}
    updates = {key: story for key, story in updates.items() if key.decode() != story}
    again = [(b"copy-" + one.key, one.value.replace(b'"id": "', b'"id": "copy-')) for one in sent if one.key in updates]
    Migration(new, lambda progress: None, clock).run()
    feed(new, again)
    run_until(new, len(again))
    verdicts = outcome(new).verdicts()
    found = [verdicts[key] for key, _ in again]
    assert found == [("duplicate", key.decode(), story) for key, story in updates.items()]
    assert len(found) > 5


def test_a_changelog_in_use_is_not_touched(settings: Settings) -> None:
    feed(settings, made_up(20))
    run_until(settings, 20)
    with pytest.raises(MigrationError, match=r"is in use by the workers of this group: .* set \[topics\] changelog"):
        Migration(settings, lambda progress: None).run()


def test_scope_partition_is_refused() -> None:
    with pytest.raises(MigrationError, match="scope = 'global' only"):
        Migration(load_settings(worker={"scope": "partition"}), lambda progress: None)
