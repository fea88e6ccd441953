"""The numbers of the status page: time slices of the last half hour, tasks, lag and errors."""

import pytest

from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.errors import BadItem, Stalled, TransactionFailed
from stream_dedup.news.item import Item
from stream_dedup.observe.board import SLICE_SECONDS, TIME_SLICES, Board
from tests.observe.watched import report

ITEM = Item("1", "A headline", "A text.", "post.example", 1000)
UNIQUE = Verdict("1", Kind.UNIQUE, Stage.NONE, True)
HELD = Verdict("2", Kind.DUPLICATE, Stage.BODY, False)
DEAD = Verdict("3", Kind.BAD, Stage.NONE, False, reason="json: x")


class Clock:
    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def board(clock: Clock) -> Board:
    return Board(clock=clock)


def test_items_are_counted_by_time_slice_for_half_an_hour(board: Board, clock: Clock) -> None:
    board.batch(report([ITEM] * 3, [UNIQUE, HELD, HELD], seconds=0.01))
    board.batch(report([ITEM], [UNIQUE], seconds=0.02))
    clock.now += SLICE_SECONDS
    board.batch(report([ITEM, BadItem("json", "x")], [UNIQUE, DEAD], lag={0: 5, 1: 6}))
    snapshot = board.snapshot()
    assert len(snapshot.slices) == TIME_SLICES
    assert [(time_slice.items, time_slice.held_back) for time_slice in snapshot.slices[-3:]] == [
        (0, 0),
        (4, 2),
        (2, 0),
    ], "a dead letter is not held"
    assert snapshot.slices[-2].slowest_transaction == pytest.approx(6 * 0.02), "from BEGIN to COMMIT"
    assert [time_slice.lag for time_slice in snapshot.slices[-3:]] == [None, 0, 11]
    assert (snapshot.counts[Kind.UNIQUE], snapshot.held_back) == (3, 2)
    clock.now += SLICE_SECONDS * TIME_SLICES
    board.batch(report([ITEM], [UNIQUE]))
    assert sum(time_slice.items for time_slice in board.snapshot().slices) == 1
    assert len(board._slices) == 1, "memory is bounded"
    assert board.snapshot().counts[Kind.UNIQUE] == 4, "the sums go back to the start"


def test_a_task_appears_with_its_restore_and_its_lag_ends_with_it(board: Board) -> None:
    board.restore_progress("global", 3, 12)
    assert board.snapshot().restore_progress == {"global": (3, 12)}
    board.task_opened("global", [0, 1], 12, 2.5)
    board.batch(report([ITEM], [UNIQUE], lag={1: 7, 0: 2}))
    snapshot = board.snapshot()
    assert not snapshot.restore_progress
    assert [(task.name, task.partitions, task.remembered) for task in snapshot.tasks] == [("global", (0, 1), 12)]
    assert (list(snapshot.lag.items()), snapshot.watermark) == ([(0, 2), (1, 7)], {"global": 1000})
    board.task_lost("global", "rebalance")
    snapshot = board.snapshot()
    assert (snapshot.tasks, snapshot.lag, snapshot.watermark) == ([], {}, {})


def test_a_lag_ends_without_a_batch_when_only_markers_were_left(board: Board) -> None:
    board.positions_advanced("global", {0: 0})
    assert board.snapshot().lag == {}, "a task is shown from its first batch on"
    board.batch(report([], [], lag={0: 1}))
    board.positions_advanced("global", {0: 0})
    assert board.snapshot().lag == {0: 0}


def test_the_last_errors_are_listed_newest_first(board: Board) -> None:
    for n in range(20):
        board.error(TransactionFailed(f"try {n}"), 0.5)
    board.error(Stalled("the end"), None)
    errors = board.snapshot().errors
    assert len(errors) == 10
    assert [(error.kind, error.text, error.retry_in) for error in errors[:2]] == [
        ("Stalled", "the end", None), ("TransactionFailed", "try 19", 0.5),
    ]  # fmt: skip
