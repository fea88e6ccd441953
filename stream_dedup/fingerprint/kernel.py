"""Fingerprint a batch of texts in one call of the core: its inputs, settings and results.

The core (core/fingerprint.c) tokenises each headline and each text once. From the tokens it makes all that represents
an item: a digest, sketches, a filter of its words, index keys, passages and, on request, SimHashes and packed sets. It
reads the strings' own UTF-8 and fills the signatures in place.
"""

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup import core
from stream_dedup.core import BOOL, INT64, POINTER, UINT64, Struct, address, arena, call, fields, record
from stream_dedup.fingerprint.characters import encoded, fold, folding_table

VERSION = 8
"""Part of the scheme id: raise it when any hash changes, because new fingerprints cannot match old ones then."""
# 99.9 % of real headlines have at most 24 features. With 15 bits, one in 230 pairs of headlines of 12 words shares a
# feature by chance, which changes their Jaccard by .05. The lowest of the 16 bits tells whether the text has it too.
HEADLINE_FEATURES = 24
MOST_HEADLINE_NUMBERS = 8
"""Most figures of a headline that are compared; a headline with more is a table."""
_SLACK, _GROWTH = 128, 3
_MOST_PARTS = 8  # words that a character is folded to: an entry of the folding table has at most 15 characters

NUMBER = record("number", [("value", "<u4"), ("token", "<i4")])
"""A number in a text: its hash, never 0, and its first token."""
PASSAGE = record(
    "passage",
    [
        *((name, "<i8") for name in ("end", "first_shingle", "last_shingle")),
        *(("hash", "<u4"), ("is_prose", "?"), ("is_last", "?"), ("is_marked", "?")),
    ],
)
"""A passage, which is a sentence, a line, or 16 tokens of one.

end: the token after it.
first_shingle, last_shingle: those that begin in it and end in its sentence.
hash: of its tokens.
is_prose: it is part of a sentence of prose.
is_last: it ends its sentence or line.
is_marked: its sentence ends in a mark."""

WORDS, HINTS = (Path(__file__).with_name(name) for name in ("words.txt", "hints.txt"))
NO_TRAIT, HINT, NEGATION, NUMBER_WORD, FIGURE = range(5)
"""Traits of tokens, as core.h numbers them."""
_LEXICON_BITS, _START_BITS = 16, 12
_NEWLINE, _SPACE = b"\n "
_FIELDS = "simhash", "form", "headline", "words", "figures", "body"


class SignatureLayout(Struct, name="layout"):
    """Where the fields of a signature begin, -1 for a field that its family lacks, and the sizes of some."""

    _fields_ = tuple((name, INT64) for name in ("stride", *_FIELDS, "headline_features", "body_bytes"))


@cache
def layout_of(signatures: "np.dtype[np.void]") -> SignatureLayout:
    """Return the layout of a scheme's signature_dtype."""
    places: Mapping[str, Any] = signatures.fields or {}
    size = {name: places[name][0].itemsize if name in places else 0 for name in _FIELDS}
    return SignatureLayout(
        stride=signatures.itemsize,
        **{name: places[name][1] if name in places else -1 for name in _FIELDS},
        headline_features=size["headline"] // 2,
        body_bytes=size["body"],
    )


class Tables(Struct, name="token_tables"):
    """Constant inputs of the tokeniser: the classes and folds of characters, the seed of token hashes, the lexicon."""

    _fields_ = (
        ("classes", POINTER), ("class_count", INT64), ("folds", POINTER), ("fold_count", INT64),
        ("longer_folds", POINTER), ("seed", UINT64), ("known", POINTER), ("meant", POINTER),
        ("known_traits", POINTER), ("known_starts", POINTER), ("known_bits", POINTER),
    )  # fmt: skip


class Widths(Struct, name="shingle_widths"):
    """`scheme.ShingleWidths`."""

    _fields_ = fields(INT64, "words characters")


class Bands(Struct, name="band_recipe"):
    """The MinHash functions of the headline: permutations (2, count) uint32, and the column of the first band."""

    _fields_ = (("permutations", POINTER), *fields(INT64, "count rows first_column"))


class Anchors(Struct, name="anchor_recipe"):
    """The number of anchors, and their runs: `Scheme.anchor_runs`."""

    _fields_ = fields(INT64, "keys step last character_step character_last")


class Recipe(Struct, name="fingerprint_recipe"):
    """What to make of each item, and where its signature has it."""

    _fields_ = (
        *(("widths", Widths), ("bands", Bands), ("anchors", Anchors)),
        *(("of_letters", INT64), ("layout", SignatureLayout)),
    )


class _Batch(Struct, name="text_batch"):
    _fields_ = (("texts", POINTER), ("sizes", POINTER), ("rows", POINTER), ("count", INT64))


_PARTS = {"word": np.uint16, "shingle": np.uint64, "number": NUMBER, "passage": PASSAGE}
_BYTES_OF = {"word": 3, "shingle": 3, "number": 32, "passage": 32}
"""There is room for one part in so many bytes of text. A character of Chinese has three, a passage sixteen; where this
is too little, the core makes more room in its scratch memory."""


