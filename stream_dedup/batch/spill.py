"""Numbered temporary files: arrays that do not fit in memory, and the record of how far a run came.

In: a head (what was done) and named arrays. Out: the same, mapped into memory, so that the system keeps of them what
it has room for. A file either stands there whole under its name or not at all, and has a checksum: one that does not
fit is as good as missing, and is made again. So nothing here waits for the disk; a kill costs at most the files that
were being written, a power cut those that had not reached the disk.

Layout, little-endian: 8 bytes "SDSPIL01", 8 the length of the head, the head (JSON), each array at the next multiple of
64 bytes, 16 bytes xxh3-128 of all before.
"""

import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_dedup.errors import InputError

MAGIC = b"SDSPIL01"
# A cache line: no array begins in the midst of one.
_ALIGN = 64
_DIGEST_BYTES = 16

Head = TypeVar("Head")
Arrays = dict[str, NDArray[Any]]


class _Field(msgspec.Struct, frozen=True):
    name: str
    dtype: str
    shape: tuple[int, ...]


class _Contents(msgspec.Struct, frozen=True):
    head: msgspec.Raw
    arrays: list[_Field]


class Spill:
    """The temporary files of one directory. `names` of its files; nothing else there is touched."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, name: str, head: msgspec.Struct, arrays: Mapping[str, NDArray[Any]]) -> None:
        """The whole file, at once, over one of that name. O(bytes). The arrays' dtypes must be plain numbers."""
        fields = [_Field(key, one.dtype.str, one.shape) for key, one in arrays.items()]
        contents = msgspec.json.encode(_Contents(msgspec.Raw(msgspec.json.encode(head)), fields))
        new = self._path(f"{name}.new")
        digest = xxhash.xxh3_128()
        with new.open("wb") as file:
            at = 0
            for piece in (MAGIC, len(contents).to_bytes(8, "little"), contents, *arrays.values()):
                gap = b"" if isinstance(piece, bytes) else bytes(-at % _ALIGN)
                raw = piece if isinstance(piece, bytes) else np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data
                for part in (gap, raw):
                    digest.update(part)
                    at += file.write(part)
            file.write(digest.digest())
        new.replace(self._path(name))

    def read(self, name: str, head_type: type[Head], *, check: bool = True) -> tuple[Head, Arrays] | None:
        """Head and arrays (read-only), None if there is no such file or it is damaged. O(bytes); O(1) unchecked."""
        try:
            with self._path(name).open("rb") as file:
                whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (FileNotFoundError, ValueError):  # an empty file cannot be mapped
            return None
        body = len(whole) - _DIGEST_BYTES
        if whole[:8] != MAGIC or body < 16 or (check and _digest(whole, body) != whole[body:]):
            return None
        end = 16 + int.from_bytes(whole[8:16], "little")
        contents = msgspec.json.decode(whole[16:end], type=_Contents)
        arrays: Arrays = {}
        for field in contents.arrays:
            start = end + -end % _ALIGN
            count = int(np.prod(field.shape, dtype=np.int64))
            dtype = np.dtype(field.dtype)
            # An array without entries may stand at the very end, where nothing can be mapped.
            flat = np.frombuffer(whole, dtype, count, start) if count else np.empty(0, dtype)
            arrays[field.name] = flat.reshape(field.shape)
            end = start + count * dtype.itemsize
        return msgspec.json.decode(contents.head, type=head_type), arrays

    def read_back(self, name: str, head_type: type[Head]) -> tuple[Head, Arrays]:
        """What was written just now, unchecked."""
        found = self.read(name, head_type, check=False)
        if found is None:
            raise InputError(f"{self._path(name)} was taken away while it was in use; run the command again")
        return found

    def clear(self, *prefixes: str) -> None:
        """Removes the files whose names begin so."""
        for path in self._directory.iterdir():
            if path.name.startswith(prefixes):
                path.unlink()

    def _path(self, name: str) -> Path:
        return self._directory / name


def _digest(whole: mmap.mmap, end: int) -> bytes:
    with memoryview(whole) as view, view[:end] as body:
        return xxhash.xxh3_128_digest(body)
