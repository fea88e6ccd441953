"""Read the dicts and data frames of a script as the commands read the rows of a file.

A dict becomes an item, or a BadItem. A frame of pandas or Polars becomes dicts, and a frame of chosen rows. Neither
library is imported here: a script with a frame has imported its library.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import BadItem, UsageError
from stream_dedup.news.dates import milliseconds_of
from stream_dedup.news.decode import TEXT, Decoder
from stream_dedup.news.item import Item, Tombstone, looks_like, milliseconds
from stream_dedup.news.names import AUTO
from stream_dedup.settings import ItemSettings


class RowReader:
    """Makes items of dicts by the [item] settings; a dict takes 5 µs more than its JSON.

    The names are those of the preset (`text` counts as `auto`) or of [item] fields. `time` has the meaning of
    `Item.time`, and counts before a date of publication.

    >>> read = RowReader(ItemSettings())
    >>> item = read({"guid": "urn:7", "title": "T", "description": "<p>It is open.", "pubDate": "2026-03-01"})
    >>> item.id, item.text, item.time
    ('urn:7', 'It is open.', 1772323200000)

    Raises UsageError for a dict that is no JSON object, and for a `time` that is no time.
    """

    def __init__(self, settings: ItemSettings) -> None:
        self._decode = Decoder(settings if settings.preset != TEXT else settings.model_copy(update={"preset": AUTO}))

    def __call__(self, row: Mapping[str, Any]) -> Item | Tombstone | BadItem:
        time, label = row.get("time"), _label(row)
        if isinstance(time, str):
            time = milliseconds_of(time)
        elif time is not None:
            is_number = not isinstance(time, datetime)
            time = milliseconds(time, label)
            if is_number and (doubt := looks_like(time)):
                raise UsageError(f"{label}: {doubt}")
        return self._decode(_as_json(row), None, time)

    def link_of(self, row: Mapping[str, Any]) -> str:
        """Return the link of a dict, "" if it has none."""
        link = self._decode.read(_as_json(row)).fields["url"]
        return link if isinstance(link, str) else ""


def _label(row: Mapping[str, Any]) -> str:
    return f"item {row.get('id')!r}"


# Another library's value is encoded as its number (NumPy), or else as it prints.
_encode = msgspec.json.Encoder(enc_hook=lambda value: value.item() if hasattr(value, "item") else str(value)).encode


def _as_json(row: Mapping[str, Any]) -> bytes:
    try:
        try:
            return _encode(dict(row))
        except UnicodeEncodeError:  # json.loads makes lone surrogates
            return _encode(_without_lone(dict(row)))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{_label(row)} cannot be written as JSON: {error}; give the fields that are read alone"
        ) from None


def _without_lone(value: Any) -> Any:
    """Replace each lone surrogate by U+FFFD, as loose_json.py does in the bytes of a record."""
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


def refuse_unreadable(rows: Sequence[Mapping[str, Any]], read: Sequence[Item | Tombstone | BadItem]) -> None:
    """Raise UsageError if none of the first rows of a frame was read: its columns have other names."""
    unread = [item for item in read if isinstance(item, BadItem)]
    if unread and len(unread) == len(read):
        columns = ", ".join(map(str, rows[0]))
        raise UsageError(
            f"no row of the frame can be judged: {unread[0].detail}. Its columns are {columns}: rename them, or "
            'give load_settings(item={"fields": {"title": "COLUMN", "text": "COLUMN"}})'
        )


def verdict_columns(verdicts: Sequence[Verdict]) -> dict[str, list[Any]]:
    """Return the columns that `filter_frame` adds."""
    return {
        "verdict": [str(verdict.kind) for verdict in verdicts],
        "original": [verdict.original.id if verdict.original else None for verdict in verdicts],
        "story": [verdict.story or None for verdict in verdicts],
        "novelty": [verdict.evidence.novelty if verdict.evidence else None for verdict in verdicts],
    }
