"""What the status page shows of the recent past: numbers and charts, and items by id and beside their originals."""

import tracemalloc

import pytest

from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.errors import BadItem, Stalled, TransactionFailed
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.tools.page.board import (
    DEAD_LETTERS,
    PAIRS,
    SLICE_SECONDS,
    TEXT_CHARS,
    TIME_SLICES,
    Board,
    Recent,
    charts,
)
from stream_dedup.tools.page.retained import ITEM_BYTES, TITLE_CHARS
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


# -- items ----------------------------------------------------------------------------------------------


def item(name: str, text: str = "A text.", title: str = "A headline") -> Item:
    return Item(name, title, text, "post.example", 1000, 0, 7)


def duplicate(name: str, of: str) -> Verdict:
    return Verdict(name, Kind.DUPLICATE, Stage.BODY, False, Original(of, 1000, 0, 7), Evidence(body=0.9))


def test_an_item_held_back_is_paired_with_its_original_of_the_same_or_an_earlier_batch() -> None:
    recent = Recent(100)
    recent.batch(report([item("1", "First.")], [unique("1")]))
    recent.batch(
        report([item("2"), item("3"), item("4")], [unique("2"), duplicate("3", of="2"), duplicate("4", of="1")])
    )
    pairs = recent.latest("held back")
    assert [(pair.number, pair.item.verdict.id, pair.original and pair.original.verdict.id) for pair in pairs] == [
        (2, "4", "1"), (1, "3", "2"),
    ]  # fmt: skip
    assert recent.latest("held back")[0].original is recent.find("1")


def test_an_update_is_paired_with_its_original() -> None:
    recent = Recent(100)
    update = Verdict("2", Kind.UPDATE, Stage.BODY, True, Original("1", 1000, 0, 7), Evidence(novelty=0.8))
    version = Verdict("1", Kind.UPDATE, Stage.POLICY, True, Original("1", 1000, 0, 7), Evidence())
    dropped = Verdict("3", Kind.UPDATE, Stage.BODY, False, Original("1", 1000, 0, 7), Evidence())
    recent.batch(report([item("1", "First."), item("2")], [unique("1"), update]))
    recent.batch(report([item("1", "Second."), item("3")], [version, dropped]))
    updates = recent.latest("updates")
    assert [(pair.number, pair.item.verdict.id) for pair in updates] == [(2, "1"), (1, "2")]
    assert [pair.original and pair.original.text for pair in updates] == ["First."] * 2
    assert [(pair.number, pair.item.verdict.id) for pair in recent.latest("held back")] == [(3, "3")]


def test_a_forgotten_original_is_missing_in_new_pairs_and_kept_in_earlier_ones() -> None:
    recent = Recent(2)
    recent.batch(report([item("1")], [unique("1")]))
    recent.batch(report([item("2")], [duplicate("2", of="1")]))
    recent.batch(report([item(n) for n in "345"], [unique("3"), unique("4"), duplicate("5", of="1")]))
    (later, first) = recent.latest("held back")
    assert later.original is None
    assert first.original is not None, "kept in the pair, though forgotten by id"
    assert recent.find("1") is None


def test_a_redelivery_does_not_hide_what_was_let_through() -> None:
    recent = Recent(10)
    for verdict, text in ((unique("1"), "First."), (duplicate("1", of="1"), "First again."), (unique("2"), "x")):
        recent.batch(report([item(verdict.id, text)], [verdict]))
    recent.batch(report([item("3", "Copy.")], [duplicate("3", of="1")]))
    copy, redelivery = recent.latest("held back")
    assert redelivery.original is not None
    assert copy.original is not None
    assert redelivery.original.text == copy.original.text == "First."
    found = recent.find("1")
    assert found is not None
    assert found.verdict.kind is Kind.DUPLICATE
    assert found.let_through is copy.original


def test_tombstones_are_found_and_bad_items_listed() -> None:
    recent = Recent(100)
    dead = bad("json: cut", "k" * 2**20)
    recent.batch(report([Tombstone("1", 5)], [Verdict("1", Kind.TOMBSTONE, Stage.NONE, True)]))
    recent.batch(report([BadItem("json", "cut")] * (DEAD_LETTERS + 3), [dead] * (DEAD_LETTERS + 3)))
    assert len(recent.latest("dead letters")) == DEAD_LETTERS
    assert len(recent.latest("dead letters")[0].item.verdict.id) == TITLE_CHARS
    assert not recent.latest("held back")
    found = recent.find("1")
    assert found is not None
    assert found.verdict.kind is Kind.TOMBSTONE


@pytest.mark.parametrize("letter", ["x", "文", "🗞"])
def test_its_memory_is_bounded_for_every_script(letter: str) -> None:
    limit = 400
    recent = Recent(limit)
    tracemalloc.start()
    try:
        for n in range(3 * limit):
            verdict = duplicate(f"id-{n}-" + letter * 40, of=f"id-{n - 1}-" + letter * 40)
            text, title = letter * 10_000, letter * 1000
            recent.batch(report([item(verdict.id, text + str(n), title + str(n))], [verdict]))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert recent.nbytes <= limit * ITEM_BYTES
    assert taken <= (limit + 2 * PAIRS) * ITEM_BYTES * 1.05
    assert len(recent.latest("held back")) == PAIRS
    assert len(recent) == limit or recent.nbytes > (limit - 4) * ITEM_BYTES
    last = recent.latest("held back")[0].item
    assert (len(last.text), len(last.title), last.truncated) == (TEXT_CHARS, TITLE_CHARS, True)


def test_a_capacity_of_zero_retains_nothing() -> None:
    recent = Recent(0)
    recent.batch(report([item("1"), item("2")], [unique("1"), duplicate("2", of="1")]))
    assert (len(recent), recent.latest("held back"), recent.find("1"), recent.since()) == (0, [], None, None)
