"""The words that say a figure or deny: number words with their values, and negations, of some seventy languages.

words.txt has them. The core (text.c) looks up each token by its hash: a number word takes the hash of its digits, so
that "twelve" and "12" are one token, and a diff may ask the trait of a token (`NEGATION`, `NUMBER_WORD`, `FIGURE`).
hints.txt has words that tell which texts may be corrections (`HINT`): a table costs less than a search.
"""

from pathlib import Path
from typing import Any

import numpy as np

from stream_dedup.fingerprint.kernel import Tables, tokens_of

WORDS, HINTS = (Path(__file__).with_name(name) for name in ("words.txt", "hints.txt"))
NO_TRAIT, HINT, NEGATION, NUMBER_WORD, FIGURE = range(5)
"""Traits of tokens, as core.h numbers them."""
_LEXICON_BITS, _START_BITS = 16, 12
_NEWLINE, _SPACE = b"\n "


def lexicon(tables: Tables) -> dict[str, Any]:
    """Return the fields of `Tables` for the lexicon, under the seed of these tables for folded texts. Some 5 ms."""
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
