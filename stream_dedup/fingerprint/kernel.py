"""Fingerprints of a batch of texts in one call of the core: how it gets texts and settings, and what it gives back.

The core (core/fingerprint.c) tokenises each headline and each text once. From the tokens it makes everything that
represents an item: a digest, sketches, a filter of its words, index keys, passages and, on request, SimHashes and
packed sets. It reads the strings' own UTF-8 and fills the signatures in place.
"""

import ctypes
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import BOOL, INT64, POINTER, UINT64, Struct, address, arena, call, record, utf8_of
from stream_dedup.fingerprint.characters import Folds

VERSION = 4
"""Part of the scheme id: raise it when any hash changes, because the new fingerprints cannot match the old ones."""
MOST_HEADLINE_NUMBERS = 8
"""Figures of a headline that are compared; a headline of more is a table."""
_SLACK, _GROWTH = 128, 3  # of core.h

NUMBER = record("number", [("value", "<u4"), ("token", "<i4")])
"""A number of a text: its hash, never 0, and its first token."""
PASSAGE = record(
    "passage",
    [
        ("end", "<i8"),
        ("first_shingle", "<i8"),
        ("last_shingle", "<i8"),
        ("hash", "<u4"),
        ("is_prose", "?"),
        ("is_last", "?"),
    ],
)
"""A passage, a sentence or line or 16 tokens of it: the token after it; the shingles that begin in it and end in its
sentence; a hash of its tokens; whether it is part of a sentence of prose, and ends its sentence or line."""


class Tables(Struct, name="token_tables"):
    """Constant inputs of the tokeniser: classes and folds of characters, the seed of token hashes."""

    _fields_ = (
        ("classes", POINTER), ("class_count", INT64), ("folds", POINTER), ("fold_count", INT64),
        ("longer_folds", POINTER), ("seed", UINT64),
    )  # fmt: skip
    seed: int

    @classmethod
    def of(cls, classes: NDArray[np.uint8], folds: Folds, seed: int) -> "Tables":
        entries, longer = folds
        return cls(
            classes=classes,
            class_count=len(classes),
            folds=entries,
            fold_count=len(entries),
            longer_folds=longer,
            seed=seed,
        )


class _Widths(Struct, name="shingle_widths"):
    _fields_ = (("words", INT64), ("characters", INT64))


class Bands(Struct, name="band_recipe"):
    """The MinHash functions of a view: permutations (2, bands·rows) uint32, and the column of its first band."""

    _fields_ = (("permutations", POINTER), ("count", INT64), ("rows", INT64), ("first_column", INT64))


class Anchors(Struct, name="anchor_recipe"):
    """How many anchors an item has, and the second and the last shingle of a run: `Scheme.anchor_runs`."""

    _fields_ = (
        ("keys", INT64), ("step", INT64), ("last", INT64), ("character_step", INT64), ("character_last", INT64),
    )  # fmt: skip


class SimHashes(Struct, name="simhash_recipe"):
    """How SimHashes are made: their words of 64 bits (0: none), and the weights of features, `Weights.table`."""

    _fields_ = (
        ("words", INT64), ("weighting", INT64), ("features", POINTER), ("weights", POINTER), ("slots", INT64),
        ("unseen", INT64),
    )  # fmt: skip


class Recipe(Struct, name="fingerprint_recipe"):
    """What is made of each item, and where its signature has it. widths: of features of a SimHash, or of shingles."""

    _fields_ = (
        ("widths", _Widths), ("headline", Bands), ("body", Bands), ("anchors", Anchors), ("simhash", SimHashes),
        ("of_letters", INT64), ("body_bins", INT64), ("headline_features", INT64), ("headline_numbers", INT64),
        ("signature_bytes", INT64), ("form", INT64), ("headline_at", INT64), ("filter", INT64), ("figures", INT64),
        ("body_at", INT64), ("simhash_at", INT64),
    )  # fmt: skip

    @classmethod
    def of(cls, widths: tuple[int, int], signature: "np.dtype[np.void]", **parts: Any) -> "Recipe":
        """parts: headline, body, anchors, simhash, of_letters, body_bins and headline_features."""
        fields: Any = signature.fields
        names = {
            "form": "form",
            "headline_at": "headline",
            "filter": "words",
            "figures": "figures",
            "body_at": "body",
            "simhash_at": "simhash",
        }
        offsets = {ours: fields[theirs][1] if theirs in fields else 0 for ours, theirs in names.items()}
        return cls(
            widths=_Widths(words=widths[0], characters=widths[1]),
            headline_numbers=MOST_HEADLINE_NUMBERS,
            signature_bytes=signature.itemsize,
            **offsets,
            **parts,
        )


class _Batch(Struct, name="text_batch"):
    _fields_ = (("texts", POINTER), ("sizes", POINTER), ("rows", POINTER), ("count", INT64))


_PARTS: dict[str, tuple[str, "np.dtype[Any]"]] = {
    "words": ("word_count", np.dtype(np.uint16)),
    "shingles": ("shingle_count", np.dtype(np.uint64)),
    "numbers": ("number_count", NUMBER),
    "passages": ("passage_count", PASSAGE),
    "sets": ("set_bytes", np.dtype(np.uint8)),
}


