"""The journal of `filter --state`: a changelog in a file (changelog/journal.py) that is appended to.

When it is opened again, it returns the same entries in order. An entry counts once `append` returns: then it is on
disk. The data that it describes must be on disk before. The tail that a killed process has torn is cut off.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from stream_dedup.changelog.journal import MAGIC, Entry, intact_entries, packed
from stream_dedup.errors import InputError
from stream_dedup.files import replace_file

_COPY_BYTES = 2**20  # a journal may be larger than memory


class Journal:
    """One journal file, open for appending. The caller must hold a lock on its directory (`open_locked`).

    The constructor calls `replay` with each entry that the file has, in order. Raises CorruptBlock, with file and byte
    offset, for a damaged entry.
    """

    def __init__(self, path: Path, replay: Callable[[Entry], None]) -> None:
        self._path = path
        if not path.exists():
            replace_file(path, [MAGIC])
        self._file: BinaryIO = path.open("r+b")
        try:
            self.size = len(MAGIC)  # bytes
            for entry in intact_entries(self._file, path):
                replay(entry)
                self.size = entry.end
            self._file.seek(self.size)
            self._file.truncate()  # the torn tail
            self._sync()
        except BaseException:
            self._file.close()
            raise

    def append(self, record: bytes, block: bytes = b"") -> None:
        """Append an entry; it is on disk when this returns. O(bytes). Raises InputError if it cannot be written."""
        entry = packed(record, block)
        try:
            self._file.write(entry)
            self._sync()
        except OSError as error:
            with suppress(OSError):  # closing tries to write the buffer, and closes even if it cannot
                self._file.close()
            raise InputError(
                f"cannot write {self._path}: {error.strerror or error}. Make room, then run the same command again: "
                "it continues where it stopped"
            ) from None
        self.size += len(entry)

    def keep(self, spans: Sequence[tuple[int, int]]) -> None:
        """Reduce the file to these (start, end), in this order, atomically. O(bytes kept)."""

        def content(source: BinaryIO) -> Iterator[bytes]:
            yield MAGIC
            for start, end in spans:
                source.seek(start)
                for offset in range(start, end, _COPY_BYTES):
                    yield source.read(min(_COPY_BYTES, end - offset))

        with self._path.open("rb") as source:
            self.size = replace_file(self._path, content(source))
        self._file.close()
        self._file = self._path.open("r+b")
        self._file.seek(self.size)

    def close(self) -> None:
        self._file.close()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
