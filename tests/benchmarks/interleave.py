"""Interleaved repeats: what is compared runs in turns, so that a noisy machine is noisy for all of them.

In: named functions, whole or step by step (the shorter a turn, the more alike the noise). Out: seconds by name, one a
round; and from these, flat figures: the median under the figure's own name, the lowest and highest round under
`NAME_low` and `NAME_high`.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

Times = dict[str, list[float]]
T = TypeVar("T")


def interleave(contestants: Mapping[str, Callable[[], object]], rounds: int) -> Times:
    """Seconds of each, by name; every round runs them all, in their order."""
    times: Times = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return times


def interleave_steps(
    contestants: Mapping[str, Callable[[], Callable[[T], object]]], steps: Sequence[T], rounds: int
) -> Times:
    """Seconds of each for all steps: a round makes each contestant anew, and each takes a step before the next step."""
    times: Times = {name: [] for name in contestants}
    for _ in range(rounds):
        running = {name: make() for name, make in contestants.items()}
        seconds = dict.fromkeys(contestants, 0.0)
        for step in steps:
            for name, run in running.items():
                start = time.perf_counter()
                run(step)
                seconds[name] += time.perf_counter() - start
        for name, one in seconds.items():
            times[name].append(one)
    return times


def spread(name: str, values: Sequence[float]) -> dict[str, float]:
    """Median, lowest and highest.

    >>> spread("x", [3.0, 1.0, 2.0])
    {'x': 2.0, 'x_low': 1.0, 'x_high': 3.0}
    """
    return {name: statistics.median(values), f"{name}_low": min(values), f"{name}_high": max(values)}


def speedup(name: str, ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """How many times as fast we are, round by round: both of a ratio come from the same minute.

    >>> speedup("x", [1.0, 2.0, 1.0], [4.0, 4.0, 3.0])
    {'x': 3.0, 'x_low': 2.0, 'x_high': 4.0}
    """
    return spread(name, [b / a for a, b in zip(ours, theirs, strict=True)])
