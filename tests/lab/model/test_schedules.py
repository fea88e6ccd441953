"""Seeded schedules in the model: none may violate a guarantee of docs/operating.md, unless a bug is planted.

A failure names its seed; `python -m tests.lab.model SEED --log` runs it again, `--shrink` finds the shortest like it.
"""

import gc
import logging
import os
import time
from collections.abc import Iterator

import pytest

from tests.lab.model.plants import PLANTS
from tests.lab.model.schedule import THEMES, Plan, plan
from tests.lab.model.shrink import failures
from tests.lab.model.world import World

# Schedules per theme; they take ten to twenty seconds in all on an idle machine. `make soak` runs SOAK schedules, with
# the themes that their seeds give.
A_THEME = 10
SOAK = int(os.environ.get("MODEL_SCHEDULES", "10000"))
_FIRST = int(os.environ.get("MODEL_FIRST_SEED", "0"))
# Of a theme, at most, until a planted bug shows. A few usually suffice.
SEEDS = 40


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Turn off logging (hundreds of workers warn) and garbage collection (it visits all libraries each time)."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)


def failing(one: Plan) -> str:
    violations = World(one).run()
    if not violations:
        return ""
    how = f"python -m tests.lab.model {one.seed} --theme '{one.theme}' --log [--shrink]"
    return f"seed {one.seed}: {violations[0]}\n  again: {how}\n"


@pytest.mark.parametrize("theme", list(THEMES))
@pytest.mark.slow
def test_no_schedule_violates_a_guarantee(theme: str) -> None:
    found = [failing(plan(seed, theme)) for seed in range(A_THEME)]
    assert not any(found), "".join(found)


def test_a_schedule_is_a_function_of_its_seed() -> None:
    first, again = World(plan(5, "crashes")), World(plan(5, "crashes"))
    assert first.run() == again.run()
    assert first.simulation.now == again.simulation.now
    assert first.simulation.switches == again.simulation.switches
    assert first.broker.committed == again.broker.committed
    assert any(first.broker.committed.values())


@pytest.mark.parametrize("name", list(PLANTS))
@pytest.mark.slow
def test_a_planted_bug_is_found(name: str) -> None:
    planted, themes, guarantee = PLANTS[name]
    plans = (plan(seed, theme) for seed in range(SEEDS) for theme in themes)
    with planted():
        found = next((one for one in plans if guarantee in failures(one)), None)
    assert found is not None, f"{SEEDS} schedules of each of {themes} do not show it"
    assert guarantee not in failures(found), "without the bug the same schedule shows it too"


@pytest.mark.soak
@pytest.mark.timeout(0)  # ten minutes of processor, on a busy machine an hour
def test_soak(capsys: pytest.CaptureFixture[str]) -> None:
    began, bad = time.process_time(), list[str]()
    for done, seed in enumerate(range(_FIRST, _FIRST + SOAK), 1):
        bad += [found] if (found := failing(plan(seed))) else []
        if done % 20 == 0:
            gc.collect()  # twenty worlds take half a gigabyte
        if done % 500 == 0 or done == SOAK:
            seconds = time.process_time() - began
            with capsys.disabled():
                print(f"\nseeds {_FIRST} to {seed}: {len(bad)} of {done} schedules violate something; "
                      f"{seconds:.0f} s of processor, {done / seconds:.0f} a second", flush=True)  # fmt: skip
    assert not bad, "".join(bad[:20])
