"""The label files: the corpus of each, the order of that corpus, and the pairs that were read again.

A folder has the corpora (NAME.jsonl.gz) and label files. All programs that fit, measure or compare the decision read
labels here, so that they use the same pairs.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import msgspec

from stream_dedup.tools.evaluate.labels import Label, read_labels
from stream_dedup.tools.inputs.lines import read_lines

_OWN = Path(__file__).parent
# Label files of the first question and the corpus of each. The first one determines RETSim's threshold.
SAME_FILES = {
    "webz_en_pair_labels.jsonl": "webz_en_2023-12_2024-01",
    "webz_en_2025_pair_labels.jsonl": "webz_en_2025",
    "webz_zh_pair_labels.jsonl": "webz_zh_2025-03_2025-06",
}
# Label files that measure the rates of whole corpora: items held back and near misses, drawn by weight.
MEASURED = (
    "reader_labels.jsonl",
    "reader_labels_2.jsonl",
    "reader_labels_3.jsonl",
    "reader_labels_5.jsonl",
    _OWN / "reader_pairs.jsonl",
    _OWN / "validation_pairs.jsonl",
)
# Pairs that teach but measure nothing: other rows already stand for their items, they are near a draft's boundary or of
# the risky kind, or they have measured an earlier fit.
TAUGHT = (
    "reader_labels_4.jsonl",
    _OWN / "rule_2_pairs.jsonl",
    _OWN / "clean_pairs.jsonl",
    _OWN / "near_pairs.jsonl",
    _OWN / "risk_pairs.jsonl",
    _OWN / "risk_pairs_2.jsonl",
    _OWN / "edge_pairs.jsonl",
    _OWN / "fresh_pairs.jsonl",
    _OWN / "fresh_pairs_2.jsonl",
    _OWN / "fresh_pairs_3.jsonl",
    _OWN / "fresh_pairs_4.jsonl",
)
# Drawn from the decisions of a fit, and read after it. They teach nothing, and the pages have their rates.
FRESH = (_OWN / "fresh_pairs_5.jsonl",)
# Pairs of the files above that were read again with their whole texts; the first readers saw cut ones.
READ_AGAIN = _OWN / "read_again.jsonl"
# Corpora from which `reader_labels_5.jsonl` was drawn several times.
DRAWN_AGAIN = ("italy_2020-02_2020-04", "arabic_2012-10_2018-05")
# Corpora that have one language after the other. All others are in the order of arrival.
_SORTED = ("webz_multi",)


def read_corpus(path: Path) -> list[bytes]:
    """Read the lines of a corpus, in order of time. Raises InputError if the file is missing."""
    lines = list(read_lines(path))
    if path.name.removesuffix(".jsonl.gz") in _SORTED:
        lines.sort(key=lambda line: json.loads(line).get("published", ""))
    return lines


def corrected(labels: Iterable[Label]) -> list[Label]:
    """Replace the answers of pairs that were read again, and let rows of several draws stand for their items once.

    Pairs of the first question alone keep their answers.
    """
    again = {(one.corpus, one.earlier, one.later): one for one in read_labels(READ_AGAIN)}
    changed = []
    for label in labels:
        read = again.get((label.corpus, label.earlier, label.later))
        if read and label.new is not None:
            label = msgspec.structs.replace(label, label=read.label, new=read.new, unsure=read.unsure)
        changed.append(label)
    return _as_one_draw(changed)


def _as_one_draw(labels: list[Label]) -> list[Label]:
    """Change the weights of corpora that were drawn several times.

    The rows of a draw share one weight, so equal weights tell the draws of held items apart. Each stands for all held
    items, whose number is the median of the draws' sums: in one of them every row has the weight of the whole draw. So
    all draws together stand for them once. Other samples have several weights within a draw, which keep their ratios.
    """
    draws = Counter(
        (label.corpus, label.weight) for label in labels if _is_drawn_again(label) and label.sample == "held"
    )
    sums: dict[str | None, list[float]] = {}
    for (corpus, weight), rows in draws.items():
        sums.setdefault(corpus, []).append(weight * rows)
    changed = []
    for label in labels:
        if _is_drawn_again(label) and (own := sums.get(label.corpus)):
            rows = draws[label.corpus, label.weight]
            weight = median(own) / rows if label.sample == "held" else label.weight
            label = msgspec.structs.replace(label, weight=weight / len(own))
        changed.append(label)
    return changed


def _is_drawn_again(label: Label) -> bool:
    return label.corpus in DRAWN_AGAIN and label.weight > 0
