"""SimHash: 64 or 128 bits for a text, whose Hamming distances estimate the angles between texts.

Each feature of a text (a shingle or a token) votes on each bit with its weight, for or against, according to that bit
of its hash; the majority decides. If the feature vectors of two texts form the angle a, each bit differs with
probability a / pi.

Weights are integers, so that votes add up to the same sum on every machine: 1 for each distinct feature (uniform), the
number of its occurrences (tf), or occurrences times rarity (idf).

Sources: Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002; Manku, Jain, Das Sarma,
"Detecting Near-Duplicates for Web Crawling", WWW 2007 (features, weights, 64 bits and k = 3).

The table of idf weights counts the features of a corpus. It is frozen, so that all SimHashes are comparable: a table
that kept learning would change the fingerprints of unchanged texts. Its digest is part of the scheme id; another table
is another scheme. `stream-dedup weights build` writes the file. The weight of a feature is 256 · ln(documents /
documents with the feature), rounded, at least 1; a feature that is missing in the table counts as seen in one document.
1/256 is finer than the precision of any corpus.

File format, little-endian: magic "SDW1", version u2, 2 zero bytes, id of the features u8, documents u8, entries u8,
xxh3-128 of all other bytes; then the hashes (entries · u8, ascending) and the weights (entries · u2).
Source: Spärck Jones, "A statistical interpretation of term specificity and its application in retrieval", 1972.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xxhash
from numba import int64, njit, uint64
from numpy.typing import NDArray

from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint.bits import GOLDEN, mix, mix_all
from stream_dedup.fingerprint.shingles import ShingleWidths

VERSION = 1
"""Part of the scheme id: raise it when a SimHash changes."""

UNIFORM, TF, IDF = 0, 1, 2


class SimHashSink(NamedTuple):
    """How the kernel makes SimHashes, and where it writes them.

    widths of the features; weighting: UNIFORM, TF or IDF; keys, values, unseen: see `weight_of`; out: (n, bits/64)
    uint64, one row for each item.
    """

    widths: ShingleWidths
    weighting: int
    keys: NDArray[np.uint64]
    values: NDArray[np.uint16]
    unseen: int
    out: NDArray[np.uint64]


@njit(nogil=True, cache=True)
def weight_of(h, keys, values, unseen):
    """The idf weight of a feature. keys, values: an open-addressing table of a power of two of slots (0 = free)."""
    mask = uint64(keys.size - 1)
    slot = mix(h) & mask
    while keys[slot] != uint64(0):
        if keys[slot] == h:
            return int64(values[slot])
        slot = (slot + uint64(1)) & mask
    return int64(unseen)


@njit(nogil=True, cache=True)
def vote(h, weight, votes):
    """Add a feature's weight to `votes` (64,) int64 at each one bit of its hash. The compiler vectorises the loop."""
    for bit in range(64):
        votes[bit] += weight & -int64((h >> uint64(bit)) & uint64(1))


@njit(nogil=True, cache=True)
def simhash(features, count, sink, votes, out):
    """Write the SimHash of features[:count] to `out`, (bits/64,) uint64; 0 without a feature.

    features: distinct ones if the weighting is UNIFORM; votes: (bits/64, 64) int64 scratch. O(features · bits).
    """
    votes[:] = 0
    total = int64(0)
    for j in range(count):
        h = features[j]
        weight = weight_of(h, sink.keys, sink.values, sink.unseen) if sink.weighting == IDF else int64(1)
        total += weight
        # The lowest bit of a feature's hash is always set; mixing once more makes every bit fair.
        vote(mix(h), weight, votes[0])
        if out.size == 2:  # the second 64 bits are another function of the feature
            vote(mix(h ^ GOLDEN), weight, votes[1])
    for word in range(out.size):
        bits = uint64(0)
        for bit in range(64):
            if 2 * votes[word, bit] > total:
                bits |= uint64(1) << uint64(bit)
        out[word] = bits


# -- weights --------------------------------------------------------------------------------------------

_MAGIC = b"SDW1"
WEIGHTS_VERSION = 1
"""Version of the file of a table of weights."""
_HEADER = struct.Struct("<4sHHQQQ")
_DIGEST = 16
_UNIT = 256
# A feature of one document has the weight of an unseen one, and most features are of this kind.
_MIN_DOCUMENTS = 2


