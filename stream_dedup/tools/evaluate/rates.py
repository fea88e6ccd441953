"""Compare verdicts with labels: how often "same article?" and "anything new?" are answered rightly, with 95 %
intervals; and the novelty threshold that the labels suggest.

The first question, "The same article?", has a weighted recall and precision of "held back or named an update", whatever
original the verdict names (`Agreement`). The second, "Would a reader miss something?", has two rates (`NoveltyReport`):

- **missed**: the share of the items held back that have something new or are another article.
- **repeated**: the share of the same-article items with nothing new (`no`, `little`) that are let through.

A pair without `new` counts in neither, nor does a pair of different articles with nothing new (a page without an
article of its own). The trade-off curve has both rates as `decision.novelty` varies. `Advice` names a value for this
feed.

**Intervals of independent trials**: Wilson's score interval, of a share and the number of trials or their weights. If
all labels agree, every resample of a bootstrap agrees too, and two labels would seem to prove a precision of 1.000 to
1.000. Wilson's interval has the right coverage on average for few trials and for shares near 0 and 1 (Wilson 1927;
Brown, Cai and DasGupta 2001, section 4).

**Intervals of clusters**: pairs of one site are correlated (boilerplate, agencies), so a bootstrap over pairs would be
too narrow. The cluster bootstrap resamples whole clusters (Davison and Hinkley 1997, section 3.8): sites of the later
item; within one site, earlier items. If all clusters agree, a bootstrap has no spread; then the interval is the exact
binomial bound for the effective number of clusters (Kish 1965). No interval is narrower than Wilson's for independent
trials, because a few clusters may agree by chance.

**Advice.** Novelty is a probability that was fitted on many feeds. On one feed it may be too high or too low
throughout, because its texts are cleaner, or its readers stricter. Logistic calibration with a fixed slope (Platt 1999)
finds by how much: it shifts the log-odds so that the labels become most likely, with a normal prior around no shift. So
few labels move the threshold little. The recommended threshold lets an item through from the same probability of
something new as the default does on other feeds.

The shift is cross-validated over sites. It must predict the labels of unseen sites better than no shift does; otherwise
the default stays. The advice is the name of `decision.novelty` that is nearest to the shifted threshold, because a name
comes with a promise and a number between two names does not.
"""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.rule import logit, probability
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.phrases import counted
from stream_dedup.settings import DecisionSettings
from stream_dedup.settings.judging import NOVELTY_NAMES, NOVELTY_PROMISES
from stream_dedup.tools.evaluate.labels import NEW, Label, require_known
from stream_dedup.tools.wording import NOT_ASKED

Interval = tuple[float, float]
DECISION = "decision"
DRAWS = 2000
"""Resamples of a bootstrap: the bounds then vary by 2 % of the width from seed to seed."""
_STEP = 0.025
_NONE = float("nan")
# The normal distribution's quantile for 95 %.
_Z = 1.959963984540054
_TAIL = 0.025

LEAST_PAIRS, LEAST_OF_A_KIND = 40, 8
"""With fewer labels there is no recommendation. With 40, misses and repeats still fall by 10 % on average."""
# Standard deviation of the shift of seven corpora, each from weights that had not seen it: -1.03 to +.32.
_SPREAD = 0.6
_FOLDS = 10
# Evidence has four digits, so log-odds end here.
_LEAST_SHARE = 5e-5

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def name_of(novelty: float) -> str:
    """Return the name of a value of `decision.novelty`; "" without one."""
    return next((name for name, number in NOVELTY_NAMES.items() if number == novelty), "")


def with_name(novelty: float) -> str:
    """Return a value of `decision.novelty`, with its name if it has one.

    >>> with_name(0.4), with_name(0.45)
    ('0.4 balanced', '0.45')
    """
    return f"{novelty:g} {name_of(novelty)}".rstrip()


def is_held(verdict: Verdict) -> bool:
    """Return whether the item was held back as a repetition; bad items were not."""
    return not verdict.forward and verdict.kind is not Kind.BAD


class Judged(NamedTuple):
    """A labelled pair with the decision on its later item."""

    label: Label
    held: bool
    found: bool  # decided as "the same article": held back or an update
    novelty: float | None  # None if something else decided
    original: str  # the id of the item that the decision names
    source: str  # the site of the later item


def judged(labels: Iterable[Label], verdicts: Mapping[str, Verdict], sites: Mapping[str, str]) -> list[Judged]:
    """Combine labels with verdicts and sites, by id. Raises InputError if a label names an item that has no verdict."""
    labels = list(labels)
    require_known(labels, verdicts)
    found = []
    for label in labels:
        verdict = verdicts[label.later]
        held = is_held(verdict)
        novelty = verdict.evidence.novelty if verdict.evidence and verdict.stage not in NOT_ASKED else None
        compared = verdict.compared.id if verdict.compared else ""
        site = sites.get(label.later, "")
        found.append(Judged(label, held, held or verdict.kind is Kind.UPDATE, novelty, compared, site))
    return found


