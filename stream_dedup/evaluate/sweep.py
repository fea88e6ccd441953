"""Measure how the figures depend on each threshold: run the decision again for several values of it.

In: the lines of the corpus and the settings. Out: `SweepPoint`s around the present value of each threshold. Each point
is a run of its own, because the items that are held back determine which originals are remembered.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from stream_dedup.batch.judge import judge_lines
from stream_dedup.evaluate.labels import Label, agreement
from stream_dedup.settings import Settings

# Far enough to see where the figures bend, few enough that 50,000 items take minutes.
_OFFSETS = (-0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2)
_NONE = float("nan")


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One run with `decision.<name>` at `value`: the share held back, and the agreement (NaN without labels)."""

    name: str
    value: float
    held_share: float
    recall: float
    precision: float
    f1: float


def sweep_steps(settings: Settings) -> list[tuple[str, float]]:
    """Return (threshold, value) of each run.

    >>> [value for name, value in sweep_steps(Settings()) if name == "lead"]
    [0.35, 0.45, 0.5, 0.55, 0.6, 0.65, 0.75]
    """
    names = ("body",) if settings.decision.rule == "jaccard" else ("body", "lead", "headline")
    out = []
    for name in names:
        present = getattr(settings.decision, name)
        values = sorted({round(min(max(present + offset, 0.05), 1.0), 4) for offset in _OFFSETS})
        out += [(name, value) for value in values]
    return out


def sweep(lines: Sequence[bytes], settings: Settings, labels: Sequence[Label], name: str, value: float) -> SweepPoint:
    """Compute the figures with `decision.<name>` at `value`. O(items)."""
    decision = settings.decision.model_copy(update={name: value})
    verdicts = {}
    held = total = 0
    for verdict in judge_lines(lines, settings.model_copy(update={"decision": decision})):
        total += 1
        held += not verdict.forward
        verdicts[verdict.id] = verdict
    rates = (_NONE, _NONE, _NONE)
    if labels:
        found = agreement(labels, verdicts)
        rates = (found.recall, found.precision, found.f1)
    return SweepPoint(name, value, held / total if total else 0.0, *rates)
