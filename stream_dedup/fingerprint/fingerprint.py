"""Items -> fingerprints, a batch in one call of the kernel.

Out: `Fingerprints`: the signatures that are compared and remembered, and the keys by which the index finds
candidates. Key tables in order: body (bands, or the layout's of a SimHash), lead bands, headline bands, exact
text, id. An identity is a key like any other: the exact tables hold 32 bits of a 64-bit hash, and the signature's
64 bits confirm.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_dedup.batches import batches
from stream_dedup.fingerprint.characters import character_classes
from stream_dedup.fingerprint.folding import NO_TABLE, folding_table
from stream_dedup.fingerprint.kernel import distinct_shingles, every_shingle, fingerprint_batch, headline_features
from stream_dedup.fingerprint.packed import pack_batch
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.fingerprint.simhash import IDF, TF, UNIFORM, simhash_batch
from stream_dedup.fingerprint.tokens import SLACK, tokenise, workspace
from stream_dedup.fingerprint.views import fold_slowly, headline_of
from stream_dedup.news.item import Item

WORD_BYTES = 4096
"""A set of 15-bit hashes; a text of 500 distinct words fills 1.5 % of it."""


def mark_variant(offset: int) -> int:
    """The offset in a variant's signature: that of its original, told apart from any that an item can have (-1 or
    more).

    >>> [mark_variant(offset) for offset in (-1, 0, 7)]
    [-2, -3, -10]
    """
    return -3 - offset


def unmark(offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The true offsets of signatures, and which of them are variants', (n,) each.

    >>> [part.tolist() for part in unmark(np.array([-1, 7, -2, -10]))]
    [[-1, 7, -1, 7], [False, False, True, True]]
    """
    is_variant = offsets < -1
    return np.where(is_variant, -3 - offsets, offsets), is_variant


