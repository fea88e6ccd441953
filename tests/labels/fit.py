"""Fit the weights of the decision to labelled pairs, and cross-validate them.

In: a folder with corpora (NAME.jsonl.gz) and label files, and this project's own label files beside this one. Each
corpus is judged as a stream, so that a pair is compared with the boilerplate that was known when its later item came.
Out, on standard output: the coefficients beside those in rule.py, the trade-off between missed and repeated, the rates
at `decision.novelty` by corpus, the pairs decided wrongly, and the contribution of each feature.

Every rate is cross-validated by group: a pair is judged by weights that were fitted without its corpus and language, or
without its site. Pairs of one site share boilerplate and agencies, so weights that have seen the site overfit to it.

The fit is a logistic regression with a ridge on standardised features (Hoerl, Kennard 1970; le Cessie, van Houwelingen
1992). Every pair counts once: its weight is the number of items that it represents, not its information. Labelled pairs
are near each other; what the index proposes is often not. So some of the candidates that are alike in nothing are
added, as other articles. Nobody has to read these.

    python -m tests.labels.fit FOLDER
"""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.filter import batched
from stream_dedup.batch.lines import Line
from stream_dedup.dedup import rule
from stream_dedup.dedup.clocks import fill_missing_times
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.similarity import compare
from stream_dedup.errors import InputError
from stream_dedup.evaluate.labels import NEW, Label, read_labels
from stream_dedup.evaluate.rates import Rates, counts, rates
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import Settings, load_settings
from tests.figures.tables import table
from tests.labels.files import MEASURED, SAME_FILES, TAUGHT, as_read_again, read_corpus

# Variance of a standardised coefficient before any pair is seen. From .1 to 3 the rates stay within .004.
_VARIANCE = 0.3
_STEPS, _CLOSE = 100, 1e-9
# Missed at which the curve is read, and the one at which features are weighed against each other.
_MISSED, _USUAL = (0.02, 0.03, 0.04, 0.06, 0.08), 0.04
# Candidates of each corpus that are alike in nothing, and what each counts in the fit.
_FAR_PAIRS, _FAR_WEIGHT = 120, 0.1
# Log-odds of the same words, which are held back before novelty is asked.
_HELD = -np.inf
FAR = Label("", "", "different", weight=0.0, new=NEW, sample="far")

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Pairs(NamedTuple):
    """Pairs, n of them: the labelled ones, and FAR ones. similar: (n,) SIMILARITY; sites: of the later items, "" where
    unknown.
    """

    labels: list[Label]
    similar: NDArray[np.void]
    sites: list[str]

    @property
    def columns(self) -> Floats:
        """The features of novelty, (n, features)."""
        return rule.columns(self.similar).astype(np.float64)

    @property
    def fixed(self) -> Floats:
        """The contribution of the features that are not fitted, (n,) log-odds."""
        weights = [feature.weight if name in rule.FIXED else 0.0 for name, feature in rule.NOVELTY.items()]
        return self.columns @ np.array(weights)

    @property
    def is_repeat(self) -> Bools:
        """The same words again, which are held back before novelty is asked, (n,)."""
        return rule.judge_pairs(self.similar, _DEFAULT).is_repeat

    @property
    def counts_for(self) -> Floats:
        """What each pair counts in a fit, (n,)."""
        return np.array([_FAR_WEIGHT if label.sample == "far" else 1.0 for label in self.labels])


_DEFAULT = rule.thresholds(load_settings().decision, has_words=True)
# The columns that are fitted.
FITTED = np.array([name not in rule.FIXED for name in rule.NOVELTY])


class Weights(NamedTuple):
    """Of a logistic regression: log-odds = columns @ coefficients + intercept."""

    coefficients: Floats
    intercept: float

    def logits(self, columns: Floats) -> Floats:
        return columns @ self.coefficients + self.intercept


# -- the fit: columns and outcomes -> weights, log-odds --------------------------------------------------------------


def fit(columns: Floats, outcome: Bools, counts_for: Floats | None = None, variance: float = _VARIANCE) -> Weights:
    """Weights by Newton's method. counts_for: what each row counts, (n,); default 1.

    `variance`: of the standardised coefficients; the intercept is free.

    Raises ValueError if all outcomes are the same: no weights are the best ones then.
    """
    if outcome.all() or not outcome.any():
        raise ValueError("a fit needs pairs with something new and pairs without")
    mean, spread = columns.mean(axis=0), columns.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    design = np.column_stack([(columns - mean) / spread, np.ones(len(columns))])
    each = np.ones(len(columns)) if counts_for is None else counts_for
    ridge = np.append(np.full(columns.shape[1], 1 / variance), 0.0)
    weights = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        share = rule.probability(design @ weights)
        slope = design.T @ (each * (share - outcome)) + ridge * weights
        curvature = (design.T * (each * share * (1 - share))) @ design + np.diag(ridge)
        step = np.linalg.solve(curvature, slope)
        weights -= step
        if np.abs(step).max() < _CLOSE:
            break
    else:
        raise ValueError(f"the fit has not settled after {_STEPS} steps")
    coefficients = weights[:-1] / spread
    return Weights(coefficients, float(weights[-1] - coefficients @ mean))


