"""The numbers of the status page: charts of the last half hour, tasks, lag and errors."""

import pytest

from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.errors import BadItem, Stalled, TransactionFailed
from stream_dedup.news.item import Item
from stream_dedup.observe.recent import SLICE_SECONDS, TIME_SLICES, Board, charts
from tests.observe.watched import Clock, bad, report, unique

ITEM = Item("1", "A headline", "A text.", "post.example", 1000)
UNIQUE = unique("1")
HELD = Verdict("2", Kind.DUPLICATE, Stage.BODY, False)
DEAD = bad("json: x")


@pytest.fixture
def board(clock: Clock) -> Board:
    board = Board(clock=clock)
    board.task_opened("global", [0, 1], 12, 2.5)
    return board


def test_items_are_counted_by_time_slice_for_half_an_hour(board: Board, clock: Clock) -> None:
    board.batch(report([ITEM] * 3, [UNIQUE, HELD, HELD], seconds=0.01))
    board.batch(report([ITEM], [UNIQUE], seconds=0.02))
    clock.passed += SLICE_SECONDS
    board.batch(report([ITEM, BadItem("json", "x")], [UNIQUE, DEAD], lag={0: 5, 1: 6}))
    clock.passed += SLICE_SECONDS
    numbers = board.snapshot()
    slices = [(one.items, one.held_back, one.lag) for one in list(numbers.slices)[-4:]]
    assert slices == [(0, 0, 0), (4, 2, 0), (2, 0, 11), (0, 0, 11)], "a dead letter is not held, a lag lasts"
    assert numbers.slices[-3].slowest_transaction == pytest.approx(6 * 0.02), "from BEGIN to COMMIT"
    assert (numbers.counts[Kind.UNIQUE], numbers.held_back) == (3, 2)
    assert [(chart.title, chart.now, chart.highest) for chart in charts(numbers)] == [
        ("Items a second", "0.1", "0.2"),
        ("Slowest transaction", "60 ms", "120 ms"),
        ("Lag", "11 records", "11 records"),
    ]
    through, held_back = charts(numbers)[0].bars
    assert through == ("let through", "M348.0,90.0h4.0V47.0h-4.0zM352.0,90.0h4.0V47.0h-4.0z")
    assert held_back == ("held back", "M348.0,47.0h4.0V4.0h-4.0z"), "stacked on what was let through"
    clock.passed += SLICE_SECONDS * TIME_SLICES
    board.batch(report([ITEM], [UNIQUE]))
    numbers = board.snapshot()
    assert sum(one.items for one in numbers.slices) == 1
    assert (len(numbers.slices), numbers.counts[Kind.UNIQUE]) == (TIME_SLICES, 4), "the sums go back to the start"


def test_a_task_appears_with_its_restore_and_its_lag_ends_with_it(board: Board) -> None:
    board.restore_progress("1", 3, 12)
    assert board.snapshot().restoring == {"1": (3, 12)}
    board.task_opened("1", [1], 12, 2.5)
    board.batch(report([ITEM], [UNIQUE], lag={1: 7, 0: 2}))
    board.positions_advanced("global", {0: 0})
    numbers = board.snapshot()
    assert not numbers.restoring
    assert [(name, task.remembered) for name, task in numbers.tasks.items()] == [("global", 12), ("1", 12)]
    assert (list(numbers.lag.items()), numbers.tasks["global"].watermark) == ([(0, 0), (1, 7)], 1000)
    board.task_lost("global", "rebalance")
    board.positions_advanced("global", {0: 0})
    assert (list(board.snapshot().tasks), board.snapshot().lag) == (["1"], {})


def test_the_last_errors_are_listed_newest_first(board: Board) -> None:
    for n in range(20):
        board.error(TransactionFailed(f"try {n}"), 0.5)
    board.error(Stalled("the end"), None)
    errors = board.snapshot().errors
    assert len(errors) == 10
    assert [error[1:] for error in errors][:2] == [("Stalled", "the end", None), ("TransactionFailed", "try 19", 0.5)]
