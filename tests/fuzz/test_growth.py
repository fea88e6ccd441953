"""The work on an item grows no faster than its size, whatever it holds.

`make test` counts calls and bounds nothing in time; a search that is cubic would not end. `make soak` times every
pattern in every field from 1 KB to 1 MB (GROWTH_BYTES=10000000: 10 MB; GROWTH_PROCESSES: how many measure at a time);
the figures are in tests/results/growth.json.
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

from stream_dedup.news.decode import Decoder
from stream_dedup.settings import ItemSettings
from tests.fuzz.growth import FIELDS, PATTERNS, Measure, pattern_of, record_of, slope

RESULTS = Path(__file__).parents[1] / "results" / "growth.json"
LARGEST = int(os.environ.get("GROWTH_BYTES", "1000000"))
PROCESSES = int(os.environ.get("GROWTH_PROCESSES", "1"))
SIZES = [10**power for power in range(3, 8) if 10**power <= LARGEST]
_REPEATS = (9, 5, 3, 2, 1)
_STEEPEST = 1.1
_FLAT = 3.0
"""How much longer a byte may take in the largest size than in a tenth of it: a quadratic search takes ten times as
long, and caches that are too small account for two."""
_TRIES = 3  # other programs slow down some measurements, none of them a quadratic search


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


@pytest.mark.parametrize("name", PATTERNS)
def test_the_calls_grow_with_the_size(name: str) -> None:
    for field in FIELDS:
        counts = []
        for size in (16_000, 64_000):  # another way of reading begins at 10,000 characters
            decode, record = Decoder(ItemSettings()), record_of(field, pattern_of(name, size))
            counts.append(calls_of(lambda decode=decode, record=record: decode(record, b"k", None)))  # type: ignore[misc]
        assert counts[1] <= 5 * counts[0] + 200, (field, counts)


@pytest.mark.parametrize("name", PATTERNS)
def test_200_kb_are_decoded(name: str) -> None:
    """A search of quadratic time is slow here, one of cubic time does not end."""
    for field in FIELDS:
        Decoder(ItemSettings())(record_of(field, pattern_of(name, 200_000)), b"k", None)


def _figures(name: str) -> tuple[dict[str, Any], list[Any]]:
    """The figures of a pattern in each field, and those that are too steep."""
    measure, figures, steep = Measure(), {}, []
    measure.seconds(record_of("text", "x"), 1)
    for field in FIELDS:
        records = [record_of(field, pattern_of(name, size)) for size in SIZES]
        for _ in range(_TRIES):
            seconds = [measure.seconds(record, repeats) for record, repeats in zip(records, _REPEATS, strict=False)]
            each = [time / size for time, size in zip(seconds, SIZES, strict=True)]
            found, growth = slope(SIZES, seconds), each[-1] / each[-2]
            if is_flat := found <= _STEEPEST and growth <= _FLAT:
                break
        figures[f"{name}, {field}"] = {"slope": round(found, 2), "ns_a_byte": [round(time * 1e9) for time in each]}
        if not is_flat:
            steep.append((name, field, figures[f"{name}, {field}"]))
    return figures, steep


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_byte_takes_the_same_time_in_each_size() -> None:
    figures: dict[str, Any] = {}
    steep: list[Any] = []
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        for done in as_completed(pool.submit(_figures, name) for name in PATTERNS):
            found, too_steep = done.result()
            figures |= found
            steep += too_steep
            report = {  # after each pattern, so that a run that is stopped has figures too
                "bytes": SIZES,
                "patterns": len(figures) // len(FIELDS),
                "steepest": max(figure["slope"] for figure in figures.values()),
                "items": dict(sorted(figures.items())),
            }
            RESULTS.write_text(json.dumps(report).replace("}, ", "},\n  ") + "\n")  # a line for each case
    assert not steep, steep
