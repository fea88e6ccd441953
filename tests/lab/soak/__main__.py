"""Run rounds by hand: `python -m tests.lab.soak [SEED] [--nodes 3] [--rounds 5] [--kinds disk_full ...]`.

Prints each round's seed and what it has shown. Exit code 1 after a violation. `make soak` runs the same.
"""

import argparse
import logging
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from tests.harness.member import FORK_SERVER_VARIABLES
from tests.lab import measured
from tests.lab.soak.cluster import Cluster
from tests.lab.soak.plan import KINDS, plan
from tests.lab.soak.run import Round
from tests.worker import clock

# A round of a minute and a half, of which a minute has faults.
ITEMS = 60_000
ITEMS_S = 1_000.0
FAULTS = 18
_SHOWN = 3  # of each kind


def rounds(
    nodes: int,
    seed: int,
    goes_on: Callable[[int], bool],
    say: Callable[[str], None],
    items: int = ITEMS,
    kinds: Collection[str] = KINDS,
) -> list[str]:
    """Run rounds with consecutive seeds on one cluster while `goes_on(rounds so far)`; return all violations.

    Each round is added to the results. A round with fewer items has as many fewer faults.
    """
    FORK_SERVER_VARIABLES.update(clock.variables())
    if clock.MISSING:
        say(f"MISSING: no fault of the kind clock_jumped happens, because {clock.MISSING}")
        kinds = [one for one in kinds if one != "clock_jumped"]
    violations: list[str] = []
    count = 0
    with Cluster(nodes) as cluster:
        while goes_on(count):
            made = plan(seed + count, max(1, FAULTS * items // ITEMS), nodes, kinds)
            say(f"{nodes} nodes, {made}")
            result = Round(made, cluster, items, ITEMS_S).run()
            report = result.report
            figures = {
                "items": report.items, "lost": report.lost, "repeated": report.repeated,
                "violations": len(report.violations), "minutes": result.seconds / 60,
            }  # fmt: skip
            measured.change("soak", partial(_add, nodes, figures, result.faults))
            say(
                f"  {result.seconds:.0f} s, {report.items} items, {result.faults.total()} faults, {report.lost} lost, "
                f"{report.repeated} repeated, {len(report.violations)} violations"
            )
            say(f"  {dict(sorted(result.faults.items()))}")
            seen = Counter[str]()
            for violation in report.violations:
                seen[kind := violation.partition(":")[0]] += 1
                if seen[kind] <= _SHOWN:
                    say(f"  {violation[:1000]}")
            if seen:
                say(f"  {dict(seen)}")
            violations += report.violations
            count += 1
    return violations


def _add(nodes: int, figures: Mapping[str, float], faults: Counter[str], known: dict[str, Any]) -> None:
    """Add a round on this many nodes to what all runs have shown together."""
    rounds = {"rounds": 1, "rounds_1_node": int(nodes == 1), "rounds_3_nodes": int(nodes == 3)}
    for name, value in {**rounds, **figures, "faults": faults.total()}.items():
        known[name] = round(known.get(name, 0) + value, 1)
    before = known.get("faults_by_kind", {})
    known["faults_by_kind"] = {kind: before.get(kind, 0) + faults[kind] for kind in KINDS}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.soak", description="Rounds of faults on a real Kafka.")
    parser.add_argument("seed", type=int, nargs="?", default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--nodes", type=int, choices=[1, 3], default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--items", type=int, default=ITEMS, help="per round")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of faults; all by default")
    given = parser.parse_args()

    os.environ.setdefault("MEMBER_LOG", "CRITICAL")  # thousands of lost connections
    logging.getLogger("kafka").setLevel(logging.CRITICAL)

    def say(line: str) -> None:
        print(time.strftime("%H:%M:%S"), line, flush=True)

    say(f"seed {given.seed}; the results are added to {measured.RESULTS}")
    return bool(rounds(given.nodes, given.seed, lambda count: count < given.rounds, say, given.items, given.kinds))


if __name__ == "__main__":
    sys.exit(main())
