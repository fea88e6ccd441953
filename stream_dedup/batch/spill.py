"""Temporary files of arrays: they hold what does not fit in memory, and record how far a run is.

In: a head (what was done) and named arrays. Out: the same, mapped into memory, so the system keeps in memory what it
can. A file is there completely under its name or not at all. It has a checksum; a damaged file counts as missing, and
the run makes it again. So no write waits for the disk: a kill costs at most the files that were being written, a power
cut those that had not reached the disk.

Layout, little-endian: 8 bytes "SDSPIL01", 8 the length of the head, the head (JSON), each array at the next multiple of
64 bytes, 16 bytes xxh3-128 of all before.
"""

import mmap
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_dedup.errors import InputError

MAGIC = b"SDSPIL01"
# A cache line; each array begins at one.
_ALIGN = 64
_DIGEST_BYTES = 16
_NUMBER = re.compile(r"[<>|][biuf]\d{1,2}")
"""The dtypes of truth values and numbers; NumPy would evaluate other strings."""

Head = TypeVar("Head")
Arrays = dict[str, NDArray[Any]]


class _ArrayField(msgspec.Struct, frozen=True):
    name: str
    dtype: str
    shape: tuple[int, ...]


class _Header(msgspec.Struct, frozen=True):
    head: msgspec.Raw
    arrays: list[_ArrayField]


class SpillDirectory:
    """The temporary files in one directory. It does not touch other files there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, name: str, head: msgspec.Struct, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write a file, replacing one of that name atomically. O(bytes). The arrays must have plain number dtypes."""
        fields = [_ArrayField(key, array.dtype.str, array.shape) for key, array in arrays.items()]
        header = msgspec.json.encode(_Header(msgspec.Raw(msgspec.json.encode(head)), fields))
        new = self._path(f"{name}.new")
        digest = xxhash.xxh3_128()
        with new.open("wb") as file:
            at = 0
            for part in (MAGIC, len(header).to_bytes(8, "little"), header, *arrays.values()):
                padding = b"" if isinstance(part, bytes) else bytes(-at % _ALIGN)
                raw = part if isinstance(part, bytes) else np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
                for data in (padding, raw):
                    digest.update(data)
                    at += file.write(data)
            file.write(digest.digest())
        new.replace(self._path(name))

    def read(self, name: str, head_type: type[Head], *, check: bool = True) -> tuple[Head, Arrays] | None:
        """Head and arrays (read-only); None if the file is missing or damaged. O(bytes), without `check` O(1)."""
        try:
            with self._path(name).open("rb") as file:
                whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (FileNotFoundError, ValueError):  # an empty file cannot be mapped
            return None
        body = len(whole) - _DIGEST_BYTES
        if whole[:8] != MAGIC or body < 16 or (check and _digest(whole, body) != whole[body:]):
            return None
        try:
            return _content(whole, head_type)
        except (ValueError, TypeError, OverflowError, msgspec.MsgspecError, RecursionError):
            return None

    def read_back(self, name: str, head_type: type[Head]) -> tuple[Head, Arrays]:
        """A file that was just written, unchecked. Raises InputError if it is gone."""
        file = self.read(name, head_type, check=False)
        if file is None:
            raise InputError(f"{self._path(name)} was removed while it was in use; run the command again")
        return file

    def clear(self, *prefixes: str) -> None:
        """Remove the files whose names begin with one of the prefixes."""
        for path in self._directory.iterdir():
            if path.name.startswith(prefixes):
                path.unlink()

    def _path(self, name: str) -> Path:
        return self._directory / name


def _content(whole: mmap.mmap, head_type: type[Head]) -> tuple[Head, Arrays]:
    end = 16 + int.from_bytes(whole[8:16], "little")
    header = msgspec.json.decode(whole[16:end], type=_Header)
    arrays: Arrays = {}
    for field in header.arrays:
        start = end + -end % _ALIGN
        count = int(np.prod(field.shape, dtype=np.int64))
        if not _NUMBER.fullmatch(field.dtype):
            raise ValueError(f"an array of {field.dtype}")
        dtype = np.dtype(field.dtype)
        # An empty array may lie at the very end, where nothing can be mapped.
        flat = np.frombuffer(whole, dtype, count, start) if count else np.empty(0, dtype)
        arrays[field.name] = flat.reshape(field.shape)
        end = start + count * dtype.itemsize
    return msgspec.json.decode(header.head, type=head_type), arrays


def _digest(whole: mmap.mmap, end: int) -> bytes:
    with memoryview(whole) as view, view[:end] as body:
        return xxhash.xxh3_128_digest(body)
