"""The label files: the corpus of each, the order of that corpus, and the pairs that were read again.

A folder has the corpora (NAME.jsonl.gz) and label files. All programs that fit, measure or compare the decision read
labels here, so that they use the same pairs.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from stream_dedup.inputs.lines import read_lines
from stream_dedup.tools.evaluate.labels import Label, read_labels

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
    _OWN / "fresh_pairs.jsonl",
    _OWN / "fresh_pairs_2.jsonl",
)
# Drawn from the decisions of a fit, and read after it. They teach nothing, and the pages have their rates.
FRESH = (_OWN / "fresh_pairs_3.jsonl",)
# Pairs of the files above that were read again with their whole texts; the first readers saw cut ones.
READ_AGAIN = _OWN / "read_again.jsonl"
# Corpora that have one language after the other. All others are in the order of arrival.
_SORTED = ("webz_multi",)


def read_corpus(path: Path) -> list[bytes]:
    """Read the lines of a corpus, in order of time. Raises InputError if the file is missing."""
    lines = list(read_lines(path))
    if path.name.removesuffix(".jsonl.gz") in _SORTED:
        lines.sort(key=lambda line: json.loads(line).get("published", ""))
    return lines


def as_read_again(labels: Iterable[Label]) -> list[Label]:
    """Replace the answers of pairs that were read again. Pairs of the first question alone stay as they are."""
    again = {(one.corpus, one.earlier, one.later): one for one in read_labels(READ_AGAIN)}
    changed = []
    for label in labels:
        read = again.get((label.corpus, label.earlier, label.later))
        if read and label.new is not None:
            label = msgspec.structs.replace(label, label=read.label, new=read.new, unsure=read.unsure)
        changed.append(label)
    return changed
