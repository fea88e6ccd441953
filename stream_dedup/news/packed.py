"""Recognise values that the producer has compressed or base64-encoded itself, which no decoder of items can read.

In: the bytes of a value, or a field's text. Out: what it is, in words for a person, or None. Why: Kafka compresses
whole batches, and every client unpacks those; a value that was compressed before it was sent stays compressed. Without
this check its dead letter would say only that the JSON is malformed, and a text in base64 would be judged as one word.
"""

import base64
import binascii
import re

# The first bytes of each format; batch/packing.py recognises files by the same.
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
BZIP2 = b"BZh"
XZ = b"\xfd7zXZ\x00"
ZIP = b"PK\x03\x04"
_MAGIC = (
    (GZIP, "gzip-compressed"),
    (ZSTD, "zstd-compressed"),
    (b"\x04\x22\x4d\x18", "lz4-compressed"),
    (b"\x82SNAPPY\x00", "snappy-compressed"),
    (b"\xff\x06\x00\x00sNaPpY", "snappy-compressed"),
    (BZIP2, "bzip2-compressed"),
    (XZ, "xz-compressed"),
    (ZIP, "a zip archive"),
    # Of zlib only the usual levels: each is also no UTF-8, or a control character, so no JSON begins like that.
    (b"\x78\x01", "zlib-compressed"),
    (b"\x78\x9c", "zlib-compressed"),
    (b"\x78\xda", "zlib-compressed"),
)
# Enough characters to be sure: 48 bytes that decode to readable text are no accident.
_ENOUGH = 64
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def packing_of(value: bytes) -> str | None:
    """Say how a value that is no JSON is packed; None: it does not look packed. Looks at its first bytes only.

    >>> import gzip
    >>> packing_of(gzip.compress(b"{}")), packing_of(base64.b64encode(b'{"id": "a", "title": "T"}'))
    ('gzip-compressed', 'base64 of JSON')
    >>> packing_of(b'{"id": "a", "title": "cut'), packing_of(b"A plain line.")
    (None, None)
    """
    compressed = _compression_of(value)
    if compressed is not None:
        return compressed
    start = _decoded(value[: _ENOUGH + 2].strip(b' \t\r\n"'))
    if start is None:
        return None
    compressed = _compression_of(start)
    if compressed is not None:
        return f"base64 of {compressed} data"
    return "base64 of JSON" if start.lstrip()[:1] in (b"{", b"[") else None


def packing_of_text(text: str) -> str | None:
    """Say how the text of a field is packed; None: it is plain, as nearly all are (.1 µs).

    >>> import gzip
    >>> packing_of_text(base64.b64encode(gzip.compress(b"The bridge is open.")).decode())
    'base64 of gzip-compressed data'
    >>> packing_of_text(base64.b64encode(b"<p>The bridge over the Elm is open to all again.</p>").decode())
    'base64'
    >>> packing_of_text("The bridge over the Elm is open to all again."), packing_of_text("https://a.example/1")
    (None, None)
    """
    start = text[:_ENOUGH]
    if " " in start or not start.isascii():
        return None
    decoded = _decoded(start.strip().encode())
    if decoded is None:
        return None
    compressed = _compression_of(decoded)
    if compressed is not None:
        return f"base64 of {compressed} data"
    return "base64" if len(start) == _ENOUGH and _is_readable(decoded) else None


def _compression_of(value: bytes) -> str | None:
    return next((name for magic, name in _MAGIC if value.startswith(magic)), None)


def _decoded(start: bytes) -> bytes | None:
    """Decode the first characters of what may be base64."""
    if not _BASE64.fullmatch(start):
        return None
    whole = start.rstrip(b"=").translate(_URL_SAFE)
    try:
        return base64.b64decode(whole[: len(whole) // 4 * 4])
    except binascii.Error:
        return None


def _is_readable(data: bytes) -> bool:
    """Whether the bytes are UTF-8 (the last character may be cut), without control characters, with spaces or tags."""
    for cut in range(4):
        try:
            text = data[: len(data) - cut].decode()
        except UnicodeDecodeError:
            continue
        return (" " in text or "<" in text) and text.replace("\n", "").isprintable()
    return False
