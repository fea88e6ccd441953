"""Measure how the figures depend on the threshold that decides: run the decision again for several values of it.

In: the lines of the corpus, the settings, and labels, if there are any. Out: `SweepPoint`s. Each point is a run of its
own, because the items that are held back determine which originals are remembered.

The threshold is `decision.novelty`, or `decision.body` with `decision.rule = "jaccard"`. Where a SimHash decides, it is
the Hamming distance, and the layout of the tables moves with it: for each distance the layout that guarantees it with
the least work, and the present one as far as it reaches.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stream_dedup.batch.lines import Line
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import ConfigError
from stream_dedup.evaluate.labels import Label, agreement, by_first_delivery, is_held
from stream_dedup.evaluate.novelty import counts, rates
from stream_dedup.evaluate.planner import Traffic, cheapest
from stream_dedup.evaluate.proposals import judge_and_count
from stream_dedup.settings import DecisionSettings, Settings
from stream_dedup.settings.decision import NOVELTY_NAMES, with_name

# Far enough to see where the figures bend, few enough that 50,000 items take minutes.
_NOVELTY = (0.2, *NOVELTY_NAMES.values(), 0.6, 0.7)
_OFFSETS = (-0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2)
# Distances above the present one: three more bits double to quadruple the tables.
_MORE_BITS = 3
# The number of originals for which a layout is the cheapest. A corpus to evaluate is smaller than a feed.
_TRAFFIC = Traffic(1_000_000)
# Examples of a step.
_EXAMPLES = 3
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
    """One run of a `Step`.

    layout: empty unless the step moves it. held_share: of all items. examples: (original, item), ids of some items that
    this step holds back and the step before lets through. recall and precision: of the same article; missed, repeated:
    of something new (NaN without such labels). candidates: distinct originals that the index proposes for an item, on
    average.
    """

    name: str
    value: float
    layout: str
    held_share: float
    examples: list[tuple[str, str]]
    recall: float
    precision: float
    missed: float
    repeated: float
    candidates: float

    @property
    def setting(self) -> str:
        """The name of the setting, with its table."""
        return f"fingerprint.{self.name}" if self.name == HAMMING else f"decision.{self.name}"

    @property
    def title(self) -> str:
        """The value, with its name if it has one."""
        return with_name(self.value) if self.name == "novelty" else f"{self.value:g}"


def sweep_steps(settings: Settings) -> list[Step]:
    """Return the runs.

    >>> [step.value for step in sweep_steps(Settings())]
    [0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    """
    if settings.fingerprint.family != "minhash":
        return _hamming_steps(settings)
    d: DecisionSettings = settings.decision
    if d.rule == "novelty":
        return [Step("novelty", value) for value in sorted({*_NOVELTY, d.threshold})]
    return [Step("body", value) for value in sorted({round(min(max(d.body + by, 0.05), 1.0), 4) for by in _OFFSETS})]


def sweep(
    lines: Sequence[Line],
    settings: Settings,
    labels: Sequence[Label],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[SweepPoint]:
    """Run all steps. O(items) each."""
    steps, points = sweep_steps(settings), []
    before: Mapping[str, Verdict] = {}
    for number, step in enumerate(steps):
        progress(number, len(steps))
        judged = judge_and_count(lines, step.settings(settings))
        by_id = by_first_delivery(judged.verdicts)
        recall = precision = _NONE
        if labels:
            found = agreement(labels, by_id)
            recall, precision = found.recall, found.precision
        asked = [label for label in labels if counts(label)]
        new = rates(asked, [is_held(by_id[label.later]) for label in asked], [], draws=0)
        held = sum(not verdict.forward for verdict in judged.verdicts) / max(len(judged.verdicts), 1)
        points.append(
            SweepPoint(
                *step, held, _examples(by_id, before), recall, precision, new.missed, new.repeated, judged.candidates
            )
        )
        before = by_id
    progress(len(steps), len(steps))
    return points


def _examples(verdicts: Mapping[str, Verdict], before: Mapping[str, Verdict]) -> list[tuple[str, str]]:
    """Choose items that are held back and were not before, from the begin to the end of the corpus."""
    added = [
        (verdict.original.id, verdict.id)
        for verdict in verdicts.values()
        if verdict.original and is_held(verdict) and verdict.id in before and not is_held(before[verdict.id])
    ]
    return added[:: max(len(added) // _EXAMPLES, 1)][:_EXAMPLES]


def _hamming_steps(settings: Settings) -> list[Step]:
    fingerprint = settings.fingerprint
    steps = []
    for hamming in range(fingerprint.hamming + _MORE_BITS + 1):
        try:
            layouts = {str(cheapest(hamming, fingerprint, settings.decision, _TRAFFIC).settings["layout"])}
        except ConfigError:  # no layout guarantees so much
            layouts = set()
        if hamming <= fingerprint.hamming:
            layouts.add(fingerprint.layout)
        steps += [Step(HAMMING, hamming, layout) for layout in sorted(layouts)]
    return steps
