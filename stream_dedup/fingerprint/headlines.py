"""Cut off a headline what is not said in it: the site's name, the form of the text, a kicker, its own repetition. And
off a text the last line, if it sends readers to the site.

A part of a headline is cut only if it resembles the item's source, or is a label in labels.txt, or stands behind a bar
("Headline | Section | Site"), which no sentence has. All else is news: "... - called off", "Cancelled: ...".
"""

import re
from collections import defaultdict, deque
from functools import lru_cache
from pathlib import Path

from stream_dedup.news.item import Item

_TABLE = Path(__file__).with_name("labels.txt")
# Separators before a site's name: "Headline - Site", "Headline | Section | Site", "标题_网站".
# Space is bounded, because the search would scan a megabyte of it again from each of its characters. Both patterns
# begin with a set of characters, to which a search skips quickly.
_CHARACTER = r"[\u3040-\u30ff\u3400-\u9fff]"
_SEPARATOR = re.compile(
    r"[\s|｜_–—－-](?:(?<=\s)\s{0,7}(?:[-–—|·•»]{1,2}\s{1,8}|[|｜_]\s{0,8})|(?<=[|｜_])\s{0,8}"
    rf"|(?<={_CHARACTER}[-–—－])[-–—－]?(?={_CHARACTER}))"  # no space: "標題-報"
)
# The first mark of a separator; the marks are those of `_SEPARATOR`. Four headlines in ten have none, which costs a
# sixth of a search for separators.
_MARK = re.compile(rf"[|｜_–—－·•»-](?:(?<=[|｜_])|(?<=\s.)|(?<={_CHARACTER}.))")
_BARS = "|｜_"
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"[^\W\d_]+|\d+")
# A site's name is short; a longer last part belongs to the headline.
_SUFFIX_WORDS = 5
_SUFFIX_CHARACTERS = 10  # the same in scripts without spaces
_LONGEST_SUFFIX = 100  # of any script: what is longer is not kept
# Pages append up to five parts: sections and site. Without a limit, a megabyte of "x | y - " would take 12 s.
_MAX_SUFFIXES = 16
# The rest must still be a headline.
_HEADLINE_WORDS = 4
_HEADLINE_CHARACTERS = 8
# "More news from the region on The Harbor Post" has nine words.
_TAIL_WORDS, _TAIL_CHARACTERS = 10, 90
_LEAST_NAME = 4  # letters of a word that a source's name may be recognised by: "the" and "of" are in many names


def _table() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for line in _TABLE.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            kind, _, labels = line.partition(": ")
            found[kind].update(labels.split(", "))
    return {kind: frozenset(labels) for kind, labels in found.items()}


_LABELS = _table()
_FORM, _KICKER = ("|".join(map(re.escape, sorted(_LABELS[kind], key=len, reverse=True))) for kind in ("form", "kicker"))
_LABEL = re.compile(
    rf"\W?(?:\w{{1,30}}(?:[ -]\w{{1,30}}){{0,2}}\s?[|｜]"  # a section
    rf"|(?:{_FORM})(?:[ -](?:{_FORM})){{0,2}}\s?[:：]"
    rf"|\W{{0,3}}(?:{_KICKER})\W{{0,2}}?(?:\s?[:：፦៖.․။!！|)\]】〕〉》>]|\s[-–—]\s)\W{{0,2}}?|(?:#[^\s#]{{1,40}}\s)+)\s{{0,8}}",
    re.I,
)
_ENDS_OF_NAMES = (*(label for label in _LABELS["media"] if "\u3040" <= label[0] <= "\u9fff"), ".com", ".net", ".org")


def headline_of(item: Item) -> str:
    """Return the headline of an item without the site's name and repetition; if it has no text, also without labels.

    >>> headline_of(Item("1", "BREAKING: Bridge over the Elm is open - Harbor Post", "", "harborpost.example", 0))
    'Bridge over the Elm is open'
    """
    headline = _once(cut_site_suffix(item.title, item.source))
    return headline if item.text else cut_label(headline)


def cut_tail(text: str, source: str) -> str:
    """Cut off the last line of a text if it is short and ends in the name of the site. O(1) but for the copy.

    >>> cut_tail("The bridge is open.\\nRead more local news on Harbor Post.", "harborpost.example")
    'The bridge is open.'
    >>> cut_tail("The bridge is open.\\nThe mayor thanked all.", "harborpost.example")
    'The bridge is open.\\nThe mayor thanked all.'
    """
    start = text.rfind("\n", -_TAIL_CHARACTERS)
    if start < 1 or len(name := _name_in(source).removeprefix("the")) < _LEAST_NAME:
        return text
    tail = text[start:].casefold().rstrip(" .!…")
    if name[-1] not in tail or (tail[-1:].isalnum() and tail[-1] != name[-1]):  # most: a fifth of the time
        return text
    words = _WORD.findall(tail)
    return text[:start] if len(words) <= _TAIL_WORDS and "".join(words).endswith(name) else text


