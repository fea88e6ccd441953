"""Tell the workers' records in a changelog topic from those of other programs, and say what helps if one is damaged.

In: records of kafka-python. Those of other programs are skipped. A damaged record of a worker ends the worker, which
would forget originals without it; the error has its place and the cure that keeps the most.
"""

from contextlib import suppress
from typing import Any

from stream_dedup.changelog.block import MAGIC
from stream_dedup.changelog.entries import SEQUENCE_HEADER, SequenceRange
from stream_dedup.errors import ChangelogError, CorruptBlock

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


def span_of(record: Any) -> SequenceRange | None:
    """The record's sequence numbers; None: a release without merged blocks wrote it. Raises CorruptBlock."""
    return next((SequenceRange.parse(value or b"") for name, value in record.headers if name == SEQUENCE_HEADER), None)


def with_cure(error: ChangelogError) -> ChangelogError:
    """The error of a damaged record with what to do; an error about settings says that itself."""
    if type(error) is not CorruptBlock:
        return error
    return CorruptBlock(f"{error}. `stream-dedup state verify` names every damaged record. {CURE}")


def with_place(record: Any, error: ChangelogError) -> ChangelogError:
    """The error with the place of the record."""
    return type(error)(f"{record.topic}-{record.partition} at offset {record.offset}: {error}")