@dataclass(frozen=True, slots=True)
class Agreement:
    """Weighted recall, precision and F1 of "held back or named an update"; NaN: undefined.

    The 95 % intervals are Wilson's, for the effective sample size: two labels that agree do not prove a rate of 1.
    """

    pairs: int
    recall: float
    precision: float
    f1: float
    recall_interval: Interval
    precision_interval: Interval
    not_found: list[Label]  # pairs of one article that were not found
    another_article: list[Label]  # pairs of different articles that were found


def agreement(pairs: Sequence[Judged]) -> Agreement:
    """Compute the agreement of the decisions with the labels.

    >>> agreement([Judged(Label("a", "b", "copy"), True, True, None, "a", "")]).recall
    1.0
    """
    same, found = np.array([pair.label.same for pair in pairs]), np.array([pair.found for pair in pairs])
    weight = np.array([pair.label.weight for pair in pairs])
    hit, all_same, all_found = (float(weight[chosen].sum()) for chosen in (same & found, same, found))
    recall, precision = (hit / whole if whole else _NONE for whole in (all_same, all_found))
    f1 = 2 * hit / (all_same + all_found) if all_same + all_found else _NONE
    of_recall, of_precision = (
        wilson(recall, effective_size(weight[same])),
        wilson(precision, effective_size(weight[found])),
    )
    not_found = [pair.label for pair in pairs if pair.label.same and not pair.found]
    another_article = [pair.label for pair in pairs if pair.found and not pair.label.same]
    return Agreement(len(pairs), recall, precision, f1, of_recall, of_precision, not_found, another_article)


def wilson(share: float, trials: float) -> Interval:
    """Return Wilson's 95 % score interval; NaN without trials.

    >>> [round(bound, 3) for bound in wilson(1.0, 2)], [round(bound, 4) for bound in wilson(81 / 263, 263)]
    ([0.342, 1.0], [0.2553, 0.3662])
    """
    if not trials > 0 or math.isnan(share):
        return _NONE, _NONE
    spread = _Z**2 / trials
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    # Shares of 0 and 1 have exact ends; the formula would leave rounding errors of 1e-17.
    return 0.0 if share == 0 else max(0.0, middle - half), 1.0 if share == 1 else min(1.0, middle + half)


def effective_size(weights: NDArray[np.float64]) -> float:
    """Return the effective sample size of weighted trials (Kish 1965); 0 without trials.

    >>> effective_size(np.array([2.0, 2.0, 2.0])), effective_size(np.array([8.0, 1.0, 1.0]))
    (3.0, 1.5151515151515151)
    """
    total = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / total if total else 0.0


