"""The model finds bugs that are planted in the worker, and shows the shortest schedule that has them."""

import pytest

from tests.model.plants import PLANTS
from tests.model.schedule import plan
from tests.model.shrink import failures, shrunk
from tests.model.world import World

# Of each theme, at most. The first is found within a few; among 10,000 none would hide.
SEEDS = 40
# Where a bug shows, and which promise it breaks; without the bug none of these is broken.
SHOWN = {
    "commit before flush": (("broker errors", "crashes"), {"lost"}),
    "apply kept after an abort": (("broker errors", "zombies"), {"original"}),
    "stale offsets": (("crashes", "zombies"), {"twice"}),
    "no fencing": (("zombies",), {"twice"}),
    "overlay missing": (("crashes",), {"verdict"}),
}

pytestmark = pytest.mark.usefixtures("quiet")


def broken(seed: int, theme: str) -> set[str]:
    return {violation.partition(":")[0] for violation in World(plan(seed, theme)).run()}


@pytest.mark.parametrize("name", list(PLANTS))
def test_a_planted_bug_is_found(name: str) -> None:
    themes, promises = SHOWN[name]
    places = ((seed, theme) for seed in range(SEEDS) for theme in themes)
    with PLANTS[name]():
        found = next(((seed, theme) for seed, theme in places if broken(seed, theme) & promises), None)
    assert found is not None, f"{SEEDS} schedules of each of {themes} show nothing of it"
    assert not broken(*found) & promises, "without the bug the same schedule shows it too"


def test_a_failing_schedule_is_cut_to_what_it_needs() -> None:
    with PLANTS["overlay missing"]():
        whole = next(plan(seed, "crashes") for seed in range(SEEDS) if broken(seed, "crashes"))
        short = shrunk(whole)
        assert failures(short) & failures(whole)
    assert len(short.events) <= 3 < len(whole.events)
    assert World(short).run() == []
