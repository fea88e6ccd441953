"""A failed opening or commit costs little: the state store keeps what it has read, and no block is read twice."""

import random
import time
from collections import Counter
from typing import Any

import pytest

from stream_dedup.dedup.batch import Delta
from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import Stalled, TransactionFailed
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.settings import Settings
from stream_dedup.worker.group import Group
from tests.harness.check import assert_exactly_once, from_scratch, outcome, read_all
from tests.harness.feed import feed, made_up
from tests.harness.topics import Make
from tests.worker.support import run_until

pytestmark = pytest.mark.kafka


class Counting:
    """A factory of indexes that counts them, and the blocks restored into them."""

    def __init__(self) -> None:
        self.made = self.blocks = 0

    def __call__(self, settings: Settings) -> Decider:
        counter = self

        class Counted(Decider):
            def restore(self, delta: Delta) -> None:
                counter.blocks += 1
                super().restore(delta)

        self.made += 1
        return Counted(settings)


def test_a_failed_opening_keeps_the_restored_state(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = make(worker={"batch_items": 20})
    sent = feed(settings, made_up(300))
    run_until(settings, 300)
    blocks = len(read_all(settings, settings.topics.changelog))
    failures = iter([TransactionFailed("the coordinator has moved"), Stalled("no answer")])
    committed = Group.committed

    def failing(self: Group, *args: Any) -> Any:
        if (error := next(failures, None)) is not None:
            raise error
        return committed(self, *args)

    monkeypatch.setattr(Group, "committed", failing)  # step 4 of an opening: all is read
    sent += feed(settings, ((b"more-" + key, value) for key, value in made_up(50, seed=2)))
    counting = Counting()
    watching = run_until(settings, 50, decider=counting)
    assert watching.openings == 1
    assert counting.made == 1
    assert counting.blocks == blocks, "each block is read once"
    assert_exactly_once(settings, sent)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.slow
def test_a_failed_commit_keeps_the_committed_state(make: Make, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Commits fail before they take effect, or after; the changelog has the outcome. Some ends are not reported."""
    settings = make(worker={"batch_items": 25})
    sent = feed(settings, made_up(1500, seed=seed))
    chance, known = random.Random(seed), random.Random(seed)
    flush, commit, ends_in = TaskProducer.flush, TaskProducer.commit, TaskProducer.ends_in
    happened: Counter[str] = Counter()

    def failing_flush(self: TaskProducer) -> None:
        flush(self)
        if chance.random() < 0.12:
            happened["aborted"] += 1
            raise TransactionFailed("not enough replicas")

    def failing_commit(self: TaskProducer) -> None:
        commit(self)
        if chance.random() < 0.12:
            happened["unknown"] += 1
            raise Stalled("committing did not end")

    monkeypatch.setattr(TaskProducer, "flush", failing_flush)
    monkeypatch.setattr(TaskProducer, "commit", failing_commit)
    monkeypatch.setattr(TaskProducer, "ends_in", lambda *args: {} if known.random() < 0.3 else ends_in(*args))
    counting = Counting()
    # Batches with an unknown outcome are not reported; the rest follows below.
    run_until(settings, 1500 - 25 * 20, decider=counting)
    monkeypatch.undo()
    deadline = time.monotonic() + 60
    while (missing := 1500 - outcome(settings).fates.total()) and time.monotonic() < deadline:
        run_until(settings, missing)
    assert happened["aborted"] > 1
    assert happened["unknown"] > 1
    assert counting.made == 1, "one index through all failures"
    assert happened["unknown"] - 1 <= counting.blocks <= happened["unknown"], "known blocks are not read again"
    came = assert_exactly_once(settings, sent)
    assert came.verdicts() == from_scratch(settings, read_all(settings, settings.topics.input))
