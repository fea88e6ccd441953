"""What the rest of the project judges: one news item, and the two other things a record can be.

In: nothing but plain values. Out: `Item`, `Tombstone`. An item carries only what the decision needs; the
record's own bytes never pass through here, they are republished untouched by whoever read them.

What is made for each item is a msgspec Struct, here and elsewhere: made in a sixth of a frozen dataclass's time, and
nothing that the collector of cycles must look at.
"""

import msgspec


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


class Tombstone(msgspec.Struct, frozen=True, gc=False):
    """A record with a key and a null value: the item of this id is withdrawn, and its original forgotten."""

    id: str
    time: int
    partition: int = -1
    offset: int = -1
