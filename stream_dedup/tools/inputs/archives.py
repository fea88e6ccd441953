"""Read tar archives as streams, packed or not: the files in them, one after another, as those of a directory.

tarfile keeps a header in memory as a whole, and a packed one may have gigabytes, so what it reads between two files is
bounded. Hidden files are left out, and so are sparse ones, whose holes have no end.
"""

import io
import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath

from stream_dedup.errors import InputError
from stream_dedup.tools.inputs.packing import CHUNK

_MAGIC, _AT, _BLOCK = b"ustar", 257, 512
_MOST_HEADER = 2**20  # bytes of names and attributes before a file; tarfile reads 10 KiB at a time


def begin_of(chunks: Iterator[bytes]) -> bytes:
    """Return the first bytes, enough to recognise an archive; what begins like a text of lines is not waited for."""
    begin = b""
    while len(begin) < _BLOCK and b"\n" not in begin and begin[:1] not in (b"{", b"[", b"<"):
        if not (chunk := next(chunks, b"")):
            break
        begin += chunk
    return begin


def is_tar(begin: bytes) -> bool:
    """Return whether an input that begins so is a tar archive."""
    return begin.startswith(_MAGIC, _AT)


def members_of(name: str, chunks: Iterator[bytes]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the name and the chunks of each file of the archive `name`. Raises InputError if it is broken."""
    stream = _Stream(name, chunks)
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                is_hidden = any(part.startswith(".") for part in PurePosixPath(member.name).parts)
                content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
                if content is not None:
                    stream.room = member.size + _MOST_HEADER
                    parts = iter(lambda content=content: content.read(CHUNK), b"")  # type: ignore[misc]
                    if not is_hidden:
                        yield f"{name}/{member.name}", parts
                    for _ in parts:
                        pass
                stream.room = _MOST_HEADER
    except tarfile.TarError as error:
        raise InputError(f"cannot read {name} as a tar archive: {error}") from None


class _Stream(io.RawIOBase):
    """A file of chunks. `room`: bytes that may be read until it is set again."""

    def __init__(self, name: str, chunks: Iterator[bytes]) -> None:
        self._name, self._chunks, self._rest, self.room = name, chunks, b"", _MOST_HEADER

    def read(self, size: int = -1) -> bytes:
        if not self._rest:
            self._rest = next(self._chunks, b"")
        data, self._rest = self._rest[:size], self._rest[size:]
        self.room -= len(data)
        if self.room < 0:
            raise InputError(f"{self._name}: a header of this tar archive has more than {_MOST_HEADER:,} bytes")
        return data