class _Outputs(Struct, name="fingerprint_outputs"):
    _fields_ = (
        ("signatures", POINTER), ("keys", POINTER), ("key_columns", INT64), ("word_sets", POINTER),
        ("headline_words", POINTER), ("headline_numbers", POINTER), ("firsts", POINTER), ("lasts", POINTER),
        ("body_bounds", POINTER), ("hints", POINTER), ("has_sets", INT64), ("unfolded", POINTER),
        ("is_continued", INT64),
        *((f"{name}s", POINTER) for name in _PARTS), ("bodies", POINTER),
        *((f"{name}_count", INT64) for name in _PARTS), ("body_bytes", INT64),
        *((f"{name}_room", INT64) for name in (*_PARTS, "body")),
    )  # fmt: skip


class Texts(NamedTuple):
    """The parts of n texts. New items are compared by them; they are not stored.

    firsts, lasts: (n, 2) the passages firsts[i, 0] to lasts[i, 0] (exclusive) and the numbers firsts[i, 1] to
    lasts[i, 1] are those of text i.
    headline_words, headline_numbers: (n, 24) and (n, 8) uint32, ended by 0.
    words: uint16, the bit in a word filter of the word (or pair of characters) that begins with each token, or 768.
    shingles: uint64, in order, with repeats.
    numbers: NUMBER.
    passages: PASSAGE.
    """

    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]
    headline_words: NDArray[np.uint32]
    headline_numbers: NDArray[np.uint32]
    words: NDArray[np.uint16]
    shingles: NDArray[np.uint64]
    numbers: NDArray[np.void]
    passages: NDArray[np.void]


