"""The items of a script: how `Item.of` makes them of its values, and how the Deduplicator of scripts checks them.

A wrong value is a `UsageError`: one line that names the cure.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from numbers import Integral
from typing import Any

import msgspec

from stream_dedup.dedup.clocks import FAR_FUTURE
from stream_dedup.errors import BadItem, UsageError
from stream_dedup.news.dates import NO_TIME
from stream_dedup.news.decode import origin_of
from stream_dedup.news.item import Item, Tombstone

DECODED = "Decoder(load_settings().item)(line, None, None, 0, number)"
"""The call that decodes JSON into an item, for error messages; `number` distinguishes items without an id."""
# The years 1990 to 2100 in s. Only times from 1970-01-08 to 1970-02-17 and after the year 21,000 are misjudged; scripts
# can give those as aware datetimes.
_FIRST, _LAST = 631_152_000, 4_102_444_800
_UNITS = (("seconds", 1, "times 1000"), ("microseconds", 10**6, "// 1000"), ("nanoseconds", 10**9, "// 1_000_000"))
SURE = range(_LAST, _FIRST * 10**6)
"""Times that can only be milliseconds: 1970-02-17 to the year 21,970."""
NO_POSITION = "-1:-1"
"""The id that Decoder gives a record without an id, a key and a position."""
_POSITIONS = {"partition": 2**31, "offset": FAR_FUTURE}  # the room in a signature


def item_of(values: dict[str, Any]) -> Item:
    """Do what `Item.of` says."""
    names = [name for name in Item.__struct_fields__ if name != "host"]  # which follows from the source
    unknown = sorted(str(name) for name in set(values) - set(names))
    if unknown:
        raise UsageError(
            f"an item has no field {', '.join(map(repr, unknown))}; it has {', '.join(names)}. "
            f"Records with other names, HTML or dates as text are read from their JSON: {DECODED}"
        )
    name = values.get("id")
    if name is None:
        raise UsageError("an item needs an id, a string that no other item has: Item.of(id=...)")
    if isinstance(name, int) and not isinstance(name, bool):
        values["id"] = str(name)
    for field in ("title", "text", "source"):
        if values.get(field) is None:
            values[field] = ""
    item: Item = fitting(Item(**{"time": None, **values}))
    if isinstance(values.get("time"), (int, float)) and (doubt := looks_like(item.time)):
        raise UsageError(f"item {name!r}: {doubt}")
    return msgspec.structs.replace(item, **dict(zip(("source", "host"), origin_of(item.source), strict=True)))


def fitting(item: Any, where: str = "") -> Any:
    """Return the item with its time in ms. Raises UsageError for a value that is no item, or has a wrong type in it."""
    if isinstance(item, BadItem):
        return item
    if not isinstance(item, (Item, Tombstone)):
        given = "a dict" if isinstance(item, Mapping) else _shown(item)
        raise UsageError(f"{where}{given} is no item; Item.of(...) makes one of values, {DECODED} of JSON")
    values = {field: getattr(item, field) for field in item.__struct_fields__}
    label = f"{where}item {item.id!r}"
    for field in ("id", "title", "text", "source", "host"):
        if not isinstance(values.get(field, ""), str):
            raise UsageError(
                f"{label}: {field} must be a string, not {_shown(values[field])}; give str(...) of it, or '' if there "
                "is none"
            )
    if item.id == NO_POSITION:
        raise UsageError(
            f"{where}an item without an id, and all such items would count as versions of one: give each an id of its "
            f"own, name the field that has it in [item] fields, or, of lines of a file, give their numbers: {DECODED}"
        )
    for field, most in _POSITIONS.items():
        if not isinstance(values[field], Integral) or not -most < values[field] < most:
            raise UsageError(
                f"{label}: {field} must be a whole number below {most}, not {_shown(values[field])}; leave it out if "
                "unknown"
            )
        values[field] = int(values[field])
    return type(item)(**values | {"time": milliseconds(item.time, label)})


def milliseconds(time: Any, label: str) -> int:
    """Convert a datetime or a number to milliseconds since 1970, and None to -1. `label` names the item.

    A datetime without a time zone counts as UTC, as a date without one in a record does (dates.py).

    >>> milliseconds(datetime(2026, 3, 1, 12), "item '1'") == milliseconds(datetime(2026, 3, 1, 12, tzinfo=UTC), "")
    True
    """
    if time is None:
        return NO_TIME
    if isinstance(time, datetime):
        aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        # timestamp() would not do: a float has too few digits for the milliseconds of distant years.
        return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    is_number = isinstance(time, (Integral, float)) and not isinstance(time, bool)
    if is_number and abs(time) < FAR_FUTURE:  # false for nan
        return int(time)
    raise UsageError(
        f"{label}: time must be milliseconds since 1970 or a datetime such as datetime.fromisoformat(...), not "
        f"{_shown(time)}"
    )


def looks_like(time: int) -> str:
    """Explain why a time is probably not in milliseconds; "" if it plausibly is.

    >>> looks_like(1_700_000_000_000)
    ''
    """
    for unit, size, how in _UNITS:
        if _FIRST * size <= time < _LAST * size:
            meant = datetime.fromtimestamp(time / size, UTC).date()
            there = "in 1970" if unit == "seconds" else "after the year 20,000"
            return (
                f"time {time} looks like {unit}: in milliseconds it is {there}, in {unit} {meant}; "
                f"give milliseconds ({how}) or an aware datetime"
            )
    return ""


def _shown(value: object) -> str:
    """Format a value and its type, short enough for a line.

    >>> _shown(None), _shown(b"abc")
    ('None', "bytes b'abc'")
    """
    text = repr(value)
    return text if value is None else f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
