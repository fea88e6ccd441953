"""[index]: limits of the index: rows in the recent tree, rows looked up for a key."""

from pydantic import Field

from stream_dedup.settings.values import Table


class IndexSettings(Table):
    """Limits of the index."""

    # The recent tree's filter takes 8 bytes an entry: 256 KB with 30 tables, which fits the L2 cache. Adding a row at a
    # time takes 30 µs with 256, 31 with 1024 and 41 with 4096.
    recent_limit: int = Field(
        1024, ge=16, le=1_000_000, description="Entries that the recent tree holds before it becomes a sorted run."
    )
    # With 64, items of one template took 92 µs each instead of 58, and on the labelled streams .077 instead of .075 of
    # the items with nothing new were let through.
    bucket_limit: int = Field(
        24,
        ge=1,
        le=100_000,
        description="Newest originals looked up per key, so that templates with thousands of items stay cheap. Of all "
        "originals found, the 24 that share the rarest keys with an item are compared with it.",
    )
