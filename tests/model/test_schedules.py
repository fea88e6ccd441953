"""Seeded schedules in the model: none may violate a guarantee of docs/operating.md.

A failure names its seed; `python -m tests.model SEED --log` runs it again, and `--shrink` finds the shortest like it.
"""

import gc
import os
import time

import pytest

from tests.model.schedule import THEMES, Plan, plan
from tests.model.world import World

pytestmark = pytest.mark.usefixtures("quiet")

# Schedules per theme; they take ten to twenty seconds in all on an idle machine. `make soak` runs SOAK schedules, with
# the themes that their seeds give.
A_THEME = 10
SOAK = int(os.environ.get("MODEL_SCHEDULES", "10000"))
_FIRST = int(os.environ.get("MODEL_FIRST_SEED", "0"))


def failing(one: Plan) -> str:
    violations = World(one).run()
    if not violations:
        return ""
    how = f"python -m tests.model {one.seed} --theme '{one.theme}' --log [--shrink]"
    return f"seed {one.seed}: {violations[0]}\n  again: {how}\n"


@pytest.mark.parametrize("theme", list(THEMES))
@pytest.mark.slow
def test_no_schedule_violates_a_guarantee(theme: str) -> None:
    failures = [found for seed in range(A_THEME) if (found := failing(plan(seed, theme)))]
    assert not failures, "".join(failures)


def test_a_schedule_is_a_function_of_its_seed() -> None:
    first, again = World(plan(5, "crashes")), World(plan(5, "crashes"))
    assert first.run() == again.run()
    assert first.simulation.now == again.simulation.now
    assert first.simulation.switches == again.simulation.switches
    assert first.broker.committed == again.broker.committed
    assert any(first.broker.committed.values())


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_soak(capsys: pytest.CaptureFixture[str]) -> None:
    began, failures = time.process_time(), []
    for seed in range(_FIRST, _FIRST + SOAK):
        failures += [found] if (found := failing(plan(seed))) else []
        if seed % 100 == 0:
            gc.collect()
    with capsys.disabled():
        seconds = time.process_time() - began
        print(f"\nseeds {_FIRST} to {_FIRST + SOAK - 1}: {len(failures)} of {SOAK} schedules violate something; "
              f"{seconds:.0f} s of processor, {SOAK / seconds:.0f} a second")  # fmt: skip
    assert not failures, "".join(failures[:20])
