"""The scheme: everything that makes two fingerprints comparable, with an id of its own.

In: the [fingerprint] settings. Out: `Scheme`: seeds of the hash functions, the layout of a record, the tables
of the index and which view each belongs to. Two schemes never mix: the id stands in every changelog block.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_dedup.fingerprint import kernel
from stream_dedup.settings import FingerprintSettings

# 24 features of 15 bits hold 99.9 % of real headlines whole; two headlines of 12 words then share a feature by
# chance once in 230 pairs, which moves their Jaccard by .05. The lowest bit says: it stands in the text too.
HEADLINE_FEATURES = 24
# A lead of 80 words has 78 shingles; 128 bins keep almost every one apart.
LEAD_BINS = 128


@dataclass(frozen=True)
class Scheme:
    """Sizes and seeds of a fingerprint.

    >>> from stream_dedup.settings import FingerprintSettings
    >>> scheme = Scheme(FingerprintSettings())
    >>> scheme.tables, scheme.record_dtype.itemsize
    (30, 292)
    """

    settings: FingerprintSettings

    @property
    def tables(self) -> int:
        """T: one table a band of each view, one for exact texts, one for ids."""
        s = self.settings
        return s.body_bands + s.lead_bands + s.headline_bands + 2

    @cached_property
    def record_dtype(self) -> np.dtype[np.void]:
        """What is remembered of an original: identity, coordinates, sizes, sketches. Little-endian, packed."""
        return np.dtype(
            [
                ("row_id", "<u8"),  # xxh3-64 of the item's id
                ("digest", "<u8"),  # of the tokens of headline and text
                ("source", "<u8"),  # xxh3-64 of the source, 0 if unknown
                ("time", "<i8"),  # ms
                ("offset", "<i8"),
                ("partition", "<i4"),
                ("body_size", "<u4"),  # distinct shingles
                ("lead_size", "<u2"),
                ("headline_size", "<u2"),
                ("headline", "<u2", HEADLINE_FEATURES),  # the smallest features, ascending
                ("lead", "u1", LEAD_BINS // 2),
                ("body", "u1", self.settings.body_bins // 2),
            ]
        )

    @cached_property
    def id(self) -> int:
        """64-bit id of the scheme: of its settings, its record layout and the kernel's version."""
        text = f"{kernel.VERSION} {self.settings.model_dump_json()} {self.record_dtype}"
        return xxhash.xxh3_64_intdigest(text.encode())

    def permutations(self, view: int, bands: int, rows: int) -> NDArray[np.uint32]:
        """(2, bands·rows) odd multipliers and offsets of a view's MinHash functions."""
        random = np.random.Generator(np.random.PCG64([self.settings.seed, view]))
        out = random.integers(0, 2**32, (2, bands * rows), np.uint32)
        out[0] |= 1
        return out
