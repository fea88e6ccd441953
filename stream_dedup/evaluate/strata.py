"""Draw a stratified random sample of decisions with weights, so that few labels estimate the precision of all.

In: a stream of decisions (`Verdict.as_json()`), each with a reference to its two items. Out: `Drawn` decisions. A
stratum combines the deciding stage with the distance from its threshold. Decisions near a threshold err most, so they
are drawn more often and weigh less. The weighted sum over the sample is an unbiased estimate of the sum over all
decisions (Horvitz and Thompson 1952), whatever the allocation.

One pass; memory for `count` decisions a stratum (reservoir sampling: Vitter 1985, algorithm R).
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, Generic, TypeVar

from stream_dedup.dedup.verdict import Kind, Stage
from stream_dedup.settings import Settings

T = TypeVar("T")

# Distances from the threshold. The first is about the error of the estimates: .04 of a Jaccard with 128 bins.
_AT, _NEAR = 0.05, 0.15
# Oversampling by distance from the threshold.
_FACTOR = {"at": 4.0, "near": 2.0, "clear": 1.0}
# Items let through are drawn half as often: a wrong one is read twice, while one held back by mistake is lost.
_LET_THROUGH = 0.5
# At least two of each stratum: one alone says nothing about its variance.
_LEAST = 2


@dataclass(frozen=True, slots=True)
class Drawn(Generic[T]):
    """A drawn decision; it represents `weight` decisions of its stratum."""

    what: T
    decision: Mapping[str, Any]
    stratum: str
    weight: float


class Strata(Generic[T]):
    """Collects decisions one by one, then draws. The same decisions in the same order and `seed` give the same sample.

    >>> strata = Strata[str](10, 1, Settings())
    >>> for n in range(50):
    ...     strata.add({"verdict": "duplicate", "stage": "exact"}, f"pair {n}")
    >>> drawn = strata.draw()
    >>> len(drawn), drawn[0].stratum, sum(one.weight for one in drawn)
    (10, 'exact, clear', 50.0)
    """

    def __init__(self, count: int, seed: int, settings: Settings) -> None:
        self._count, self._settings = count, settings
        self._random = random.Random(seed)
        self._sizes: dict[str, int] = {}
        self._kept: dict[str, list[tuple[Mapping[str, Any], T]]] = {}

    def __len__(self) -> int:
        """Return the number of decisions added."""
        return sum(self._sizes.values())

    def add(self, decision: Mapping[str, Any], what: T) -> None:
        """Add a decision. O(1)."""
        name = stratum_of(decision, self._settings)
        self._sizes[name] = size = self._sizes.get(name, 0) + 1
        kept = self._kept.setdefault(name, [])
        if len(kept) < self._count:
            kept.append((decision, what))
        elif (place := self._random.randrange(size)) < self._count:
            kept[place] = (decision, what)

    def draw(self) -> list[Drawn[T]]:
        """Draw at most `count` decisions in random order, so that a part of them is still a sample of all strata."""
        chosen = []
        for name, number in allocate(self._sizes, self._count).items():
            weight = self._sizes[name] / number if number else 0.0
            for decision, what in self._random.sample(self._kept[name], number):
                chosen.append(Drawn(what, decision, name, weight))
        self._random.shuffle(chosen)
        return chosen


def allocate(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """Return how many to draw from each stratum: in proportion to the root of its size and its oversampling factor, at
    least two of each if `count` allows.

    >>> allocate({"body, at": 100, "body, clear": 100, "exact, clear": 1}, 22)
    {'body, at': 17, 'body, clear': 4, 'exact, clear': 1}
    """
    wanted = {name: _factor(name) * sqrt(size) for name, size in sizes.items()}
    given = dict.fromkeys(sizes, 0)
    left = min(count, sum(sizes.values()))
    for least in range(_LEAST):  # one for each stratum, then a second one
        for name in sorted(sizes, key=lambda name: -wanted[name]):
            if left and given[name] == least and given[name] < sizes[name]:
                given[name] += 1
                left -= 1
    while left:  # the next one goes to the stratum that is furthest below its share
        unfilled = [name for name in sizes if given[name] < sizes[name]]
        name = max(unfilled, key=lambda name: wanted[name] / (given[name] + 1))
        given[name] += 1
        left -= 1
    return given


def _factor(name: str) -> float:
    what, _, nearness = name.rpartition(", ")
    return _FACTOR[nearness] * (_LET_THROUGH if what.startswith(Kind.UNIQUE) else 1.0)


def stratum_of(decision: Mapping[str, Any], settings: Settings) -> str:
    """Return the stratum of a decision: the stage, and the distance from the threshold.

    >>> stratum_of({"verdict": "duplicate", "stage": "body", "evidence": {"novelty": 0.37}}, Settings())
    'body, at'
    """
    margin = _margin(decision, settings)
    nearness = "clear" if margin is None or abs(margin) >= _NEAR else "at" if abs(margin) < _AT else "near"
    kind = f"{decision['verdict']} " if decision["verdict"] != Kind.DUPLICATE else ""
    return f"{kind}{decision['stage']}, {nearness}"


def _margin(decision: Mapping[str, Any], settings: Settings) -> float | None:
    """Return how far the deciding number is above its threshold; None if no threshold decides."""
    evidence = decision.get("evidence") or {}
    if decision["stage"] in (Stage.ID, Stage.EXACT, Stage.POLICY):
        return None
    if evidence.get("novelty") is not None:
        return float(evidence["novelty"]) - settings.decision.threshold
    if evidence.get("distance") is not None:  # one bit corresponds to one step of a threshold
        return float(settings.fingerprint.hamming - evidence["distance"]) * _AT
    return None if evidence.get("body") is None else float(evidence["body"]) - settings.decision.body
