"""The rows of the table of families in docs/fingerprints.md, and what they are measured on.

To add a row, add a line to FAMILIES and run `make figures CORPORA=DIR ARGS="--only families"`.
"""

from pathlib import Path
from typing import Any, NamedTuple

Tables = dict[str, dict[str, Any]]
"""Settings by table, as in a settings file; what is left out has its default."""

IDF = Path("made-of-the-corpus")
"""Stands for the table of feature rarities that is made of the corpus a row is measured on."""

BY_LETTERS: Tables = {"decision": {"novelty": 0.5}}
"""What docs/fingerprints.md recommends with shingles of letters, which unlike texts have in common too."""

FAMILIES: dict[str, Tables] = {
    "`minhash` (default)": {},
    '`minhash`, `verify = "exact"`': {"fingerprint": {"verify": "exact"}},
    "`minhash`, `shingle_letters = 5`, `novelty = 0.5`": {"fingerprint": {"shingle_letters": 5}, **BY_LETTERS},
    '`minhash`, `chinese = "words"`': {"fingerprint": {"chinese": "words"}},
    "`simhash`, 64 bits, k = 3": {"fingerprint": {"family": "simhash"}},
    "64 bits, k = 6, 8 choose 2": {"fingerprint": {"family": "simhash", "hamming": 6, "layout": "8 choose 2"}},
    "128 bits, k = 12, 14 choose 2": {
        "fingerprint": {"family": "simhash", "bits": 128, "hamming": 12, "layout": "14 choose 2"}
    },
    '64 bits, k = 3, `features = "tokens"`': {"fingerprint": {"family": "simhash", "features": "tokens"}},
    'the same, `weights = "idf"` (table of the same corpus)': {
        "fingerprint": {"family": "simhash", "features": "tokens", "weights": "idf", "idf": IDF}
    },
    "64 bits, k = 3, 4 choose 1": {"fingerprint": {"family": "simhash", "layout": "4 choose 1"}},
}
"""Name in the table -> settings. A table [decision] in them counts for the whole decision, not for the body alone."""

BODY_ALONE: Tables = {"decision": {"rule": "jaccard", "body": 0.8}}
"""The second way in which each family is measured: the body alone decides, as in most tools."""


class Labelled(NamedTuple):
    """A corpus and its labels of "the same article?": names of files, without .jsonl.gz and with .jsonl."""

    name: str
    corpus: str
    labels: str


LABELLED = (
    Labelled("English", "webz_en_2023-12_2024-01", "webz_en_pair_labels.jsonl"),
    Labelled("Chinese", "webz_zh_2025-03_2025-06", "webz_zh_pair_labels.jsonl"),
)
"""The columns of the table."""
