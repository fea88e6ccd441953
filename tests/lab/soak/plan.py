"""Seeded plans of a soak: which fault comes when.

What happens between the faults depends on the machine, so a seed repeats the plan and not the run. A violation is
repeated in the model of the worker (tests/lab/model) or in a test of its own.
"""

import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from stream_dedup.worker.observer import CommitStep

# Kind -> weight, and the seconds that it lasts, at least and at most. The text behind each is what run.py does.
AT_STEP = {
    "worker_killed_at_step": (4, 0, 0),  # SIGKILL at a step of the commit protocol
    "zombie_at_step": (3, 2.5, 5.0),  # SIGSTOP there for longer than the session
    "transaction_timed_out": (1, 7.0, 9.0),  # SIGSTOP within a transaction for longer than its time-out
}
WORKER_FAULTS = {
    "worker_killed": (3, 0, 0),  # SIGKILL, at any moment
    "worker_frozen": (2, 0.1, 1.0),  # SIGSTOP for less than the session
    "zombie": (2, 2.5, 5.0),  # SIGSTOP for longer than the session: another member takes over
    "transaction_failed": (3, 0, 0),  # the producer fails, before its commit or after it
    "producer_fenced": (2, 0, 0),  # another producer takes the transactional id
    "rebalance_storm": (2, 3.0, 6.0),  # members join and leave, one of them killed
    "worker_stopped": (2, 0, 0),  # SIGTERM
    "clock_jumped": (2, 2.0, 8.0),  # a worker's wall clock is wrong for some seconds: by hours, days, a year
}
BROKER_FAULTS = {
    "broker_killed": (2, 0, 3.0),
    "broker_restarted": (1, 0, 0),
    "broker_frozen": (2, 0.5, 4.0),
    "network_cut": (3, 0.2, 4.0),
    "network_stalled": (2, 0.5, 8.0),
    "network_delayed": (2, 2.0, 6.0),
    "answers_lost": (3, 0.3, 3.0),
    "disk_full": (1, 0, 3.0),  # a broker cannot write, and ends; it is restarted when there is room again
    "leader_elected": (2, 0, 0),  # the partitions of a topic get other leaders
}
TOPIC_FAULTS = {
    "changelog_truncated": (1, 0, 0),
    "changelog_recreated": (1, 0, 0),  # deleted and created anew while the workers run
    "changelog_damaged": (1, 0, 0),  # a foreign record, which is skipped, or a damaged block, which ends the workers
    "input_recreated": (1, 0, 0),  # the workers end; a person sets the group's offsets
    "input_truncated": (1, 0, 0),  # one node: a partition is set back to a snapshot; a person sets the group's offsets
    "partitions_added": (1, 0, 0),
}
KINDS = {**AT_STEP, **WORKER_FAULTS, **BROKER_FAULTS, **TOPIC_FAULTS}
_HOUR = 3600
_JUMPS = [-400 * 24 * _HOUR, -2 * 24 * _HOUR, -2 * _HOUR, -60, 60, 2 * _HOUR, 2 * 24 * _HOUR, 400 * 24 * _HOUR]


@dataclass(frozen=True)
class Fault:
    """A fault `delay` seconds after the one before. `target` chooses a worker, a node, a task or a topic, modulo their
    number. `count`: of the steps, or the seconds that a clock jumps.
    """

    delay: float
    kind: str
    target: int
    seconds: float = 0.0
    step: int = 0
    count: int = 0


@dataclass(frozen=True)
class Plan:
    """A round: its settings and its faults."""

    seed: int
    scope: str
    members: int
    partitions: int
    batch_items: int
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        head = f"seed {self.seed}: scope {self.scope}, {self.members} members, {self.partitions} partitions, "
        return head + f"{self.batch_items} items a batch, {len(self.faults)} faults"


def plan(seed: int, faults: int, nodes: int = 1, kinds: Collection[str] = KINDS) -> Plan:
    """Make the plan of a seed with this many faults, of some kinds only.

    >>> plan(7, 20) == plan(7, 20) != plan(8, 20)
    True
    >>> sorted({one.kind for one in plan(7, 20, 3, ["disk_full", "leader_elected"]).faults})
    ['disk_full', 'leader_elected']
    """
    rng = random.Random(seed)
    scope = rng.choice(["global", "global", "partition"])
    # After "partitions_added" the changelog of scope partition would have too few, and the workers end.
    impossible = {"partitions_added"} if scope == "partition" else set()
    impossible |= {"leader_elected"} if nodes == 1 else {"input_truncated"}
    weights = {kind: KINDS[kind][0] for kind in KINDS if kind in kinds and kind not in impossible}
    made = [_fault(rng, rng.choices(list(weights), list(weights.values()))[0]) for _ in range(faults)]
    return Plan(
        seed,
        scope,
        members=rng.choice([2, 3, 4]),
        partitions=rng.choice([2, 3, 4]),
        batch_items=rng.choice([100, 500, 1000]),
        faults=tuple(made),
    )


def _fault(rng: random.Random, kind: str) -> Fault:
    more: dict[str, Any] = {}
    if kind in AT_STEP:
        first = CommitStep.OFFSETS if kind == "transaction_timed_out" else min(CommitStep)
        more = {"step": int(rng.choice([one for one in CommitStep if one >= first])), "count": rng.randint(1, 20)}
    if kind == "clock_jumped":
        more = {"count": rng.choice(_JUMPS)}
    if kind == "changelog_damaged":
        more = {"step": rng.randrange(2)}  # whose record it is
    _, *seconds = KINDS[kind]
    return Fault(rng.uniform(0.3, 3.0), kind, rng.randrange(12), round(rng.uniform(*seconds), 2), **more)
