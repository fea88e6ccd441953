"""Wrong, late, missing and mixed times, and that they do not affect other items."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from stream_dedup.dedup.clocks import CLOCK, Clocks
from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import InputError
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from tests.dedup import world
from tests.dedup.world import DAY, HOUR

YEAR = 365 * DAY
NOW = world.START
LATEST = NOW + HOUR


def coined(number: int) -> str:
    """A word: a letter for each digit, because a word with digits is a figure."""
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number}")


def story(number: int, time: int, name: str = "", partition: int = 0) -> Item:
    """An item with its own id and the text of this number."""
    random = np.random.default_rng(number)
    words, title = (" ".join(map(coined, random.integers(0, 10**6, size))) for size in (80, 6))
    return Item(name or f"{number}", title, words, f"s{number % 7}.example", time, partition, 0)


def feed(count: int, start: int, step: int, seed: int = 1, partition: int = 0) -> list[Item]:
    """Items, every third a copy of one of the sixty before it."""
    random = np.random.default_rng(seed)
    numbers: list[int] = []
    items = []
    for n in range(count):
        is_copy = n % 3 == 2
        numbers.append(numbers[int(random.integers(max(0, n - 60), n))] if is_copy else seed * 10**6 + n)
        items.append(story(numbers[-1], start + n * step, f"{seed}-{n}", partition))
    return items


def judged(items: Sequence[Item], size: int = 500, dedup: Decider | None = None) -> list[Verdict]:
    return world.judged(Decider() if dedup is None else dedup, items, size, LATEST)


def told(verdicts: Sequence[Verdict]) -> list[tuple[str, str, str | None]]:
    return [(v.id, str(v.kind), world.original_of(v)) for v in verdicts]


def count(verdicts: Sequence[Verdict], kind: Kind = Kind.DUPLICATE) -> int:
    return sum(v.kind is kind for v in verdicts)


def redated(items: Sequence[Item], wrong: dict[int, int]) -> list[Item]:
    return [replace(item, time=wrong.get(n, item.time)) for n, item in enumerate(items)]


# -- one wrong date ------------------------------------------------------------------------------------------


WRONG = [NOW - 20 * DAY, NOW - 20 * YEAR, 0, 1_700_000_000, NOW, NOW + 50 * YEAR, -1, NOW - 58 * DAY]


@pytest.mark.parametrize("seed", range(4))
def test_one_wrong_date_in_a_thousand_changes_no_verdict_of_the_others(seed: int) -> None:
    items = feed(3000, NOW - 70 * DAY, 10 * 60_000)
    random = np.random.default_rng(seed)
    places = [int(1000 * k + random.integers(20, 1000)) for k in range(3)]
    wrong = {place: int(random.choice(WRONG)) for place in places}
    right, other = told(judged(items)), told(judged(redated(items, wrong)))
    assert [a for n, a in enumerate(other) if n not in wrong] == [a for n, a in enumerate(right) if n not in wrong]


@pytest.mark.parametrize("time", WRONG)
def test_a_wrong_date_of_an_original_or_a_copy_hides_no_copy(time: int) -> None:
    items = feed(300, NOW - 70 * DAY, HOUR // 4)
    dates = {100: ("wrong", time), 101: ("at once", None), 200: ("a day later", None), 201: ("wrong copy", time)}
    for place, (name, wrong) in dates.items():
        items[place] = story(7, items[place].time if wrong is None else wrong, name)
    verdicts = judged(items)
    assert world.told([verdicts[place] for place in dates]) == [("unique", None), *[("duplicate", "wrong")] * 3]


# -- late items ----------------------------------------------------------------------------------------------


def test_corpora_of_different_years_in_one_run() -> None:
    years = [feed(600, NOW - age * YEAR, HOUR // 4, seed) for seed, age in enumerate((2, 1, 30), 1)]
    alone = [one for items in years for one in told(judged(items))]
    assert told(judged([item for items in years for item in items])) == alone


def test_items_of_several_years_in_any_order_are_compared_within_their_own_window() -> None:
    """The stated dates lie within a window, so the copy is held back wherever it comes."""
    years = [feed(300, NOW - age * YEAR, HOUR // 4, seed) for seed, age in enumerate((2, 1, 30), 1)]
    items = [item for items in years for item in items]
    order = np.random.default_rng(5).permutation(len(items))
    shuffled = [items[n] for n in order.tolist()]
    articles = len({item.title for item in items})
    assert count(judged(shuffled), Kind.UNIQUE) == articles


def test_a_backlog_of_unequal_partitions() -> None:
    """The short partition is read first; the long one is weeks behind then, but its items are not late."""
    quiet = feed(60, NOW - 40 * DAY, 15 * HOUR, 1, partition=0)
    long = feed(1500, NOW - 40 * DAY, 15 * HOUR // 25, 2, partition=1)
    assert count(judged(long)) == 500
    alone = {one[0]: one for one in (*told(judged(quiet)), *told(judged(long)))}
    together = told(judged([*long[:100], *quiet, *long[100:]], 100))
    assert {one[0]: one for one in together} == alone


# -- memory --------------------------------------------------------------------------------------------------

MOST = 20_000  # the least value that the settings allow


def given(number: int, name: str) -> Item:
    """An item with a given fingerprint; all have the same time."""
    spread = number * 0x9E3779B97F4A7C15 % 2**64
    return Item(name, "", "", "", NOW, 0, 0, spread)


GIVEN: dict[str, Any] = {"fingerprint": {"family": "given"}, "item": {"fields": {"fingerprint": "f"}}}


@pytest.mark.parametrize("size", [500, 7000])
def test_beyond_the_most_originals_those_that_came_first_are_forgotten(size: int) -> None:
    settings = load_settings(window={"max_originals": MOST}, **GIVEN)
    dedup = Decider(settings)
    numbers = list(range(MOST + 100))
    # The newest 20,000 are kept, from 100 on; each item that is let through replaces the oldest.
    copies = {100: "duplicate", 99: "unique", 101: "duplicate", -100: "unique", -101: "unique", MOST // 2: "duplicate"}
    items = [given(n, f"{n}") for n in numbers] + [given(abs(n), f"copy {n}") for n in copies]
    verdicts = judged(items, size, dedup)
    assert count(verdicts[: len(numbers)], Kind.UNIQUE) == len(numbers)
    assert [str(v.kind) for v in verdicts[len(numbers) :]] == list(copies.values())
    assert len(dedup) <= MOST + 2**16
    assert dedup.evicted == dedup.rows.next_row - MOST


@pytest.mark.parametrize("damage", [{"count": -1}, {"weight": -1}, {"times": 2**63 - 1}])
def test_damaged_clocks_of_a_restored_state_are_refused(damage: dict[str, int]) -> None:
    clocks = Clocks(window=DAY)
    states = np.zeros(1, CLOCK)
    for name, value in damage.items():
        states[name] = value
    clocks.set(states, NOW, 0)
    with pytest.raises(InputError, match="damaged"):
        clocks.read(np.array([NOW]), np.zeros(1, np.int32))
