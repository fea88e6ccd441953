"""Tell the workers' records in a changelog topic from those of other programs, and say what helps if one is damaged.

In: records of kafka-python. Those of other programs are skipped. A damaged record of a worker ends the worker, which
would forget originals without it; the error has its place and the cure that keeps the most.
"""

from contextlib import suppress
from typing import Any

from stream_dedup.changelog.block import MAGIC
from stream_dedup.changelog.entries import BLOCKS_HEADER, SEQUENCE_HEADER, SequenceRange
from stream_dedup.errors import ChangelogError, CorruptBlock

_DIGITS = 20  # of a 64-bit number
CURE = (
    "To keep what is remembered, fill another changelog from the output and duplicates topics: name a new topic in "
    "[topics] changelog, create it with: stream-dedup topics create --config FILE, and run `stream-dedup migrate "
    "--config FILE` before the workers. In scope partition, or without the last step, they begin with an empty index"
)


def is_block(record: Any) -> bool:
    """Whether a worker wrote this changelog record: it begins like a block, or has a block's sequence numbers.

    Other programs' records are skipped. Their keys say nothing: such a program may have our key, too.
    """
    if (record.value or b"").startswith(MAGIC):
        return True
    for name, value in record.headers:
        if name == SEQUENCE_HEADER:
            with suppress(CorruptBlock):
                SequenceRange.parse(value or b"")
                return True
    return False


def span_of(record: Any) -> SequenceRange:
    """The record's sequence numbers. Raises CorruptBlock."""
    return SequenceRange.parse(_header(record, SEQUENCE_HEADER))


def blocks_start(record: Any) -> int:
    """Where the blocks begin that this merged block and those before it do not repeat. Raises CorruptBlock."""
    value = _header(record, BLOCKS_HEADER)
    if not value.isdigit() or len(value) > _DIGITS:
        raise CorruptBlock(f"{value!r} in the header {BLOCKS_HEADER!r} is no offset")
    return int(value)


def _header(record: Any, name: str) -> bytes:
    value = dict(record.headers).get(name)
    if value is None:
        raise CorruptBlock(f"the header {name!r} is missing")
    return bytes(value)


def with_cure(error: ChangelogError) -> ChangelogError:
    """The error of a damaged record with what to do; an error about settings says that itself."""
    if type(error) is not CorruptBlock:
        return error
    return CorruptBlock(f"{error}. `stream-dedup state verify` names every damaged record. {CURE}")


def with_place(record: Any, error: ChangelogError) -> ChangelogError:
    """The error with the place of the record."""
    return type(error)(f"{record.topic}-{record.partition} at offset {record.offset}: {error}")
