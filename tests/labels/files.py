"""The label files and what belongs to each: its corpus, the order of that corpus, what was read again.

In: a folder with corpora (NAME.jsonl.gz) and label files. Out: their labels and lines. What fits, measures and compares
the decision reads labels here, so that all of it asks the same pairs.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from stream_dedup.batch.lines import read_lines
from stream_dedup.evaluate.labels import Label, read_labels

_OWN = Path(__file__).parent
# Label files of the first question and the corpus of each; the first one determines RETSim's threshold.
SAME_FILES = {
    "webz_en_pair_labels.jsonl": "webz_en_2023-12_2024-01",
    "webz_en_2025_pair_labels.jsonl": "webz_en_2025",
    "webz_zh_pair_labels.jsonl": "webz_zh_2025-03_2025-06",
}
# Label files of whole corpora, by which rates are measured: what was held back and what came near, drawn by weight.
MEASURED = (
    "reader_labels.jsonl",
    "reader_labels_2.jsonl",
    "reader_labels_3.jsonl",
    _OWN / "reader_pairs.jsonl",
    _OWN / "validation_pairs.jsonl",
)
# Drawn from items for which other rows stand already, or near the boundary of a draft: they teach and measure nothing.
TAUGHT = (
    "reader_labels_4.jsonl",
    _OWN / "rule_2_pairs.jsonl",
    _OWN / "clean_pairs.jsonl",
    _OWN / "near_pairs.jsonl",
)
# Drawn from what a fit decides, and read after it: they teach nothing, and the pages have their rates.
FRESH = (_OWN / "fresh_pairs.jsonl", _OWN / "fresh_pairs_2.jsonl")
# Pairs of the files above that were read again with their whole texts; the first readers had seen cut ones.
READ_AGAIN = _OWN / "read_again.jsonl"
# Its languages stand one behind the other; all other corpora are in the order in which they came.
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
