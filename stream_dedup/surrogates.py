"""Read JSON with lone surrogates: halves of a UTF-16 pair, which are no characters.

JavaScript's JSON.stringify and Python's json.dumps write them where a text was cut in the middle of an emoji. RFC 8259
allows them (8.2), but msgspec refuses the whole document. Here each reads as U+FFFD, as a UTF-8 decoder reads a broken
byte. Only the reading changes; the bytes of a record are published as they came.
"""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")

# A pair, a lone surrogate, or any other escape, so that each backslash is matched once.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def lone_in(json: bytes) -> list[bytes]:
    r"""Return the escapes of lone surrogates in their order. O(bytes).

    >>> lone_in(rb'"cut \ud83d, a pair \ud83d\ude00, a backslash \\ud83d"')
    [b'\\ud83d']
    """
    return [escape[0] for escape in _ESCAPE.finditer(json) if escape[1]]


def without_lone(json: bytes, stand_in: bytes = rb"\ufffd") -> bytes:
    """Replace each lone surrogate in JSON by another escape. O(bytes)."""
    return _ESCAPE.sub(lambda escape: stand_in if escape[1] else escape[0], json)


def tolerant(decode: Callable[[bytes], T]) -> Callable[[bytes], T]:
    r"""Let a decoder of msgspec read lone surrogates. Other JSON costs a call (.1 µs). The errors are the decoder's.

    >>> tolerant(msgspec.json.decode)(rb'["\udc00"]') == ["\N{REPLACEMENT CHARACTER}"]
    True
    """

    def decoded(json: bytes) -> T:
        try:
            return decode(json)
        except msgspec.DecodeError:
            whole = without_lone(json)
            if whole == json:
                raise
            return decode(whole)

    return decoded
