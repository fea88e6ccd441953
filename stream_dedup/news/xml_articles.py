"""Find the articles in XML of no known kind: the elements that have a headline or a text under a usual name.

They are those of one level: elements of the same name that occur more than once, or else the root. A root that has a
longer text than they is an article with sections.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from lxml import etree

from stream_dedup.news.clean import ELEMENTS
from stream_dedup.news.names import PARTS, is_text_name, meant_by
from stream_dedup.news.repair import local_name

_DEEPEST = 4
# Tags within a text. The others of HTML are structure in XML of no known kind.
_STRUCTURE = "article body data head html link section source summary time title"
_MARKUP = ELEMENTS - {*_STRUCTURE.split()}


def articles_in(roots: Sequence[Any]) -> list[Any]:
    """Return the elements that are articles, in order. O(elements of the upper levels).

    >>> root = etree.XML("<all><day><story><title>A</title></story><story><body>One.</body></story></day></all>")
    >>> [each.tag for each in articles_in([root])], articles_in([root[0][0][0]])
    (['story', 'story'], [])
    """
    level, outermost = list(roots), [root for root in roots if _longest(root) >= 0]
    if len(outermost) > 1:
        return outermost
    single: list[Any] = []
    for _ in range(_DEEPEST):
        children = [child for parent in level for child in parent.iterchildren(etree.Element)]
        level = [child for child in children if not PARTS.search(str(child.tag))]
        articles = Counter(element.tag for element in level if _longest(element) >= 0)
        tags = Counter(element.tag for element in level)
        found = [element for element in level if articles[element.tag] > max(1, tags[element.tag] // 2)]
        if found:
            return outermost if outermost and _longest(outermost[0]) > max(map(_longest, found)) else found
        single = single or [element for element in level if _longest(element) > 0]
    return outermost or single


def is_prose(element: Any, name: str) -> bool:
    """Return whether an element holds a headline or a text, whose tags are markup."""
    is_text = is_text_name(name) or meant_by([name], "title")
    return bool(is_text) and all(
        local_name(child).lower() in _MARKUP for child in element.iterdescendants(etree.Element)
    )


def _longest(element: Any) -> int:
    """The length of an element's longest text; 0 if it has only a headline, and -1 if neither."""
    texts = [(child, local_name(child)) for child in element.iterchildren(etree.Element)]
    lengths = [
        len("".join(child.itertext()).strip()) if is_text_name(name) else 0
        for child, name in texts
        if is_prose(child, name) and "".join(child.itertext()).strip()
    ]
    return max(lengths, default=-1)