def _bootstrap(
    share: float, drawn: NDArray[np.float64], of_clusters: NDArray[np.float64], of_trials: NDArray[np.float64]
) -> Interval:
    """Return the 95 % interval of the cluster bootstrap; NaN with fewer than two clusters.

    drawn: the share in each resample; of_clusters, of_trials: the weights of each in the denominator of the share.
    """
    known = of_clusters[of_clusters > 0]
    if len(known) < 2:
        return _NONE, _NONE
    if share in (0.0, 1.0):
        far = 1.0 - _TAIL ** (1.0 / effective_size(known))
        return (0.0, far) if share == 0.0 else (1.0 - far, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a resample without a value
        low, high = np.nanpercentile(drawn, [100 * _TAIL, 100 * (1 - _TAIL)])
    least = wilson(share, effective_size(of_trials))
    return min(float(low), least[0]), max(float(high), least[1])


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of missed and repeated, with 95 % intervals; NaN: undefined."""

    rows: int  # labelled pairs
    held: int  # pairs of which the later item is held back
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
    """All results of the second question."""

    rates: dict[str, Rates]  # by rule, the decision first
    present: float  # the current setting
    carrying: int  # the number of items that have a novelty
    curve: list[CurvePoint]  # the trade-off of one run, in which the remembered originals stay the same; may be empty
    missed: list[Label]  # errors of the decision
    repeated: list[Label]  # errors of the decision

    def shown(self) -> list[CurvePoint]:
        """Return the points for a table: every tenth, and the current setting."""
        return [point for point in self.curve if point.threshold in (self.present, round(point.threshold, 1))]


@dataclass(frozen=True, slots=True)
class Advice:
    """What the labels recommend."""

    pairs: int  # those with a novelty
    with_new: int  # those of them that have something new
    novelty: float | None  # the recommended value, one with a name or the present one; None if there are too few labels
    reason: str  # why there is no value, or why it is the default
    rates: dict[float, Rates]  # missed and repeated at the named values of `decision.novelty`, and at the present one

    def remark(self) -> str:
        """Return the recommendation as a sentence; plain text."""
        based = f"from {counted(self.pairs, 'labelled pair')}, {self.with_new} with something new"
        if self.novelty is None:
            return f"No value of decision.novelty is recommended {based}: that takes {self.reason}."
        cause = f": {self.reason}" if self.reason else ""
        name = name_of(self.novelty)
        promise = f" It promises: {NOVELTY_PROMISES[name]}" if name else ""
        return f"Recommended {based}: decision.novelty = {with_name(self.novelty)}{cause}.{promise}"


def counts(label: Label) -> bool:
    """Return whether a pair counts for the second question.

    >>> counts(Label("a", "b", "cut", new="yes")), counts(Label("a", "b", "furniture", new="no"))
    (True, False)
    """
    return label.new is not None and (label.same or label.new == NEW)


def rates(labels: Sequence[Label], held: Sequence[bool], clusters: Sequence[str] = ()) -> Rates:
    """Compute the rates of pairs that count.

    held: whether the later item is held back. clusters: pairs with one value are correlated; empty: no intervals.

    >>> words = ("copy", "no"), ("cut", "yes"), ("copy", "no")
    >>> pairs = [Label("a", "b", label, new=new) for label, new in words]
    >>> found = rates(pairs, [True, True, False])
    >>> found.missed, found.repeated
    (0.5, 0.5)
    """
    lost, is_held = np.array([label.new == NEW for label in labels], np.bool_), np.array(held, np.bool_)
    weight = np.array([label.weight for label in labels], np.float64)
    # Each pair's share in numerator and denominator of missed, then of repeated. A pair that counts has something new,
    # so that holding it back is a loss, or it is the same article with nothing new.
    parts = np.stack([is_held & lost, is_held, ~is_held & ~lost, ~lost], axis=1) * weight[:, None]
    missed, repeated = _quotients(parts.sum(axis=0)).tolist()
    of_missed = of_repeated = (_NONE, _NONE)
    if clusters:
        _, number = np.unique(np.array(clusters), return_inverse=True)
        sums = np.zeros((int(number.max()) + 1, 4))
        np.add.at(sums, number, parts)
        # A draw takes as many clusters as there are, each a multinomial number of times. One seed gives each rule the
        # same draws.
        times = np.random.default_rng(1).multinomial(len(sums), np.full(len(sums), 1 / len(sums)), DRAWS)
        drawn = _quotients(times @ sums)
        of_missed = _bootstrap(missed, drawn[:, 0], sums[:, 1], parts[:, 1])
        of_repeated = _bootstrap(repeated, drawn[:, 1], sums[:, 3], parts[:, 3])
    return Rates(len(labels), int(is_held.sum()), missed, repeated, of_missed, of_repeated)


def _quotients(sums: Floats) -> Floats:
    """Divide sums (..., 4) into missed and repeated (..., 2)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums[..., [0, 2]] / sums[..., [1, 3]]


def clusters_of(pairs: Sequence[Judged]) -> list[str]:
    """Return the cluster of each pair: the site of its later item; if all are of one site, the earlier item."""
    found = [pair.source or f"id {pair.label.later}" for pair in pairs]  # an unknown site stands alone
    return found if len(set(found)) > 1 else [pair.label.earlier for pair in pairs]


def held_at(threshold: float, pairs: Sequence[Judged]) -> list[bool]:
    """Return whether each item is held back with the setting `threshold`; without a novelty its verdict stands."""
    return [pair.held if pair.novelty is None else pair.novelty < threshold for pair in pairs]


def novelty_report(
    pairs: Iterable[Judged], others: Mapping[str, Mapping[str, str]], present: float
) -> tuple[NoveltyReport, Advice] | None:
    """Make the report and the advice; None if no label has `new`.

    others: rule name -> ids that it holds back -> ids of their originals. present: the current threshold.

    >>> answers = [("copy", "no", 0.2), ("cut", "yes", 0.6)]
    >>> pairs = [Judged(Label("a", "b", how, new=new), True, True, value, "a", "") for how, new, value in answers]
    >>> report, _ = novelty_report(pairs, {}, 0.5)
    >>> [(point.threshold, point.missed, point.repeated) for point in report.curve if point.threshold in (0.5, 0.75)]
    [(0.5, 0.0, 0.0), (0.75, 0.5, 0.0)]
    """
    chosen = [pair for pair in pairs if counts(pair.label)]
    if not chosen:
        return None
    labels, clusters = [pair.label for pair in chosen], clusters_of(chosen)
    by_rule = {DECISION: rates(labels, [pair.held for pair in chosen], clusters)}
    for rule, original_of in others.items():
        by_rule[rule] = rates(labels, [label.later in original_of for label in labels], clusters)
    carrying = sum(pair.novelty is not None for pair in chosen)
    steps = {round(float(step), 4) for step in np.arange(0.0, 1.0 + _STEP / 2, _STEP)} | {present}
    by_threshold = (
        {threshold: rates(labels, held_at(threshold, chosen)) for threshold in sorted(steps)} if carrying else {}
    )
    curve = [CurvePoint(threshold, measured.missed, measured.repeated) for threshold, measured in by_threshold.items()]
    missed = [pair.label for pair in chosen if pair.held and pair.label.new == NEW]
    repeated = [pair.label for pair in chosen if not pair.held and pair.label.new != NEW]
    return NoveltyReport(by_rule, present, carrying, curve, missed, repeated), advise(chosen, present)


def advise(pairs: Sequence[Judged], present: float) -> Advice:
    """Make the advice from pairs that count. present: the setting.

    If a verdict names another original than the label does, its novelty is not that of the pair.
    """
    pairs = [pair if pair.original == pair.label.earlier else pair._replace(novelty=None) for pair in pairs]
    clusters, labels = clusters_of(pairs), [pair.label for pair in pairs]
    known = [k for k, pair in enumerate(pairs) if pair.novelty is not None]
    is_new = np.array([labels[k].new == NEW for k in known], np.bool_)
    logits = np.array([logit(min(max(pairs[k].novelty or 0.0, _LEAST_SHARE), 1 - _LEAST_SHARE)) for k in known])
    lack = _too_few(len(known), int(is_new.sum()))
    default = DecisionSettings().threshold
    value, reason, highest = None, lack, 1.0
    if not lack:
        _, number = np.unique(np.array([clusters[k] for k in known]), return_inverse=True)
        shifts = np.zeros(len(known))  # for each pair, the shift by the pairs of the other folds
        for in_fold in (number % _FOLDS == fold for fold in range(_FOLDS)):
            shifts[in_fold] = _shift(logits[~in_fold], is_new[~in_fold])
        pays = _log_loss(logits + shifts, is_new) < _log_loss(logits, is_new)
        value = _nearest_name(logit(default) - _shift(logits, is_new)) if pays else default
        reason = "" if pays else "no other value predicts the labels of other sites better than the default"
        highest = present if all(pairs[k].held for k in known) else 1.0
        if value > highest:
            value, reason = present, "only items held back are labelled, so a higher value cannot be judged"
    thresholds = sorted({*NOVELTY_NAMES.values(), present})
    found = {threshold: rates(labels, held_at(threshold, pairs), clusters) for threshold in thresholds}
    for (
        threshold,
        measured,
    ) in found.items():  # by chance, where labels are few; a table that contradicts its mark misleads
        if value is not None and threshold <= highest and _beats(measured, found[value]):
            reason = f"on these labels {with_name(value)} is higher in both rates"
            value = threshold
    return Advice(len(known), int(is_new.sum()), value, reason, found)


def _beats(first: Rates, second: Rates) -> bool:
    """Return whether one is lower in both rates; unknown rates beat nothing."""
    return first.missed < second.missed and first.repeated < second.repeated


def _nearest_name(log_odds: float) -> float:
    """Return the named value of `decision.novelty` that is nearest in log-odds.

    >>> [_nearest_name(logit(value)) for value in (0.1, 0.31, 0.34, 0.44, 0.46, 0.9)]
    [0.25, 0.25, 0.4, 0.4, 0.5, 0.5]
    """
    return min(NOVELTY_NAMES.values(), key=lambda value: abs(logit(value) - log_odds))


def _too_few(pairs: int, with_new: int) -> str:
    """Say which labels a recommendation lacks; empty if none.

    >>> _too_few(30, 3)
    '10 pairs more, 5 pairs more with something new'
    """
    missing = {"more": LEAST_PAIRS - pairs, "more with something new": LEAST_OF_A_KIND - with_new}
    missing["more with nothing new"] = LEAST_OF_A_KIND - (pairs - with_new)
    return ", ".join(f"{counted(count, 'pair')} {kind}" for kind, count in missing.items() if count > 0)


def _shift(logits: Floats, is_new: NDArray[np.bool_]) -> float:
    """Return the shift that maximises the posterior, by bisection, because the slope only falls."""
    low, high = -float(len(logits)), float(len(logits))
    while high - low > 1e-6:
        middle = (low + high) / 2
        if float((is_new - probability(logits + middle)).sum()) > middle / _SPREAD**2:
            low = middle
        else:
            high = middle
    return low


def _log_loss(logits: Floats, is_new: NDArray[np.bool_]) -> float:
    return float(np.logaddexp(0, np.where(is_new, -logits, logits)).mean())
