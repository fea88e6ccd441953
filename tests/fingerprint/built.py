"""What the tests of fingerprints share: a Fingerprinter of some settings, items of texts, the mixing of hashes."""

import numpy as np
from numpy.typing import NDArray

from stream_dedup.fingerprint.fingerprint import Fingerprinter, Texts
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings

M64 = 2**64 - 1


def scheme(**settings: object) -> Scheme:
    return Scheme(FingerprintSettings.model_validate(settings))


def maker(**settings: object) -> Fingerprinter:
    return Fingerprinter(scheme(**settings))


_PLAIN = maker()


def items(*texts: str) -> list[Item]:
    """An item of each text, without a headline; its id is its place."""
    return [Item(str(n), "", text, "", n) for n, text in enumerate(texts)]


def texts_of(*texts: str, make: Fingerprinter = _PLAIN) -> Texts:
    found = make(items(*texts)).texts
    assert found is not None
    return found


def distances(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The Hamming distance of each SimHash of a, (n, words), to that of b."""
    flipped: NDArray[np.int64] = np.bitwise_count(a ^ b).sum(axis=1, dtype=np.int64)
    return flipped


def hash_word(eights: list[int], seed: int) -> int:
    """The hash of a word, given as numbers of eight bytes, in plain Python."""
    h = (eights[0] ^ seed) * 0x9E3779B97F4A7C15 & M64
    for eight in eights[1:]:
        h = mix(h) if seed >> 32 else h
        h = (h ^ h >> 32 ^ eight) * 0xFF51AFD7ED558CCD & M64
    return mix(h)


def mix(h: int) -> int:
    """The finaliser of MurmurHash3, in plain Python."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        h = (h ^ h >> 33) * factor & M64
    return h ^ h >> 33
