"""Decode the value of a record that another role has written, and name the record if it is damaged."""

from collections.abc import Callable
from typing import Any, TypeVar

from stream_dedup.changelog.records import with_place
from stream_dedup.errors import ChangelogError, CorruptBlock

T = TypeVar("T")


def decoded(record: Any, decode: Callable[[bytes], T]) -> T:
    """Raises CorruptBlock and SchemeMismatch with the record's place."""
    try:
        if record.value is None:
            raise CorruptBlock("the record has no value; does another program write to this topic?")
        return decode(record.value)
    except ChangelogError as error:
        raise with_place(record, error) from None
