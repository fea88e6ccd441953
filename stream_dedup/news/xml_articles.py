"""Find the articles in XML of no known kind: the elements that have a headline or a text under a usual name.

An element whose text is longer than those of the elements in it is an article with sections; so is one with an id, an
address or a date, if they have none. The root, and any other element with articles in it, is a list of them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from lxml import etree

from stream_dedup.news.clean import ELEMENTS
from stream_dedup.news.names import PARTS, is_text_name, meant_by
from stream_dedup.news.repair import local_name

_DEEPEST = 5
# Tags within a text. The others of HTML are structure in XML of no known kind.
_STRUCTURE = "article body data head html link section source summary time title"
_MARKUP = ELEMENTS - {*_STRUCTURE.split()}


class _Article(NamedTuple):
    element: Any
    length: int  # of its text, 0 if it has a headline alone
    is_titled: bool
    is_placed: bool  # whether it has an id, an address or a date


def articles_in(roots: Sequence[Any]) -> list[Any]:
    """Return the elements that are articles, in order. O(bytes of the upper levels).

    >>> root = etree.XML("<all><day><story><title>A</title></story><story><body>One.</body></story></day></all>")
    >>> [element.tag for element in articles_in([root])], articles_in([root[0][0][0]])
    (['story', 'story'], [])
    """
    found = [article for root in roots for article in _below(root, _DEEPEST)]
    tags = Counter(article.element.tag for article in found)
    # A headline alone is that of anything, if no other element of its name has one.
    articles = [article.element for article in found if article.length or tags[article.element.tag] > 1]
    return articles or [root for root in roots if _longest(root) >= 0]


def _below(element: Any, depth: int) -> Iterator[_Article]:
    """Yield the articles in an element, or itself."""
    children = list(element.iterchildren(etree.Element))
    below = [child for child in children if depth and not PARTS.search(str(child.tag))]
    inner = [article for child in below for article in _below(child, depth - 1)]
    length, names = _longest(element), [*element.attrib, *map(local_name, children)]
    is_placed = any(meant_by(names, field) for field in ("id", "url", "published"))
    is_titled = bool(meant_by(names, "title"))
    is_list = not is_placed or depth == _DEEPEST or any(article.is_placed for article in inner)
    is_list = is_list and any(article.is_titled >= is_titled for article in inner)
    if length < 0 or (inner and is_list and max(article.length for article in inner) >= length):
        yield from inner
    else:
        yield _Article(element, length, is_titled, is_placed)


def is_prose(element: Any, name: str) -> bool:
    """Return whether an element holds a headline or a text, whose tags are markup."""
    is_text = is_text_name(name) or meant_by([name], "title")
    return bool(is_text) and all(
        local_name(child).lower() in _MARKUP for child in element.iterdescendants(etree.Element)
    )


def _longest(element: Any) -> int:
    """Return the length of an element's longest text; 0 if it has only a headline, and -1 if neither."""
    texts = [
        (name, "".join(child.itertext()).strip())
        for child in element.iterchildren(etree.Element)
        if is_prose(child, name := local_name(child))
    ]
    texts += [(name, value) for name, value in element.attrib.items() if is_text_name(name) or is_headline(name)]
    if any(map(is_headline, element.attrib)) and not len(element):
        texts.append(("text", (element.text or "").strip()))
    return max((len(text) * is_text_name(name) for name, text in texts if text), default=-1)


def is_headline(name: str) -> bool:
    """Return whether an attribute of this name is a headline; a name is that of anything."""
    return name != "name" and bool(meant_by([name], "title"))
