"""Compare verdicts with labels on the second question, "would a reader miss something?", and recommend a threshold.

- **missed**: the share of the items held back that have something new or are another article.
- **repeated**: the share of the same-article items with nothing new (`no`, `little`) that are let through.

A pair without `new` counts in neither rate, nor does a pair of different articles with nothing new (a page without an
article of its own).

In: labels, verdicts, the items that a simpler rule holds back, and the site of each item. Out: `NoveltyReport`: the two
rates of each rule, and the trade-off curve as `decision.novelty` varies; and `Advice`: a value of it for this feed.

Intervals: pairs of one site are correlated (boilerplate, agencies), so a bootstrap over pairs would be too narrow. The
cluster bootstrap (`intervals`) resamples whole sites of the later item; within one site it resamples earlier items.

Advice.
Novelty is a probability that was fitted on many feeds. On one feed it may be too high or too low throughout, because
its texts are cleaner, or its readers stricter. Logistic calibration with a fixed slope (Platt 1999) finds by how much:
the log-odds are shifted by what makes the labels most likely, with a normal prior around no shift. So few labels move
the threshold little. An item is then let through from the same probability of something new on as by default.

The shift is cross-validated over sites. Unless it predicts the labels of sites that it has not seen better than no
shift does, the default stays.

Simulated with 60 labels of one corpus and weights that had not seen it, 150 times, and measured on its other labels:
missed / repeated change from .031 / .143 to .036 / .056 on Nepali news, from 0 / .076 to 0 / .049 on Chinese and from
.097 / .149 to .089 / .180 on German. Misses times 1.5 plus repeats, which is what the default weighs, fall by 13 % on
average of seven corpora; with 40 labels by 10 %, with 100 by 18 %. They fall by 1 % more if 60 labels may also change
each weight, shrunk towards the default: too little for weights that no other feed has tested.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.rule import logit, probability
from stream_dedup.dedup.verdict import Stage, Verdict
from stream_dedup.evaluate.intervals import DRAWS, Interval, bootstrap, resample
from stream_dedup.evaluate.labels import NEW, Label, is_held
from stream_dedup.phrases import counted
from stream_dedup.settings import DecisionSettings
from stream_dedup.settings.judging import NOVELTY_NAMES, with_name

DECISION = "decision"
_STEP = 0.025
_NONE = float("nan")
# These stages decide without asking for novelty.
NOT_ASKED = (Stage.ID, Stage.EXACT, Stage.POLICY)

LEAST_PAIRS, LEAST_OF_A_KIND = 40, 8
"""With fewer labels there is no recommendation. With 40, misses and repeats still fall by 10 % on average."""
# Standard deviation of the shift of seven corpora, each from weights that had not seen it: -1.03 to +.32.
_SPREAD = 0.6
_FOLDS = 10
# Evidence has four digits, so log-odds end here.
_LEAST_SHARE = 5e-5

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rates:
    """Missed and repeated over `rows` labelled pairs, `held` of them held back, with 95 % intervals. NaN: undefined."""

    rows: int
    held: int
    missed: float
    repeated: float
    missed_interval: Interval = (_NONE, _NONE)
    repeated_interval: Interval = (_NONE, _NONE)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The rates of the decision if the setting were `threshold`."""

    threshold: float
    missed: float
    repeated: float


@dataclass(frozen=True, slots=True)
class NoveltyReport:
    """All results of the second question.

    rates: by rule, the decision first. curve: the trade-off, empty if no labelled item has a novelty; `carrying` items
    do. It comes from one run, so the remembered originals stay the same. present: the current setting. missed,
    repeated: the errors of the decision.
    """

    rates: dict[str, Rates]
    present: float
    carrying: int
    curve: list[CurvePoint]
    missed: list[Label]
    repeated: list[Label]

    def shown(self) -> list[CurvePoint]:
        """Return the points for a table: every tenth, and the current setting."""
        return [point for point in self.curve if point.threshold in (self.present, round(point.threshold, 1))]


@dataclass(frozen=True, slots=True)
class Advice:
    """What labels recommend. pairs: those that have a novelty, with_new of them with something new.

    novelty: the recommended value; None if the labels are too few. reason: why there is none, or why it is the default.
    rates: missed and repeated by value of `decision.novelty`: the named, the present and the recommended one.
    """

    pairs: int
    with_new: int
    novelty: float | None
    reason: str
    rates: dict[float, Rates]

    def remark(self) -> str:
        """Return the recommendation as a sentence; plain text."""
        based = f"from {counted(self.pairs, 'labelled pair')}, {self.with_new} with something new"
        if self.novelty is None:
            return f"No value of decision.novelty is recommended {based}: that takes {self.reason}."
        why = f": {self.reason}" if self.reason else ""
        return f"Recommended {based}: decision.novelty = {with_name(self.novelty)}{why}."


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


def clusters_of(labels: Sequence[Label], sites: Mapping[str, str]) -> list[str]:
    """The clusters of correlated pairs: the sites of the later items, by id; on a single site, the earlier items."""
    found = [sites.get(label.later) or f"id {label.later}" for label in labels]  # an unknown site stands alone
    return found if len(set(found)) > 1 else [label.earlier for label in labels]


