"""Fit the weights of novelty to labelled pairs, and cross-validate them.

In: a folder with corpora (NAME.jsonl.gz) and label files, and this project's own label files beside this one. Each
corpus is judged as a stream, so that a pair is compared with the boilerplate that was known when its later item came.
Out, on standard output: the coefficients beside those in rule.py, the trade-off between missed and repeated, the rates
at `decision.novelty` by corpus, and the contribution of each feature.

Every rate is cross-validated by group: a pair is judged by weights that were fitted without its corpus and language, or
without its site. Pairs of one site share boilerplate and agencies, so weights that have seen the site overfit to it.

The fit is a logistic regression with a ridge on standardised features (Hoerl, Kennard 1970; le Cessie, van Houwelingen
1992). Every pair counts once: its weight is the number of items that it represents, not its information.

    python -m tests.labels.fit FOLDER
"""

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.judge import Line, batched
from stream_dedup.batch.lines import read_lines
from stream_dedup.dedup import rule
from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.dedup.clocks import fill_missing_times
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.similarity import Similarities, compare
from stream_dedup.errors import InputError, StreamDedupError
from stream_dedup.evaluate.labels import NEW, Label, read_labels
from stream_dedup.evaluate.novelty import Rates, counts, rates
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import Settings, load_settings
from tests.benchmarks.readers import SAME_FILES

_OWN = Path(__file__).parent
# Label files of whole corpora, by which rates are measured: what was held back and what came near, drawn by weight.
MEASURED = ("reader_labels.jsonl", _OWN / "reader_pairs.jsonl")
# Drawn from what version 2 holds back: other rows stand for these items already, so it teaches and measures nothing.
TAUGHT = (_OWN / "rule_2_pairs.jsonl",)
# Its languages stand one behind the other; all other corpora are in the order in which they came.
SORTED = ("webz_multi",)
# Variance of a standardised coefficient before any pair is seen. From .1 to 3 the rates stay within .004.
_VARIANCE = 0.3
_STEPS, _CLOSE = 100, 1e-9
# Missed at which the curve is read, and the one at which features are weighed against each other.
_MISSED, _USUAL = (0.02, 0.03, 0.04, 0.06, 0.08), 0.04
# Log-odds of pairs that novelty does not decide: the same words are held back before; what no view matches, or a guard
# vetoes, is let through.
_HELD, _LET_THROUGH = -np.inf, np.inf

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Pairs(NamedTuple):
    """Labelled pairs, n of them. columns: (n, features) of the rule; sites: of the later items, "" where unknown.

    is_related: (n,) bool, its novelty is known, so that it can teach. is_repeat, is_asked: (n,) bool, what the decision
    says of it: the same words again, which are held back; novelty decides (`rule.Judged`). All others are let through.
    """

    labels: list[Label]
    columns: Floats
    is_related: Bools
    is_repeat: Bools
    is_asked: Bools
    sites: list[str]


class Weights(NamedTuple):
    """Of a logistic regression: log-odds = columns @ coefficients + intercept."""

    coefficients: Floats
    intercept: float

    def logits(self, columns: Floats) -> Floats:
        return columns @ self.coefficients + self.intercept


# -- the fit: columns and outcomes -> weights, log-odds --------------------------------------------------------------


def fit(columns: Floats, outcome: Bools, variance: float = _VARIANCE) -> Weights:
    """Weights by Newton's method. `variance`: of the standardised coefficients; the intercept is free.

    Raises ValueError if all outcomes are the same: no weights are the best ones then.
    """
    if outcome.all() or not outcome.any():
        raise ValueError("a fit needs pairs with something new and pairs without")
    mean, spread = columns.mean(axis=0), columns.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    design = np.column_stack([(columns - mean) / spread, np.ones(len(columns))])
    ridge = np.append(np.full(columns.shape[1], 1 / variance), 0.0)
    weights = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        share = rule.probability(design @ weights)
        slope = design.T @ (share - outcome) + ridge * weights
        curvature = (design.T * (share * (1 - share))) @ design + np.diag(ridge)
        step = np.linalg.solve(curvature, slope)
        weights -= step
        if np.abs(step).max() < _CLOSE:
            break
    else:
        raise ValueError(f"the fit has not settled after {_STEPS} steps")
    coefficients = weights[:-1] / spread
    return Weights(coefficients, float(weights[-1] - coefficients @ mean))