@dataclass(frozen=True)
class Weights:
    """A table of weights. features: the id of the hashed features, see `Scheme.features_id`; documents: their number.

    hashes: (n,) uint64, ascending; values: (n,) uint16, the weights.
    """

    features: int
    documents: int
    hashes: NDArray[np.uint64]
    values: NDArray[np.uint16]

    @property
    def unseen(self) -> int:
        """The weight of a feature that is missing in the table: that of a feature of one document."""
        return max(1, round(_UNIT * float(np.log(max(self.documents, 1)))))

    @cached_property
    def digest(self) -> bytes:
        """xxh3-128 of the whole table."""
        return _digest(self._head(), self._content())

    @cached_property
    def table(self) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
        """(keys, values) for `weight_of`: open addressing, at most half full, 0 = free."""
        size = 1 << (2 * len(self.hashes)).bit_length()
        keys, values = np.zeros(size, np.uint64), np.zeros(size, np.uint16)
        slots = (mix_all(self.hashes) & np.uint64(size - 1)).tolist()
        for hash_, value, slot in zip(self.hashes.tolist(), self.values.tolist(), slots, strict=True):
            while keys[slot]:
                slot = (slot + 1) & (size - 1)
            keys[slot], values[slot] = hash_, value
        return keys, values

    def to_bytes(self) -> bytes:
        """The content of the file. O(entries)."""
        head, content = self._head(), self._content()
        return head + _digest(head, content) + content

    def _head(self) -> bytes:
        return _HEADER.pack(_MAGIC, WEIGHTS_VERSION, 0, self.features, self.documents, len(self.hashes))

    def _content(self) -> bytes:
        return self.hashes.astype("<u8").tobytes() + self.values.astype("<u2").tobytes()


def build_weights(features: int, documents: Iterable[NDArray[np.uint64]]) -> Weights:
    """Build the table of a corpus from the feature hashes of each document. Memory: some 100 bytes a distinct feature.

    >>> texts = [np.array(features, np.uint64) for features in ([5, 5, 9], [5], [5, 9])]
    >>> weights = build_weights(7, texts)
    >>> weights.hashes.tolist(), weights.values.tolist(), weights.unseen
    ([5, 9], [1, 104], 281)
    """
    frequencies: dict[int, int] = {}
    count = 0
    for document in documents:
        count += 1
        for h in np.unique(document).tolist():
            frequencies[h] = frequencies.get(h, 0) + 1
    entries = sorted((h, n) for h, n in frequencies.items() if n >= _MIN_DOCUMENTS)
    hashes = np.array([h for h, _ in entries], np.uint64)
    rarity = np.log(max(count, 1) / np.array([n for _, n in entries], np.float64))
    return Weights(features, count, hashes, np.clip(np.rint(_UNIT * rarity), 1, 0xFFFF).astype(np.uint16))


def read_weights(path: Path, features: int) -> Weights:
    """Read a table from a file. features: the id of the features under the current settings.

    Raises ConfigError if the file is unreadable, not a table of weights, damaged, or built for other features.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"[fingerprint] idf: cannot read {path}: {error.strerror}") from None
    at = _HEADER.size + _DIGEST
    if len(data) < at or data[:4] != _MAGIC:
        raise ConfigError(
            f"[fingerprint] idf: {path} is not a table of weights; `stream-dedup weights build` writes one"
        )
    head, content = data[: _HEADER.size], data[at:]
    _, version, _, built_for, documents, entries = _HEADER.unpack(head)
    if version != WEIGHTS_VERSION:
        raise ConfigError(f"[fingerprint] idf: {path} has version {version}; this program reads {WEIGHTS_VERSION}")
    if data[_HEADER.size : at] != _digest(head, content) or len(content) != 10 * entries:
        raise ConfigError(f"[fingerprint] idf: {path} was changed or truncated after it was written")
    if built_for != features:
        raise ConfigError(
            f"[fingerprint] idf: {path} was built for other features; build it again with the current "
            "settings (features, shingle_words, shingle_characters and seed matter)"
        )
    hashes = np.frombuffer(content, "<u8", entries).astype(np.uint64)
    return Weights(built_for, documents, hashes, np.frombuffer(content, "<u2", entries, 8 * entries).astype(np.uint16))


def _digest(head: bytes, content: bytes) -> bytes:
    state = xxhash.xxh3_128(head)
    state.update(content)
    return state.digest()
