"""Texts whose shingles have chosen hashes, as whoever knows the program can write them.

Each next word is chosen among random ones so that the hash of the new shingle of three words meets a condition: it lies
in a small part of the range, as no text by chance. The hashes are those of the default scheme (core.h: `hash_word`,
`rolled`), without a salt.
"""

import string
from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
_U = np.uint64
_GOLDEN, _FNV = _U(0x9E3779B97F4A7C15), _U(0x100000001B3)
_WORDS = ["".join(pair) for pair in product(string.ascii_lowercase, string.ascii_lowercase + string.digits)]
# Words are chosen for some texts at once, which then follow each other, and each among some.
_CHAINS, _CHOICES = 256, 24

SKEWS: dict[str, Callable[[Hashes], NDArray[np.bool_]]] = {
    "high": lambda hashes: hashes > _U(int(0.85 * 2**64)),  # long gaps before a packed set, none in it
    "low": lambda hashes: hashes < _U(int(0.15 * 2**64)),
    "one bin": lambda hashes: hashes >> _U(60) == _U(7),  # 1/16 of the bins of a sketch
    "one slot": lambda hashes: (hashes >> _U(8) & _U(0xFFFF)) < _U(0x1000),  # of a table without a secret
    "equal members": lambda hashes: (hashes >> _U(40) & _U(0xF)) == _U(0),
}


def skewed_text(name: str, count: int, seed: int) -> str:
    """A text of some `count` words. seed: of the scheme's token hashes."""
    random, is_chosen = np.random.default_rng(7), SKEWS[name]
    numbers = np.array([int.from_bytes(word.encode(), "little") for word in _WORDS], _U)
    hashes = _mixed((numbers ^ _U(seed)) * _GOLDEN)
    one, two = random.integers(0, len(_WORDS), (2, _CHAINS))
    columns = [one, two]
    for _ in range(max(count // _CHAINS - 2, 1)):
        choices = random.integers(0, len(_WORDS), (_CHAINS, _CHOICES))
        before = _rolled(_rolled(hashes[one], hashes[two])[:, None], hashes[choices])
        chosen = choices[np.arange(_CHAINS), is_chosen(_mixed(before) | _U(1)).argmax(axis=1)]
        one, two = two, chosen
        columns.append(chosen)
    return " ".join(_WORDS[word] for word in np.array(columns).T.ravel().tolist())


def _mixed(hashes: Hashes) -> Hashes:
    hashes = (hashes ^ (hashes >> _U(33))) * _U(0xFF51AFD7ED558CCD)
    hashes = (hashes ^ (hashes >> _U(33))) * _U(0xC4CEB9FE1A85EC53)
    return hashes ^ (hashes >> _U(33))


def _rolled(hashes: Hashes, tokens: Hashes) -> Hashes:
    return ((hashes << _U(5) | hashes >> _U(59)) ^ tokens) * _FNV
