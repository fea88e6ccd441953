"""Would a reader miss something? The readers' second question: labels with `new` + what is held back -> two rates.

- **missed**: share of what is held back that has something new, or is not the same article.
- **repeated**: share of the same-article items with nothing new (`no`, `little`) that are let through.

Both are weighted. A pair that is not the same article and has nothing new either (a page without an article of its own)
counts for neither, nor does one without `new`.

In: labels, verdicts, what simpler rules hold back, and each item's site. Out: `NoveltyReport`: the rates of each rule
in total and by group, and the curve between the two rates as `decision.novelty` moves.

Intervals: pairs of one site depend on each other (its furniture, its agencies), so a bootstrap over pairs would be too
sure. Whole sites of the later item are drawn instead (the cluster bootstrap: Davison and Hinkley 1997, section 3.8);
within one site, whole earlier items. Where all sites agree a bootstrap knows no spread: then it is the exact binomial
bound, with as many trials as the sites' weights are worth (Kish 1965). And no interval is narrower than Wilson's for
pairs that do not depend on each other: a few sites that are alike by chance prove nothing.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.evaluate.intervals import Interval, wilson, worth
from stream_dedup.evaluate.labels import NEW, Label, is_held

SETTING = "decision.novelty"
"""The setting that moves along the curve."""
DECISION = "decision"
ALL, SURE, SOURCE, LANGUAGE, STAGE = "all", "sure", "source", "language", "stage"

# With fewer pairs an interval is as wide as the scale. The rest are in the total.
ENOUGH = 10
_GROUPS = 10
_DRAWS = 2000
_TAIL = 0.025
_STEP = 0.025
_NONE = float("nan")
# What these stages settle was never asked whether it is new.
_NOT_ASKED = (Stage.ID, Stage.EXACT, Stage.POLICY)

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rates:
    """Missed and repeated of `rows` labelled pairs, of which `held` are held back; 95 % intervals; NaN: undefined."""

    rows: int
    held: int
    missed: float
    repeated: float
    missed_interval: tuple[float, float] = (_NONE, _NONE)
    repeated_interval: tuple[float, float] = (_NONE, _NONE)


@dataclass(frozen=True, slots=True)
class GroupRates:
    """The rates of one rule in one group: `by` says what groups (ALL, SURE, SOURCE, LANGUAGE, STAGE), `name` which.

    other_original: items that it holds back in the name of another original than the labelled pair's. The reader was
    not shown that one, and the item counts as the pair was labelled.
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
    """The decision's rates were the setting at `threshold`."""

    threshold: float
    missed: float
    repeated: float


@dataclass(frozen=True, slots=True)
class NoveltyReport:
    """All of the second question.

    groups: by group, and in each the decision first; stages are those of the decision. curve: empty if no labelled
    item carries novelty; `carrying` do. It is read off one run: who is remembered stays as it is. present: where the
    settings stand. missed, repeated: the decision's errors.
    """

    groups: list[GroupRates]
    setting: str
    present: float
    carrying: int
    curve: list[CurvePoint]
    missed: list[Label]
    repeated: list[Label]

    def shown(self) -> list[CurvePoint]:
        """As much of the curve as a table takes: every tenth, and where the settings stand."""
        return [point for point in self.curve if point.threshold in (self.present, round(point.threshold, 1))]

    def remarks(self) -> list[str]:
        """What a person has to know to read the figures; plain text."""
        said = [
            "missed: share of what is held back that has something new or is another article; repeated: share of the "
            "same articles with nothing new that are let through. Weighted by how many items a pair stands for. "
            "Intervals come from a bootstrap over the sites of the later items (within one site over the earlier "
            "items), because pairs of one site depend on each other; none is narrower than Wilson's for pairs that do "
            "not."
        ]
        others = [f"{one.other_original} by {one.rule}" for one in self.groups if one.by == ALL and one.other_original]
        if others:
            said.append(
                "Held back in the name of another original than the reader was shown, and counted as the pair was "
                f"labelled, though that original may have had what is new: {', '.join(others)}."
            )
        if self.curve:
            said.append(
                f"The setting {self.setting} moves along the curve; it is {self.present:g}. {self.carrying} labelled "
                "items carry novelty. The curve is read off this run: which originals are remembered stays as it is."
            )
        else:
            said.append(
                f"No labelled item carries novelty (evidence.novelty), so there is no curve along {self.setting}."
            )
        return said


def counts(label: Label) -> bool:
    """Whether the second question can be asked of the pair.

    >>> counts(Label("a", "b", "cut", new="yes")), counts(Label("a", "b", "furniture", new="no"))
    (True, False)
    """
    return label.new is not None and (label.same or label.new == NEW)


