"""Time functions in interleaved rounds, so that noise of the machine affects all of them alike.

Functions run whole or step by step; shorter steps spread the noise more evenly. `Times` has the seconds of each by
name, one value a round. `spread` and `speedup` turn these into figures: the median under the figure's own name, the
lowest and highest round under `NAME_low` and `NAME_high`.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

Times = dict[str, list[float]]
T = TypeVar("T")


def interleave(contestants: Mapping[str, Callable[[], object]], rounds: int) -> Times:
    """Return the seconds of each function by name; every round runs all of them, in order."""
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
    """Return the seconds of each contestant for all steps; each round makes them anew, and they alternate."""
    times: Times = {name: [] for name in contestants}
    for _ in range(rounds):
        running = {name: make() for name, make in contestants.items()}
        seconds = dict.fromkeys(contestants, 0.0)
        for step in steps:
            for name, run in running.items():
                start = time.perf_counter()
                run(step)
                seconds[name] += time.perf_counter() - start
        for name, duration in seconds.items():
            times[name].append(duration)
    return times


def spread(name: str, values: Sequence[float]) -> dict[str, float]:
    """Return median, lowest and highest value as figures.

    >>> spread("x", [3.0, 1.0, 2.0])
    {'x': 2.0, 'x_low': 1.0, 'x_high': 3.0}
    """
    return {name: statistics.median(values), f"{name}_low": min(values), f"{name}_high": max(values)}


def speedup(name: str, ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Return how many times as fast ours is; each ratio compares durations of the same round.

    >>> speedup("x", [1.0, 2.0, 1.0], [4.0, 4.0, 3.0])
    {'x': 3.0, 'x_low': 2.0, 'x_high': 4.0}
    """
    return spread(name, [b / a for a, b in zip(ours, theirs, strict=True)])
