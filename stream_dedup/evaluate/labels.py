"""Does the decision agree with a reader? Labelled pairs + verdicts -> weighted recall and precision.

A label file is JSON Lines: `earlier`, `later` (ids of one corpus), `label`, and optionally `weight` (how many
items of the corpus the row stands for) and `unsure`. `copy`, `cut` and `update` are the same article. The
later item counts as found when the whole corpus was judged and it was held back, whichever original held it.

Clusters: a pair of the same article is a must-link; the items that must-links join are one true cluster. A found
cluster is an original with all that it holds back. Their adjusted Rand index (ARI, Hubert and Arabie 1985) is 1 for
the same clusters and 0 for chance. It is taken over the labelled items alone, each once and without weight; a pair
that nobody judged and no must-link joins counts as two articles, so copies that the reader was never shown
together lower it: it is a lower bound.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import InputError

SAME_ARTICLE = frozenset({"copy", "cut", "update"})


class Label(msgspec.Struct, frozen=True):
    """One judged pair."""

    earlier: str
    later: str
    label: str
    weight: float = 1.0
    unsure: bool = False

    @property
    def same(self) -> bool:
        return self.label in SAME_ARTICLE


@dataclass(frozen=True, slots=True)
class Agreement:
    """Weighted recall, precision and F1 of "held back", with 95 % bootstrap intervals over the pairs; ARI."""

    pairs: int
    recall: float
    precision: float
    f1: float
    recall_interval: tuple[float, float]
    precision_interval: tuple[float, float]
    f1_interval: tuple[float, float]
    ari: float
    missed: list[Label]
    false_drops: list[Label]


def read_labels(path: Path) -> list[Label]:
    """Raises InputError naming the line that is no label."""
    labels, decode = [], msgspec.json.Decoder(Label).decode
    try:
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if line.strip():
                try:
                    labels.append(decode(line))
                except msgspec.DecodeError as error:
                    raise InputError(f"{path}, line {number}: not a labelled pair: {error}") from None
    except OSError as error:
        raise InputError(f"cannot read the labels {path}: {error}") from None
    return labels


def agreement(labels: Iterable[Label], verdicts: Mapping[str, Verdict], draws: int = 2000) -> Agreement:
    """Agreement of the verdicts (by id) with the labels; `draws` of the bootstrap, 0: intervals are NaN.

    Raises InputError if a label names an item that the corpus does not have, or there is no label.

    >>> from stream_dedup.dedup.verdict import Kind, Stage
    >>> held = Verdict("b", Kind.DUPLICATE, Stage.LEAD, False)
    >>> agreement([Label("a", "b", "copy")], {"b": held}).recall
    1.0
    """
    labels = list(labels)
    unknown = [label.later for label in labels if label.later not in verdicts]
    if unknown or not labels:
        raise InputError(
            f"{len(unknown)} of {len(labels)} labelled items are not in the corpus, the first: {unknown[:1]}; "
            "labels and corpus must belong together"
        )
    same = np.array([label.same for label in labels])
    held = np.array([not verdicts[label.later].forward for label in labels])
    weight = np.array([label.weight for label in labels])
    picks = np.random.default_rng(1).integers(0, len(labels), (draws, len(labels)))
    samples = np.array([_rates(same[d], held[d], weight[d]) for d in picks]).reshape(draws, 3)
    recall, precision, f1 = _rates(same, held, weight)
    bounds = np.full((2, 3), np.nan)
    if draws:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # labels of one kind only: a rate without any value
            bounds = np.nanpercentile(samples, [2.5, 97.5], axis=0)
    of_recall, of_precision, of_f1 = ((float(low), float(high)) for low, high in bounds.T)
    return Agreement(
        len(labels),
        recall,
        precision,
        f1,
        of_recall,
        of_precision,
        of_f1,
        _ari(labels, verdicts),
        [x for x, s, h in zip(labels, same, held, strict=True) if s and not h],
        [x for x, s, h in zip(labels, same, held, strict=True) if h and not s],
    )


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
        held_by = verdict.original if verdict and not verdict.forward else None
        found.append(held_by.id if held_by else name)
    return adjusted_rand([find(name) for name in items], found)


def _rates(same: NDArray[np.bool_], held: NDArray[np.bool_], weight: NDArray[np.float64]) -> tuple[float, float, float]:
    """Recall, precision, F1; NaN where there is nothing to find, or nothing was held back."""
    hit = weight[same & held].sum()
    all_same, all_held = weight[same].sum(), weight[held].sum()
    return (
        float(hit / all_same) if all_same else float("nan"),
        float(hit / all_held) if all_held else float("nan"),
        float(2 * hit / (all_same + all_held)) if all_same + all_held else float("nan"),
    )
