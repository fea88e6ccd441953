"""Compare verdicts with labels on the second question, "would a reader miss something?": two weighted rates.

- **missed**: the share of the items held back that have something new or are another article.
- **repeated**: the share of the same-article items with nothing new (`no`, `little`) that are let through.

A pair without `new` counts in neither rate, nor does a pair of different articles with nothing new (a page without an
article of its own).

In: labels, verdicts, the items that simpler rules hold back, and the site of each item. Out: `NoveltyReport`: the rates
of each rule in total and by group, and the trade-off curve of the two rates as `decision.novelty` varies.

Intervals: pairs of one site are correlated (boilerplate, agencies), so a bootstrap over pairs would be too narrow. The
cluster bootstrap (`intervals`) resamples whole sites of the later item; within one site it resamples earlier items.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.verdict import Stage, Verdict
from stream_dedup.evaluate.intervals import DRAWS, bootstrap, resample
from stream_dedup.evaluate.labels import NEW, Label, is_held

SETTING = "decision.novelty"
"""The setting that the trade-off curve varies."""
DECISION = "decision"
ALL, SURE, SOURCE, LANGUAGE, STAGE = "all", "sure", "source", "language", "stage"

# A group with fewer pairs has no row of its own: its interval would be as wide as the scale.
ENOUGH = 10
_GROUPS = 10
_STEP = 0.025
_NONE = float("nan")
# These stages decide without asking for novelty.
NOT_ASKED = (Stage.ID, Stage.EXACT, Stage.POLICY)

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rates:
    """Missed and repeated over `rows` labelled pairs, `held` of them held back, with 95 % intervals. NaN: undefined."""

    rows: int
    held: int
    missed: float
    repeated: float
    missed_interval: tuple[float, float] = (_NONE, _NONE)
    repeated_interval: tuple[float, float] = (_NONE, _NONE)


@dataclass(frozen=True, slots=True)
class GroupRates:
    """The rates of one rule in one group. `by`: the grouping (ALL, SURE, SOURCE, LANGUAGE, STAGE); `name`: the group.

    other_original: items held back for another original than the labelled pair's. The annotator did not see that
    original; the item counts as its pair was labelled.
    """

    by: str
    name: str
    rule: str
    rates: Rates
    other_original: int

    @property
    def title(self) -> str:
        return self.name if self.by == self.name else f"{self.by} {self.name}"


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The rates of the decision if the setting were `threshold`."""

    threshold: float
    missed: float
    repeated: float


@dataclass(frozen=True, slots=True)
class NoveltyReport:
    """All results of the second question.

    groups: the rates by group, the decision first in each; stages are those of the decision. curve: the trade-off
    curve, empty if no labelled item has a novelty; `carrying` items do. It comes from one run, so the remembered
    originals stay the same. present: the current setting. missed, repeated: the errors of the decision.
    """

    groups: list[GroupRates]
    setting: str
    present: float
    carrying: int
    curve: list[CurvePoint]
    missed: list[Label]
    repeated: list[Label]

    def shown(self) -> list[CurvePoint]:
        """Return the points for a table: every tenth, and the current setting."""
        return [point for point in self.curve if point.threshold in (self.present, round(point.threshold, 1))]

    def remarks(self) -> list[str]:
        """Return the notes that a person needs to read the figures; plain text."""
        notes = [
            "missed: share of what is held back that has something new or is another article; repeated: share of the "
            "same articles with nothing new that are let through. Weighted by how many items a pair stands for. "
            "Intervals come from a bootstrap over the sites of the later items (within one site over the earlier "
            "items), because pairs of one site depend on each other; none is narrower than Wilson's for pairs that do "
            "not."
        ]
        others = [
            f"{group.other_original} by {group.rule}"
            for group in self.groups
            if group.by == ALL and group.other_original
        ]
        if others:
            notes.append(
                "Held back for another original than the annotator was shown, and counted as the pair was labelled, "
                f"though that original may have had what is new: {', '.join(others)}."
            )
        if self.curve:
            notes.append(
                f"The setting {self.setting} moves along the curve; it is {self.present:g}. {self.carrying} labelled "
                "items have a novelty. The curve comes from this run: the remembered originals stay the same, and an "
                "item let through counts by its novelty against the original that it names."
            )
        else:
            notes.append(
                f"No labelled item has a novelty (evidence.novelty), so there is no curve along {self.setting}."
            )
        return notes


def counts(label: Label) -> bool:
    """Whether a pair counts for the second question.

    >>> counts(Label("a", "b", "cut", new="yes")), counts(Label("a", "b", "furniture", new="no"))
    (True, False)
    """
    return label.new is not None and (label.same or label.new == NEW)


def rates(labels: Sequence[Label], held: Sequence[bool], clusters: Sequence[str], draws: int = DRAWS) -> Rates:
    """Compute the rates of pairs that count.

    held: whether the later item is held back. clusters: pairs with the same value are correlated. draws: of the
    bootstrap; 0: no intervals.

    >>> words = ("copy", "no"), ("cut", "yes"), ("copy", "no")
    >>> pairs = [Label("a", "b", label, new=new) for label, new in words]
    >>> found = rates(pairs, [True, True, False], ["x", "y", "z"], draws=0)
    >>> found.missed, found.repeated
    (0.5, 0.5)
    """
    lost, is_held, weight = _arrays(labels, held)
    parts = _parts(lost, is_held, weight)
    missed, repeated = _quotients(parts.sum(axis=0)).tolist()
    of_missed = of_repeated = (_NONE, _NONE)
    if draws and labels:
        _, number = np.unique(np.array(clusters), return_inverse=True)
        sums = np.zeros((int(number.max()) + 1, 4))
        np.add.at(sums, number, parts)
        drawn = _quotients(resample(sums, draws))  # the same draws for each rule
        of_missed = bootstrap(missed, drawn[:, 0], sums[:, 1], parts[:, 1])
        of_repeated = bootstrap(repeated, drawn[:, 1], sums[:, 3], parts[:, 3])
    return Rates(len(labels), int(is_held.sum()), missed, repeated, of_missed, of_repeated)