def cut_label(headline: str) -> str:
    """Cut labels before a headline: a section before "|", the form of the text, a kicker, hashtags.

    Any other part before a colon is news: "Elm: bridge closed" and "Oak: bridge closed" are two headlines.

    >>> cut_label("Opinion | Who owns the new bridge?"), cut_label("Op-Ed Columnist: Who owns the new bridge?")
    ('Who owns the new bridge?', 'Who owns the new bridge?')
    >>> cut_label("#Elm #News BREAKING: bridge closed for a week"), cut_label("Cancelled: the bridge festival in Elm")
    ('bridge closed for a week', 'Cancelled: the bridge festival in Elm')
    """
    for _ in range(2):  # hashtags, then a kicker
        found = _LABEL.match(headline)
        if not found or _DIGIT.search(found[0]):
            break
        unlabelled = headline[found.end() :]
        if _is_short(unlabelled, _HEADLINE_WORDS - 1, _HEADLINE_CHARACTERS - 1):
            break
        headline = unlabelled
    return headline


def cut_site_suffix(headline: str, source: str = "") -> str:
    """Cut the site's name and sections off the end of a headline.

    >>> cut_site_suffix("Mayor opens new bridge over the Elm - The Harbor Post")
    'Mayor opens new bridge over the Elm'
    >>> cut_site_suffix("Mayor opens new bridge over the Elm - Elmside", "elmside.example")
    'Mayor opens new bridge over the Elm'
    >>> cut_site_suffix("Mayor opens new bridge over the Elm - postponed to Friday")
    'Mayor opens new bridge over the Elm - postponed to Friday'
    """
    mark = _MARK.search(headline)
    if mark is None:
        return headline
    # Only the last ones: a headline of a megabyte may have 250,000.
    separators = deque(_SEPARATOR.finditer(headline, len(headline[: mark.start()].rstrip())), _MAX_SUFFIXES)
    for separator in reversed(separators):
        start, end = separator.span()
        head, tail = headline[:start], headline[end:]
        if len(tail) > _LONGEST_SUFFIX or not _is_suffix(tail, source, separator[0].strip()[:1] in _BARS):
            break
        if _is_short(head, _HEADLINE_WORDS - 1, _HEADLINE_CHARACTERS - 1):
            break
        headline = head
    return headline


@lru_cache(4096)  # a site's headlines end alike
def _is_suffix(tail: str, source: str, has_bar: bool) -> bool:
    """Return whether the last part of a headline is short and names its site, a section, or who says it."""
    if not _is_short(tail, _SUFFIX_WORDS, _SUFFIX_CHARACTERS):
        return False
    folded = tail.casefold()
    words = _WORD.findall(folded)
    if _resembles(words, source):
        return True
    if _DIGIT.search(tail):
        return False
    if has_bar or folded in _LABELS["said"] or not _LABELS["media"].isdisjoint(words):
        return True
    return folded.endswith(_ENDS_OF_NAMES)


def _resembles(words: list[str], source: str) -> bool:
    """Return whether words are a name of a source, a domain or a name itself.

    >>> _resembles(["the", "harbor", "post"], "harborpost.example"), _resembles(["called", "off"], "harborpost.example")
    (True, False)
    """
    name = _name_in(source)
    if not name or not words:
        return False
    joined = "".join(words)
    if len(joined) > 1 and (joined in name or (len(name) >= _LEAST_NAME and name in joined)):
        return True
    if len(words) == len(name) > 1 and "".join(word[0] for word in words) == name:  # initials
        return True
    return any(len(word) >= _LEAST_NAME and word in name for word in words)


@lru_cache(4096)  # most headlines come from a few sites; decode.py cuts a long source
def _name_in(source: str) -> str:
    return "".join(_WORD.findall(source.casefold().rpartition(".")[0] or source.casefold()))


def _once(headline: str) -> str:
    """Return a headline that is written twice, once.

    >>> _once("Bridge over Elm opens | Bridge over Elm opens"), _once("Never, never")
    ('Bridge over Elm opens', 'Never, never')
    """
    half = len(headline) // 2
    if headline[: _HEADLINE_CHARACTERS - 1] not in headline[half - 2 : half + 12]:
        return headline
    place = headline.find(headline[: _HEADLINE_CHARACTERS - 1], max(half - 2, 1))
    first, second = headline[:place].rstrip(" -–—|｜:_·"), headline[place:].strip()
    return (
        first if first == second and not _is_short(first, _HEADLINE_WORDS - 1, _HEADLINE_CHARACTERS - 1) else headline
    )


def _is_short(text: str, words: int, characters: int) -> bool:
    if text.isascii() or " " in text.strip():
        return len(text.split(None, words)) <= words
    return len(text) <= characters
