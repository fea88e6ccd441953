"""Recommend a value of `decision.novelty` for a feed, from labelled pairs of it.

In: labels with `new`, and the novelty of each pair. Out: `Advice`.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.rule import logit, probability
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.evaluate.labels import NEW, Label, is_held
from stream_dedup.evaluate.novelty import Rates, counts, novelty_of, rates
from stream_dedup.phrases import counted
from stream_dedup.settings import DecisionSettings
from stream_dedup.settings.judging import NOVELTY_NAMES, with_name

LEAST_PAIRS, LEAST_OF_A_KIND = 40, 8
"""With fewer labels there is no recommendation. With 40, misses and repeats still fall by 10 % on average."""
# Standard deviation of the shift of seven corpora, each from weights that had not seen it: -1.03 to +.32.
_SPREAD = 0.6
_FOLDS = 10
# Evidence has four digits, so log-odds end here.
_LEAST_SHARE = 5e-5

Floats = NDArray[np.float64]


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
    if len(set(sites)) == 1:  # then pairs with one earlier item are
        sites = [label.earlier for label in labels]
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


def advise_by_verdicts(
    labels: Sequence[Label], verdicts: Mapping[str, Verdict], sites: Mapping[str, str], present: float
) -> Advice:
    """Make the advice from the verdicts on labelled items and their sites, both by id.

    A verdict that names another original than the label says nothing about the novelty of the pair.
    """
    chosen = [label for label in labels if counts(label)]
    judged = [verdicts[label.later] for label in chosen]
    novelty = [
        novelty_of(verdict) if verdict.original and verdict.original.id == label.earlier else None
        for label, verdict in zip(chosen, judged, strict=True)
    ]
    site_of = [sites.get(label.later) or f"id {label.later}" for label in chosen]
    return advise(chosen, novelty, [is_held(verdict) for verdict in judged], site_of, present)


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