def logits_by_others(
    columns: Floats, outcome: Bools, usable: Bools, groups: Sequence[str], counts_for: Floats | None = None
) -> Floats:
    """Return the log-odds of each row by weights fitted to the usable rows of the other groups, (n,)."""
    _, number = np.unique(np.array(groups), return_inverse=True)
    each = np.ones(len(columns)) if counts_for is None else counts_for
    logits = np.empty(len(columns))
    for group in range(number.max() + 1):
        inside = number == group
        train = usable & ~inside
        logits[inside] = fit(columns[train], outcome[train], each[train]).logits(columns[inside])
    return logits


def log_loss(logits: Floats, outcome: Bools) -> float:
    """Return the mean log loss of the outcomes.

    >>> round(log_loss(np.array([0.0, 0.0]), np.array([True, False])), 3)
    0.693
    """
    return float(np.logaddexp(0, np.where(outcome, -logits, logits)).mean())


# -- labels -> outcomes, rates ----------------------------------------------------------------------------------------


def outcome_of(label: Label) -> bool | None:
    """Whether the later item has something new; None if the label does not say.

    Labels of the first question say it by what they call the pair: a cut may or may not have something new.
    """
    if label.new is not None:
        return label.new == NEW
    return {"copy": False, "cut": None}.get(label.label, True)


def corpora_and_languages(labels: Sequence[Label]) -> list[str]:
    """Return the group of each pair: its corpus, and its language where a corpus has several."""
    return [f"{label.corpus} {label.lang or ''}".strip() for label in labels]


def judged_by_others(pairs: Pairs, groups: Sequence[str], without: int | None = None) -> Floats:
    """Return the cross-validated log-odds of all pairs. `without`: a feature to leave out."""
    chosen = FITTED.copy()
    if without is not None:
        chosen[without] = False
    outcome, _ = outcomes(pairs.labels)
    logits = logits_by_others(pairs.columns[:, chosen], outcome, usable_in(pairs), groups, pairs.counts_for)
    return np.where(pairs.is_repeat, _HELD, logits + pairs.fixed)


def usable_in(pairs: Pairs) -> Bools:
    """Return which pairs teach novelty: neither the same words nor a fixed feature decides, and the label says it."""
    known = outcomes(pairs.labels)[1]
    return known & ~pairs.is_repeat & (pairs.fixed == 0) & ~np.isnan(pairs.similar["words"])


def outcomes(labels: Sequence[Label]) -> tuple[Bools, Bools]:
    """Return which pairs have something new, and for which pairs that is known, (n,) each."""
    found = [outcome_of(label) for label in labels]
    return np.array([one is True for one in found]), np.array([one is not None for one in found])


def measures(label: Label) -> bool:
    """Whether the pair counts in rates."""
    return counts(label) and label.weight > 0


def rates_of(labels: Sequence[Label], logits: Floats, threshold: float) -> Rates:
    """Compute missed and repeated of the pairs that count; novelty below `threshold` is held back."""
    held = logits < rule.logit(threshold)
    chosen = [i for i, label in enumerate(labels) if measures(label)]
    return rates([labels[i] for i in chosen], [bool(held[i]) for i in chosen])


def repeated_at(labels: Sequence[Label], logits: Floats, missed: float) -> float:
    """Return the smallest repeated rate over all thresholds with at most `missed` missed; 1 if there is none.

    >>> pairs = [Label("a", "b", "copy", new="no"), Label("a", "c", "cut", new="yes"), Label("a", "d", "cut", new="no")]
    >>> repeated_at(pairs, np.array([-2.0, -1.0, 0.0]), 0.1), repeated_at(pairs, np.array([-2.0, -1.0, 0.0]), 0.5)
    (0.5, 0.0)
    """
    chosen = np.array([measures(label) for label in labels])
    weight = np.array([label.weight for label in labels])[chosen]
    lost = np.array([label.new == NEW for label in labels])[chosen]
    order = np.argsort(logits[chosen], kind="stable")
    ascending, weight, lost = logits[chosen][order], weight[order], lost[order]
    held, misses, stopped = np.cumsum(weight), np.cumsum(weight * lost), np.cumsum(weight * ~lost)
    ends = np.append(ascending[1:] > ascending[:-1], True)  # a threshold lies between two log-odds, not within a tie
    allowed = ends & (misses <= missed * held)
    return float(1 - stopped[allowed].max() / stopped[-1]) if allowed.any() else 1.0


