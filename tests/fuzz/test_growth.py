"""The work on a text grows no faster than its length, whatever it holds.

Calls are counted, and two times are compared; nothing is bounded in time. `make soak` times every pattern on every way
from 1 KB to 1 MB (GROWTH_BYTES=10000000: 10 MB; GROWTH_PROCESSES: how many measure at a time); the figures are in
tests/results/growth.json.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from stream_dedup.fingerprint.characters import fold
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import ItemSettings
from tests.fuzz.growth import growth, record_of, slope, ways
from tests.fuzz.hostile import NAMES, text_of

RESULTS = Path(__file__).parents[1] / "results" / "growth.json"
LARGEST = int(os.environ.get("GROWTH_BYTES", "1000000"))
PROCESSES = int(os.environ.get("GROWTH_PROCESSES", "1"))
SIZES = [10**power for power in range(3, 8) if 10**power <= LARGEST]
_STEEPEST = 1.1
_FLAT = 3.0
"""How much longer a byte may take in the largest size than in a tenth of it: a quadratic search takes ten times as
long, and caches that are too small account for two."""
_MOST = 3.0
"""How many times as long twice the text may take: a quadratic search takes four times as long."""
_TRIES = 12
_OTHER_WAY = 25_000
"""Calls of a longer text that is read in another way, as HTML or with a check of its tags."""


def calls_of(function: Callable[[], object]) -> int:
    """The calls of Python and C functions in a function."""
    count = 0

    def tick(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("field", ["text", "published"])
def test_the_calls_grow_with_the_size(field: str) -> None:
    decode, steep = Decoder(ItemSettings()), {}
    for name in NAMES:
        counts = []
        for size in (25_000, 100_000):
            record = record_of(field, text_of(name, size))
            counts.append(calls_of(lambda record=record: decode(record, b"k", None)))  # type: ignore[misc]
        if counts[1] > 5 * counts[0] + _OTHER_WAY:
            steep[name] = counts
    assert not steep


def _too_steep(way: Callable[[str], object], names: Iterable[str], short: int, long: int) -> dict[str, list[float]]:
    found = {name: growth(way, text_of(name, short), text_of(name, long), _MOST, _TRIES) for name in names}
    return {name: times for name, times in found.items() if times[1] > _MOST * times[0]}


@pytest.mark.parametrize("way", ["text", "HTML"])
def test_twice_the_text_takes_about_twice_the_time(way: str) -> None:
    assert not _too_steep(ways()[way], NAMES[::6], 50_000, 100_000)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("way", ways())
def test_twice_the_text_takes_about_twice_the_time_on_each_way(way: str) -> None:
    # The comparison of two texts is quadratic up to 100,000 characters, which take .3 s.
    sizes = (150_000, 300_000) if way == "explain" else (50_000, 100_000)
    assert not _too_steep(ways()[way], NAMES, *sizes)


def test_a_run_of_marks_is_sorted_by_thirties() -> None:
    """A run is sorted in quadratic time."""
    thirty = "\u0316" * 15 + "\u0301" * 15
    assert fold("x" + "\u0301\u0316" * 50).replace("\u034f", "") == "x" + thirty * 3 + "\u0316" * 5 + "\u0301" * 5


def _figures(name: str) -> dict[str, Any]:
    """The figures of a pattern on each way."""
    figures = {}
    for label, way in ways().items():
        way("x")
        texts = [text_of(name, size) for size in SIZES]
        pairs = [growth(way, short, long, 10 * _FLAT, _TRIES) for short, long in pairwise(texts)]
        seconds = [pairs[0][0], *(long for _, long in pairs)]
        each = [time / len(text.encode("utf-8", "replace")) for time, text in zip(seconds, texts, strict=True)]
        figures[f"{name}, {label}"] = {
            "slope": round(slope(SIZES, seconds), 2),
            "ns_a_byte": [round(time * 1e9) for time in each],
        }
    return figures


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_byte_takes_the_same_time_in_each_size() -> None:
    figures: dict[str, Any] = {}
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        for done in as_completed(pool.submit(_figures, name) for name in NAMES):
            figures |= done.result()
            report = {  # after each pattern, so that a run that is stopped has figures too
                "bytes": SIZES,
                "patterns": len({name.partition(", ")[0] for name in figures}),
                "steepest": max(figure["slope"] for figure in figures.values()),
                "items": dict(sorted(figures.items(), key=lambda one: -one[1]["ns_a_byte"][-1])),
            }
            RESULTS.write_text(json.dumps(report).replace("}, ", "},\n  ") + "\n")  # a line for each case
    steep = {
        name: figure
        for name, figure in figures.items()
        if figure["slope"] > _STEEPEST or figure["ns_a_byte"][-1] > _FLAT * figure["ns_a_byte"][-2] + 1
    }
    assert not steep
