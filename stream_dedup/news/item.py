"""The item and the tombstone, the two values that the decision works on.

decode.py makes them of records, tools/script_items.py of the values of a Python script. An item carries only what the
decision needs. The reader of a record keeps its bytes and republishes them untouched.

Objects that exist for every item are msgspec Structs, here and elsewhere: creating one takes a sixth of the time of a
frozen dataclass, and the garbage collector ignores them.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from stream_dedup.extras import tool

WORDLESS = "neither headline nor text has a letter or digit"
"""The detail of a bad item whose headline and text contain no letter and no digit."""


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

        >>> item = Item.of({"id": 7, "title": "Elm bridge opens"}, time=1_772_323_200_000)
        >>> item.id, item.title, item.text, item.time
        ('7', 'Elm bridge opens', '', 1772323200000)
        >>> Item.of(id="8", time=1_772_323_200)
        Traceback (most recent call last):
        stream_dedup.errors.UsageError: item '8': time 1772323200 looks like seconds: in milliseconds it is in 1970, \
in seconds 2026-03-01; give milliseconds (times 1000) or an aware datetime
        """
        return cast("Item", tool("tools.script_items:item_of")({**(fields or {}), **more}))


class Tombstone(msgspec.Struct, frozen=True, gc=False):
    """A record with a key and a null value: it withdraws the item with this id, and its original is forgotten."""

    id: str
    time: int
    partition: int = -1
    offset: int = -1