# -- corpora and label files -> pairs ---------------------------------------------------------------------------------


def read_all_labels(folder: Path) -> list[Label]:
    """Read the labels of all files; those that do not count get no weight."""
    files: list[tuple[Path, dict[str, Any]]] = [
        *((folder / name, {"corpus": corpus}) for name, corpus in SAME_FILES.items()),
        *((folder / name, {}) for name in MEASURED),
        *((path, {"weight": 0.0}) for path in TAUGHT),
    ]
    labels = [msgspec.structs.replace(label, **changes) for path, changes in files for label in read_labels(path)]
    return as_read_again(labels)


def read_pairs(folder: Path) -> Pairs:
    """Judge every corpus that has labels."""
    by_corpus: dict[str, list[Label]] = {}
    for label in read_all_labels(folder):
        by_corpus.setdefault(label.corpus or "", []).append(label)
    parts = []
    for corpus, labels in by_corpus.items():
        print(f"Judging {corpus} ...", file=sys.stderr)
        parts.append(compare_in_stream(read_corpus(folder / f"{corpus}.jsonl.gz"), labels, load_settings()))
    return _joined(parts)


def compare_in_stream(lines: Iterable[bytes], labels: Sequence[Label], settings: Settings) -> Pairs:
    """Judge a corpus, and compare its labelled pairs, and FAR ones, at the moment when the later item arrives.

    Raises InputError if an item of a label does not come, or the earlier one comes after the later one.
    """
    wanted: dict[str, list[Label]] = {}
    for label in labels:
        wanted.setdefault(label.later, []).append(label)
    decode, now = Decoder(settings.item), int(time.time() * 1000)
    window = int(settings.window.length.total_seconds() * 1000)
    signatures: dict[str, NDArray[np.void]] = {}
    parts, far = [], []
    with closing(Deduplicator(settings)) as dedup:
        for batch in batched((Line(line, 0, number) for number, line in enumerate(lines, 1)), settings):
            ready = dedup.prepare([decode(one.value, None, None, one.input, one.number) for one in batch])
            prints = replace(ready.prints, signatures=ready.prints.signatures.copy())
            fill_missing_times(prints.signatures["time"], max(dedup.watermark, 0))
            horizons = np.minimum(prints.signatures["time"], now) - window
            judged = dedup.judge(ready, now)
            met = {one.id: one.nearest.id for one in judged.verdicts if one.nearest}
            found: list[tuple[int, Label, str]] = []
            for j, item in enumerate(ready.subjects):
                signatures[item.id] = prints.signatures[j : j + 1].copy()
                for label in wanted.pop(item.id, ()):
                    if label.earlier not in signatures:
                        raise InputError(f"{label.earlier} does not come before {item.id}; labels and corpus must fit")
                    found.append((j, label, item.source))
                if item.id in met:
                    one = msgspec.structs.replace(FAR, earlier=met[item.id], later=item.id, corpus=labels[0].corpus)
                    found.append((j, one, item.source))
            if found:
                known = np.concatenate([signatures[label.earlier] for _, label, _ in found])
                places, marks = np.array([j for j, _, _ in found]), ready.is_correction
                similar = compare(
                    prints, known, places, np.arange(len(found)), None, (dedup.boilerplate, horizons), marks
                )
                pairs = Pairs([label for _, label, _ in found], similar, [site for _, _, site in found])
                is_far = np.array([label.sample == FAR.sample for label in pairs.labels])
                parts.append(_taken(pairs, np.flatnonzero(~is_far)))
                far.append(_taken(pairs, np.flatnonzero(is_far & _are_unlike(similar))))
            dedup.apply(judged)
    if wanted:
        raise InputError(f"the corpus has no {next(iter(wanted))}; labels and corpus must fit")
    of_corpus = _joined(far)
    chosen = np.random.default_rng(1).permutation(len(of_corpus.labels))[:_FAR_PAIRS]
    return _joined([*parts, _taken(of_corpus, np.sort(chosen))])


def _are_unlike(similar: NDArray[np.void]) -> Bools:
    """Whether each pair is alike in no view and most of the words are new."""
    shares = [np.nan_to_num(similar[name]) for name in ("article_coverage", "headline", "containment")]
    unlike = (shares[0] < 0.3) & (shares[1] < 0.35) & (shares[2] < 0.5)
    return np.asarray(unlike & (similar["new_words"] > 0.3 * similar["words"]))


