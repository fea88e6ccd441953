"""Is it the same article? The readers' first question: labelled pairs + verdicts -> weighted recall and precision.

A label file is JSON Lines: `earlier`, `later` (ids of one corpus), `label`, and optionally `new` (has the later item
something that a reader of the earlier one would miss: the second question, see novelty.py), `weight` (how many items
of the corpus the row stands for), `unsure`, `sample` (which decisions it was drawn from: `held`, `near`, `update` or
`named`), `lang`, and `corpus`, where one file has rows of several. Other fields are passed over. `copy`, `cut` and
`update` are the same article. Words that are common elsewhere (same, duplicate, 1, ...) are understood; any other is
an error, since a word that nobody understands would make a figure of nothing. The later item counts as found when the
whole corpus was judged and it was held back or named an update, whichever original is named.

Clusters: a pair of the same article is a must-link; the items that must-links join are one true cluster. A found
cluster is an original with all that names it. Their adjusted Rand index (ARI, Hubert and Arabie 1985) is 1 for
the same clusters and 0 for chance. It is taken over the labelled items alone, each once and without weight; a pair
that nobody judged and no must-link joins counts as two articles, so copies that the reader was never shown
together lower it: it is a lower bound.
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
from stream_dedup.evaluate.intervals import Interval, wilson, worth

SAME_ARTICLE = ("copy", "cut", "update")
ANOTHER_ARTICLE = ("template", "furniture", "different")
NEW, LITTLE_NEW, NOTHING_NEW = "yes", "little", "no"
"""Would a reader of the earlier item miss something; little: a background sentence that nobody would miss."""

_WORDS = {
    "label": SAME_ARTICLE + ANOTHER_ARTICLE,
    "new": (NEW, NOTHING_NEW, LITTLE_NEW),
    "sample": ("held", "near", "update", "named"),
}
_YES, _NO = ("1", "true", "yes"), ("0", "false", "no")
# What label files of others say, to what it is read as. A mere "same" or "different" says no more than these two.
_UNDERSTOOD = {
    "label": {
        **dict.fromkeys(("same", "duplicate", "dup", *_YES), SAME_ARTICLE[0]),
        **dict.fromkeys(("distinct", *_NO), ANOTHER_ARTICLE[-1]),
    },
    "new": {**dict.fromkeys(_YES[:2], NEW), **dict.fromkeys(_NO[:2], NOTHING_NEW)},
    "sample": {},
}


def words_of(field: str) -> str:
    """The words that a field of a label file may have, for a person.

    >>> words_of("new")
    'yes, no, little (1, true, 0, false are understood too)'
    """
    others = ", ".join(_UNDERSTOOD[field])
    return ", ".join(_WORDS[field]) + (f" ({others} are understood too)" if others else "")


class Label(msgspec.Struct, frozen=True):
    """One judged pair."""

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
    """A line of a label file, before its words are understood."""

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

    Intervals are Wilson's, of as many pairs as the weights are worth: two labels that agree do not prove a rate of 1.

    not_found: the same article, and not found; another_article: found, and not the same article.
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
    """The labels of a file; with `corpus` the rows of that corpus alone.

    Raises InputError naming the line that is no label, or the corpora that there are if `corpus` is none of them.
    """
    labels, decode = [], msgspec.json.Decoder(_Row).decode
    try:
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if line.strip():
                try:
                    labels.append(_understood(decode(line)))
                except (msgspec.DecodeError, ValueError) as error:
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


def _understood(row: _Row) -> Label:
    """Raises ValueError, naming the field and the words that it may have."""
    new = None if row.new is None else _word("new", row.new)
    sample = None if row.sample is None else _word("sample", row.sample)
    return Label(
        str(row.earlier), str(row.later), _word("label", row.label), row.weight, row.unsure, new, sample, row.lang,
        row.corpus,
    )  # fmt: skip


def _word(field: str, value: str | int) -> str:
    said = str(value).strip().lower()
    word = _UNDERSTOOD[field].get(said, said)
    if word not in _WORDS[field]:
        raise ValueError(f"`{field}` is {value!r}; allowed: {words_of(field)}")
    return word


def is_held(verdict: Verdict) -> bool:
    """It is kept from readers as a repetition; what cannot be judged is not."""
    return not verdict.forward and verdict.kind is not Kind.BAD


def is_found(verdict: Verdict) -> bool:
    """It is told to be the same article as an original: held back, or named an update."""
    return is_held(verdict) or verdict.kind is Kind.UPDATE


def require_known(labels: Sequence[Label], known: Container[str]) -> None:
    """Raises InputError if there is no label, or one names a later item that is not known; says the cure."""
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
    """What a person should know of labels that can be used, but perhaps are not what was meant.

    >>> remarks([Label("x", "b", "copy")], {"a", "b"})[0]
    '1 label names an earlier item that the corpus lacks, the first: x'
    """
    told = []
    unknown = [label.earlier for label in labels if label.earlier not in known]
    if unknown:
        names = "label names" if len(unknown) == 1 else "labels name"
        told.append(f"{len(unknown)} {names} an earlier item that the corpus lacks, the first: {unknown[0]}")
    answers: dict[tuple[str, str], set[bool]] = {}
    for label in labels:
        answers.setdefault((label.earlier, label.later), set()).add(label.same)
    torn = [pair for pair, said in answers.items() if len(said) > 1]
    if torn:
        pairs = "1 pair is" if len(torn) == 1 else f"{len(torn)} pairs are"
        told.append(f"{pairs} labelled both as the same article and as another, the first: {' and '.join(torn[0])}")
    if labels and not any(label.new for label in labels):
        told.append("no label has `new`, so it cannot be told what readers miss and what is repeated")
    return told


def _corpora(labels: Iterable[Label]) -> list[str]:
    return sorted({label.corpus for label in labels if label.corpus})


def agreement(labels: Iterable[Label], verdicts: Mapping[str, Verdict]) -> Agreement:
    """Agreement of the verdicts (by id) with the labels.

    Raises InputError if a label names an item that the corpus does not have, or there is no label.

    >>> from stream_dedup.dedup.verdict import Kind, Stage
    >>> held = Verdict("b", Kind.DUPLICATE, Stage.LEAD, False)
    >>> agreement([Label("a", "b", "copy")], {"b": held}).recall
    1.0
    """
    labels = list(labels)
    require_known(labels, verdicts)
    same = np.array([label.same for label in labels])
    found = np.array([is_found(verdicts[label.later]) for label in labels])
    weight = np.array([label.weight for label in labels])
    recall, precision, f1 = _rates(same, found, weight)
    return Agreement(
        len(labels),
        recall,
        precision,
        f1,
        wilson(recall, worth(weight[same])),
        wilson(precision, worth(weight[found])),
        _of_f1(f1, worth(weight[same | found])),
        _ari(labels, verdicts),
        [x for x, s, f in zip(labels, same, found, strict=True) if s and not f],
        [x for x, s, f in zip(labels, same, found, strict=True) if f and not s],
    )


def _of_f1(f1: float, trials: float) -> Interval:
    """F1 is no share, but it rises with one: hits of all that is the same article or found, J, as 2 J / (1 + J)."""
    low, high = wilson(f1 / (2 - f1), trials)
    return 2 * low / (1 + low), 2 * high / (1 + high)


def adjusted_rand(one: Iterable[object], other: Iterable[object]) -> float:
    """ARI of two clusterings of the same items, each given as the item's cluster; 1 where both are trivial.

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
    """Recall, precision, F1; NaN where there is nothing to find, or nothing was found."""
    hit = weight[same & found].sum()
    all_same, all_found = weight[same].sum(), weight[found].sum()
    return (
        float(hit / all_same) if all_same else float("nan"),
        float(hit / all_found) if all_found else float("nan"),
        float(2 * hit / (all_same + all_found)) if all_same + all_found else float("nan"),
    )
