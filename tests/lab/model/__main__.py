"""Run a schedule by hand: `python -m tests.lab.model SEED [--theme NAME] [--shrink] [--log]`.

Prints the plan and its violations; with `--log` also the worker's log in virtual time. Exit code 1 after a violation.
Many schedules: MODEL_SCHEDULES=1000 MODEL_FIRST_SEED=5000 .venv/bin/pytest -m soak tests/lab/model
"""

import argparse
import logging
import sys

from tests.lab.model.schedule import THEMES, plan
from tests.lab.model.shrink import shrunk
from tests.lab.model.world import World


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.model", description="A schedule of the worker's model.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--theme", choices=list(THEMES), help="else by the seed")
    parser.add_argument("--shrink", action="store_true", help="the shortest schedule that fails likewise")
    parser.add_argument("--log", action="store_true", help="with the worker's log")
    arguments = parser.parse_args()
    schedule = plan(arguments.seed, arguments.theme)
    logging.disable(logging.CRITICAL)
    if arguments.shrink:
        schedule = shrunk(schedule)
    world = World(schedule)
    if arguments.log:
        logging.disable(logging.NOTSET)
        logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(now)8.3f %(who)s %(message)s")
        logging.getLogger().handlers[0].addFilter(lambda record: _stamped(record, world))
    print(schedule)
    violations = world.run()
    print(f"{world.simulation.now:.1f} virtual seconds, {len(world.made)} records, {len(violations)} violations")
    for violation in violations:
        print(f"  {violation}")
    return bool(violations)


def _stamped(record: logging.LogRecord, world: World) -> bool:
    record.now = world.simulation.now
    record.who = world.simulation.current.name
    return True


if __name__ == "__main__":
    sys.exit(main())
