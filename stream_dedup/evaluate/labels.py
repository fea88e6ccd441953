"""Does the decision agree with a reader? Labelled pairs + verdicts -> weighted recall and precision.

A label file is JSON Lines: `earlier`, `later` (ids of one corpus), `label`, and optionally `weight` (how many
items of the corpus the row stands for) and `unsure`. `copy`, `cut` and `update` are the same article. The
later item counts as found when the whole corpus was judged and it was held back, whichever original held it.
"""

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
    """Weighted recall and precision of "held back", with 95 % bootstrap intervals over the pairs."""

    pairs: int
    recall: float
    precision: float
    recall_interval: tuple[float, float]
    precision_interval: tuple[float, float]
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


def agreement(labels: Iterable[Label], verdicts: Mapping[str, Verdict]) -> Agreement:
    """Agreement of the verdicts (by id) with the labels.

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
    draws = np.random.default_rng(1).integers(0, len(labels), (2000, len(labels)))
    samples = np.array([_rates(same[d], held[d], weight[d]) for d in draws])
    recall, precision = _rates(same, held, weight)
    low, high = np.nanpercentile(samples, [2.5, 97.5], axis=0)
    return Agreement(
        len(labels),
        recall,
        precision,
        (float(low[0]), float(high[0])),
        (float(low[1]), float(high[1])),
        [x for x, s, h in zip(labels, same, held, strict=True) if s and not h],
        [x for x, s, h in zip(labels, same, held, strict=True) if h and not s],
    )


def _rates(same: NDArray[np.bool_], held: NDArray[np.bool_], weight: NDArray[np.float64]) -> tuple[float, float]:
    hit = weight[same & held].sum()
    all_same, all_held = weight[same].sum(), weight[held].sum()
    return (
        float(hit / all_same) if all_same else float("nan"),
        float(hit / all_held) if all_held else float("nan"),
    )