class Prose(NamedTuple):
    """The sentences of n texts, cut into passages of up to 16 shingles: see sentences.py.

    The passages of text i are firsts[i] to lasts[i], (n,) int64. Passage p has shingles[starts[p]:stops[p]] (uint64), a
    hash hashes[p] (uint32) that also a slightly changed copy has, and units[p] words (float32; two characters each).
    """

    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]
    shingles: NDArray[np.uint64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    hashes: NDArray[np.uint32]
    units: NDArray[np.float32]

    @classmethod
    def nothing(cls, n: int = 0) -> "Prose":
        """n texts without a sentence."""
        none, ends = np.zeros(0, np.int64), np.zeros(n, np.int64)
        return cls(ends, ends, np.zeros(0, np.uint64), none, none, np.zeros(0, np.uint32), np.zeros(0, np.float32))

    @classmethod
    def joined(cls, parts: Sequence["Prose"], firsts: NDArray[np.int64], lasts: NDArray[np.int64]) -> "Prose":
        """The passages of several parts, one behind the other; firsts and lasts say whose they are."""
        if not parts:
            return cls.nothing()._replace(firsts=firsts, lasts=lasts)
        behind = np.cumsum([0, *(len(part.shingles) for part in parts)])
        return cls(
            firsts,
            lasts,
            np.concatenate([part.shingles for part in parts]),
            np.concatenate([part.starts + before for part, before in zip(parts, behind, strict=False)]),
            np.concatenate([part.stops + before for part, before in zip(parts, behind, strict=False)]),
            np.concatenate([part.hashes for part in parts]),
            np.concatenate([part.units for part in parts]),
        )


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """signatures: (n,) of the scheme's signature_dtype; keys: (n, T) uint32, 0 = no key in this table;

    words: (n, 4096) uint8, a set of the text's words (kernel.mark_words). It serves the comparison of a new
    item and is not remembered. hamming: the distance within which two bodies' SimHashes are alike.
    bodies: the n packed bodies (packed.py) where they are compared exactly, else empty.
    prose: what of the texts is sentences; it serves the comparison of new items and is not remembered either.
    """

    signatures: NDArray[np.void]
    keys: NDArray[np.uint32]
    words: NDArray[np.uint8]
    hamming: int
    bodies: list[bytes] = dataclasses.field(default_factory=list)
    prose: Prose = dataclasses.field(default_factory=Prose.nothing)

    @property
    def is_empty(self) -> NDArray[np.bool_]:
        """Which of them are of items without anything to judge by, (n,)."""
        empty: NDArray[np.bool_] = (self.signatures["headline_size"] == 0) & (self.signatures["body_size"] == 0)
        return empty

    def with_own_signatures(self) -> "Fingerprints":
        """The same with a copy of the signatures."""
        return dataclasses.replace(self, signatures=self.signatures.copy())


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
    >>> int(make([item]).signatures["body_size"][0])
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
        signatures = np.zeros(n, self.scheme.signature_dtype)
        keys = np.zeros((n, self.scheme.tables), np.uint32)
        digests = np.empty(n, np.uint64)
        headline_sizes, lead_sizes, body_sizes = (np.empty(n, np.uint32) for _ in range(3))
        headlines = np.empty((n, signatures.dtype["headline"].shape[0]), np.uint16)
        words = np.empty((n, WORD_BYTES), np.uint8)
        leads = np.empty((n, signatures.dtype["lead"].shape[0]), np.uint8)
        has_sketch = "body" in (signatures.dtype.names or ())
        bodies = np.empty((n, signatures.dtype["body"].shape[0] if has_sketch else 0), np.uint8)
        body_keys, lead_keys, headline_keys = (keys[:, self.scheme.views[v]] for v in ("body", "lead", "headline"))
        band_keys = body_keys if has_sketch else body_keys[:, :0]
        simhashes = np.zeros((n, s.bits // 64), np.uint64) if self.scheme.layout else None
        bodies_kept = [b""] * n if self.scheme.is_exact else []
        firsts, lasts, prose, before = np.zeros(n, np.int64), np.zeros(n, np.int64), list[Prose](), 0
        first = end = 0
        for chunk in batches(_views_of(items, self.scheme.is_given), _bytes_of_text, _CHUNK, _CHUNK_BYTES):
            first, end = end, end + len(chunk)
            views = [view for pair in chunk for view in pair]
            texts = self._pack(views, np.arange(first, end))
            while texts.rows.size:
                left, *passages = fingerprint_batch(
                    *texts, self._seed, self._widths, 2 * s.lead_words,
                    self._headline, self._lead, self._body, s.headline_rows, s.lead_rows, s.body_rows,
                    digests, headline_sizes, headlines, headline_keys, words, lead_sizes, leads, lead_keys,
                    body_sizes, bodies, band_keys, firsts, lasts,
                )  # fmt: skip
                firsts[texts.rows] += before
                lasts[texts.rows] += before
                prose.append(Prose(firsts, lasts, *passages))
                before += len(prose[-1].hashes)
                bodies_alone = texts._replace(bounds=texts.bounds[:, 2:])
                if simhashes is not None and not self.scheme.is_given:
                    self._simhash(bodies_alone, simhashes)
                if self.scheme.is_exact:
                    self._keep_bodies(bodies_alone, bodies_kept)
                again = [fold_slowly(views[2 * (i - first) + view].decode()) for i in left for view in (0, 1)]
                texts = self._pack(again, left, True)
        signatures["digest"] = digests
        signatures["headline_size"] = headline_sizes
        signatures["headline"] = headlines
        signatures["lead_size"] = np.minimum(lead_sizes, 0xFFFF)
        signatures["lead"] = leads
        signatures["body_size"] = body_sizes
        signatures["row_id"] = [identity(item.id) for item in items]
        signatures["source"] = [identity(item.source) if item.source else 0 for item in items]
        signatures["time"] = [item.time for item in items]
        signatures["partition"] = [item.partition for item in items]
        signatures["offset"] = [item.offset for item in items]
        if self.scheme.is_body_only:
            # What is not kept cannot be compared. The source serves the guards, which look at headlines.
            signatures["headline_size"] = signatures["lead_size"] = signatures["source"] = 0
        for table, field in ((-1, "row_id"),) if self.scheme.is_body_only else ((-2, "digest"), (-1, "row_id")):
            keys[:, table] = np.maximum(signatures[field] >> np.uint64(32), 1)
        if has_sketch:
            signatures["body"] = bodies
        elif self.scheme.layout:
            if self.scheme.is_given:
                _take_given(items, signatures)
            else:
                signatures["simhash"] = simhashes
            body_keys[:] = self.scheme.layout.keys(signatures["simhash"])
            body_keys[signatures["body_size"] == 0] = 0
        return Fingerprints(signatures, keys, words, s.hamming, bodies_kept, Prose.joined(prose, firsts, lasts))

    def _keep_bodies(self, texts: "_Texts", out: list[bytes]) -> None:
        """Puts the packed shingles of n texts into places `texts.rows` of `out`: see packed.pack_batch."""
        codes, ends = pack_batch(*texts, self._seed, *self._widths)
        packed = codes.tobytes()
        for row, (start, end) in zip(texts.rows.tolist(), pairwise(ends.tolist()), strict=True):
            out[row] = packed[start:end]

    def _simhash(self, texts: "_Texts", out: NDArray[np.uint64]) -> None:
        simhash_batch(*texts, self._seed, *self.scheme.feature_widths, self._weighting, *self._idf, self._unseen, out)

    def features(self, text: str) -> NDArray[np.uint64]:
        """Hashes of the features of a text's SimHash, with repeats: what a table of weights counts."""
        tokens, kinds = self.tokens(text)
        out = np.empty(len(tokens) + 1, np.uint64)
        return out[: every_shingle(tokens, kinds, len(tokens), *self.scheme.feature_widths, out)]

    def tokens(self, text: str) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
        """Hashes and kinds (0 word, 1 character) of a text's tokens, in order. O(bytes)."""
        encoded, count, is_folded = text.encode("utf-8", "replace"), -1, False
        while count < 0:
            texts = self._pack([encoded], np.zeros(1, np.int64), is_folded)
            folded, places, tokens, kinds = workspace(texts.bounds)
            count = tokenise(texts.data, 0, len(encoded), *texts[3:], self._seed, folded, places, tokens, kinds)
            if count < 0:
                encoded, is_folded = fold_slowly(text), True
        return tokens[:count], kinds[:count]

    def exact(self, item: Item) -> "ExactViews":
        """The sets that the sketches stand for, whole: what an exact comparison compares. O(bytes)."""
        tokens, kinds = self.tokens(headline_of(item))
        small_table, features = np.empty(128, np.uint64), np.empty(64, np.uint64)
        found = headline_features(tokens, kinds, len(tokens), small_table, features)
        headline = frozenset(features[:found].tolist())
        tokens, kinds = self.tokens(item.text)
        count = len(tokens)
        units = np.cumsum(2 - kinds.astype(np.int64))
        lead_tokens = min(count, int(np.searchsorted(units, 2 * self.scheme.settings.lead_words)) + 1)
        seen, out = np.empty(1 << (4 * count + 64).bit_length(), np.uint32), np.empty(count + 1, np.uint64)
        sets = []
        for length in (lead_tokens, count):
            found = distinct_shingles(tokens, kinds, length, self._widths[0], self._widths[1], seen, out)
            sets.append(frozenset(out[:found].tolist()))
        return ExactViews(headline, sets[0], sets[1], count)

    def _pack(self, views: Sequence[bytes], rows: NDArray[np.int64], is_folded: bool = False) -> "_Texts":
        """All views in one buffer, those of a row after one another; as the kernels take them."""
        ends = np.cumsum([len(view) for view in views], dtype=np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
        bounds = np.stack([starts, ends], axis=1).reshape(len(rows), 2 * (len(views) // max(len(rows), 1)))
        data = b"".join([*views, b" " * SLACK])
        tables = NO_TABLE if is_folded or data.isascii() else folding_table()
        return _Texts(np.frombuffer(data, np.uint8), bounds, rows, is_folded, self._classes, *tables)


@dataclass(frozen=True, slots=True)
class ExactViews:
    """Hashes of an item's distinct headline features, lead shingles and body shingles; tokens of its text."""

    headline: frozenset[int]
    lead: frozenset[int]
    body: frozenset[int]
    tokens: int


def _take_given(items: Sequence[Item], signatures: NDArray[np.void]) -> None:
    """Puts the items' own fingerprints into the signatures; "the same text" is then the same fingerprint."""
    given = [item.fingerprint is not None for item in items]
    values = np.array([item.fingerprint or 0 for item in items], np.uint64)
    signatures["simhash"][:, 0] = values
    signatures["digest"] = values
    signatures["body_size"] = given


class _Texts(NamedTuple):
    """What the kernels are told of a batch's texts, in their order; see kernel.fingerprint_batch."""

    data: NDArray[np.uint8]
    bounds: NDArray[np.int64]
    rows: NDArray[np.int64]
    is_folded: bool
    classes: NDArray[np.uint8]
    table: NDArray[np.uint32]
    expansions: NDArray[np.uint8]


# Items that go through the kernel together: their texts, 500 KB or so, are encoded, packed, read and hashed while they
# stand in the second cache. An item of English news takes 19 µs by 128, 20 by 64 or 250, 25 by 500 or more.
_CHUNK = 128
_CHUNK_BYTES = 2**19


def _views_of(items: Sequence[Item], is_given: bool) -> Iterator[tuple[bytes, bytes]]:
    """Headline and text of each, UTF-8; is_given: they are not looked at."""
    for item in items:
        yield (b"", b"") if is_given else (_encoded(headline_of(item)), _encoded(item.text))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _bytes_of_text(views: tuple[bytes, bytes]) -> int:
    return len(views[1])
