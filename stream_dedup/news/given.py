"""Values of a person's script -> items, or one line that says what is wrong with them.

In: dicts, keywords, datetimes, or items that somebody made with values of any type. Out: items that can be judged, and
`UsageError` for what is none. Records of files and topics do not come this way: decode.py reads them.
"""

import operator
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from stream_dedup.errors import BadItem, UsageError
from stream_dedup.news.dates import NO_TIME
from stream_dedup.news.decode import site_of
from stream_dedup.news.item import Item, Tombstone

# Of each unit, what the years 1990 to 2100 are in it, and what it takes to make milliseconds of it. No news is told
# apart by it wrongly, but that of 1970-01-08 to 1970-02-17 and of the year 21,000 on; an aware datetime can say those.
_UNITS = (
    ("seconds", 631_152_000, 4_102_444_800, "times 1000"),
    ("microseconds", 631_152_000 * 10**6, 4_102_444_800 * 10**6, "// 1000"),
    ("nanoseconds", 631_152_000 * 10**9, 4_102_444_800 * 10**9, "// 1_000_000"),
)
_PER_SECOND = {"seconds": 1, "microseconds": 10**6, "nanoseconds": 10**9}
SURE = range(_UNITS[0][2], _UNITS[1][1])
"""Times that can be nothing but milliseconds: 1970-02-17 to the year 21,970."""
DECODED = "Decoder(Settings().item)(line, None, None, 0, number)"
"""How JSON becomes an item; `number` tells items without an id apart."""
_NOWHERE = "-1:-1"  # the id that Decoder gives a record without an id, a key and a place
_MOST = 2**62  # clocks.FAR_FUTURE


def item_of(fields: Mapping[str, Any]) -> Item:
    """See `Item.of`."""
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
        odd = looks_like(time)
        if odd:
            raise UsageError(f"item {name!r}: {odd}")
    values["time"] = time
    made = fitting(Item(**values))
    return Item(**{**values, "source": site_of(made.source)})


def fitting(item: Any, where: str = "") -> Any:
    """The item as it can be judged: an aware datetime in ms. Raises UsageError for what is none."""
    if isinstance(item, BadItem):
        return item
    if not isinstance(item, (Item, Tombstone)):
        raise UsageError(f"{where}{_no_item(item)}")
    name = item.id
    _require_text(where, "id", name, "str(...) of it")
    if name == _NOWHERE:
        raise UsageError(
            f"{where}an item without an id needs a place, or all such items count as versions of one: {DECODED}"
        )
    said = f"{where}item {name!r}"
    if isinstance(item, Item):
        for field in ("title", "text", "source"):
            _require_text(f"{said}: ", field, getattr(item, field), "'' where there is none")
    places = {field: _whole(said, field, getattr(item, field)) for field in ("partition", "offset")}
    values = {field: getattr(item, field) for field in item.__struct_fields__}
    values |= places | {"time": milliseconds(item.time, said)}
    return type(item)(**values)


def milliseconds(time: Any, said: str) -> int:
    """Milliseconds since 1970 of an aware datetime or a number; -1 for None, the time that nobody knows.

    >>> milliseconds(datetime(2026, 3, 1, 12), "item '1'")
    Traceback (most recent call last):
    stream_dedup.errors.UsageError: item '1': time 2026-03-01 12:00:00 has no time zone, so it names no moment; say \
which it is in: time.replace(tzinfo=datetime.UTC), or time.astimezone() for this machine's
    """
    if time is None:
        return NO_TIME
    if isinstance(time, datetime):
        if time.utcoffset() is None:
            raise UsageError(
                f"{said}: time {time} has no time zone, so it names no moment; say which it is in: "
                "time.replace(tzinfo=datetime.UTC), or time.astimezone() for this machine's"
            )
        # Not timestamp(): a float has not the digits for milliseconds of every year.
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
                raise UsageError(f"{said}: time {whole} is no date in milliseconds since 1970")
            return whole
    cure = "datetime.fromisoformat(...)" if isinstance(time, str) else "datetime(..., tzinfo=datetime.UTC)"
    raise UsageError(
        f"{said}: time must be milliseconds since 1970 or an aware datetime such as {cure}, not {_shown(time)}"
    )


def looks_like(time: int) -> str:
    """What is odd about a time that hardly is in milliseconds, "" for nothing.

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


def _no_item(given: object) -> str:
    if given is None:
        return "None is no item; leave it out, or give an Item"
    if isinstance(given, Mapping):
        return f"a dict is no item; Item.of(the dict) makes one of it, or, where its names are others, {DECODED}"
    if isinstance(given, (str, bytes)):
        return f"{_shown(given)} is no item; Item.of(id=..., title=..., text=...) makes one, or of JSON {DECODED}"
    return f"{_shown(given)} is no item; give Item, Tombstone or BadItem"


def _require_text(said: str, field: str, value: object, cure: str) -> None:
    if not isinstance(value, str):
        decode = "value.decode()" if isinstance(value, bytes) else cure
        raise UsageError(f"{said}{field} must be a string, not {_shown(value)}; give {decode}")


def _whole(said: str, field: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(
            f"{said}: {field} must be a whole number, not {_shown(value)}; leave it out if unknown"
        ) from None


def _shown(value: object) -> str:
    """A value and its type, short enough for a line.

    >>> _shown(None), _shown(b"abc")
    ('None', "bytes b'abc'")
    """
    text = repr(value)
    return "None" if value is None else f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


_MILLISECOND = datetime(1970, 1, 1, 0, 0, 0, 1000) - datetime(1970, 1, 1)
