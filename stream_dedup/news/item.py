"""The item and the tombstone, the two values that the decision works on; and how a Python script makes and checks them.

decode.py makes them of records, scripts make them of dicts, keyword arguments and datetimes. A wrong value of a script
is a `UsageError`: one line that names the cure. An item carries only what the decision needs. The reader of a record
keeps its bytes and republishes them untouched.

Objects that exist for every item are msgspec Structs, here and elsewhere: creating one takes a sixth of the time of a
frozen dataclass, and the garbage collector ignores them.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from numbers import Integral
from typing import Any

import msgspec

from stream_dedup.errors import BadItem, UsageError
from stream_dedup.news.dates import NO_TIME

WORDLESS = "neither headline nor text has a letter or digit"
"""The detail of a bad item whose headline and text contain no letter and no digit."""
DECODED = "Decoder(load_settings().item)(line, None, None, 0, number)"
"""The call that decodes JSON into an item, for error messages; `number` distinguishes items without an id."""
# The years 1990 to 2100 in s. Only times from 1970-01-08 to 1970-02-17 and after the year 21,000 are misjudged; scripts
# can give those as aware datetimes.
_FIRST, _LAST = 631_152_000, 4_102_444_800
_UNITS = (("seconds", 1, "times 1000"), ("microseconds", 10**6, "// 1000"), ("nanoseconds", 10**9, "// 1_000_000"))
SURE = range(_LAST, _FIRST * 10**6)
"""Times that can only be milliseconds: 1970-02-17 to the year 21,970."""
NO_POSITION = "-1:-1"  # the id that Decoder gives a record without an id, a key and a position
_MOST = 2**62  # clocks.FAR_FUTURE
_POSITIONS = {"partition": 2**31, "offset": _MOST}  # the room in a signature


class Item(msgspec.Struct, frozen=True, gc=False):
    """A decoded news record."""

    id: str
    title: str
    text: str
    source: str  # the site (registrable domain, lower case), empty if unknown
    time: int  # event time in ms since 1970 UTC (on Kafka the record's timestamp), negative if unknown
    partition: int = -1  # the record's position in the input, -1 if it has none
    offset: int = -1
    # 64 bits that the record itself supplies ([item] fields). Then headline and text are empty and do not count.
    fingerprint: int | None = None
    host: str = ""  # that of the source if it differs from the site ([sources])

    @classmethod
    def of(cls, fields: Mapping[str, Any] | None = None, /, **more: Any) -> "Item":
        """Make an item from a script's values: a dict with the field names above, keyword arguments, or both.

        Only `id` is required. `time` is a datetime (UTC if it names no zone) or milliseconds; `source` is the name of a
        site or any URL on it. Raises UsageError, one line that names the cure, for any other value, such as a time in
        seconds.

        >>> item = Item.of({"id": 7, "title": "Elm bridge opens"}, time=datetime(2026, 3, 1, tzinfo=UTC))
        >>> item.id, item.title, item.text, item.time
        ('7', 'Elm bridge opens', '', 1772323200000)
        >>> Item.of(id="8", time=1_772_323_200)
        Traceback (most recent call last):
        stream_dedup.errors.UsageError: item '8': time 1772323200 looks like seconds: in milliseconds it is in 1970, \
in seconds 2026-03-01; give milliseconds (times 1000) or an aware datetime
        """
        # Imported late: loading the table of public suffixes takes longer than everything else that uses this module.
        from stream_dedup.news.decode import origin_of

        values: dict[str, Any] = {**(fields or {}), **more}
        names = [name for name in cls.__struct_fields__ if name != "host"]  # which follows from the source
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
        item: Item = fitting(cls(**{"time": None, **values}))
        if isinstance(values.get("time"), (int, float)) and (doubt := looks_like(item.time)):
            raise UsageError(f"item {name!r}: {doubt}")
        return msgspec.structs.replace(item, **dict(zip(("source", "host"), origin_of(item.source), strict=True)))


class Tombstone(msgspec.Struct, frozen=True, gc=False):
    """A record with a key and a null value: it withdraws the item with this id, and its original is forgotten."""

    id: str
    time: int
    partition: int = -1
    offset: int = -1


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
    if is_number and abs(time) < _MOST:  # false for nan
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
