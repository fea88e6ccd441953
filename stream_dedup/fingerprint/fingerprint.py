"""Items -> fingerprints, a batch in one call of the kernel.

Out: `Fingerprints`: the records that are compared and remembered, and the keys by which the index finds
candidates. Key tables in order: body (bands, or the layout's of a SimHash), lead bands, headline bands, exact
text, id. An identity is a key like any other: the exact tables hold 32 bits of a 64-bit hash, and the record's
64 bits confirm.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_dedup.fingerprint.characters import character_classes
from stream_dedup.fingerprint.kernel import distinct_shingles, fingerprint_batch, headline_features, tokenise
from stream_dedup.fingerprint.packed import pack_batch
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.fingerprint.simhash import IDF, TF, UNIFORM, features, simhash_batch
from stream_dedup.fingerprint.views import cut_site_suffix, fold
from stream_dedup.news.item import Item

WORD_BYTES = 4096
"""A set of 15-bit hashes; a text of 500 distinct words fills 1.5 % of it."""


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """records: (n,) of the scheme's record_dtype; keys: (n, T) uint32, 0 = no key in this table;

    words: (n, 4096) uint8, a set of the text's words (kernel.mark_words). It serves the comparison of a new
    item and is not remembered. hamming: the distance within which two bodies' SimHashes are alike.
    bodies: the n packed bodies (packed.py) where they are compared exactly, else empty.
    """

    records: NDArray[np.void]
    keys: NDArray[np.uint32]
    words: NDArray[np.uint8]
    hamming: int
    bodies: list[bytes] = dataclasses.field(default_factory=list)

    def with_own_records(self) -> "Fingerprints":
        """The same with a copy of the records."""
        return dataclasses.replace(self, records=self.records.copy())


def identity(text: str) -> int:
    """64-bit hash of an id or a source; never 0, which means "unknown".

    >>> identity("a") == identity("a") != identity("b")
    True
    """
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")) or 1


def identity_key(identity_hash: int) -> int:
    """The index key of an identity: its upper 32 bits, never 0."""
    return (identity_hash >> 32) or 1


def variant_key(identity_hash: int) -> int:
    """The index key under which the variants of an original stand; never that of an item. See `Deduplicator`."""
    return (identity_hash & 0xFFFFFFFF) or 1


class Fingerprinter:
    """Makes fingerprints under one scheme; holds the seeds, no state of the stream.

    >>> from stream_dedup.settings import FingerprintSettings
    >>> make = Fingerprinter(Scheme(FingerprintSettings()))
    >>> item = Item("1", "Bridge opens", "The bridge over the Elm opened on Monday.", "a.example", 0)
    >>> int(make([item]).records["body_size"][0])
    6
    """

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme
        s = scheme.settings
        self._classes = character_classes()
        self._seed = np.uint64(scheme.settings.seed)
        self._widths = np.array([s.shingle_words, s.shingle_characters], np.int64)
        self._headline = scheme.permutations(0, s.headline_bands, s.headline_rows)
        self._lead = scheme.permutations(1, s.lead_bands, s.lead_rows)
        self._body = scheme.permutations(2, 0 if scheme.layout else s.body_bands, s.body_rows)
        self._weighting = {"uniform": UNIFORM, "tf": TF, "idf": IDF}[s.weights]
        none = np.zeros(2, np.uint64), np.zeros(2, np.uint16)
        self._idf, self._unseen = (scheme.weights.table, scheme.weights.unseen) if scheme.weights else (none, 0)

    def __call__(self, items: Sequence[Item]) -> Fingerprints:
        """Fingerprints of the items, in their order. O(bytes · tables) with a small constant."""
        n, s = len(items), self.scheme.settings
        data, bounds = _nothing(n) if self.scheme.is_given else _pack(items)
        records = np.zeros(n, self.scheme.record_dtype)
        keys = np.zeros((n, self.scheme.tables), np.uint32)
        digests = np.empty(n, np.uint64)
        headline_sizes, lead_sizes, body_sizes = (np.empty(n, np.uint32) for _ in range(3))
        headlines = np.empty((n, records.dtype["headline"].shape[0]), np.uint16)
        words = np.empty((n, WORD_BYTES), np.uint8)
        leads = np.empty((n, records.dtype["lead"].shape[0]), np.uint8)
        has_sketch = "body" in (records.dtype.names or ())
        bodies = np.empty((n, records.dtype["body"].shape[0] if has_sketch else 0), np.uint8)
        body_keys, lead_keys, headline_keys = (keys[:, self.scheme.views[v]] for v in ("body", "lead", "headline"))
        band_keys = body_keys if has_sketch else body_keys[:, :0]
        fingerprint_batch(
            data, bounds, self._classes, self._seed, self._widths, 2 * s.lead_words,
            self._headline, self._lead, self._body, s.headline_rows, s.lead_rows, s.body_rows,
            digests, headline_sizes, headlines, headline_keys, words, lead_sizes, leads, lead_keys,
            body_sizes, bodies, band_keys,
        )  # fmt: skip
        records["digest"] = digests
        records["headline_size"] = headline_sizes
        records["headline"] = headlines
        records["lead_size"] = np.minimum(lead_sizes, 0xFFFF)
        records["lead"] = leads
        records["body_size"] = body_sizes
        records["row_id"] = [identity(item.id) for item in items]
        records["source"] = [identity(item.source) if item.source else 0 for item in items]
        records["time"] = [item.time for item in items]
        records["partition"] = [item.partition for item in items]
        records["offset"] = [item.offset for item in items]
        for table, field in ((-2, "digest"), (-1, "row_id")):
            keys[:, table] = np.maximum(records[field] >> np.uint64(32), 1)
        if has_sketch:
            records["body"] = bodies
        elif self.scheme.layout:
            if self.scheme.is_given:
                _take_given(items, records, keys)
            else:
                records["simhash"] = self.simhashes(data, bounds[:, 2:])
            body_keys[:] = self.scheme.layout.keys(records["simhash"])
            body_keys[records["body_size"] == 0] = 0
        whole = self.bodies(data, bounds[:, 2:]) if self.scheme.is_exact else []
        return Fingerprints(records, keys, words, s.hamming, whole)

    def bodies(self, data: NDArray[np.uint8], bounds: NDArray[np.int64]) -> list[bytes]:
        """The packed shingles of n texts of `data`, bounds (n, 2): see packed.pack_batch."""
        out, ends = pack_batch(data, bounds, self._classes, self._seed, self._widths[0], self._widths[1])
        packed = out.tobytes()
        return [packed[start:end] for start, end in pairwise(ends.tolist())]

    def simhashes(self, data: NDArray[np.uint8], bounds: NDArray[np.int64]) -> NDArray[np.uint64]:
        """SimHash (n, bits / 64) of n texts of `data`, bounds (n, 2): see simhash_batch."""
        out = np.empty((len(bounds), self.scheme.settings.bits // 64), np.uint64)
        simhash_batch(
            data, bounds, self._classes, self._seed, *self.scheme.feature_widths, self._weighting, *self._idf,
            self._unseen, out,
        )  # fmt: skip
        return out

    def features(self, text: str) -> NDArray[np.uint64]:
        """Hashes of the features of a text's SimHash, with repeats: what a table of weights counts."""
        data = np.frombuffer(fold(text) + b" ", np.uint8)
        tokens, kinds, out = (
            np.empty(len(data), np.uint64),
            np.empty(len(data), np.uint8),
            np.empty(len(data), np.uint64),
        )
        count = tokenise(data, 0, len(data) - 1, self._classes, self._seed, tokens, kinds)
        return out[: features(tokens, kinds, count, *self.scheme.feature_widths, out)]

    def exact(self, item: Item) -> "ExactViews":
        """The sets that the sketches stand for, whole: what an exact comparison compares. O(bytes)."""
        data, bounds = _pack([item])
        longest = max(64, len(data))
        tokens, kinds = np.empty(longest, np.uint64), np.empty(longest, np.uint8)
        table, out = np.empty(4 * longest, np.uint64), np.empty(longest, np.uint64)
        count = tokenise(data, bounds[0, 0], bounds[0, 1], self._classes, self._seed, tokens, kinds)
        small_table, features = np.empty(128, np.uint64), np.empty(64, np.uint64)
        found = headline_features(tokens, kinds, count, small_table, features)
        headline = frozenset(features[:found].tolist())
        count = tokenise(data, bounds[0, 2], bounds[0, 3], self._classes, self._seed, tokens, kinds)
        units = np.cumsum(2 - kinds[:count].astype(np.int64))
        lead_tokens = min(count, int(np.searchsorted(units, 2 * self.scheme.settings.lead_words)) + 1)
        sets = []
        for length in (lead_tokens, count):
            found = distinct_shingles(tokens, kinds, length, self._widths[0], self._widths[1], table, out)
            sets.append(frozenset(out[:found].tolist()))
        return ExactViews(headline, sets[0], sets[1], count)


