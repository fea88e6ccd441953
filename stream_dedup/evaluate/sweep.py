"""Measure how the figures depend on each threshold: run the decision again for several values of it.

In: the lines of the corpus and the settings. Out: `SweepPoint`s around the present value of each threshold. Each point
is a run of its own, because the items that are held back determine which originals are remembered.

Where a SimHash decides about the body, its Hamming distance is the threshold, and the layout of the tables moves with
it: for each distance the layout that guarantees it with the least work, and the present one as far as it reaches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stream_dedup.batch.judge import Line
from stream_dedup.errors import ConfigError
from stream_dedup.evaluate.labels import Label, agreement, by_first_delivery
from stream_dedup.evaluate.planner import Traffic, cheapest
from stream_dedup.evaluate.proposals import judge_and_count
from stream_dedup.settings import Settings

# Far enough to see where the figures bend, few enough that 50,000 items take minutes.
_OFFSETS = (-0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2)
# Distances above the present one: three more bits double to quadruple the tables.
_MORE_BITS = 3
# The number of originals for which a layout is the cheapest. A corpus to evaluate is smaller than a feed.
_ORIGINALS = Traffic(1_000_000)
HAMMING = "hamming"
_NONE = float("nan")


class Step(NamedTuple):
    """A run: the threshold `name` of [decision], or `hamming` with a layout of [fingerprint], at `value`."""

    name: str
    value: float
    layout: str = ""

    def settings(self, settings: Settings) -> Settings:
        """Return the settings of the run."""
        if self.name == HAMMING:
            change = {"hamming": int(self.value), "layout": self.layout}
            return settings.model_copy(update={"fingerprint": settings.fingerprint.model_copy(update=change)})
        decision = settings.decision.model_copy(update={self.name: self.value})
        return settings.model_copy(update={"decision": decision})


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One run of a `Step`: the share held back, and the agreement (NaN without labels).

    layout: empty unless the step moves it. candidates: distinct originals that the index proposes for an item, on
    average; body_candidates: those that the body's tables propose.
    """

    name: str
    value: float
    layout: str
    held_share: float
    recall: float
    precision: float
    f1: float
    candidates: float
    body_candidates: float

    @property
    def setting(self) -> str:
        """The name of the setting, with its table."""
        return f"fingerprint.{self.name}" if self.name == HAMMING else f"decision.{self.name}"


def sweep_steps(settings: Settings) -> list[Step]:
    """Return the runs.

    >>> [step.value for step in sweep_steps(Settings()) if step.name == "lead"]
    [0.35, 0.45, 0.5, 0.55, 0.6, 0.65, 0.75]
    """
    fingerprint = settings.fingerprint
    steps = _hamming_steps(settings) if fingerprint.family != "minhash" else _threshold_steps(settings, "body")
    if settings.decision.rule == "views" and fingerprint.family != "given" and fingerprint.views == "all":
        steps += _threshold_steps(settings, "lead") + _threshold_steps(settings, "headline")
    return steps


def sweep(lines: Sequence[Line], settings: Settings, labels: Sequence[Label], step: Step) -> SweepPoint:
    """Compute the figures of a step. O(items)."""
    judged = judge_and_count(lines, step.settings(settings))
    held = sum(not verdict.forward for verdict in judged.verdicts)
    rates = (_NONE, _NONE, _NONE)
    if labels:
        found = agreement(labels, by_first_delivery(judged.verdicts))
        rates = (found.recall, found.precision, found.f1)
    share = held / len(judged.verdicts) if judged.verdicts else 0.0
    return SweepPoint(*step, share, *rates, judged.candidates, judged.body_candidates)


def _threshold_steps(settings: Settings, name: str) -> list[Step]:
    present = getattr(settings.decision, name)
    return [Step(name, value) for value in sorted({round(min(max(present + by, 0.05), 1.0), 4) for by in _OFFSETS})]


def _hamming_steps(settings: Settings) -> list[Step]:
    fingerprint = settings.fingerprint
    steps = []
    for hamming in range(fingerprint.hamming + _MORE_BITS + 1):
        try:
            layouts = {cheapest(hamming, fingerprint, settings.decision, _ORIGINALS).settings["layout"]}
        except ConfigError:  # no layout guarantees so much
            layouts = set()
        if hamming <= fingerprint.hamming:
            layouts.add(fingerprint.layout)
        steps += [Step(HAMMING, hamming, layout) for layout in sorted(layouts)]
    return steps
