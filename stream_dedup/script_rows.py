"""Read the dicts and data frames of a script as the commands read the rows of a file.

A dict becomes an item, or a BadItem. A frame of pandas or Polars becomes dicts, and a frame of chosen rows. Neither
library is imported here: a script with a frame has imported its library.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from stream_dedup.errors import BadItem, UsageError
from stream_dedup.news.dates import milliseconds_of
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item, Tombstone, looks_like, milliseconds
from stream_dedup.settings import ItemSettings


class RowReader:
    """Makes items of dicts by the [item] settings, with format "json"; a dict takes 5 µs more than its JSON.

    The names are those of the preset or of [item] fields. `time` has the meaning of `Item.time`, and counts before a
    date of publication.

    >>> read = RowReader(ItemSettings())
    >>> item = read({"guid": "urn:7", "title": "T", "description": "<p>It is open.", "pubDate": "2026-03-01"})
    >>> item.id, item.text, item.time
    ('urn:7', 'It is open.', 1772323200000)

    Raises UsageError for a dict that is no JSON object, and for a `time` that is no time.
    """

    def __init__(self, settings: ItemSettings) -> None:
        self._decode = Decoder(settings.model_copy(update={"format": "json"}))

    def __call__(self, row: Mapping[str, Any]) -> Item | Tombstone | BadItem:
        time = row.get("time")
        label = f"item {row.get('id')!r}"
        if isinstance(time, str):
            time = milliseconds_of(time)
        elif time is not None:
            is_number = not isinstance(time, datetime)
            time = milliseconds(time, label)
            if is_number and (doubt := looks_like(time)):
                raise UsageError(f"{label}: {doubt}")
        try:
            value = _as_json(dict(row))
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(
                f"{label} cannot be written as JSON: {error}; give the fields that are read alone"
            ) from None
        return self._decode(value, None, time)


# Another library's value is encoded as its number (NumPy), or else as it prints.
_encode = msgspec.json.Encoder(enc_hook=lambda value: value.item() if hasattr(value, "item") else str(value)).encode


def _as_json(row: dict[str, Any]) -> bytes:
    try:
        return _encode(row)
    except UnicodeEncodeError:  # json.loads makes lone surrogates
        return _encode(_without_lone(row))


def _without_lone(value: Any) -> Any:
    """Replace each lone surrogate by U+FFFD, as surrogates.py does in the bytes of a record."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_lone(name): _without_lone(inner) for name, inner in value.items()}
    return [_without_lone(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame as dicts, missing values as None. Raises UsageError for any other value."""
    match type(frame).__module__.partition(".")[0], type(frame).__name__:
        case "pandas", "DataFrame":
            return list(frame.astype(object).where(frame.notna(), None).to_dict(orient="records"))
        case "polars", "DataFrame":
            return list(frame.iter_rows(named=True))
    raise UsageError(
        f"{type(frame).__name__} is no data frame of pandas or Polars; `filter` takes any iterable of dicts"
    )


def chosen(frame: Any, numbers: Sequence[int]) -> Any:
    """Return a frame of the rows with these numbers, in this order. pandas keeps the index."""
    return getattr(frame, "iloc", frame)[list(numbers)]


def widened(frame: Any, columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return a frame with further columns. Raises UsageError if it has one of them."""
    if clash := [name for name in columns if name in frame.columns]:
        raise UsageError(f"the frame has a column {clash[0]!r} already; rename it")
    return frame.assign(**columns) if hasattr(frame, "assign") else frame.hstack(type(frame)(columns, strict=False))
