"""Input files -> lines, streaming: plain text, .gz, .zst, or "-" for standard input.

Out: each line's bytes without its line feed, and for whoever must find the place again: its number, and a digest
of all lines up to it. A file is never held in memory, a single line always is. What is packed and cut short is an
error, never a shorter file: python-zstandard's own stream reader would say nothing.
"""

import gzip
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import xxhash
import zstandard

from stream_dedup.errors import InputError

STDIN = "-"
# Large enough that a chunk costs far more than the calls around it, small enough for many to fit in a cache.
_CHUNK = 2**18


class InputLines:
    """The lines of one input, from its beginning.

    `number` counts the lines handed out (so it is the last one's number, from 1), `digest()` is theirs.
    Raises InputError where the input cannot be opened, read or unpacked.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = str(path)
        self._digest = xxhash.xxh3_128()
        self._taken = 0
        self.number = 0
        self._is_stdin = self._path == STDIN
        try:
            self._file: BinaryIO = sys.stdin.buffer if self._is_stdin else Path(path).open("rb")  # noqa: SIM115 - __exit__
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._is_stdin:
            self._taken = self.bytes_read
            self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        for line in _split(self._chunks()):
            self.number += 1
            self._digest.update(line)
            self._digest.update(b"\n")
            yield line

    def digest(self) -> str:
        """Of the lines handed out so far."""
        return self._digest.hexdigest()

    @property
    def bytes_read(self) -> int:
        """Bytes of the file, packed as they are; of a pipe only what came unpacked."""
        return self._taken if self._file.closed or not self._file.seekable() else self._file.tell()

    def _chunks(self) -> Iterator[bytes]:
        try:
            if self._path.endswith(".gz"):
                with gzip.GzipFile(fileobj=self._file) as unpacked:
                    while chunk := unpacked.read(_CHUNK):
                        yield chunk
            elif self._path.endswith(".zst"):
                yield from _unpack_zstd(self._file)
            else:
                while chunk := self._file.read(_CHUNK):
                    self._taken += len(chunk)
                    yield chunk
        except EOFError:
            raise InputError(f"{self._path} is cut short: its packed data end in the midst, {self._where()}") from None
        except (OSError, zlib.error, zstandard.ZstdError) as error:
            raise InputError(f"cannot read {self._path} on, {self._where()}: {error}") from None

    def _where(self) -> str:
        return f"after line {self.number}"


def read_lines(path: str | Path) -> Iterator[bytes]:
    """The lines of one input that hold something; blank ones are no items."""
    with InputLines(path) as lines:
        for line in lines:
            if not is_blank(line):
                yield line


def is_blank(line: bytes) -> bool:
    """Nothing, or only white space."""
    return not line or line.isspace()


def _split(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Chunks -> lines; linear also where one line spans thousands of chunks."""
    begun: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        if others:
            yield b"".join(begun)
            begun = [others.pop()]
            yield from others
    last = b"".join(begun)
    if last:
        yield last


def _unpack_zstd(file: BinaryIO) -> Iterator[bytes]:
    # Files of `zstd --long=31` need the largest window there is.
    unpacker = zstandard.ZstdDecompressor(max_window_size=2**31)
    frame = None
    while chunk := file.read(_CHUNK):
        while chunk:  # one frame after the other, as `cat a.zst b.zst` makes them
            frame = frame or unpacker.decompressobj()
            yield frame.decompress(chunk)
            if not frame.eof:
                break
            chunk, frame = frame.unused_data, None
    if frame is not None:
        raise EOFError
