"""The work on a text grows no faster than its length, whatever it holds.

Calls are counted, and two times are compared; nothing is bounded in time. `make soak` times every pattern on every way
at 50 and 100 KB (GROWTH_BYTES=1000000: at 500 KB and 1 MB), in GROWTH_PROCESSES processes: ten minutes of processor.
The figures are in tests/lab/results/growth.json. GROWTH_RESUME=1 keeps those that are there, and measures the others.
"""

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from stream_dedup.fingerprint.characters import fold
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import ItemSettings
from tests.fuzz.growth import growth, record_of, ways
from tests.fuzz.hostile import NAMES, text_of

RESULTS = Path(__file__).parents[1] / "lab" / "results" / "growth.json"
LARGEST = int(os.environ.get("GROWTH_BYTES", "100000"))
PROCESSES = int(os.environ.get("GROWTH_PROCESSES", "1"))
IS_RESUMED = os.environ.get("GROWTH_RESUME") == "1"
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


@pytest.mark.parametrize("way", ["text", "HTML"])
def test_twice_the_text_takes_about_twice_the_time(way: str) -> None:
    function = ways()[way]
    times = {name: growth(function, *_pair(name, 100_000), _MOST, _TRIES) for name in NAMES[::12]}
    assert not {name: some for name, some in times.items() if some[1] > _MOST * some[0]}


def _pair(name: str, size: int) -> tuple[str, str]:
    """A text of a pattern, and one of twice the length, which has `size` characters."""
    return text_of(name, size // 2), text_of(name, size)


def test_a_run_of_marks_is_sorted_by_thirties() -> None:
    """A run is sorted in quadratic time. These marks are Syriac: those that fold takes away need no order."""
    thirty = "\u0731" * 15 + "\u0730" * 15
    text = "x" + "\u0730\u0731" * 50
    assert fold(text).replace("\u034f", "") == "x" + thirty * 3 + "\u0731" * 5 + "\u0730" * 5


def _figures(name: str) -> dict[str, Any]:
    """The figures of a pattern on each way: how many times as long twice the text takes, and the time a byte."""
    figures = {}
    for label, way in ways().items():
        way("x")
        short, long = _pair(name, LARGEST)
        least = growth(way, short, long, _MOST, _TRIES)
        cost = least[1] / len(long.encode("utf-8", "replace"))
        if least[1] > _MOST * least[0]:
            # Beyond a bound a text is read in another way, so its work may rise by a step, or rise until there (nested
            # figures, up to clean.MOST_TAGS). What has no bound grows as fast behind it.
            least = growth(way, *_pair(name, 2 * LARGEST), _MOST, _TRIES)
        figures[f"{name}, {label}"] = {"times": round(least[1] / least[0], 2), "ns_a_byte": round(cost * 1e9)}
    return figures


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_twice_the_text_takes_about_twice_the_time_on_every_way() -> None:
    figures: dict[str, Any] = json.loads(RESULTS.read_text())["items"] if IS_RESUMED else {}
    missing = [name for name in NAMES if f"{name}, {[*ways()][-1]}" not in figures]
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        for done in as_completed(pool.submit(_figures, name) for name in missing):
            figures |= done.result()
            report = {  # after each pattern, so that a run that is stopped has figures too
                "bytes": LARGEST,
                "patterns": len({name.rpartition(", ")[0] for name in figures}),
                "steepest": max(figure["times"] for figure in figures.values()),
                "items": dict(sorted(figures.items(), key=lambda one: -one[1]["ns_a_byte"])),
            }
            RESULTS.write_text(json.dumps(report).replace("}, ", "},\n  ") + "\n")  # a line for each case
    assert not {name: figure for name, figure in figures.items() if figure["times"] > _MOST}