def fingerprint_batch(
    views: Sequence[str],
    tries: Sequence[Tables],
    recipe: Recipe,
    rows: tuple[NDArray[np.void], NDArray[np.uint32], NDArray[np.uint8]],
    is_exact: bool,
) -> tuple[Texts, list[bytes], NDArray[np.bool_]]:
    """Fingerprint items. The views are headline and text of each. O(bytes · tables).

    tries: the tables that fold a text, in this order; Python folds what the first cannot, for the last, the table of
    folded texts. rows: the signatures, keys and word sets to fill, see `Fingerprints`; zeros before, but for word sets.
    Returns the parts of all texts and the body of each; both are empty in a family with a SimHash; and which texts have
    a hint. A body is the sequence of the words (core/sequences.c) and, for exact comparison, the packed set.
    """
    signatures, keys, word_sets = rows
    n = len(signatures)
    headline_words, headline_numbers = (
        np.zeros((n, count), np.uint32) for count in (HEADLINE_FEATURES, MOST_HEADLINE_NUMBERS)
    )
    firsts, lasts = np.zeros((2, n, 2), np.int64)
    left = np.arange(n)
    bounds, unfolded, hints = np.zeros((n, 2), np.int64), np.empty(n, np.int64), np.zeros(n, np.bool_)
    outputs = _Outputs(
        signatures=signatures, keys=keys, key_columns=keys.shape[1], word_sets=word_sets, headline_words=headline_words,
        headline_numbers=headline_numbers, firsts=firsts, lasts=lasts, body_bounds=bounds, has_sets=int(is_exact),
        unfolded=unfolded, hints=hints,
    )  # fmt: skip
    utf8 = core.utf8_of(views)
    size = int(utf8.sizes.sum())
    room = {name: np.empty(size // _BYTES_OF[name] + 1, dtype) for name, dtype in _PARTS.items()}
    outputs.set(**{f"{name}s": part for name, part in room.items()})
    outputs.set(**{f"{name}_room": len(part) for name, part in room.items()})
    for tables in tries:
        batch = _Batch(texts=utf8.addresses, sizes=utf8.sizes, rows=left, count=len(left))
        failed = unfolded[: call("fingerprint_batch", arena(), batch, tables, recipe, outputs)]
        if not len(failed):
            break
        left = left[failed]
        views = [fold(encoded(view).decode()) for k in failed.tolist() for view in views[2 * k : 2 * k + 2]]
        utf8 = core.utf8_of(views)
        outputs.set(is_continued=1)
    parts = []
    for name, part in room.items():
        begin, count = getattr(outputs, f"{name}s"), getattr(outputs, f"{name}_count")
        parts.append(part[:count] if begin == address(part) else core.copied(begin, count, part.dtype))
    packed = ctypes.string_at(outputs.bodies, outputs.body_bytes) if outputs.body_bytes else b""
    bodies = [packed[begin:end] for begin, end in bounds.tolist()] if packed else []
    return Texts(firsts, lasts, headline_words, headline_numbers, *parts), bodies, hints


# -- parts of a fingerprint alone, to explain or count them -----------------------------------------------------------


class TokenList(Struct, name="token_list"):
    """The tokens of one text, as the core fills them."""

    _fields_ = (
        *fields(POINTER, "text places hashes heads kinds traits special marks"),
        *fields(INT64, "count special_count mark_count size"), ("has_characters", BOOL),
    )  # fmt: skip
    count: int
    size: int

    @property
    def is_folded(self) -> bool:
        """Whether the tables can fold the text."""
        return self.size >= 0


def tokens_of(text: bytes, tables: Tables) -> TokenList:
    """Return the tokens of valid UTF-8, none if the tables cannot fold it. O(bytes)."""
    size = _GROWTH * len(text) + 2 * _SLACK
    tokens = TokenList(
        text=np.empty(size, np.uint8),
        places=np.empty(size, np.int32),
        hashes=np.empty(size, np.uint64),
        heads=np.empty(size, np.uint64),
        kinds=np.empty(size, np.uint8),
        traits=np.empty(size, np.uint8),
        special=np.empty(size, np.int32),
        marks=np.empty(2 * size, np.int32),
    )
    call("tokens_of_text", np.frombuffer(text, np.uint8), len(text), tables, tokens)
    return tokens


def lexicon(tables: Tables) -> dict[str, Any]:
    """Return the fields of `Tables` for the lexicon, under the seed of these tables for folded texts. Some 5 ms.

    words.txt has words that say a figure or deny: number words with their values, and negations, of some seventy
    languages. The core (text.c) looks up each token by its hash: a number word takes the hash of its digits, so that
    "twelve" and "12" are one token, and a diff may ask the trait of a token (`NEGATION`, `NUMBER_WORD`, `FIGURE`).
    hints.txt has words and characters that tell which texts may be corrections (`HINT`): a table costs less than a
    search.
    """
    lines = [line for line in WORDS.read_bytes().splitlines(keepends=True) if line[:1] != b"#"]
    hints = [line.strip() for line in HINTS.read_bytes().splitlines() if line[:1] != b"#"]
    lines.append(b" ".join([b"hint", *hints]) + b"\n")
    # "no" stands for "-", which is no token.
    tokens = tokens_of(b"".join(b"no" + line[1:] if line[:1] == b"-" else line for line in lines), tables)
    text, places = tokens.kept["text"], tokens.kept["places"][: 2 * tokens.count].reshape(-1, 2)
    hashes = tokens.kept["hashes"][: tokens.count]
    breaks = np.flatnonzero(text[: tokens.size] == _NEWLINE)
    heads = np.searchsorted(places[:, 0], np.append(0, breaks[:-1] + 1))
    line = np.searchsorted(breaks, places[:, 0])
    # A word of several tokens is left out: some words have an apostrophe or characters of a script without spaces.
    left, right = text[places[:, 0] - 1], text[places[:, 1]]
    is_whole = (left == _SPACE) & ((right == _SPACE) | (right == _NEWLINE))
    is_whole[heads] = False
    trait = np.full(len(lines), NUMBER_WORD, np.uint8)
    trait[hashes[heads] == hashes[0]], trait[-1] = NEGATION, HINT
    known, first = np.unique(hashes[is_whole], return_index=True)
    line = line[is_whole][first]
    bits = np.zeros(2**_LEXICON_BITS, np.bool_)
    upper, below = known >> np.uint64(64 - _LEXICON_BITS), known >> np.uint64(58 - _LEXICON_BITS)
    bits[upper] = bits[upper & ~np.uint64(63) | below & np.uint64(63)] = True
    return {
        "known": known,
        "meant": np.where(trait[line] == NUMBER_WORD, hashes[heads][line], known),
        "known_traits": trait[line],
        "known_starts": np.searchsorted(known >> np.uint64(64 - _START_BITS), np.arange(2**_START_BITS + 1)).astype(
            np.uint16
        ),
        "known_bits": np.packbits(bits, bitorder="little"),
    }


def shingles_of(tokens: TokenList, seed: int, widths: tuple[int, int], of_letters: bool) -> NDArray[np.uint64]:
    """Return the shingles of a text, in order, with repeats."""
    out = np.empty(tokens.size + 1, np.uint64)
    return out[: call("shingles_of_text", arena(), tokens, seed, *widths, int(of_letters), out)]


def headline_features_of(tokens: TokenList, seed: int) -> NDArray[np.uint64]:
    """Return the distinct features of a headline, ascending."""
    out = np.empty(tokens.count + 1, np.uint64)
    return out[: call("features_of_headline", arena(), tokens, seed, out)]


def word_spans(text: str) -> NDArray[np.int64]:
    """Return where each token of a text begins and ends in it: (n, 2). O(characters).

    >>> text = "Don't, 新闻!"
    >>> [text[i:j] for i, j in word_spans(text)]
    ["Don't", '新', '闻']
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    spans = np.empty((_MOST_PARTS * len(codes), 2), np.int64)
    entries, longer = folding_table()
    return spans[: call("word_spans", codes, len(codes), entries, len(entries), longer, spans)]
