"""The news item and the tombstone: the two values that the decision works on.

In: plain values. Out: `Item`, `Tombstone`. An item carries only what the decision needs. The bytes of the record do not
pass through here; the reader of the record republishes them untouched.

Objects that are created for every item are msgspec Structs, here and elsewhere: creating one takes a sixth of the time
of a frozen dataclass, and the garbage collector ignores them.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

WORDLESS = "neither headline nor text has a letter or digit"
"""The detail of a bad item whose headline and text contain no letter and no digit."""


class Item(msgspec.Struct, frozen=True, gc=False):
    """A decoded news record.

    `time`: event time in milliseconds since 1970 UTC (on Kafka the record's timestamp), negative if unknown. `source`:
    the site (registrable domain, lower case), empty if unknown. `partition` and `offset`: the record's position in the
    input, -1 if it has none. `fingerprint`: 64 bits that the record itself supplies ([item] fingerprint); the decision
    then uses only them, and headline and text are empty.
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
        """Make an item from a script's values: a dict with the field names above, keyword arguments, or both.

        Only `id` is required. `time` is an aware datetime or milliseconds; `source` is the name of a site or any URL on
        it. Raises UsageError, one line that names the cure, for any other value, such as a time in seconds.

        >>> from datetime import UTC, datetime
        >>> item = Item.of({"id": 7, "title": "Elm bridge opens"}, time=datetime(2026, 3, 1, tzinfo=UTC))
        >>> item.id, item.title, item.text, item.time
        ('7', 'Elm bridge opens', '', 1772323200000)
        >>> Item.of(id="8", time=1_772_323_200)
        Traceback (most recent call last):
        stream_dedup.errors.UsageError: item '8': time 1772323200 looks like seconds: in milliseconds it is in 1970, \
in seconds 2026-03-01; give milliseconds (times 1000) or an aware datetime
        """
        # Imported late: the table of public suffixes loads more slowly than everything else that imports this module.
        from stream_dedup.news.given import item_of

        return item_of({**(fields or {}), **more})


class Tombstone(msgspec.Struct, frozen=True, gc=False):
    """A record with a key and a null value: it withdraws the item with this id, and its original is forgotten."""

    id: str
    time: int
    partition: int = -1
    offset: int = -1
