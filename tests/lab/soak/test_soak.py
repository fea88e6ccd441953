"""`make soak`: rounds of faults on one node and on three, for SOAK_MINUTES each, from SOAK_SEED on.

SOAK_ITEMS are fed in a round, at 1,000 a second. The counts are added to tests/lab/results/soak.json. A round of a seed
again: python -m tests.lab.soak SEED --nodes N
"""

import os
import random
import time

import pytest

from tests.conftest import IN_CI
from tests.lab.soak.__main__ import ITEMS, rounds
from tests.worker import clock

MINUTES = float(os.environ.get("SOAK_MINUTES", "4"))
ITEMS_A_ROUND = int(os.environ.get("SOAK_ITEMS", ITEMS))
SEED = int(os.environ.get("SOAK_SEED", random.SystemRandom().randrange(10**6)))


@pytest.mark.soak
@pytest.mark.timeout(MINUTES * 60 + 1800)
@pytest.mark.parametrize("nodes", [1, 3])
def test_nothing_is_lost_repeated_or_judged_without_a_reason(
    nodes: int, kafka_prepared: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not (IN_CI and clock.MISSING), clock.MISSING
    end = time.monotonic() + MINUTES * 60

    def say(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", end="", flush=True)

    violations = rounds(nodes, SEED, lambda count: not count or time.monotonic() < end, say, ITEMS_A_ROUND)
    assert not violations, f"from seed {SEED} on: {violations[:20]}"
