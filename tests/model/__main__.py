"""Run schedules by hand: `python -m tests.model SEED [--theme NAME] [--shrink] [--log]`, or `--from A --to B`.

Prints the plan and its violations; with `--log` also the worker's log in virtual time. Exit code 1 after a violation.
"""

import argparse
import gc
import logging
import sys
import time
from collections import Counter

from tests.model.schedule import THEMES, plan
from tests.model.shrink import shrunk
from tests.model.world import World


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description="Schedules of the worker's model.")
    parser.add_argument("seed", type=int, nargs="?", help="one schedule, shown whole")
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--to", dest="last", type=int, default=1000)
    parser.add_argument("--theme", choices=list(THEMES), help="all schedules of this theme; else by the seed")
    parser.add_argument("--shrink", action="store_true", help="the shortest schedule that fails likewise")
    parser.add_argument("--log", action="store_true", help="with the worker's log")
    given = parser.parse_args()
    if given.seed is None:
        return many(given.first, given.last, given.theme)
    made = plan(given.seed, given.theme)
    logging.disable(logging.CRITICAL)
    if given.shrink:
        made = shrunk(made)
    world = World(made)
    if given.log:
        logging.disable(logging.NOTSET)
        logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(now)8.3f %(who)s %(message)s")
        logging.getLogger().handlers[0].addFilter(lambda record: _stamped(record, world))
    print(made)
    violations = world.run()
    print(f"{world.simulation.now:.1f} virtual seconds, {len(world.made)} records, {len(violations)} violations")
    for violation in violations:
        print(f"  {violation}")
    return bool(violations)


def _stamped(record: logging.LogRecord, world: World) -> bool:
    record.now = world.simulation.now
    record.who = world.simulation.current.name
    return True


def many(first: int, last: int, theme: str | None) -> int:
    """Run many schedules; print the first seeds of each kind of violation."""
    logging.disable(logging.CRITICAL)
    gc.disable()  # collected between schedules: each time it visits half a million objects of the libraries
    began, counts = time.process_time(), Counter[tuple[str, str]]()
    for seed in range(first, last):
        world = World(plan(seed, theme))
        for violation in world.run():
            kind = world.plan.theme, violation.partition(":")[0]
            counts[kind] += 1
            if counts[kind] <= 3:
                print(f"seed {seed}, {world.plan.theme}: {violation[:300]}", flush=True)
        if seed % 50 == 0:
            gc.collect()
    seconds = time.process_time() - began
    print(f"{last - first} schedules in {seconds:.0f} s of processor, {(last - first) / seconds:.0f} a second")
    for (of, name), count in counts.most_common():
        print(f"  {of}: {name} {count} times")
    return bool(counts)


if __name__ == "__main__":
    sys.exit(main())
