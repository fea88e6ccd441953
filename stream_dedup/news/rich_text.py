"""Join the text of an article that editors and content systems store as nodes: paragraphs, headings, spans, blocks.

Each system names its nodes in its own way. What they share is enough: a node has its text under the name of a text, or
further nodes in lists and objects. A node with two texts has one of them in two forms. The entries of a live blog are
joined by their dates, the newest last.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter
from typing import Any

import msgspec

from stream_dedup.news.dates import milliseconds_of
from stream_dedup.news.names import PARTS, is_text_name, meant_by
from stream_dedup.news.plain_values import LANGUAGE, article, is_typed, plain_value

# Texts by names of HTML, of Quill (insert) and of records of typed values.
_LEAF = re.compile(
    r"(p|li|ul|ol|h[1-6]|hl\d|div|span|para|block|blockquote|items|lines|insert|markdown|value|texts?)\Z"
)
_MARKS = frozenset(("marks", "format", "annotations", "attributes", "bold", "italic", "code", "styles"))
_NO_TEXT = re.compile("marks|attr|style|config|setting|references|entitymap|annotation|\\Ameta")
_NO_LANGUAGE = frozenset(("li", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "br", "id", "op", "ok"))
_DEEPEST = 24  # lists in lists in a text: five levels of nodes


def rich_text(value: Any) -> str:
    """Return the texts of the nodes in their order, a paragraph each; "" if there are none.

    >>> rich_text({"blocks": [{"type": "p", "data": {"text": "The Elm."}}, {"type": "list", "items": ["Elm", "Oak"]}]})
    'The Elm.\\n\\nElm\\n\\nOak'
    >>> rich_text({"en": [{"children": [{"text": "The "}, {"text": "bridge.", "bold": True}]}], "fi": "Silta."})
    'The bridge.'
    """
    return "\n\n".join(text for part in _texts(value, _DEEPEST) if (text := part.strip()))


def text_of(value: Any) -> Any:
    """Return the text of a value: plain, in nodes, or in nodes as JSON in a string; else the value itself."""
    if isinstance(value, str):
        if value[-1:] in "}]" and value[:1] in "{[":
            with suppress(msgspec.DecodeError, RecursionError):
                nodes = msgspec.json.decode(value)
                inner = nodes.values() if isinstance(nodes, dict) else nodes
                if any(isinstance(child, (dict, list)) for child in inner):
                    return rich_text(nodes) or value
        return value
    plain = plain_value("text", value)
    if isinstance(value, list) and any(map(is_typed, value)):
        return plain
    rich = rich_text(value)
    return rich if rich and (not isinstance(plain, str) or _letters(rich) >= _letters(plain)) else plain


def _letters(text: str) -> int:
    return len(text.replace("\n", ""))


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, list):
        yield from _of_list(value, depth - 1)
    elif depth and isinstance(value, dict):
        yield from _of_node(value, depth - 1)


def _of_list(nodes: list[Any], depth: int) -> Iterator[str]:
    is_spans = len(nodes) > 1 and all(isinstance(node, dict) and len(_own(node)) == 1 for node in nodes)
    if is_spans and any(not _MARKS.isdisjoint(node) for node in nodes):
        yield "".join(_own(node)[0] for node in nodes)
        return
    # Mobiledoc has lists of the name of an element, numbers and nodes.
    is_mixed = any(not isinstance(node, str) for node in nodes)
    for node in _by_date(nodes):
        if not (is_mixed and isinstance(node, str) and " " not in node):
            yield from _texts(node, depth)


def _of_node(node: dict[str, Any], depth: int) -> Iterator[str]:
    if all(LANGUAGE.match(name) and name not in _NO_LANGUAGE for name in node):
        yield from _texts(next(filter(None, node.values()), ""), depth)
        return
    texts, found = _own(node), False
    if texts:
        yield article(texts)
    for name, inner in node.items():
        plain = name.lower()
        is_other = (texts and plain != "children") or PARTS.search(plain) or _NO_TEXT.search(plain)
        if is_other or not isinstance(inner, (dict, list)):
            continue
        is_words = isinstance(inner, list) and all(isinstance(entry, str) for entry in inner)
        for text in _texts(inner, depth) if _is_text(name) or not is_words else ():
            found = True
            yield text
    if not texts and not found:  # an entry of a live blog may be a headline
        titles = (plain_value("title", node[name]) for name in meant_by(node, "title") if name != "name")
        yield from [title for title in titles if isinstance(title, str)][:1]


def _own(node: dict[str, Any]) -> list[str]:
    return [text for name, text in node.items() if text and isinstance(text, str) and _is_text(name)]


def _is_text(name: str) -> bool:
    return bool(_LEAF.match(name.lower())) or is_text_name(name)


def _by_date(nodes: list[Any]) -> list[Any]:
    """Sort entries by their dates, if all have one and they differ."""
    times = [_time(node) if isinstance(node, dict) else -1 for node in nodes]
    if len(set(times)) < 2 or min(times) < 0:
        return nodes
    return [node for _, node in sorted(zip(times, nodes, strict=True), key=itemgetter(0))]


def _time(node: dict[str, Any]) -> int:
    dates = (node[name] for name in meant_by(node, "published"))
    return max((milliseconds_of(date) for date in dates if date and isinstance(date, str)), default=-1)
