"""Read JSON as programs write it that break the rules: with halves of UTF-16 pairs, NaN, needless escapes and commas.

JavaScript's JSON.stringify and Python's json.dumps write a lone surrogate, which is no character, where a text was cut
in the middle of an emoji. RFC 8259 allows them (8.2), but msgspec refuses the whole document. Here each reads as
U+FFFD, as a UTF-8 decoder reads a broken byte. Only the reading changes; the bytes of a record are published as they
came.
"""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

# A pair, a lone surrogate, or any other escape, so that each backslash is matched once.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def lone_in(text: bytes) -> list[bytes]:
    r"""Return the escapes of lone surrogates in their order. O(bytes).

    >>> lone_in(rb'"cut \ud83d, a pair \ud83d\ude00, a backslash \\ud83d"')
    [b'\\ud83d']
    """
    return [escape[0] for escape in _ESCAPE.finditer(text) if escape[1]]


def without_lone(text: bytes, stand_in: bytes = rb"\ufffd") -> bytes:
    """Replace each lone surrogate in JSON by another escape. O(bytes)."""
    return _ESCAPE.sub(lambda escape: stand_in if escape[1] else escape[0], text)


def tolerant(decode: Callable[[bytes], T]) -> Callable[[bytes], T]:
    r"""Let a decoder of msgspec read lone surrogates. Other JSON costs a call (.1 µs). The errors are the decoder's.

    >>> tolerant(msgspec.json.decode)(rb'["\udc00"]') == ["\N{REPLACEMENT CHARACTER}"]
    True
    """

    def decoded(text: bytes) -> T:
        try:
            return decode(text)
        except msgspec.DecodeError:
            whole = without_lone(text)
            if whole == text:
                raise
            return decode(whole)

    return decoded


decode_json = tolerant(msgspec.json.Decoder().decode)
decode_object = tolerant(msgspec.json.Decoder(dict[str, Any]).decode)
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
_NO_JSON = re.compile(r'"(?:[^"\\]|\\.)*+"|,(?=\s*[\]}])', re.DOTALL)
_NEXT = re.compile(r"[^\s,]")  # documents may follow each other with commas
_BACKSLASH = re.compile(r'(\\["\\/bfnrtu])|\\')  # of an escape of JSON, or a needless one


def loads(text: bytes) -> list[Any]:
    r"""Decode one JSON document after another, as JavaScript and Python write them.

    They may have NaN, a comma before a closing bracket, needless escapes and control characters. Raises ValueError,
    RecursionError.

    >>> loads(rb'[{"title": "It\'s open", "text": NaN},] {}')
    [[{'title': "It's open", 'text': None}], {}]
    """
    documents, at, plain = [], 0, _NO_JSON.sub(_repaired, without_lone(text).decode()).strip()
    while at < len(plain):
        value, end = _DECODER.raw_decode(plain, at)
        documents.append(value)
        following = _NEXT.search(plain, end)
        at = following.start() if following else len(plain)
    return documents


def _repaired(match: re.Match[str]) -> str:
    return "" if match[0] == "," else _BACKSLASH.sub(r"\1", match[0])
