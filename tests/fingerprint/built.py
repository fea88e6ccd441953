"""What the tests of fingerprints share: a Fingerprinter of some settings, items of texts, distances."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.kernel import Texts
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings


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


class Tokens(NamedTuple):
    """The hash of each token, and 1 for each that is a character of a script without spaces, else 0."""

    hashes: list[int]
    kinds: list[int]


def tokens_of(text: str, make: Fingerprinter = _PLAIN) -> Tokens:
    found = make.tokens(text)
    return Tokens(*(found.kept[name][: found.count].tolist() for name in Tokens._fields))


def distances(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The Hamming distance of each SimHash of a, (n, words), to that of b."""
    flipped: NDArray[np.int64] = np.bitwise_count(a ^ b).sum(axis=1, dtype=np.int64)
    return flipped
