"""[index]: how the index trades memory for speed."""

from pydantic import Field

from stream_dedup.settings.values import Table


class IndexSettings(Table):
    """The hybrid index."""

    # The tree's filter takes 8 bytes an entry: 256 KB at 30 tables, which stays in the second cache. Measured, one row
    # at a time: adding costs 30 µs a row with 256, 31 with 1024, 41 with 4096.
    recent_limit: int = Field(
        1024, ge=16, le=1_000_000, description="Entries of the recent tree before it is merged into sorted tables."
    )
    # With 64 a form of which little changes took 92 µs an item instead of 58, and on the labelled streams .077 and not
    # .075 of what brings nothing new came through.
    bucket_limit: int = Field(
        24,
        ge=1,
        le=100_000,
        description="Newest originals looked at per key, so that a template of thousands stays cheap. Of all that are "
        "found so, the 24 that share most keys with an item are compared with it.",
    )
