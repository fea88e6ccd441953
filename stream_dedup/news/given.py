"""Validate items that a Python script supplies, and convert their values.

In: dicts, keyword arguments, datetimes, or `Item`s with values of any type. Out: items that can be judged, or a
`UsageError` of one line that names the cure. Records from files and topics are read by decode.py instead.
"""

import operator
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from stream_dedup.errors import BadItem, UsageError
from stream_dedup.news.dates import NO_TIME
from stream_dedup.news.decode import site_of
from stream_dedup.news.item import Item, Tombstone

# (unit, first, last, conversion): the years 1990 to 2100 in that unit, and how to convert it to milliseconds. The
# ranges misjudge only times from 1970-01-08 to 1970-02-17 and after the year 21,000; pass those as aware datetimes.
_UNITS = (
    ("seconds", 631_152_000, 4_102_444_800, "times 1000"),
    ("microseconds", 631_152_000 * 10**6, 4_102_444_800 * 10**6, "// 1000"),
    ("nanoseconds", 631_152_000 * 10**9, 4_102_444_800 * 10**9, "// 1_000_000"),
)
_PER_SECOND = {"seconds": 1, "microseconds": 10**6, "nanoseconds": 10**9}
SURE = range(_UNITS[0][2], _UNITS[1][1])
"""Times that can only be milliseconds: 1970-02-17 to the year 21,970."""
DECODED = "Decoder(Settings().item)(line, None, None, 0, number)"
"""The call that decodes JSON into an item, for error messages; `number` distinguishes items without an id."""
_NO_POSITION = "-1:-1"  # the id that Decoder gives a record without an id, a key and a position
_MOST = 2**62  # clocks.FAR_FUTURE
_POSITIONS = {"partition": 2**31, "offset": _MOST}  # what a signature has room for


def item_of(fields: Mapping[str, Any]) -> Item:
    """Implement `Item.of`."""
    unknown = sorted(str(name) for name in set(fields) - set(Item.__struct_fields__))
    if unknown:
        raise UsageError(
            f"an item has no field {', '.join(map(repr, unknown))}; it has {', '.join(Item.__struct_fields__)}. "
            f"Records with other names, HTML or dates as text are read from their JSON: {DECODED}"
        )
    if fields.get("id") is None:
        raise UsageError("an item needs an id, a string that no other item has: Item.of(id=...)")
    name = fields["id"]
    values: dict[str, Any] = dict(fields)
    if isinstance(name, int) and not isinstance(name, bool):
        values["id"] = str(name)
    for field in ("title", "text", "source"):
        if values.get(field) is None:
            values[field] = ""
    time = milliseconds(values.get("time"), f"item {name!r}")
    if isinstance(values.get("time"), (int, float)):
        doubt = looks_like(time)
        if doubt:
            raise UsageError(f"item {name!r}: {doubt}")
    values["time"] = time
    made = fitting(Item(**values))
    return Item(**{**values, "source": site_of(made.source)})


def fitting(item: Any, where: str = "") -> Any:
    """Return the item with its time in ms. Raises UsageError if it is no item or one of its values has a wrong type."""
    if isinstance(item, BadItem):
        return item
    if not isinstance(item, (Item, Tombstone)):
        raise UsageError(f"{where}{_not_an_item(item)}")
    name = item.id
    _require_text(where, "id", name, "str(...) of it")
    if name == _NO_POSITION:
        raise UsageError(
            f"{where}an item without an id needs a position, or all such items count as versions of one: {DECODED}"
        )
    label = f"{where}item {name!r}"
    if isinstance(item, Item):
        for field in ("title", "text", "source"):
            _require_text(f"{label}: ", field, getattr(item, field), "'' if there is none")
    position = {field: _integer(label, field, getattr(item, field), most) for field, most in _POSITIONS.items()}
    values = {field: getattr(item, field) for field in item.__struct_fields__}
    values |= position | {"time": milliseconds(item.time, label)}
    return type(item)(**values)


def milliseconds(time: Any, label: str) -> int:
    """Convert an aware datetime or a number to milliseconds since 1970; None (unknown) to -1. `label` names the item.

    >>> milliseconds(datetime(2026, 3, 1, 12), "item '1'")
    Traceback (most recent call last):
    stream_dedup.errors.UsageError: item '1': time 2026-03-01 12:00:00 has no time zone, so it is ambiguous; say \
which one: time.replace(tzinfo=datetime.UTC), or time.astimezone() for this machine's
    """
    if time is None:
        return NO_TIME
    if isinstance(time, datetime):
        if time.utcoffset() is None:
            raise UsageError(
                f"{label}: time {time} has no time zone, so it is ambiguous; say which one: "
                "time.replace(tzinfo=datetime.UTC), or time.astimezone() for this machine's"
            )
        # Not timestamp(): a float has too few digits for the milliseconds of distant years.
        return (time - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND
    if isinstance(time, float) and time == time and abs(time) < _MOST:
        return int(time)
    if not isinstance(time, (bool, str, date)):
        try:
            whole = operator.index(time)
        except TypeError:
            pass
        else:
            if abs(whole) >= _MOST:
                raise UsageError(f"{label}: time {whole} is no date in milliseconds since 1970")
            return whole
    cure = "datetime.fromisoformat(...)" if isinstance(time, str) else "datetime(..., tzinfo=datetime.UTC)"
    raise UsageError(
        f"{label}: time must be milliseconds since 1970 or an aware datetime such as {cure}, not {_shown(time)}"
    )


def looks_like(time: int) -> str:
    """Explain why a time is probably not in milliseconds; "" if it plausibly is.

    >>> looks_like(1_700_000_000_000)
    ''
    """
    for unit, first, last, how in _UNITS:
        if first <= time < last:
            meant = datetime.fromtimestamp(time / _PER_SECOND[unit], UTC).date()
            there = "in 1970" if unit == "seconds" else "after the year 20,000"
            return (
                f"time {time} looks like {unit}: in milliseconds it is {there}, in {unit} {meant}; "
                f"give milliseconds ({how}) or an aware datetime"
            )
    return ""


def _not_an_item(given: object) -> str:
    if given is None:
        return "None is no item; leave it out, or give an Item"
    if isinstance(given, Mapping):
        return f"a dict is no item; Item.of(the dict) makes one of it, or, where its names are others, {DECODED}"
    if isinstance(given, (str, bytes)):
        return f"{_shown(given)} is no item; Item.of(id=..., title=..., text=...) makes one, or of JSON {DECODED}"
    return f"{_shown(given)} is no item; give Item, Tombstone or BadItem"


def _require_text(label: str, field: str, value: object, cure: str) -> None:
    if not isinstance(value, str):
        decode = "value.decode()" if isinstance(value, bytes) else cure
        raise UsageError(f"{label}{field} must be a string, not {_shown(value)}; give {decode}")


def _integer(label: str, field: str, value: Any, most: int) -> int:
    try:
        whole = operator.index(value)
    except TypeError:
        raise UsageError(
            f"{label}: {field} must be a whole number, not {_shown(value)}; leave it out if unknown"
        ) from None
    if not -most < whole < most:
        raise UsageError(f"{label}: {field} must be below {most}, not {_shown(value)}; leave it out if unknown")
    return whole


def _shown(value: object) -> str:
    """Format a value and its type, short enough for a line.

    >>> _shown(None), _shown(b"abc")
    ('None', "bytes b'abc'")
    """
    text = repr(value)
    return "None" if value is None else f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


_MILLISECOND = datetime(1970, 1, 1, 0, 0, 0, 1000) - datetime(1970, 1, 1)
