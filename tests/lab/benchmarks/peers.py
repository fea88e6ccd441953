"""Run alternative libraries on the same texts and features, each used as its documentation recommends.

FINGERPRINTS make the fingerprint of a text; STREAMS count how many texts of a stream they hold back. Features are
shingles of three lower-case words. MinHash has 128 permutations and a Jaccard threshold of .8, SimHash 64 bits and a
distance of 3. `apart.py` runs peers whose dependencies conflict with ours.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from datasketch import MinHash, MinHashLSH
from gaoya.minhash import MinHashStringIndex
from gaoya.simhash import SimHashStringIndex
from rensa import RMinHash, RMinHashDeduplicator
from simhash import Simhash

Stream = Callable[[Sequence[str]], int]

_WORD = re.compile(r"\w+")
_PERMUTATIONS, _THRESHOLD, _SEED = 128, 0.8, 42
# For rensa, 16 bands of 8: the curve is steepest at .7, below the threshold, so that texts with .8 are found.
_BANDS = 16


def shingles(text: str) -> list[str]:
    """Return the word 3-shingles of a text.

    >>> shingles("The Elm bridge opens.")
    ['the elm bridge', 'elm bridge opens']
    """
    words = _WORD.findall(text.lower())
    return [" ".join(words[i : i + 3]) for i in range(max(1, len(words) - 2))]


# -- fingerprint of a text ---------------------------------------------------------------------------------


def datasketch_minhash(text: str) -> MinHash:
    sketch = MinHash(num_perm=_PERMUTATIONS)
    sketch.update_batch([shingle.encode() for shingle in shingles(text)])
    return sketch


def rensa_minhash(text: str) -> RMinHash:
    sketch = RMinHash(_PERMUTATIONS, _SEED)
    sketch.update(shingles(text))
    return sketch


def simhash(text: str) -> int:
    return int(Simhash(shingles(text)).value)


def _gaoya_minhash() -> MinHashStringIndex:
    return MinHashStringIndex(32, _THRESHOLD, None, None, _PERMUTATIONS, "word", True, (3, 3))


def _gaoya_simhash() -> SimHashStringIndex:
    return SimHashStringIndex(64, 4, 3, "word", True, (3, 3))


# gaoya does not expose its fingerprints; a query of an empty index costs a fingerprint and little more.
FINGERPRINTS: dict[str, Callable[[str], object]] = {
    "datasketch": datasketch_minhash,
    "rensa": rensa_minhash,
    "gaoya": _gaoya_minhash().query,
    "gaoya_simhash": _gaoya_simhash().query,
    "simhash": simhash,
}


# -- texts held back of each part of a stream ---------------------------------------------------------------


def _stream(
    prepare: Callable[[str], Any], query: Callable[[Any], object], insert: Callable[[int, Any], object]
) -> Stream:
    """Insert each text for which the query finds nothing."""
    count = itertools.count()

    def process(texts: Sequence[str]) -> int:
        held_back = 0
        for prepared in map(prepare, texts):
            if query(prepared):
                held_back += 1
            else:
                insert(next(count), prepared)
        return held_back

    return process


def _datasketch() -> Stream:
    lsh = MinHashLSH(threshold=_THRESHOLD, num_perm=_PERMUTATIONS)
    return _stream(datasketch_minhash, lsh.query, partial(lsh.insert, check_duplication=False))


def _gaoya(index: MinHashStringIndex | SimHashStringIndex) -> Stream:
    return _stream(str, index.query, index.insert_document)


def _rensa() -> Stream:
    dedup, count = RMinHashDeduplicator(_THRESHOLD, _PERMUTATIONS, True, _BANDS, _SEED), itertools.count()
    return lambda texts: sum(not dedup.add(str(next(count)), rensa_minhash(text)) for text in texts)


STREAMS: dict[str, Callable[[], Stream]] = {
    "datasketch": _datasketch,
    "gaoya": lambda: _gaoya(_gaoya_minhash()),
    "gaoya_simhash": lambda: _gaoya(_gaoya_simhash()),
    "rensa": _rensa,
}
