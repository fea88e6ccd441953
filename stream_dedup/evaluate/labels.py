"""Compare verdicts with labels on the first question, "the same article?": weighted recall and precision.

A label file is JSON Lines with these fields; others are ignored:

- `earlier`, `later`: ids of one corpus. `label`: `copy`, `cut` and `update` mean the same article.
- `new` (optional): whether a reader of the earlier item would miss something in the later one (see novelty.py).
- `weight` (optional): the number of items that the row stands for. `unsure`, `lang` (optional).
- `sample` (optional): the decisions from which the pair was drawn: `held`, `near`, `update` or `named`.
- `corpus` (optional): the name of the corpus, if one file covers several.

Common words of other label files (same, duplicate, 1, ...) are understood; any other word is an error, because it would
silently distort the figures. The later item counts as found if it was held back or named an update, whatever original
the verdict names.

Clusters: labels "same article" are must-links, and the items that they connect form one true cluster. A found cluster
is an original with all items that name it. Their adjusted Rand index (ARI, Hubert and Arabie 1985) is 1 for equal
clusters and 0 for chance. It covers only labelled items, each once and unweighted. A pair without a label that no
must-link connects counts as different, so the ARI is a lower bound.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import InputError
from stream_dedup.evaluate.intervals import Interval, effective_size, wilson

SAME_ARTICLE = ("copy", "cut", "update")
ANOTHER_ARTICLE = ("template", "furniture", "different")  # "furniture" is the label files' word for boilerplate
NEW, LITTLE_NEW, NOTHING_NEW = "yes", "little", "no"
"""Whether a reader of the earlier item would miss something; little: a background sentence that no reader would
miss."""

_WORDS = {
    "label": SAME_ARTICLE + ANOTHER_ARTICLE,
    "new": (NEW, NOTHING_NEW, LITTLE_NEW),
    "sample": ("held", "near", "update", "named"),
}
_YES, _NO = ("1", "true", "yes"), ("0", "false", "no")
# Words of other label files and their meaning here. "same" and "different" carry no more than `copy` and `different`.
_SYNONYMS = {
    "label": {
        **dict.fromkeys(("same", "duplicate", "dup", *_YES), SAME_ARTICLE[0]),
        **dict.fromkeys(("distinct", *_NO), ANOTHER_ARTICLE[-1]),
        "boilerplate": ANOTHER_ARTICLE[1],
    },
    "new": {**dict.fromkeys(_YES[:2], NEW), **dict.fromkeys(_NO[:2], NOTHING_NEW)},
    "sample": {},
}


def words_of(field: str) -> str:
    """List the allowed words of a field of a label file.

    >>> words_of("new")
    'yes, no, little (1, true, 0, false are understood too)'
    """
    others = ", ".join(_SYNONYMS[field])
    return ", ".join(_WORDS[field]) + (f" ({others} are understood too)" if others else "")


class Label(msgspec.Struct, frozen=True):
    """A labelled pair."""

    earlier: str
    later: str
    label: str
    weight: float = 1.0
    unsure: bool = False
    new: str | None = None
    sample: str | None = None
    lang: str | None = None
    corpus: str | None = None

    @property
    def same(self) -> bool:
        return self.label in SAME_ARTICLE


class _Row(msgspec.Struct, frozen=True):
    """A line of a label file, before its words are interpreted."""

    earlier: str | int
    later: str | int
    label: str | int | bool
    weight: float = 1.0
    unsure: bool = False
    new: str | int | bool | None = None
    sample: str | None = None
    lang: str | None = None
    corpus: str | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """Weighted recall, precision and F1 of "held back or named an update", with 95 % intervals.

    The intervals are Wilson's, for the effective sample size: two labels that agree do not prove a rate of 1.
    not_found: pairs of the same article that were not found; another_article: found pairs of different articles.
    """

    pairs: int
    recall: float
    precision: float
    f1: float
    recall_interval: tuple[float, float]
    precision_interval: tuple[float, float]
    f1_interval: tuple[float, float]
    ari: float
    not_found: list[Label]
    another_article: list[Label]


def read_labels(path: Path, corpus: str | None = None) -> list[Label]:
    """Read the labels of a file; with `corpus` only the rows of that corpus.

    Raises InputError that names the malformed line, or the corpora of the file if `corpus` is none of them.
    """
    labels, decode = [], msgspec.json.Decoder(_Row).decode
    try:
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if line.strip():
                try:
                    labels.append(_label_of(decode(line)))
                except (msgspec.DecodeError, ValueError, RecursionError) as error:
                    raise InputError(f"{path}, line {number}: not a labelled pair: {error}") from None
    except OSError as error:
        raise InputError(f"cannot read the labels {path}: {error.strerror}") from None
    if corpus is None:
        return labels
    chosen = [label for label in labels if label.corpus == corpus]
    if not chosen:
        named = _corpora(labels)
        raise InputError(
            f"{path} has no label of the corpus {corpus!r}; "
            + (f"it has labels of {', '.join(named)}" if named else "its labels name no corpus: leave --corpus out")
        )
    return chosen


def _label_of(row: _Row) -> Label:
    """Interpret a row. Raises ValueError that names the field and its allowed words."""
    new = None if row.new is None else _word("new", row.new)
    sample = None if row.sample is None else _word("sample", row.sample)
    return Label(
        str(row.earlier), str(row.later), _word("label", row.label), row.weight, row.unsure, new, sample, row.lang,
        row.corpus,
    )  # fmt: skip


def _word(field: str, value: str | int) -> str:
    given = str(value).strip().lower()
    word = _SYNONYMS[field].get(given, given)
    if word not in _WORDS[field]:
        raise ValueError(f"`{field}` is {value!r}; allowed: {words_of(field)}")
    return word


def is_held(verdict: Verdict) -> bool:
    """Whether the item was held back as a repetition; bad items were not."""
    return not verdict.forward and verdict.kind is not Kind.BAD


def is_found(verdict: Verdict) -> bool:
    """Whether the verdict says "the same article": held back, or an update."""
    return is_held(verdict) or verdict.kind is Kind.UPDATE


def by_first_delivery(verdicts: Iterable[Verdict]) -> dict[str, Verdict]:
    """Map each id to the verdict on its first delivery that could be read.

    A later one is settled by the id alone, so it says nothing of the item that a label speaks of.
    """
    found: dict[str, Verdict] = {}
    for verdict in verdicts:
        if verdict.id not in found or found[verdict.id].kind is Kind.BAD:
            found[verdict.id] = verdict
    return found


def require_known(labels: Sequence[Label], known: Container[str]) -> None:
    """Raise InputError, with the cure, if there is no label or a later item is not among `known`."""
    unknown = [label.later for label in labels if label.later not in known]
    if not unknown and labels:
        return
    named = _corpora(labels)
    cure = (
        f"the labels are of {', '.join(named)}: choose with --corpus NAME"
        if named
        else "labels must name ids of this corpus (`stream-dedup check` shows which field is the id)"
    )
    first = f", the first: {unknown[0]}" if unknown else ""
    raise InputError(f"{len(unknown)} of {len(labels)} labels name a later item that the corpus lacks{first}; {cure}")


def remarks(labels: Sequence[Label], known: Container[str]) -> list[str]:
    """Return warnings about labels that are valid but may not be what the user meant.

    >>> remarks([Label("x", "b", "copy")], {"a", "b"})[0]
    '1 label names an earlier item that the corpus lacks, the first: x'
    """
    warnings = []
    unknown = [label.earlier for label in labels if label.earlier not in known]
    if unknown:
        names = "label names" if len(unknown) == 1 else "labels name"
        warnings.append(f"{len(unknown)} {names} an earlier item that the corpus lacks, the first: {unknown[0]}")
    if twice := [label.later for label in labels if label.earlier == label.later]:
        are = "label is" if len(twice) == 1 else "labels are"
        warnings.append(
            f"{len(twice)} {are} of two deliveries of one id, and left out: the first delivery counts; "
            f"the first: {twice[0]}"
        )
    answers: dict[tuple[str, str], set[bool]] = {}
    for label in labels:
        answers.setdefault((label.earlier, label.later), set()).add(label.same)
    conflicts = [pair for pair, both in answers.items() if len(both) > 1]
    if conflicts:
        pairs = "1 pair is" if len(conflicts) == 1 else f"{len(conflicts)} pairs are"
        first = " and ".join(conflicts[0])
        warnings.append(f"{pairs} labelled both as the same article and as another, the first: {first}")
    if labels and not any(label.new for label in labels):
        warnings.append("no label has `new`, so missed and repeated cannot be computed")
    return warnings


def _corpora(labels: Iterable[Label]) -> list[str]:
    return sorted({label.corpus for label in labels if label.corpus})


def agreement(labels: Iterable[Label], verdicts: Mapping[str, Verdict]) -> Agreement:
    """Compute the agreement of the verdicts (by id) with the labels.

    Raises InputError if there is no label, or a label names an item that the corpus lacks.

    >>> from stream_dedup.dedup.verdict import Kind, Stage
    >>> held = Verdict("b", Kind.DUPLICATE, Stage.BODY, False)
    >>> agreement([Label("a", "b", "copy")], {"b": held}).recall
    1.0
    """
    labels = list(labels)
    require_known(labels, verdicts)
    return compare(labels, [is_found(verdicts[label.later]) for label in labels], _ari(labels, verdicts))


def compare(labels: Sequence[Label], is_found: Sequence[bool], ari: float = float("nan")) -> Agreement:
    """Compute the agreement of labels with whether the later item of each was found; `ari`: that of all items."""
    same, found = np.array([label.same for label in labels]), np.array(is_found)
    weight = np.array([label.weight for label in labels])
    recall, precision, f1 = _rates(same, found, weight)
    return Agreement(
        len(labels),
        recall,
        precision,
        f1,
        wilson(recall, effective_size(weight[same])),
        wilson(precision, effective_size(weight[found])),
        _f1_interval(f1, effective_size(weight[same | found])),
        ari,
        [x for x, s, f in zip(labels, same, found, strict=True) if s and not f],
        [x for x, s, f in zip(labels, same, found, strict=True) if f and not s],
    )


def _f1_interval(f1: float, trials: float) -> Interval:
    """Transform Wilson's interval of J = hits / (same article or found) by F1 = 2 J / (1 + J)."""
    low, high = wilson(f1 / (2 - f1), trials)
    return 2 * low / (1 + low), 2 * high / (1 + high)