def novelty_report(
    labels: Iterable[Label],
    verdicts: Mapping[str, Verdict],
    others: Mapping[str, Mapping[str, str]],
    sites: Mapping[str, str],
    present: float,
) -> tuple[NoveltyReport, Advice] | None:
    """Make the report and the advice; None if no label has `new`.

    verdicts: of each labelled item, by id. others: rule name -> ids that it holds back -> ids of their originals.
    sites: by id. present: the current threshold. A verdict that names another original than the label says nothing
    about the novelty of the pair, so the advice does not count it.
    """
    chosen = [label for label in labels if counts(label)]
    if not chosen:
        return None
    judged = [verdicts[label.later] for label in chosen]
    held = [is_held(verdict) for verdict in judged]
    novelty = [
        None if verdict.stage in NOT_ASKED or not verdict.evidence else verdict.evidence.novelty for verdict in judged
    ]
    site_of = clusters_of(chosen, sites)
    by_rule = {DECISION: rates(chosen, held, site_of)}
    for rule, original_of in others.items():
        by_rule[rule] = rates(chosen, [label.later in original_of for label in chosen], site_of)
    report = NoveltyReport(
        by_rule,
        present,
        sum(value is not None for value in novelty),
        novelty_curve(chosen, held, novelty, present),
        [label for label, is_held in zip(chosen, held, strict=True) if is_held and label.new == NEW],
        [label for label, is_held in zip(chosen, held, strict=True) if not is_held and label.new != NEW],
    )
    of_pair = [
        value if verdict.original and verdict.original.id == label.earlier else None
        for label, verdict, value in zip(chosen, judged, novelty, strict=True)
    ]
    return report, advise(chosen, of_pair, held, site_of, present)


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


def advise(
    labels: Sequence[Label],
    novelty: Sequence[float | None],
    held: Sequence[bool],
    sites: Sequence[str],
    present: float,
) -> Advice:
    """Make the advice from pairs that count (`novelty.counts`).

    novelty: None where something else decided; such a pair keeps `held` at every value. sites: of the later items;
    pairs with the same one are correlated. present: the setting.
    """
    known = [k for k, value in enumerate(novelty) if value is not None]
    is_new = np.array([labels[k].new == NEW for k in known], np.bool_)
    logits = np.array([logit(min(max(novelty[k] or 0.0, _LEAST_SHARE), 1 - _LEAST_SHARE)) for k in known])
    few = _too_few(len(known), int(is_new.sum()))
    default = DecisionSettings().threshold
    value, reason = None, few
    if not few:
        _, number = np.unique(np.array([sites[k] for k in known]), return_inverse=True)
        others = _shifts_by_others(logits, is_new, number % _FOLDS)
        pays = _log_loss(logits + others, is_new) < _log_loss(logits, is_new)
        value = round(float(probability(np.array(logit(default) - _shift(logits, is_new)))), 2) if pays else default
        reason = "" if pays else "no other value predicts the labels of other sites better than the default"
        if value > present and all(held[k] for k in known):
            value, reason = present, "only items held back are labelled, so a higher value cannot be judged"
    found = {}
    for threshold in sorted({*NOVELTY_NAMES.values(), present, *([] if value is None else [value])}):
        at = [was if one is None else one < threshold for one, was in zip(novelty, held, strict=True)]
        found[threshold] = rates(labels, at, sites)
    return Advice(len(known), int(is_new.sum()), value, reason, found)


def _too_few(pairs: int, with_new: int) -> str:
    """Say which labels a recommendation lacks; empty if none.

    >>> _too_few(30, 3)
    '10 pairs more, 5 pairs more with something new'
    """
    missing = {"more": LEAST_PAIRS - pairs, "more with something new": LEAST_OF_A_KIND - with_new}
    missing["more with nothing new"] = LEAST_OF_A_KIND - (pairs - with_new)
    return ", ".join(f"{counted(count, 'pair')} {what}" for what, count in missing.items() if count > 0)


def _shift(logits: Floats, is_new: NDArray[np.bool_]) -> float:
    """The shift that maximises the posterior: by bisection, as its slope only falls."""
    low, high = -float(len(logits)), float(len(logits))
    while high - low > 1e-6:
        middle = (low + high) / 2
        if float((is_new - probability(logits + middle)).sum()) > middle / _SPREAD**2:
            low = middle
        else:
            high = middle
    return low


def _shifts_by_others(logits: Floats, is_new: NDArray[np.bool_], folds: NDArray[np.integer]) -> Floats:
    """For each pair, the shift by the pairs of the other folds."""
    shifts = np.zeros(len(logits))
    for fold in np.unique(folds):
        inside = folds == fold
        shifts[inside] = _shift(logits[~inside], is_new[~inside])
    return shifts


def _log_loss(logits: Floats, is_new: NDArray[np.bool_]) -> float:
    return float(np.logaddexp(0, np.where(is_new, -logits, logits)).mean())