def logits_by_others(columns: Floats, outcome: Bools, usable: Bools, groups: Sequence[str]) -> Floats:
    """Return the log-odds of each row by weights fitted to the usable rows of the other groups, (n,)."""
    _, number = np.unique(np.array(groups), return_inverse=True)
    logits = np.empty(len(columns))
    for group in range(number.max() + 1):
        inside = number == group
        train = usable & ~inside
        logits[inside] = fit(columns[train], outcome[train]).logits(columns[inside])
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
    columns = pairs.columns if without is None else np.delete(pairs.columns, without, axis=1)
    outcome, known = outcomes(pairs.labels)
    logits = logits_by_others(columns, outcome, known & pairs.is_related, groups)
    return np.select([pairs.is_repeat, ~pairs.is_asked], [_HELD, _LET_THROUGH], logits)


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
    return rates([labels[i] for i in chosen], [bool(held[i]) for i in chosen], [], draws=0)


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
    return [msgspec.structs.replace(label, **changes) for path, changes in files for label in read_labels(path)]


def read_pairs(folder: Path) -> Pairs:
    """Judge every corpus that has labels."""
    by_corpus: dict[str, list[Label]] = {}
    for label in read_all_labels(folder):
        by_corpus.setdefault(label.corpus or "", []).append(label)
    parts = []
    for corpus, labels in by_corpus.items():
        print(f"Judging {corpus} ...", file=sys.stderr)
        lines = list(read_lines(folder / f"{corpus}.jsonl.gz"))
        if corpus in SORTED:
            lines.sort(key=lambda line: json.loads(line).get("published", ""))
        parts.append(compare_in_stream(lines, labels, load_settings()))
    return _joined(parts)


def compare_in_stream(lines: Iterable[bytes], labels: Sequence[Label], settings: Settings) -> Pairs:
    """Judge a corpus, and compare its labelled pairs at the moment when the later item arrives.

    Raises InputError if an item of a label does not come, or the earlier one comes after the later one.
    """
    wanted: dict[str, list[Label]] = {}
    for label in labels:
        wanted.setdefault(label.later, []).append(label)
    earlier = {label.earlier for label in labels}
    decode, boilerplate = Decoder(settings.item), Boilerplate()
    now = int(time.time() * 1000)
    window = int(settings.window.length.total_seconds() * 1000)
    records: dict[str, NDArray[np.void]] = {}
    parts = []
    with closing(Deduplicator(settings)) as dedup:
        for batch in batched((Line(line, 0, number) for number, line in enumerate(lines, 1)), settings):
            ready = dedup.prepare([decode(one.value, None, None, one.input, one.number) for one in batch])
            prints = ready.prints.with_copied_signatures()
            fill_missing_times(prints.signatures["time"], max(dedup.watermark, 0))
            horizons = np.minimum(prints.signatures["time"], now) - window
            found: list[tuple[int, Label, str]] = []
            for j, item in enumerate(ready.subjects):
                if item.id in earlier:
                    records[item.id] = prints.signatures[j : j + 1].copy()
                for label in wanted.pop(item.id, ()):
                    if label.earlier not in records:
                        raise InputError(f"{label.earlier} does not come before {item.id}; labels and corpus must fit")
                    found.append((j, label, item.source))
            if found:
                known = np.concatenate([records[label.earlier] for _, label, _ in found])
                places, marks = np.array([j for j, _, _ in found]), ready.is_correction
                similar = compare(prints, known, places, np.arange(len(found)), None, (boilerplate, horizons), marks)
                parts.append(_pairs([label for _, label, _ in found], similar, [site for _, _, site in found]))
            judged = dedup.judge(ready, now)
            dedup.apply(judged)
            delta = judged.delta
            boilerplate.add(delta.passages, delta.passage_counts, delta.signatures["time"])
    if wanted:
        raise InputError(f"the corpus has no {next(iter(wanted))}; labels and corpus must fit")
    return _joined(parts)


