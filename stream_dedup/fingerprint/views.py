"""The views of an item, as bytes for the kernel: headline without the site's suffix, and text.

In: `Item`. Out: folded UTF-8. The lead is no view of its own here: the kernel takes it from the text's start.
Plain ASCII is left to the kernel, which folds it on the way; the rest goes through NFKC (full-width forms,
ligatures, compatibility characters) and full case folding, by table where the characters allow it (folding.py).
"""

import re
import unicodedata

import numpy as np

from stream_dedup.fingerprint.folding import GROWTH, fold_utf8, folding_tables

# "Headline - Site", "Headline | Section | Site", "标题_网站": the separators that pages put before their name.
_SEPARATOR = re.compile(r"\s+[-–—|·•»:]{1,2}\s+|\s*[|｜_]\s*")
_DIGIT = re.compile(r"\d")
# A site's name is short; a longer last part is taken for a part of the headline.
_SUFFIX_WORDS = 5
_SUFFIX_CHARACTERS = 10  # the same in scripts without spaces
# What is left must still be a headline.
_HEADLINE_WORDS = 4
_HEADLINE_CHARACTERS = 8


def fold(text: str) -> bytes:
    """UTF-8 in the form that the kernel expects.

    >>> fold("ＡＢＣ Straße ﬁ").decode()
    'abc strasse fi'
    """
    if text.isascii():
        return text.encode()
    data = np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
    out = np.empty(GROWTH * len(data), np.uint8)
    size = fold_utf8(data, *folding_tables(), out)
    return out[:size].tobytes() if size >= 0 else fold_slowly(text)


def fold_slowly(text: str) -> bytes:
    """The same by the Unicode functions of Python: what `fold` means, at three to twelve times the cost.

    >>> fold_slowly("Cafe\u0301").decode()
    'café'
    """
    return unicodedata.normalize("NFKC", text).casefold().encode("utf-8", "replace")


def cut_site_suffix(headline: str, with_numbers: bool = True) -> str:
    """The headline without the site's name at its end, told by structure, not by a list of sites.

    `with_numbers` False keeps a last part that holds a digit: where the headline is all there is, it may be the
    news ("London gold fix - 464.30 dollars") and not a channel's name.

    >>> cut_site_suffix("Mayor opens new bridge over the Elm - The Harbor Post")
    'Mayor opens new bridge over the Elm'
    >>> cut_site_suffix("Bridge open - at last")
    'Bridge open - at last'
    """
    while True:
        separators = list(_SEPARATOR.finditer(headline))
        if not separators:
            return headline
        last = separators[-1]
        head, tail = headline[: last.start()], headline[last.end() :]
        if not with_numbers and _DIGIT.search(tail):
            return headline
        if not _is_short(tail, _SUFFIX_WORDS, _SUFFIX_CHARACTERS) or _is_short(
            head, _HEADLINE_WORDS - 1, _HEADLINE_CHARACTERS - 1
        ):
            return headline
        headline = head


def _is_short(text: str, words: int, characters: int) -> bool:
    if text.isascii() or " " in text.strip():
        return len(text.split()) <= words
    return len(text) <= characters
