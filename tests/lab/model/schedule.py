"""Seeded schedules: what is fed, what breaks, and when.

A `Plan` is a list of timed events that can be printed, shortened and run again (world.py). Each plan has a theme, so
that even a short one meets the trouble it is about; the events within it and all interleavings are random.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stream_dedup.worker.observer import CommitStep


@dataclass(frozen=True)
class Event:
    """Call the method `name` of World after `delay` seconds."""

    delay: float
    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"+{self.delay:.2f} s {self.name}{self.arguments}"


@dataclass(frozen=True)
class Plan:
    """A schedule and the settings of its world."""

    seed: int
    theme: str
    scope: str = "global"
    inputs: int = 2
    outputs: int = 2
    members: int = 2
    batch_items: int = 4
    compact: bool = False
    odd: float = 0.0
    wild: float = 0.1
    events: tuple[Event, ...] = ()

    def __str__(self) -> str:
        head = replace(self, events=())
        return "\n".join([repr(head).replace(", events=()", ""), *(f"  {event}" for event in self.events)])


# -- making plans --------------------------------------------------------------------------------------------

THEMES: Mapping[str, int] = {  # theme -> weight
    "calm": 1, "crashes": 6, "broker errors": 6, "zombies": 3, "rebalances": 3, "unequal partitions": 2,
    "partitions added": 1, "markers and retention": 2, "crippled member": 1, "bad task": 1, "hiccups": 2,
    "refused records": 1, "odd headers": 1, "recreated input": 1, "deleted unread": 1, "long stop": 1, "odd times": 1,
}  # fmt: skip
ERRORS = ("timeout", "connection", "coordinator", "sequence")
_APIS = ("init", "send_offsets", "produce", "commit", "committed", "offsets", "metadata", "connect", "fetch")


def plan(seed: int, theme: str | None = None) -> Plan:
    """Make the schedule of a seed."""
    rng = random.Random(seed)
    chosen = rng.choices(list(THEMES), list(THEMES.values()))[0]
    theme = theme or chosen
    inputs = rng.choice([1, 2, 2, 3])
    made = Plan(
        seed,
        theme,
        scope=rng.choice(["global", "global", "partition"]),
        inputs=inputs,
        outputs=inputs,
        members=rng.choice([1, 2, 2, 3]),
        batch_items=rng.choice([1, 3, 5]),
    )
    made = replace(made, **_SETTINGS.get(theme, lambda rng, made: {})(rng, made))
    if theme in ("crashes", "zombies", "broker errors", "rebalances") and rng.random() < 0.15:
        made = replace(made, outputs=rng.choice([1, 3]))
    events = [Event(rng.uniform(0.5, 3), "feed", _feed(rng, made, rng.randint(2, 8)))]
    trouble = _TROUBLE.get(theme, _nothing)
    for _ in range(rng.randint(2, 7)):
        events += trouble(rng, made) if theme not in _ONCE and rng.random() < 0.55 else []
        events.append(Event(_pause(rng), "feed", _feed(rng, made, rng.randint(1, 6))))
        if rng.random() < 0.15:
            events += _any(rng, made)
    events += trouble(rng, made)
    events.append(Event(_pause(rng), "feed", _feed(rng, made, rng.randint(1, 4))))
    return replace(made, events=tuple(events))


# What a theme needs of the settings.
_SETTINGS: Mapping[str, Callable[[random.Random, Plan], dict[str, Any]]] = {
    "unequal partitions": lambda rng, _: {
        "inputs": rng.choice([3, 6]), "outputs": rng.choice([1, 2, 4]), "batch_items": rng.choice([3, 8]),
    },
    "crippled member": lambda _, made: {"scope": "global", "members": max(2, made.members)},
    "bad task": lambda *_: {"scope": "partition", "inputs": 3, "outputs": 3},
    "refused records": lambda rng, _: {"compact": rng.random() < 0.6},
    "odd times": lambda *_: {"wild": 0.5},
    "odd headers": lambda *_: {"odd": 0.15},
}  # fmt: skip


def _pause(rng: random.Random) -> float:
    return rng.choice([0.0, 0.01, 0.1, 0.5, 2.0, 8.0]) * rng.random()


def _feed(rng: random.Random, plan: Plan, count: int) -> tuple[Any, ...]:
    """Partition, records, transactional, committed, and how long the transaction stays open."""
    how = rng.random()
    return (rng.randrange(plan.inputs), count, how < 0.2, rng.random() < 0.8, rng.choice([0, 0.05, 1.0]))


def _nothing(rng: random.Random, plan: Plan) -> list[Event]:
    return []


def _crash(rng: random.Random, plan: Plan) -> list[Event]:
    slot, again = rng.randrange(plan.members), rng.uniform(0.1, 5)
    if rng.random() < 0.7:
        return [Event(_pause(rng), "kill_at", (slot, int(rng.choice(list(CommitStep))), rng.randint(1, 3), again))]
    return [Event(_pause(rng), "kill", (slot, again))]


def _error(rng: random.Random, plan: Plan) -> list[Event]:
    api, error = rng.choice(_APIS), rng.choice(ERRORS)
    # Only these three may hang forever (P5); the others have time limits of their own.
    hang = rng.choice([0, 0, 0, 1.0, 40.0]) if api in ("init", "send_offsets", "commit") else 0
    if api == "produce":
        error = rng.choice(["timeout", "sequence"])
    done = rng.choice([0.0, 0.5, 1.0])
    seconds, calls = rng.choice([0.5, 3.0, 10.0]), rng.choice([1, 1, 2, 5])
    return [Event(_pause(rng), "trouble", (api, error, seconds, hang, done, calls))]


def _zombie(rng: random.Random, plan: Plan) -> list[Event]:
    slot = rng.randrange(plan.members)
    if rng.random() < 0.6:
        step, count, seconds = rng.choice(list(CommitStep)), rng.randint(1, 3), rng.choice([1.0, 4.0, 8.0, 20.0])
        return [Event(_pause(rng), "freeze_at", (slot, int(step), count, seconds))]
    return [Event(_pause(rng), "freeze", (slot, rng.choice([0.5, 4.0, 8.0, 20.0])))]


def _rebalance(rng: random.Random, plan: Plan) -> list[Event]:
    return [Event(_pause(rng), "stop", (rng.randrange(plan.members), rng.uniform(0, 6)))]


def _retention(rng: random.Random, plan: Plan) -> list[Event]:
    """A broker deletes every five minutes only, so a control record exists for a minute at least."""
    partition = rng.randrange(plan.inputs)
    return [
        Event(_pause(rng), "feed", (partition, rng.randint(1, 3), True, True, 0)),
        Event(rng.uniform(65, 80), "delete_read", ()),
        *rng.choice([_rebalance, _crash, _error])(rng, plan),
    ]


def _cripple(rng: random.Random, plan: Plan) -> list[Event]:
    return [Event(_pause(rng), "cripple_active", (rng.choice(["init", "offsets", "commit", "send_offsets"]),))]


def _bad_task(rng: random.Random, plan: Plan) -> list[Event]:
    return [Event(_pause(rng), "break_task", (rng.randrange(plan.inputs),))]


def _hiccup(rng: random.Random, plan: Plan) -> list[Event]:
    """A take-over, and an error at the same time."""
    api = rng.choice(["init", "offsets", "committed", "metadata", "fetch"])
    trouble = Event(0, "trouble", (api, "timeout", 8.0, 0, 0.0, rng.choice([1, 2])))
    return [Event(rng.uniform(2, 6), "kill", (rng.randrange(plan.members), rng.uniform(0.1, 3))), trouble]


def _refuse(rng: random.Random, plan: Plan) -> list[Event]:
    return [Event(0, "refuse_some", (rng.choice([0.05, 0.2]),))]


def _recreate(rng: random.Random, plan: Plan) -> list[Event]:
    return [Event(rng.uniform(1, 5), "recreate_input", (rng.choice([2, 10, 30, 30]),))]


def _delete_unread(rng: random.Random, plan: Plan) -> list[Event]:
    return [Event(_pause(rng), "delete_unread", (rng.randrange(plan.inputs),))]


def _long_stop(rng: random.Random, plan: Plan) -> list[Event]:
    return [Event(rng.uniform(3, 10), "long_stop", (rng.choice([0.5, 6.0, 7.5, 9.0]),))]


def _add(rng: random.Random, plan: Plan) -> list[Event]:
    """Partitions are added; a task opens soon after, mostly while a broker does not know them yet."""
    added = Event(_pause(rng), "add_partitions", (rng.randint(1, 2), rng.choice([0.0, 0.5, 4.0])))
    return [added, *rng.choice([_nothing, _crash, _rebalance])(rng, plan)]


_TROUBLE: Mapping[str, Callable[[random.Random, Plan], list[Event]]] = {
    "crashes": _crash, "broker errors": _error, "zombies": _zombie, "rebalances": _rebalance,
    "unequal partitions": _rebalance, "partitions added": _add, "markers and retention": _retention,
    "crippled member": _cripple, "bad task": _bad_task, "hiccups": _hiccup, "refused records": _refuse,
    "recreated input": _recreate, "deleted unread": _delete_unread, "long stop": _long_stop,
    "odd headers": _rebalance, "odd times": _rebalance,
}  # fmt: skip

# Themes whose trouble takes long, or would hide earlier trouble.
_ONCE = ("partitions added", "crippled member", "bad task", "recreated input", "deleted unread", "long stop")


def _any(rng: random.Random, plan: Plan) -> list[Event]:
    return rng.choice([_crash, _error, _zombie, _rebalance])(rng, plan)