def _taken(pairs: Pairs, places: NDArray[np.integer]) -> Pairs:
    return Pairs([pairs.labels[i] for i in places], pairs.similar[places], [pairs.sites[i] for i in places])


def _joined(parts: Sequence[Pairs]) -> Pairs:
    labels, similar, sites = zip(*parts, strict=True)
    return Pairs(list(chain.from_iterable(labels)), np.concatenate(similar), list(chain.from_iterable(sites)))


# -- the report -------------------------------------------------------------------------------------------------------


def report(pairs: Pairs, threshold: float) -> str:
    """Make the whole report. `threshold`: decision.novelty."""
    labels, usable, each = pairs.labels, usable_in(pairs), pairs.counts_for
    outcome, _ = outcomes(labels)
    by_site = [site or f"{label.corpus} {label.later}" for label, site in zip(labels, pairs.sites, strict=True)]
    groups = {"corpus and language": corpora_and_languages(labels), "site": by_site}
    logits = {name: judged_by_others(pairs, of) for name, of in groups.items()}
    found = fit(pairs.columns[:, FITTED][usable], outcome[usable], each[usable])
    is_same = np.array([label.same for label in labels])
    kinship = fit(rule.columns(pairs.similar, of_kinship=True).astype(np.float64), is_same, each)
    fitted = {name: feature for name, feature in rule.NOVELTY.items() if name not in rule.FIXED}
    everywhere = {name: rates_of(labels, one, threshold) for name, one in logits.items()}
    trade_off = ["repeated at missed <=", *map(str, _MISSED), f"at {threshold:g}: missed", "repeated"]
    blocks = [
        f"{usable.sum()} of {len(labels)} pairs are fitted, {(each < 1).sum()} of them candidates that are alike in "
        "nothing.",
        _coefficients(found, fitted, rule._NOVELTY_INTERCEPT),
        _coefficients(kinship, rule.KINSHIP, rule._KINSHIP_INTERCEPT),
        _table(trade_off, [
            [f"by {name}", *(repeated_at(labels, one, missed) for missed in _MISSED), everywhere[name].missed,
             everywhere[name].repeated]
            for name, one in logits.items()
        ]),
        *(_by_corpus(labels, one, threshold, name) for name, one in logits.items()),
        _ablation(pairs, groups["corpus and language"], logits["corpus and language"], usable),
    ]  # fmt: skip
    return "\n\n".join(blocks)


def _coefficients(found: Weights, features: Mapping[str, rule.Feature], intercept: float) -> str:
    rows: list[list[Any]] = [
        [name, round(float(now), 2), feature.weight]
        for (name, feature), now in zip(features.items(), found.coefficients, strict=True)
    ]
    return _table(["feature", "fitted", "rule.py"], [*rows, ["intercept", round(found.intercept, 2), intercept]])


def _by_corpus(labels: Sequence[Label], logits: Floats, threshold: float, groups: str) -> str:
    corpora = np.array([label.corpus or "" for label in labels])
    rows = []
    for corpus in dict.fromkeys(corpora.tolist()):
        places = np.flatnonzero(corpora == corpus)
        found = rates_of([labels[i] for i in places], logits[places], threshold)
        rows += [[corpus, found.rows, found.held, found.missed, found.repeated]] if found.rows else []
    return _table([f"by {groups}, at {threshold:g}", "pairs", "held", "missed", "repeated"], rows)


def _ablation(pairs: Pairs, groups: Sequence[str], logits: Floats, usable: Bools) -> str:
    """Measure the cross-validated contribution of each feature as log loss of the usable pairs that count in rates."""
    outcome, _ = outcomes(pairs.labels)
    asked = usable & np.array([measures(label) for label in pairs.labels])
    judged = {"none": logits} | {
        name: judged_by_others(pairs, groups, without=place)
        for place, name in enumerate(rule.NOVELTY)
        if name not in rule.FIXED
    }
    rows = [
        [name, f"{log_loss(one[asked], outcome[asked]):.4f}", repeated_at(pairs.labels, one, _USUAL)]
        for name, one in judged.items()
    ]
    return _table(["left out", "log loss", f"repeated at missed <= {_USUAL}"], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return table(head, [[f"{one:.3f}" if isinstance(one, float) else str(one) for one in row] for row in rows])


if __name__ == "__main__":
    [folder] = sys.argv[1:]
    print(report(read_pairs(Path(folder)), load_settings().decision.threshold))
