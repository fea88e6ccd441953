"""No hostile family costs more a byte when it grows. `python -m tests.fuzz.families` counts all of them."""

import json

import pytest

from tests.fuzz.families import FAMILIES, MOST, PHASES, SIZES, count, growth, missing, steps_of
from tests.lab.measured import RESULTS


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_goes_through_every_phase(family: str) -> None:
    for _, function in steps_of(family, 1):
        function()


def test_the_last_count_is_linear_in_the_bytes() -> None:
    counts = json.loads((RESULTS / "hostile.json").read_text())
    assert list(counts) == sorted(FAMILIES)
    assert all(len(phases[phase]) == len(SIZES) for phases in counts.values() for phase in PHASES)
    steep = {(family, phase): growth(some) for family in counts for phase, some in counts[family].items()}
    assert max(steep.values()) <= MOST, steep


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing() or "none")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("family", ["colliding slots", "tombstones", "versions"])
def test_what_was_quadratic_is_linear(family: str) -> None:
    # Not from 2 on: between 2 and 4 a text gets too long for a sequence, and is judged by its filters instead.
    for phase, counts in count([family], (1, 8))[family].items():
        assert growth(counts, (1, 8)) <= MOST, phase