def rates(labels: Sequence[Label], held: Sequence[bool], clusters: Sequence[str], draws: int = _DRAWS) -> Rates:
    """Of pairs that count; held: is the later item held back; clusters: pairs with the same one depend on each other.

    `draws` of the bootstrap; 0: no intervals.

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
        # Whoever draws k of k draws each so many times; one seed: rules are compared on the same draws.
        times = np.random.default_rng(1).multinomial(len(sums), np.full(len(sums), 1 / len(sums)), draws)
        drawn = _quotients(times @ sums)
        of_missed = _interval(missed, drawn[:, 0], sums[:, 1], parts[:, 1])
        of_repeated = _interval(repeated, drawn[:, 1], sums[:, 3], parts[:, 3])
    return Rates(len(labels), int(is_held.sum()), missed, repeated, of_missed, of_repeated)


def novelty_report(
    labels: Iterable[Label],
    verdicts: Mapping[str, Verdict],
    others: Mapping[str, Mapping[str, str]],
    sites: Mapping[str, str],
    present: float,
) -> NoveltyReport | None:
    """The report; None if no label says what is new.

    verdicts: by id, of each labelled item; others: what other rules hold back, by the rule's name: ids and their
    originals'; sites: by id; present: the threshold as it is set.
    """
    counted = [label for label in labels if counts(label)]
    if not counted:
        return None
    decided = {one.id: one.original.id if one.original else "" for one in verdicts.values() if is_held(one)}
    by_rule: dict[str, Mapping[str, str]] = {DECISION: decided, **others}
    held = [label.later in decided for label in counted]
    # A site that is not known is like no other.
    site_of = [sites.get(label.later) or f"id {label.later}" for label in counted]
    groups = []
    for by, name, places in _groups(counted, verdicts, sites):
        chosen = [counted[i] for i in places]
        clusters = [counted[i].earlier if by == SOURCE else site_of[i] for i in places]
        for rule, original_of in by_rule.items():
            found = rates(chosen, [label.later in original_of for label in chosen], clusters)
            other = sum(original_of.get(label.later, label.earlier) != label.earlier for label in chosen)
            groups.append(GroupRates(by, name, rule, found, other))
    novelty = [_novelty(verdicts[label.later]) for label in counted]
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
    """The rates at thresholds from 0 to 1 and at `present`. An item without novelty stays as it is held or not.

    >>> pairs = [Label("a", "b", "copy", new="no"), Label("a", "c", "cut", new="yes")]
    >>> points = novelty_curve(pairs, [True, True], [0.2, 0.6], 0.5)
    >>> [(point.threshold, point.missed, point.repeated) for point in points if point.threshold in (0.5, 0.75)]
    [(0.5, 0.0, 0.0), (0.75, 0.5, 0.0)]
    """
    if all(value is None for value in novelty):
        return []
    lost, as_it_is, weight = _arrays(labels, held)
    values = np.array([_NONE if value is None else value for value in novelty])
    steps = {round(float(step), 4) for step in np.arange(0.0, 1.0 + _STEP / 2, _STEP)} | {present}
    points = []
    for threshold in sorted(steps):
        is_held = np.where(np.isnan(values), as_it_is, values < threshold)
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
    """What each pair adds to the two rates, (pairs, 4): numerator, denominator of missed, then of repeated.

    A pair that counts has something new, then holding it back is a loss, or is the same article and has nothing new.
    """
    return np.stack([held & lost, held, ~held & ~lost, ~lost], axis=1) * weight[:, None]


def _quotients(sums: Floats) -> Floats:
    """(..., 4) -> (..., 2): missed and repeated."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums[..., [0, 2]] / sums[..., [1, 3]]


def _interval(rate: float, drawn: Floats, of_clusters: Floats, of_pairs: Floats) -> Interval:
    """drawn: the rate in each draw; of_clusters, of_pairs: the weight that each has in its denominator."""
    known = of_clusters[of_clusters > 0]
    if len(known) < 2:
        return _NONE, _NONE
    if rate in (0.0, 1.0):
        far = 1.0 - _TAIL ** (1.0 / worth(known))
        return (0.0, far) if rate == 0.0 else (1.0 - far, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a draw without any value
        low, high = np.nanpercentile(drawn, [100 * _TAIL, 100 * (1 - _TAIL)])
    least = wilson(rate, worth(of_pairs))
    return min(float(low), least[0]), max(float(high), least[1])


def _groups(
    labels: Sequence[Label], verdicts: Mapping[str, Verdict], sites: Mapping[str, str]
) -> Iterable[tuple[str, str, list[int]]]:
    """(by, name, places) of each group: all pairs, the sure ones, then the largest sources, languages and stages."""
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


def _novelty(verdict: Verdict) -> float | None:
    """The novelty by which it was held back or let through; None if something else decided."""
    if verdict.kind not in (Kind.DUPLICATE, Kind.UPDATE) or verdict.stage in _NOT_ASKED or not verdict.evidence:
        return None
    return verdict.evidence.novelty
