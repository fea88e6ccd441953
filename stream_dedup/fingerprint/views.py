"""Prepare the text of an item's views: headline (without the site's name) and body.

Texts are compared after NFKC normalisation (full-width forms, ligatures, compatibility characters) and full case
folding. The tokeniser folds by table if it can (folding.py).
"""

import re
import unicodedata
from collections import deque

from stream_dedup.news.item import Item

# Separators in front of a site's name: "Headline - Site", "Headline | Section | Site", "标题_网站".
# Space is bounded, because the search would scan a megabyte of it again from each of its characters.
_SEPARATOR = re.compile(r"\s{1,8}[-–—|·•»:]{1,2}\s{1,8}|\s{0,8}[|｜_]\s{0,8}")
# The first mark of a separator. Searching for one character costs a tenth of trying a separator at every position. Four
# headlines in ten contain no such character, and finding that out costs a sixth of the search.
_ANY_MARK = re.compile(r"[|｜_–—·•»:-]")
_MARK = re.compile(r"[|｜_]|(?<=\s)[-–—·•»:]")
_DIGIT = re.compile(r"\d")
# A site's name is short; a longer last part belongs to the headline.
_SUFFIX_WORDS = 5
_SUFFIX_CHARACTERS = 10  # the same in scripts without spaces
# Pages append up to five parts, sections and site. Without a limit, a megabyte of "x | y - " would take 12 s.
_MAX_SUFFIXES = 16
# The rest must still be a headline.
_HEADLINE_WORDS = 4
_HEADLINE_CHARACTERS = 8


def headline_of(item: Item) -> str:
    """The headline of an item without the site's name at its end, for comparison."""
    return cut_site_suffix(item.title, with_numbers=bool(item.text))


def fold_with_python(text: str) -> bytes:
    """Fold a text with Python's Unicode functions and encode it as UTF-8; the reference for folding by table.

    >>> fold_with_python("Cafe\u0301").decode()
    'café'
    """
    return unicodedata.normalize("NFKC", text).casefold().encode("utf-8", "replace")


def cut_site_suffix(headline: str, with_numbers: bool = True) -> str:
    """Cut the site's name off the end of a headline, by structure and without a list of sites.

    with_numbers: False keeps a last part with a digit. In an item without text, it may be the news ("London gold fix -
    464.30 dollars") and not a channel's name.

    >>> cut_site_suffix("Mayor opens new bridge over the Elm - The Harbor Post")
    'Mayor opens new bridge over the Elm'
    >>> cut_site_suffix("Bridge open - at last")
    'Bridge open - at last'
    """
    candidate = _ANY_MARK.search(headline)
    mark = candidate and _MARK.search(headline, candidate.start())
    if mark is None:
        return headline
    # The last ones only: a list of all would have 250,000 of a headline of a megabyte.
    separators = deque(_SEPARATOR.finditer(headline, len(headline[: mark.start()].rstrip())), _MAX_SUFFIXES)
    for separator in reversed(separators):
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