@dataclass(frozen=True, slots=True)
class ExactViews:
    """Hashes of an item's distinct headline features, lead shingles and body shingles; tokens of its text."""

    headline: frozenset[int]
    lead: frozenset[int]
    body: frozenset[int]
    tokens: int


def _take_given(items: Sequence[Item], records: NDArray[np.void], keys: NDArray[np.uint32]) -> None:
    """Puts the items' own fingerprints into the records; "the same text" is then the same fingerprint.

    The source is left out: it serves the guards, which look at how one site's pages are made.
    """
    given = [item.fingerprint is not None for item in items]
    values = np.array([item.fingerprint or 0 for item in items], np.uint64)
    records["simhash"][:, 0] = values
    records["digest"] = values
    records["body_size"] = given
    records["source"] = 0
    keys[:, -2] = 0  # equal fingerprints meet in the layout's tables


def _nothing(n: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """As `_pack` for n items without headline and text."""
    return np.zeros(1, np.uint8), np.zeros((n, 4), np.int64)


def _pack(items: Sequence[Item]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """All views in one buffer, with (n, 4) bounds: start and end of the headline, of the text."""
    parts = []
    for item in items:
        parts.append(fold(cut_site_suffix(item.title, with_numbers=bool(item.text))))
        parts.append(fold(item.text))
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    starts = ends - np.array([len(part) for part in parts], np.int64) if parts else ends
    bounds = np.stack([starts, ends], axis=1).reshape(len(items), 4)
    # One byte more, so that an empty batch of bytes is still an array.
    return np.frombuffer(b"".join([*parts, b" "]), np.uint8), bounds
