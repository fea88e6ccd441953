"""Read the dicts and the frames of a script as the commands read the rows of a file.

In: a dict, or a data frame of pandas or Polars. Out: an item, or what is wrong with the dict; the dicts of a frame, and
a frame of chosen rows. Neither library is imported: who has a frame has imported its library.
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
    """Makes items of dicts by the [item] settings, whose format counts as "json"; 5 µs and the Decoder's time each.

    The names are those of the preset or of [item] fields. `time` is that of `Item`, and precedes a date of publication.

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


def _plain(value: Any) -> Any:
    """Return a value of another library as one of JSON: a number of NumPy, or else what it prints as."""
    return value.item() if hasattr(value, "item") else str(value)


_encode = msgspec.json.Encoder(enc_hook=_plain).encode


def _as_json(row: dict[str, Any]) -> bytes:
    try:
        return _encode(row)
    except UnicodeEncodeError:  # lone surrogates, as json.loads gives them
        return _encode(_whole(row))


def _whole(value: Any) -> Any:
    """Return a value with U+FFFD in place of each lone surrogate, as the bytes of a record read (surrogates.py)."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_whole(name): _whole(inner) for name, inner in value.items()}
    return [_whole(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame as dicts, missing values as None. Raises UsageError if it is none of the two kinds."""
    match type(frame).__module__.partition(".")[0], type(frame).__name__:
        case "pandas", "DataFrame":
            filled = frame.astype(object).where(frame.notna(), None)
            return list(filled.to_dict(orient="records"))
        case "polars", "DataFrame":
            return list(frame.iter_rows(named=True))
    raise UsageError(
        f"{type(frame).__name__} is no data frame of pandas or Polars; `filter` takes any iterable of dicts"
    )


def chosen(frame: Any, numbers: Sequence[int]) -> Any:
    """Return a frame of the rows with these numbers, in this order. pandas keeps their index."""
    return getattr(frame, "iloc", frame)[list(numbers)]


def widened(frame: Any, columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return a frame with further columns. Raises UsageError if it has one of them."""
    if clash := [name for name in columns if name in frame.columns]:
        raise UsageError(f"the frame has a column {clash[0]!r} already; rename it")
    return frame.assign(**columns) if hasattr(frame, "assign") else frame.hstack(type(frame)(columns, strict=False))