class _Outputs(Struct, name="fingerprint_outputs"):
    _fields_ = (
        ("signatures", POINTER), ("keys", POINTER), ("key_columns", INT64), ("word_sets", POINTER),
        ("headline_words", POINTER), ("headline_numbers", POINTER), ("firsts", POINTER), ("lasts", POINTER),
        ("set_ends", POINTER), ("unfolded", POINTER),
        ("words_before", INT64), ("shingles_before", INT64), ("numbers_before", INT64), ("passages_before", INT64),
        *((name, POINTER) for name in _PARTS), *((count, INT64) for count, _ in _PARTS.values()),
        *((name, INT64) for name in ("word_room", "shingle_room", "number_room", "passage_room", "set_room")),
    )  # fmt: skip


class Rows(NamedTuple):
    """The arrays that the core fills, one row for each item; zeros before, but word_sets.

    signatures: `Scheme.signature_dtype`; keys: (n, columns) uint32; word_sets: (n, 4096) uint8, of the words
    of each text by 15 bits of their hashes; headline_words: (n, features) and headline_numbers: (n, 8) uint32, ended by
    0; firsts, lasts: (n, 2) int64, the passages and the numbers of each text.
    """

    signatures: NDArray[np.void]
    keys: NDArray[np.uint32]
    word_sets: NDArray[np.uint8]
    headline_words: NDArray[np.uint32]
    headline_numbers: NDArray[np.uint32]
    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]


class Parts(NamedTuple):
    """What the texts of a call consist of, concatenated; see `fingerprint.Texts`. None of families with a SimHash.

    words: uint16; shingles: uint64; numbers: NUMBER; passages: PASSAGE; sets: the packed set of each text, of exact
    verification.
    """

    words: NDArray[np.uint16]
    shingles: NDArray[np.uint64]
    numbers: NDArray[np.void]
    passages: NDArray[np.void]
    sets: list[bytes]


def fingerprint_batch(
    views: Sequence[str], rows: NDArray[np.int64], tables: Tables, recipe: Recipe, out: Rows, before: Sequence[Parts],
    is_exact: bool,
) -> tuple[list[int], Parts]:  # fmt: skip
    """Fingerprint items into their `rows` of `out`. O(bytes · tables).

    views: headline and text of each item; before: what the calls before made of the same batch, whose parts come first.
    Returns the rows that are not filled, because the tables cannot fold one of their views, and the parts of
    all texts.
    """
    n, utf8 = len(rows), utf8_of(views)
    set_ends, unfolded = np.zeros(n + 1, np.int64), np.empty(n, np.int64)
    counts = [sum(len(part[k]) for part in before) for k in range(4)]
    names = ("words_before", "shingles_before", "numbers_before", "passages_before")
    outputs = _Outputs(
        **out._asdict(),
        key_columns=out.keys.shape[1],
        set_ends=set_ends if is_exact else None,
        unfolded=unfolded,
        **dict(zip(names, counts, strict=True)),
    )
    batch = _Batch(texts=utf8.addresses, sizes=utf8.sizes, rows=rows, count=n)
    count = call("fingerprint_batch", arena(), batch, tables, recipe, outputs)
    words, shingles, numbers, passages, sets = (_copied(outputs, name) for name in _PARTS)
    packed, ends = sets.tobytes(), set_ends.tolist() if is_exact else []
    parts = Parts(words, shingles, numbers, passages, [packed[start:end] for start, end in pairwise(ends)])
    return unfolded[:count].tolist(), parts


def _copied(outputs: _Outputs, name: str) -> NDArray[Any]:
    """A copy of what the core left in scratch memory, which ends with the next call."""
    count, dtype = _PARTS[name]
    out: NDArray[Any] = np.empty(getattr(outputs, count), dtype)
    if out.size:
        ctypes.memmove(address(out), getattr(outputs, name), out.nbytes)
    return out


# -- parts of a fingerprint alone, for who explains or counts them ---------------------------------------------------


class Tokens(NamedTuple):
    """The hash of each token of a text, and 1 for each that is a character of a script without spaces, else 0."""

    hashes: NDArray[np.uint64]
    kinds: NDArray[np.uint8]


class TokenList(Struct, name="token_list"):
    """The tokens of one text, as the core reads them."""

    _fields_ = (
        ("text", POINTER), ("places", POINTER), ("hashes", POINTER), ("kinds", POINTER), ("count", INT64),
        ("size", INT64), ("has_characters", BOOL),
    )  # fmt: skip
    count: int
    size: int

    @property
    def is_folded(self) -> bool:
        """Whether the tables could fold the text."""
        return self.size >= 0

    @property
    def tokens(self) -> Tokens:
        return Tokens(self.kept["hashes"][: self.count], self.kept["kinds"][: self.count])


def tokens_of(text: bytes, tables: Tables) -> TokenList:
    """The tokens of valid UTF-8, none if the tables cannot fold it. O(bytes)."""
    size = _GROWTH * len(text) + 2 * _SLACK
    tokens = TokenList(
        text=np.empty(size, np.uint8),
        places=np.empty(size, np.int32),
        hashes=np.empty(size, np.uint64),
        kinds=np.empty(size, np.uint8),
    )
    call("tokens_of_text", np.frombuffer(text, np.uint8), len(text), tables, tokens)
    return tokens


def shingles_of(tokens: TokenList, seed: int, widths: tuple[int, int], of_letters: bool) -> NDArray[np.uint64]:
    """The shingles of a text, in order, with repeats."""
    out = np.empty(tokens.size + 1, np.uint64)
    return out[: call("shingles_of_text", arena(), tokens, seed, *widths, int(of_letters), out)]


def headline_features_of(tokens: TokenList, seed: int) -> NDArray[np.uint64]:
    """The distinct features of a headline, ascending."""
    out = np.empty(tokens.count + 1, np.uint64)
    return out[: call("features_of_headline", arena(), tokens, seed, out)]
