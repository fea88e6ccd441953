"""A `Scheme`: all that two fingerprints must share to be comparable (hash seeds, fields and sizes, index tables, anchor
runs), derived from the [fingerprint] settings; and the scheme's id.

Every changelog block contains the id, so that schemes are never mixed.

The family determines what represents an item: MinHash sketches of headline and body with a filter of the words, found
by anchors; a SimHash of the body, found by a layout of blocks; or a fingerprint that the item brings along.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_dedup.errors import BadItem
from stream_dedup.fingerprint import kernel, simhash
from stream_dedup.news.item import WORDLESS
from stream_dedup.settings import FingerprintSettings

FILTER_BITS = 768
"""Bits of the filter of words and numbers (core/words.c). Fitted with 512, 768, 1,024 bits and with exact sets, the
decision has a log loss of .254, .249, .250 and .248."""
# Words and characters of an anchor. Dissimilar texts share shorter runs; longer runs do not survive a changed word.
_RUN_WORDS, _RUN_CHARACTERS = 8, 10
_SHINGLE_WORDS, _SHINGLE_LETTERS, _SHINGLE_CHARACTERS = 3, 5, 5
BODY_BINS = 128
"""Bins of a body's sketch, half a byte each. They err by .045 at most; whoever needs less has verify = "exact"."""
ANCHORS = 16
"""Keys of a body, nine bytes of an original each. They find .90 to .99 of the pairs of which one contains the other,
where 10 find .85 to .98 and 24 .95 to 1, and every pair with a Jaccard of .5 or more."""
SETS_VERSION = 1
"""Of packed sets: raise it when core/sets.c encodes them otherwise, so that old ones are not misread."""
SEED = 1
"""The seed of every hash function without a salt."""
HEADLINE_BANDS, HEADLINE_ROWS = 2, 3
"""A headline that shares 60 % of its features is found with .39, one that shares 80 % with .76: whoever has the text in
common, too, is found by it."""
# The seed has 32 bits. The core recognises a salted seed by this bit, see `hash_word`.
_SALTED = 1 << 63


class ShingleWidths(NamedTuple):
    """Tokens of a shingle that begins with a word (letters, if shingles are of letters), and with a character."""

    words: int
    characters: int


class AnchorRuns(NamedTuple):
    """Behind the first shingle of a run, its second and last: in scripts with spaces, and in those without."""

    step: int
    last: int
    character_step: int
    character_last: int


