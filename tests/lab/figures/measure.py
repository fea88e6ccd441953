"""Measure the figures on corpora in a folder: one function a section, by the code of `stream-dedup evaluate`.

The folder has corpora (NAME.jsonl.gz) and label files. A section's figures are plain values for JSON.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from stream_dedup.settings.judging import NOVELTY_NAMES
from stream_dedup.tools.evaluate.exact import (
    Fidelity,
    ShingleSets,
    body_sets,
    fidelity,
    held_by_jaccard,
    measured_curve,
)
from stream_dedup.tools.evaluate.labels import Label, by_first_delivery, read_labels
from stream_dedup.tools.evaluate.rates import Rates, agreement, counts, is_held, judged, rates
from tests.lab.figures import edits as truths
from tests.lab.figures.families import BODY_ALONE, FAMILIES, LABELLED, Labelled, Tables
from tests.lab.figures.languages import languages
from tests.lab.figures.results import ROOT, File, Section, file_of, section
from tests.lab.figures.short import SHORT, short
from tests.lab.figures.stories import language_of
from tests.lab.labels import fit
from tests.lab.labels.files import MEASURED, READ_AGAIN, SAME_FILES, TAUGHT, corrected, read_corpus
from tests.tools.batch.feed import judge_lines

ENGLISH, CHINESE, REUTERS = "webz_en_2023-12_2024-01", "webz_zh_2025-03_2025-06", "reuters21578"
EXACTNESS: dict[str, Tables] = {
    '`verify = "sketch"` (default)': {},
    '`verify = "exact"`': {"fingerprint": {"verify": "exact"}},
}
"""The rows of the table "Sketched or exact"."""
EXACTNESS_CORPORA = {"English pages": ENGLISH, "Reuters": REUTERS, "Chinese pages": CHINESE}
THRESHOLD = 0.8
"""The Jaccard at which decisions are compared with exact ones: the usual one."""
DEFAULT = "default"
_UNNAMED = "en"  # the language of corpora that name none: Reuters and others


class Corpora:
    """The corpora of a folder, each read once. `files`: those that were used since it was last cleared.

    Raises InputError if a file is missing.
    """

    def __init__(self, folder: Path, report: Callable[[str], object]) -> None:
        self.folder, self.report = folder, report
        self._corpora: dict[str, Corpus] = {}
        self.files: dict[str, File] = {}

    def __getitem__(self, name: str) -> "Corpus":
        if name not in self._corpora:
            path = self.folder / f"{name}.jsonl.gz"
            lines = read_corpus(path)
            self._corpora[name] = Corpus(name, lines, file_of(path, len(lines)))
        corpus = self._corpora[name]
        self.files[f"{name}.jsonl.gz"] = corpus.file
        return corpus

    def labels(self, path: Path, corpus: str | None = None) -> list[Label]:
        """Read a label file of the folder, or of this project (an absolute path)."""
        path = self.folder / path
        name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
        self.files[name] = file_of(path, len(read_labels(path)))
        return read_labels(path, corpus)


class Corpus:
    """A corpus in memory: lines, items, and the exact sets of their bodies."""

    def __init__(self, name: str, lines: Sequence[bytes], file: File) -> None:
        self.name, self.lines, self.file = name, lines, file

    @cached_property
    def items(self) -> list[Item]:
        decode = Decoder(load_settings().item)
        return [item for line in self.lines if isinstance(item := decode(line, None, None), Item)]

    @cached_property
    def sets(self) -> ShingleSets:
        return body_sets(self.items, Fingerprinter(Scheme(load_settings().fingerprint)))


# -- sections -----------------------------------------------------------------------------------------------------


def families(corpora: Corpora) -> dict[str, Any]:
    """Measure each family on each labelled corpus, with the whole decision and with the body alone.

    {row: {column: {"all", "alone": [recall, precision], "pairs", "curve": [[low, high, pairs, effective clusters, share
    proposed], ...],
    "body_bytes": mean bytes of a body that is kept whole}}}.
    """
    return {
        row: {column.name: _family(corpora, column, tables) for column in LABELLED} for row, tables in FAMILIES.items()
    }


def _family(corpora: Corpora, column: Labelled, tables: Tables) -> dict[str, Any]:
    corpus, labels = corpora[column.corpus], corpora.labels(Path(column.labels))
    corpora.report(f"{corpus.name}: {json.dumps(tables)}")
    settings = load_settings(**tables)
    alone = settings.model_copy(update={"decision": load_settings(**BODY_ALONE).decision})
    make = Fingerprinter(Scheme(settings.fingerprint))
    return {
        "pairs": len(labels),
        "all": _agreement(corpus, settings, labels),
        "alone": _agreement(corpus, alone, labels),
        "curve": [
            [point.low, point.high, point.pairs, point.clusters, point.measured]
            for point in measured_curve(corpus.items, corpus.sets, make)
            if point.low >= THRESHOLD
        ],
        "body_bytes": float(_fidelity(corpus, settings).sketch_bytes) if make.scheme.is_exact else 0.0,
    }


def _agreement(corpus: Corpus, settings: Settings, labels: Sequence[Label]) -> list[float]:
    found = agreement(judged(labels, by_first_delivery(judge_lines(corpus.lines, settings)), {}))
    return [found.recall, found.precision]


def _fidelity(corpus: Corpus, settings: Settings) -> Fidelity:
    return fidelity(corpus.items, corpus.sets, settings, THRESHOLD)


def exactness(corpora: Corpora) -> dict[str, Any]:
    """Compare sketches with exact sets: {row: {corpus: fields of `Fidelity`}}."""
    figures: dict[str, Any] = {}
    for row, tables in EXACTNESS.items():
        corpora.report(json.dumps(tables))
        settings = load_settings(**tables)
        figures[row] = {title: asdict(_fidelity(corpora[name], settings)) for title, name in EXACTNESS_CORPORA.items()}
    return figures


def readers(corpora: Corpora) -> dict[str, Any]:
    """Measure missed and repeated on all labels of whole corpora.

    cross-validated: each pair alone, by trees that were fitted on the other corpora, at each name of
    `decision.novelty`; languages: the same at the default, by row of README's table. stream: the decision on the whole
    corpus, with the trees of the package, which these labels taught; jaccard: exact body Jaccard on the whole corpus.
    On a whole corpus an item may be held back for another original than the labelled one. Then it counts as readers
    judged it beside that original, and if none did (`unread`), as they judged the labelled pair.
    """
    labels = corrected(label for path in MEASURED for label in corpora.labels(Path(path)))
    others = corrected(label for path in (*SAME_FILES, *TAUGHT) for label in corpora.labels(Path(path)))
    corpora.labels(READ_AGAIN)
    read = {(label.earlier, label.later): label for label in (*others, *labels) if label.new}
    by_corpus: dict[str, list[Label]] = {}
    for label in labels:
        by_corpus.setdefault(label.corpus or "", []).append(label)
    settings = load_settings()
    seen_by: dict[str, list[Seen]] = {"stream": [], "jaccard": []}
    rows: dict[tuple[str, str], str] = {}
    for name, own in by_corpus.items():
        corpora.report(f"{name}: {len(own)} labels")
        corpus = corpora[name]
        for record in map(json.loads, corpus.lines):
            rows[name, str(record.get("id"))] = truths.row_of(language_of(record) or _UNNAMED)
        verdicts = [verdict for verdict in judge_lines(corpus.lines, settings) if is_held(verdict)]
        originals = {
            "stream": {verdict.id: verdict.original.id if verdict.original else "" for verdict in verdicts},
            "jaccard": held_by_jaccard(corpus.items, corpus.sets, THRESHOLD),
        }
        for way, original_of in originals.items():
            seen_by[way] += as_seen(own, original_of, read)
    corpora.report("cross-validation")
    pairs = fit.read_pairs(corpora.folder)
    logits = fit.judged_by_others(pairs, fit.groups_of(pairs)["corpus"])
    row_of = np.array([rows.get((label.corpus or "", label.later), "none") for label in pairs.labels])

    def rates_at(threshold: float, places: NDArray[np.bool_]) -> dict[str, float]:
        chosen = np.flatnonzero(places)
        return _rates(fit.rates_of([pairs.labels[i] for i in chosen], logits[chosen], threshold))

    return {
        "pairs": len(labels),
        "threshold": THRESHOLD,
        "cross-validated": {name: rates_at(at, np.ones(len(row_of), np.bool_)) for name, at in NOVELTY_NAMES.items()},
        "languages": {row: rates_at(settings.decision.threshold, row_of == row) for row in truths.LANGUAGES},
        **{way: _of(seen) for way, seen in seen_by.items()},
    }


class Seen(NamedTuple):
    """A labelled item of a whole corpus. read: a reader saw it beside the original for which it is held back."""

    label: Label
    held: bool
    read: bool


def as_seen(
    labels: Sequence[Label], original_of: Mapping[str, str], read: Mapping[tuple[str, str], Label]
) -> list[Seen]:
    """Return how the items of labelled pairs count. original_of: the originals of the items that are held back, by id;
    read: all labels, by earlier and later id.

    >>> pair, other = Label("a", "c", "cut", 7.0, new="yes"), Label("b", "c", "copy", new="no")
    >>> read = {("a", "c"): pair, ("b", "c"): other}
    >>> [(one.label.new, one.label.weight, one.held, one.read) for one in as_seen([pair], {"c": "b"}, read)]
    [('no', 7.0, True, True)]
    >>> [(one.label.new, one.held, one.read) for one in as_seen([pair], {"c": "z"}, read)]
    [('yes', True, False)]
    """
    seen = []
    for label in filter(counts, labels):
        beside = read.get((original_of.get(label.later, label.earlier), label.later))
        counted = structs.replace(beside, weight=label.weight) if beside else label
        if counts(counted):
            seen.append(Seen(counted, label.later in original_of, beside is not None))
    return seen


def edits(corpora: Corpora) -> dict[str, Any]:
    """Count what is held back of edits with known truth: {row: {kind: {language: [held back, judged]}}}."""

    def lines_of(name: str) -> Sequence[bytes]:
        corpora.report(f"{name}: edits")
        return corpora[name].lines

    settings = {row: load_settings(**tables) for row, tables in truths.EDITED.items()}
    return truths.counts(truths.measured(lines_of, tuple(truths.KINDS), settings, truths.COUNT))


def _of(seen: Sequence[Seen]) -> dict[str, float]:
    found = rates([one.label for one in seen], [one.held for one in seen])
    return _rates(found) | {"unread": sum(not one.read for one in seen)}


def _rates(found: Rates) -> dict[str, float]:
    return {"rows": found.rows, "held": found.held, "missed": found.missed, "repeated": found.repeated}


SECTIONS: dict[str, tuple[Callable[[Corpora], dict[str, Any]], Mapping[str, Tables]]] = {
    "families": (families, FAMILIES),
    "exactness": (exactness, EXACTNESS),
    "readers": (readers, {DEFAULT: {}}),
    "short": (short, SHORT),
    "edits": (edits, truths.EDITED),
    "languages": (languages, {DEFAULT: {}}),
}
"""Name -> what measures it, and the settings of its rows."""


def measured(corpora: Corpora, name: str) -> Section:
    """Measure a section."""
    measure, rows = SECTIONS[name]
    corpora.files = {}
    return section(f"{datetime.now(UTC):%Y-%m-%d}", corpora.files, rows, measure(corpora))


def rows() -> dict[str, Mapping[str, Tables]]:
    """Return the settings of the rows of each section, as of today."""
    return {name: of_section for name, (_, of_section) in SECTIONS.items()}
