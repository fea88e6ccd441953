"""What the rest of the project judges: one news item, and the two other things a record can be.

In: nothing but plain values. Out: `Item`, `Tombstone`. An item carries only what the decision needs; the
record's own bytes never pass through here, they are republished untouched by whoever read them.

What is made for each item is a msgspec Struct, here and elsewhere: made in a sixth of a frozen dataclass's time, and
nothing that the collector of cycles must look at.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

WORDLESS = "neither headline nor text has a letter or digit"
"""What is wrong with an item that nothing is left of to judge by."""


class Item(msgspec.Struct, frozen=True, gc=False):
    """One news record, decoded.

    `time` is the event time in milliseconds since 1970 UTC (the record's timestamp), negative if unknown; the
    window is counted in it. `source` is the site (registrable domain, lower case); empty if unknown.
    `partition` and `offset` say where the record stands, -1 if nowhere. `fingerprint` is one of 64 bits that the
    item brings along; where there is one it is judged by, headline and text are empty.
    """

    id: str
    title: str
    text: str
    source: str
    time: int
    partition: int = -1
    offset: int = -1
    fingerprint: int | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any] | None = None, /, **more: Any) -> "Item":
        """An item of a script's own values: a dict with the names of the fields above, keywords, or both.

        Only `id` must be there. `time` may be an aware datetime, or milliseconds; `source` a site's name or any address
        on it. Raises UsageError, in one line with the cure, for everything else, a time in seconds among it.

        >>> from datetime import UTC, datetime
        >>> item = Item.of({"id": 7, "title": "Elm bridge opens"}, time=datetime(2026, 3, 1, tzinfo=UTC))
        >>> item.id, item.title, item.text, item.time
        ('7', 'Elm bridge opens', '', 1772323200000)
        >>> Item.of(id="8", time=1_772_323_200)
        Traceback (most recent call last):
        stream_dedup.errors.UsageError: item '8': time 1772323200 looks like seconds: in milliseconds it is in 1970, \
in seconds 2026-03-01; give milliseconds (times 1000) or an aware datetime
        """
        # Not before: the table of public suffixes takes longer to load than all of this module's users.
        from stream_dedup.news.given import item_of

        return item_of({**(fields or {}), **more})


class Tombstone(msgspec.Struct, frozen=True, gc=False):
    """A record with a key and a null value: the item of this id is withdrawn, and its original forgotten."""

    id: str
    time: int
    partition: int = -1
    offset: int = -1
