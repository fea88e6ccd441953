"""The work on an item grows no faster than its size, whatever it holds.

`make test` counts calls and bounds nothing in time; a search that is cubic would not end. `make soak` times every
pattern in every field from 1 KB to 10 MB; the figures are in tests/results/growth.json.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from stream_dedup.news.decode import Decoder
from stream_dedup.settings import ItemSettings
from tests.fuzz.growth import FIELDS, PATTERNS, Measure, pattern_of, record_of, slope

RESULTS = Path(__file__).parents[1] / "results" / "growth.json"
SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)
_REPEATS = (9, 5, 3, 2, 1)
_STEEPEST = 1.1
_FLAT = 3.0
"""How much longer a byte may take in 10 MB than in 100 KB. Caches account for a factor of two, a quadratic part for a
hundred."""


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


def test_the_slope_of_a_quadratic_search_is_two() -> None:
    sizes = [10.0, 100.0, 1000.0]
    assert slope(sizes, [size**2 for size in sizes]) == pytest.approx(2)  # type: ignore[arg-type]
    assert slope(sizes, [3 * size for size in sizes]) == pytest.approx(1)  # type: ignore[arg-type]


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_byte_takes_the_same_time_from_1_kb_to_10_mb() -> None:
    measure, figures, steep = Measure(), {}, []
    for name in PATTERNS:
        for field in FIELDS:
            seconds = [
                measure.seconds(record_of(field, pattern_of(name, size)), repeats)
                for size, repeats in zip(SIZES, _REPEATS, strict=True)
            ]
            found = slope(SIZES, seconds)
            figures[f"{name}, {field}"] = {
                "slope": round(found, 2),
                "ns_a_byte": [round(s / n * 1e9, 1) for s, n in zip(seconds, SIZES, strict=True)],
            }
            growth = (seconds[-1] / SIZES[-1]) / (seconds[2] / SIZES[2])
            if found > _STEEPEST or growth > _FLAT:
                steep.append((name, field, figures[f"{name}, {field}"]))
    report = {"steepest": max(each["slope"] for each in figures.values()), "items": figures}
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    assert not steep, steep