def adjusted_rand(one: Iterable[object], other: Iterable[object]) -> float:
    """Return the ARI of two clusterings, each given as the cluster of every item; 1 if both are trivial.

    >>> adjusted_rand("aabb", "xxyy"), round(adjusted_rand("aabb", "xyxy"), 2)
    (1.0, -0.5)
    """
    cells = Counter(zip(one, other, strict=True))
    rows, columns = Counter[object](), Counter[object]()
    for (row, column), count in cells.items():
        rows[row] += count
        columns[column] += count
    together = sum(map(_pairs_of, cells.values()))
    a, b = sum(map(_pairs_of, rows.values())), sum(map(_pairs_of, columns.values()))
    all_pairs = _pairs_of(rows.total())
    by_chance = a * b / all_pairs if all_pairs else 0.0
    best = (a + b) / 2
    return (together - by_chance) / (best - by_chance) if best != by_chance else 1.0


def _pairs_of(items: int) -> int:
    return items * (items - 1) // 2


def _ari(labels: list[Label], verdicts: Mapping[str, Verdict]) -> float:
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = name = leader[leader[name]]
        return name

    for label in labels:
        first, second = find(label.earlier), find(label.later)
        if label.same:
            leader[second] = first
    items = list(leader)
    found = []
    for name in items:
        verdict = verdicts.get(name)
        original = verdict.original if verdict and is_found(verdict) else None
        found.append(original.id if original else name)
    return adjusted_rand([find(name) for name in items], found)


def _rates(
    same: NDArray[np.bool_], found: NDArray[np.bool_], weight: NDArray[np.float64]
) -> tuple[float, float, float]:
    """Return recall, precision and F1; NaN if a denominator is zero."""
    hit = weight[same & found].sum()
    all_same, all_found = weight[same].sum(), weight[found].sum()
    return (
        float(hit / all_same) if all_same else float("nan"),
        float(hit / all_found) if all_found else float("nan"),
        float(2 * hit / (all_same + all_found)) if all_same + all_found else float("nan"),
    )
