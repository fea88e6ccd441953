"""The views of an item: headline without the site's suffix, and text.

The lead is no view of its own here: the kernel takes it from the text's start. Texts are compared in the form that
NFKC (full-width forms, ligatures, compatibility characters) and full case folding give; the kernel folds on the way, by
table where the characters allow it (folding.py).
"""

import re
import unicodedata

from stream_dedup.news.item import Item

# "Headline - Site", "Headline | Section | Site", "标题_网站": the separators that pages put before their name.
# Space is bounded, as a megabyte of it would be searched anew from each of its characters.
_SEPARATOR = re.compile(r"\s{1,8}[-–—|·•»:]{1,2}\s{1,8}|\s{0,8}[|｜_]\s{0,8}")
# Where one may be: its first mark. Told by one character, this costs a tenth of trying a separator at every place. Four
# headlines in ten hold no such character at all, which is seen in a sixth of that.
_ANY_MARK = re.compile(r"[|｜_–—·•»:-]")
_MARK = re.compile(r"[|｜_]|(?<=\s)[-–—·•»:]")
_DIGIT = re.compile(r"\d")
# A site's name is short; a longer last part is taken for a part of the headline.
_SUFFIX_WORDS = 5
_SUFFIX_CHARACTERS = 10  # the same in scripts without spaces
# Sections and site: pages put up to five such parts behind a headline. A megabyte of "x | y - " would take 12 s.
_MOST_SUFFIXES = 16
# What is left must still be a headline.
_HEADLINE_WORDS = 4
_HEADLINE_CHARACTERS = 8


def headline_of(item: Item) -> str:
    """The headline that is compared: without the site's name at its end."""
    return cut_site_suffix(item.title, with_numbers=bool(item.text))


def fold_slowly(text: str) -> bytes:
    """UTF-8 in the form that texts are compared in, by Python's Unicode functions: what folding by table means.

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
    maybe = _ANY_MARK.search(headline)
    mark = maybe and _MARK.search(headline, maybe.start())
    if mark is None:
        return headline
    separators = list(_SEPARATOR.finditer(headline, len(headline[: mark.start()].rstrip())))
    for separator in reversed(separators[-_MOST_SUFFIXES:]):
        start, end = separator.span()
        head, tail = headline[:start], headline[end:]
        if not with_numbers and _DIGIT.search(tail):
            break
        if not _is_short(tail, _SUFFIX_WORDS, _SUFFIX_CHARACTERS) or _is_short(
            head, _HEADLINE_WORDS - 1, _HEADLINE_CHARACTERS - 1
        ):
            break
        headline = head
    return headline


def _is_short(text: str, words: int, characters: int) -> bool:
    if text.isascii() or " " in text.strip():
        return len(text.split(None, words)) <= words
    return len(text) <= characters
