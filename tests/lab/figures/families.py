"""The rows of the table of families in docs/fingerprints.md, and what they are measured on.

To add a row, add a line to FAMILIES and run `make figures CORPORA=DIR ARGS="--only families"`.
"""

from typing import Any, NamedTuple

Tables = dict[str, dict[str, Any]]
"""Settings by table, as in a settings file; what is left out has its default."""

BY_LETTERS: Tables = {"decision": {"novelty": "eager"}}
"""What docs/fingerprints.md recommends with shingles of letters, which unlike texts have in common too."""

FAMILIES: dict[str, Tables] = {
    "`minhash` (default)": {},
    '`minhash`, `verify = "exact"`': {"fingerprint": {"verify": "exact"}},
    '`minhash`, `shingles = "letters"`, `novelty = "eager"`': {"fingerprint": {"shingles": "letters"}, **BY_LETTERS},
    "`simhash`, k = 3": {"fingerprint": {"family": "simhash"}},
    "`simhash`, k = 6": {"fingerprint": {"family": "simhash", "hamming": 6}},
    "`compact`, k = 3": {"fingerprint": {"family": "compact"}},
}
"""Name in the table -> settings. A table [decision] in them counts for the whole decision, not for the body alone."""

BODY_ALONE: Tables = {"decision": {"jaccard": 0.8}}
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
