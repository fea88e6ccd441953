"""The headers of a block's record that say how much of the input it stands for, to size transactions by."""

from collections.abc import Sequence
from typing import Any

from stream_dedup.stream.record_batch import content_bytes

ITEMS, BYTES = "items", "bytes"


def size_headers(records: Sequence[Any]) -> list[tuple[str, bytes | None]]:
    """The headers of a block about these records of the input."""
    size = sum(map(content_bytes, records))
    return [(ITEMS, str(len(records)).encode()), (BYTES, str(size).encode())]


def sizes_of(record: Any) -> tuple[int, int]:
    """Items and bytes, from the headers of a block's record; (1, its own bytes) without them.

    >>> from types import SimpleNamespace
    >>> sizes_of(SimpleNamespace(headers=[("items", b"300"), ("bytes", b"1200000")], value=b"..."))
    (300, 1200000)
    >>> sizes_of(SimpleNamespace(headers=[], value=b"..."))
    (1, 3)
    """
    headers = dict(record.headers)
    items, size = headers.get(ITEMS) or b"", headers.get(BYTES) or b""
    if items.isdigit() and size.isdigit():
        return int(items[:12]), int(size[:18])
    return 1, len(record.value or b"")