@dataclass(frozen=True)
class Scheme:
    """Sizes and seeds of a fingerprint.

    >>> from stream_dedup.settings import FingerprintSettings
    >>> scheme = Scheme(FingerprintSettings())
    >>> len(scheme.table_of), scheme.signature_dtype.itemsize
    (20, 267)
    """

    settings: FingerprintSettings

    @property
    def is_given(self) -> bool:
        """Whether the items bring their own fingerprints instead of texts."""
        return self.settings.family == "given"

    @property
    def empty_item(self) -> BadItem:
        """The error of an item without a fingerprint (`Fingerprints.is_empty`)."""
        return BadItem("empty", "no fingerprint" if self.is_given else WORDLESS)

    @property
    def is_exact(self) -> bool:
        """Whether a body has the set of all shingles, too, to compute the similarity exactly."""
        return self.settings.verify == "exact"

    @property
    def has_bodies(self) -> bool:
        """Whether a *body* is stored beside each signature: as bytes, the codes of the words of the text in order
        (core/sequences.c) and, with verify = "exact", the packed set of its shingles (core/sets.c).
        """
        return self.settings.family == "minhash"

    @cached_property
    def layout(self) -> simhash.Layout | None:
        """The tables of the body's SimHash; None if the body has anchors."""
        s = self.settings
        return None if s.family == "minhash" else simhash.layout(s.hamming, is_compact=s.family == "compact")

    @cached_property
    def columns(self) -> dict[str, slice]:
        """The columns of an item's keys, by their source, without the last one, the id."""
        counts = {"body": self.layout.tables} if self.layout else {"anchors": ANCHORS, "headline": HEADLINE_BANDS}
        if not self.is_given:  # the tables of the layout find equal fingerprints
            counts["text"] = 1
        ends = list(accumulate(counts.values()))
        return {name: slice(end - count, end) for (name, count), end in zip(counts.items(), ends, strict=True)}

    @cached_property
    def table_of(self) -> tuple[int, ...]:
        """The index table of each column of keys, ascending. All anchors share one, in which any may meet any."""
        last = max(int(columns.stop) for columns in self.columns.values())
        anchors = ANCHORS if "anchors" in self.columns else 0
        first = 1 if anchors else 0
        return (0,) * anchors + tuple(range(first, first + last + 1 - anchors))

    @property
    def key_columns(self) -> int:
        """Number of keys of an item."""
        return len(self.table_of)

    @property
    def dont_care_bits(self) -> tuple[int, ...]:
        """The don't-care bits of the layout's tables; the other tables match whole keys. See `index.runs.Nearness`."""
        return self.layout.dont_care_bits if self.layout else ()

    @property
    def has_letters(self) -> bool:
        """Whether shingles in scripts with spaces are of letters instead of words."""
        return self.settings.shingles == "letters" and not self.is_given

    @cached_property
    def shingle_widths(self) -> ShingleWidths:
        """Words or letters, and characters, of a shingle."""
        return ShingleWidths(_SHINGLE_LETTERS if self.has_letters else _SHINGLE_WORDS, _SHINGLE_CHARACTERS)

    @cached_property
    def anchor_runs(self) -> AnchorRuns:
        """The shingles of an anchor's run."""
        w, c = self.shingle_widths
        # Of letters, the run ends with the next shingle: it is between two typing errors.
        last = w if self.has_letters else max(_RUN_WORDS - w, w)
        return AnchorRuns(w, last, c, max(_RUN_CHARACTERS - c, c))

    @cached_property
    def signature_dtype(self) -> np.dtype[np.void]:
        """The fields of a signature: identity, coordinates, sizes, sketches. Little-endian, packed."""
        body = 0 if self.is_exact else BODY_BINS // 2
        represents: list[tuple[Any, ...]] = (
            [("simhash", "<u8", (1,))]
            if self.layout
            else [
                ("form", "u1"),  # of 8 bits, the headline without its numbers, 0: too short
                ("headline", "<u2", (kernel.HEADLINE_FEATURES,)),  # the smallest features, ascending
                ("words", "u1", (FILTER_BITS // 8,)),  # of headline and text, and their numbers
                ("figures", "<u8"),  # their numbers alone
                ("body", "u1", (body,)),
            ]
        )
        return np.dtype(
            [
                ("row_id", "<u8"),  # xxh3-64 of the item's id
                ("digest", "<u8"),  # of the tokens of headline and text
                ("source", "<u8"),  # xxh3-64 of the source, 0 if unknown
                ("time", "<i8"),  # ms
                ("offset", "<i8"),
                ("partition", "<i4"),
                ("body_size", "<u4"),  # distinct shingles
                ("headline_size", "<u2"),
                *represents,
            ]
        )

    @cached_property
    def id(self) -> int:
        """The 64-bit id of the scheme: a hash of the family's settings, the signature's fields and hash versions."""
        text = f"{kernel.VERSION} {self._identifying} {self.signature_dtype}"
        if self.is_exact:
            text += f" exact {SETS_VERSION}"
        if self.layout:
            text += f" {simhash.VERSION} {simhash.LAYOUT_VERSION} "
        if self._key:
            text += f" salt {self._derived('id'):016x}"
        return xxhash.xxh3_64_intdigest(text.encode())

    @property
    def _identifying(self) -> str:
        """What makes fingerprints, in JSON. Most were settings once, by which changelogs in use are recognised."""
        words = {"shingle_letters": _SHINGLE_LETTERS} if self.has_letters else {"shingle_words": _SHINGLE_WORDS}
        found: dict[str, object] = {} if self.is_given else {**words, "shingle_characters": _SHINGLE_CHARACTERS}
        if self.layout:
            found |= {"family": "given" if self.is_given else "simhash", "layout": self.layout.name}
            found |= {} if self.is_given else {"bits": simhash.BITS, "features": "shingles", "weights": "tf"}
        else:
            found |= {} if self.is_exact else {"body_bins": BODY_BINS}
            found |= {"anchors": ANCHORS, "body_bands": 0, "body_rows": 4}
            found |= {"headline_bands": HEADLINE_BANDS, "headline_rows": HEADLINE_ROWS}
        found |= {} if self.is_given else {"seed": SEED}
        return json.dumps(found, separators=(",", ":"))

    def permutations(self) -> NDArray[np.uint32]:
        """Return odd multipliers and offsets of the headline's MinHash functions: (2, bands·rows)."""
        salt = [self._derived("permutations")] if self._key else []
        random = np.random.Generator(np.random.PCG64([SEED, 0, *salt]))
        out = random.integers(0, 2**32, (2, HEADLINE_BANDS * HEADLINE_ROWS), np.uint32)
        out[0] |= 1
        return out

    @cached_property
    def token_seed(self) -> int:
        """The seed of the token hashes: 32 bits, or 64 bits that depend on the salt."""
        return self._derived("tokens") | _SALTED if self._key else SEED

    def identity(self, text: str) -> int:
        """Hash an id or a source to 64 bits; never 0, which means "unknown".

        With a salt, this is a keyed cryptographic hash, 1 µs: a colliding id would replace or withdraw another item.

        >>> from stream_dedup.settings import FingerprintSettings
        >>> scheme = Scheme(FingerprintSettings())
        >>> scheme.identity("a") == scheme.identity("a") != scheme.identity("b")
        True
        """
        data = text.encode("utf-8", "surrogatepass")
        if not self._key:
            return xxhash.xxh3_64_intdigest(data) or 1
        return int.from_bytes(hashlib.blake2b(data, digest_size=8, key=self._key).digest()) or 1

    @cached_property
    def _key(self) -> bytes:
        """32 bytes derived from the salt; empty without one."""
        salt = self.settings.secret("salt")
        return hashlib.sha256(salt.encode("utf-8", "surrogatepass")).digest() if salt else b""

    def _derived(self, purpose: str) -> int:
        """Return 64 bits for one purpose, which reveal neither the salt nor those of another purpose."""
        text = f"{purpose} {SEED}"
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, key=self._key, person=b"scheme").digest())
