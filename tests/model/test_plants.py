"""The model finds the bugs of plants.py, and shrinks a schedule that shows one."""

import pytest

from tests.model.plants import PLANTS
from tests.model.schedule import plan
from tests.model.shrink import failures, shrunk
from tests.model.world import World

# Per theme, at most. A few usually suffice.
SEEDS = 40
# The themes in which a bug shows, and the guarantee that it breaks.
EXPECTED = {
    "commit before flush": (("broker errors", "crashes"), {"lost"}),
    "apply kept after an abort": (("broker errors", "zombies"), {"original"}),
    "stale offsets": (("crashes", "zombies"), {"twice"}),
    "no fencing": (("zombies",), {"twice"}),
    "overlay missing": (("crashes",), {"verdict"}),
    "young partition ends the worker": (("partitions added",), {"ended"}),
}

pytestmark = pytest.mark.usefixtures("quiet")


def broken(seed: int, theme: str) -> set[str]:
    return {violation.partition(":")[0] for violation in World(plan(seed, theme)).run()}


@pytest.mark.parametrize("name", list(PLANTS))
@pytest.mark.slow
def test_a_planted_bug_is_found(name: str) -> None:
    themes, guarantees = EXPECTED[name]
    places = ((seed, theme) for seed in range(SEEDS) for theme in themes)
    with PLANTS[name]():
        found = next(((seed, theme) for seed, theme in places if broken(seed, theme) & guarantees), None)
    assert found is not None, f"{SEEDS} schedules of each of {themes} do not show it"
    assert not broken(*found) & guarantees, "without the bug the same schedule shows it too"


def test_a_failing_schedule_is_cut_to_what_it_needs() -> None:
    with PLANTS["overlay missing"]():
        whole = next(plan(seed, "crashes") for seed in range(SEEDS) if broken(seed, "crashes"))
        short = shrunk(whole)
        assert failures(short) & failures(whole)
    assert len(short.events) <= 3 < len(whole.events)
    assert World(short).run() == []