def _pairs(labels: list[Label], similar: Similarities, sites: list[str]) -> Pairs:
    judged = rule.judge_pairs(similar, load_settings().decision)
    columns = rule.features(similar).astype(np.float64)
    return Pairs(labels, columns, ~np.isnan(similar.words), judged.is_repeat, judged.is_asked, sites)


def _joined(parts: Sequence[Pairs]) -> Pairs:
    labels, columns, is_related, is_repeat, is_asked, sites = zip(*parts, strict=True)
    return Pairs(
        list(chain.from_iterable(labels)),
        np.concatenate(columns),
        np.concatenate(is_related),
        np.concatenate(is_repeat),
        np.concatenate(is_asked),
        list(chain.from_iterable(sites)),
    )


# -- the report -------------------------------------------------------------------------------------------------------


def report(pairs: Pairs, threshold: float) -> str:
    """Make the whole report. `threshold`: decision.novelty."""
    labels = pairs.labels
    outcome, known = outcomes(labels)
    usable = known & pairs.is_related
    by_corpus = corpora_and_languages(labels)
    by_site = [site or f"{label.corpus} {label.later}" for label, site in zip(labels, pairs.sites, strict=True)]
    logits = {"corpus and language": judged_by_others(pairs, by_corpus), "site": judged_by_others(pairs, by_site)}
    own = logits["corpus and language"]
    counted = usable & np.array([measures(label) for label in labels]) & pairs.is_asked & ~pairs.is_repeat
    blocks = [
        f"{usable.sum()} of {len(labels)} pairs are fitted, {(usable & outcome).sum()} of them with something new.",
        _coefficients(fit(pairs.columns[usable], outcome[usable])),
        _table(
            [
                "repeated at missed <=",
                *(f"{missed:.2f}" for missed in _MISSED),
                f"at {threshold:g}: missed",
                "repeated",
            ],
            [
                [f"by {name}", *(repeated_at(labels, one, missed) for missed in _MISSED), *_two(labels, one, threshold)]
                for name, one in logits.items()
            ],
        ),
        _table(
            [f"at {threshold:g}", "pairs", "held", "missed", "repeated"],
            [
                [name, found.rows, found.held, found.missed, found.repeated]
                for name, places in _places(label.corpus or "" for label in labels).items()
                if (found := rates_of([labels[i] for i in places], own[places], threshold)).rows
            ],
        ),
        _ablation(pairs, by_corpus, own, counted),
    ]
    return "\n\n".join(blocks)


def _coefficients(found: Weights) -> str:
    rows: list[list[Any]] = [
        [name, round(float(now), 2), feature.weight]
        for (name, feature), now in zip(rule.FEATURES.items(), found.coefficients, strict=True)
    ]
    return _table(["feature", "fitted", "rule.py"], [*rows, ["intercept", round(found.intercept, 2), rule._INTERCEPT]])


def _ablation(pairs: Pairs, groups: Sequence[str], logits: Floats, asked: Bools) -> str:
    """Measure the cross-validated contribution of each feature as log loss of the pairs in `asked`."""
    outcome, _ = outcomes(pairs.labels)
    judged = {"none": logits} | {
        name: judged_by_others(pairs, groups, without=place) for place, name in enumerate(rule.FEATURES)
    }
    return _table(
        ["left out", "log loss", f"repeated at missed <= {_USUAL}"],
        [
            [name, f"{log_loss(one[asked], outcome[asked]):.4f}", repeated_at(pairs.labels, one, _USUAL)]
            for name, one in judged.items()
        ],
    )


def _two(labels: Sequence[Label], logits: Floats, threshold: float) -> tuple[float, float]:
    found = rates_of(labels, logits, threshold)
    return found.missed, found.repeated


def _places(names: Iterable[str]) -> Mapping[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    return places


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    cells = [list(head), *([f"{one:.3f}" if isinstance(one, float) else str(one) for one in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(one.rjust(width) for one, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in cells
    )


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m tests.labels.fit FOLDER", file=sys.stderr)
        return 2
    try:
        print(report(read_pairs(Path(arguments[0])), load_settings().decision.novelty))
    except StreamDedupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
