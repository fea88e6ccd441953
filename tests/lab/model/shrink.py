"""Shrink a failing schedule to the shortest one found that fails in the same way.

Without an event the later random choices shift, so a shorter plan is tried under a few seeds.
"""

from collections.abc import Iterator
from dataclasses import replace

from tests.lab.model.schedule import Plan
from tests.lab.model.world import World

_SEEDS = 6


def failures(plan: Plan) -> set[str]:
    """The short names of the violated guarantees."""
    return {violation.partition(":")[0] for violation in World(plan).run()}


def shrunk(plan: Plan) -> Plan:
    """Drop events and members as long as one of the original failures stays."""
    original = failures(plan)
    smaller = True
    while smaller:
        smaller = False
        for shorter in _shorter(plan):
            found = next((one for one in _seeded(shorter) if failures(one) & original), None)
            if found is not None:
                plan, smaller = found, True
                break
    return plan


def _shorter(plan: Plan) -> Iterator[Plan]:
    count = len(plan.events)
    size = count // 2
    while size:
        for start in range(0, count, size):
            yield replace(plan, events=plan.events[:start] + plan.events[start + size :])
        size //= 2
    if plan.members > 1:
        yield replace(plan, members=plan.members - 1)


def _seeded(plan: Plan) -> Iterator[Plan]:
    yield plan
    for more in range(1, _SEEDS):
        yield replace(plan, seed=plan.seed + 1_000_003 * more)