def novelty_report(
    labels: Iterable[Label],
    verdicts: Mapping[str, Verdict],
    others: Mapping[str, Mapping[str, str]],
    sites: Mapping[str, str],
    present: float,
) -> NoveltyReport | None:
    """Make the report; None if no label has `new`.

    verdicts: of each labelled item, by id. others: rule name -> ids that it holds back -> ids of their originals.
    sites: by id. present: the current threshold.
    """
    counted = [label for label in labels if counts(label)]
    if not counted:
        return None
    decided = {
        verdict.id: verdict.original.id if verdict.original else "" for verdict in verdicts.values() if is_held(verdict)
    }
    by_rule: dict[str, Mapping[str, str]] = {DECISION: decided, **others}
    held = [label.later in decided for label in counted]
    # An unknown site is a cluster of its own.
    site_of = [sites.get(label.later) or f"id {label.later}" for label in counted]
    groups = []
    for by, name, places in _groups(counted, verdicts, sites):
        chosen = [counted[i] for i in places]
        clusters = [counted[i].earlier if by == SOURCE else site_of[i] for i in places]
        for rule, original_of in by_rule.items():
            found = rates(chosen, [label.later in original_of for label in chosen], clusters)
            other = sum(original_of.get(label.later, label.earlier) != label.earlier for label in chosen)
            groups.append(GroupRates(by, name, rule, found, other))
    novelty = [novelty_of(verdicts[label.later]) for label in counted]
    return NoveltyReport(
        groups,
        SETTING,
        present,
        sum(value is not None for value in novelty),
        novelty_curve(counted, held, novelty, present),
        [label for label, is_held in zip(counted, held, strict=True) if is_held and label.new == NEW],
        [label for label, is_held in zip(counted, held, strict=True) if not is_held and label.new != NEW],
    )


def novelty_curve(
    labels: Sequence[Label], held: Sequence[bool], novelty: Sequence[float | None], present: float
) -> list[CurvePoint]:
    """Compute the rates at thresholds from 0 to 1 and at `present`. Items without novelty keep their verdict.

    >>> pairs = [Label("a", "b", "copy", new="no"), Label("a", "c", "cut", new="yes")]
    >>> points = novelty_curve(pairs, [True, True], [0.2, 0.6], 0.5)
    >>> [(point.threshold, point.missed, point.repeated) for point in points if point.threshold in (0.5, 0.75)]
    [(0.5, 0.0, 0.0), (0.75, 0.5, 0.0)]
    """
    if all(value is None for value in novelty):
        return []
    lost, unchanged, weight = _arrays(labels, held)
    values = np.array([_NONE if value is None else value for value in novelty])
    steps = {round(float(step), 4) for step in np.arange(0.0, 1.0 + _STEP / 2, _STEP)} | {present}
    points = []
    for threshold in sorted(steps):
        is_held = np.where(np.isnan(values), unchanged, values < threshold)
        missed, repeated = _quotients(_parts(lost, is_held, weight).sum(axis=0)).tolist()
        points.append(CurvePoint(threshold, missed, repeated))
    return points


def _arrays(labels: Sequence[Label], held: Sequence[bool]) -> tuple[Bools, Bools, Floats]:
    return (
        np.array([label.new == NEW for label in labels], np.bool_),
        np.array(held, np.bool_),
        np.array([label.weight for label in labels], np.float64),
    )


def _parts(lost: Bools, held: Bools, weight: Floats) -> Floats:
    """Return each pair's share in the two rates, (pairs, 4): numerator and denominator of missed, then of repeated.

    A pair that counts either has something new, and holding it back is a loss, or is the same article with nothing new.
    """
    return np.stack([held & lost, held, ~held & ~lost, ~lost], axis=1) * weight[:, None]


def _quotients(sums: Floats) -> Floats:
    """Divide sums (..., 4) into missed and repeated (..., 2)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums[..., [0, 2]] / sums[..., [1, 3]]


def _groups(
    labels: Sequence[Label], verdicts: Mapping[str, Verdict], sites: Mapping[str, str]
) -> Iterable[tuple[str, str, list[int]]]:
    """Yield (by, name, indices) of each group: all pairs, the sure ones, the largest sources, languages and stages."""
    everything = range(len(labels))
    yield ALL, ALL, list(everything)
    sure = [i for i in everything if not labels[i].unsure]
    if 0 < len(sure) < len(labels):
        yield SURE, SURE, sure
    judged = [verdicts[label.later] for label in labels]
    keys: dict[str, list[str]] = {
        SOURCE: [sites.get(label.later, "") for label in labels],
        LANGUAGE: [label.lang or "" for label in labels],
        STAGE: [f"{verdict.kind}: {verdict.stage}" for verdict in judged],
    }
    for by, names in keys.items():
        for name, count in Counter(name for name in names if name).most_common(_GROUPS):
            if count >= ENOUGH:
                yield by, name, [i for i in everything if names[i] == name]


def novelty_of(verdict: Verdict) -> float | None:
    """Return the novelty that decided about the item; None if something else decided."""
    return None if verdict.stage in NOT_ASKED or not verdict.evidence else verdict.evidence.novelty
