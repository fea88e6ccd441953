"""Words of formats, and files for decoders that read files."""

import tempfile
from functools import cache
from pathlib import Path

JSON = [
    b"{", b"}", b"[", b"]", b",", b":", b'"', b'""', b"null", b"true", b"-", b"0", b"1e999", b"-1e-999", b"NaN",
    b"9" * 25, b"9" * 400, b"18446744073709551616", b'"id":', b'"title":', b'"text":', b'"url":', b'"published":',
    b'"source":', b'"content":', b'"description":', b'"\\ud800"', b"\\ud800", b"\\u0000", b"\\", b"\xed\xa0\x80",
    b"\xff", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80", b"{}", b"[]", b'{"#text":"x"}', b'["x"]', b"[+9 chars]", b" ",
]  # fmt: skip


@cache
def scratch() -> Path:
    """A directory for temporary files."""
    return Path(tempfile.mkdtemp(prefix="stream-dedup-fuzz-"))


def scratch_file(name: str, data: bytes) -> Path:
    """A file with this content."""
    path = scratch() / name
    path.write_bytes(data)
    return path
