"""[window]: how long, and how many, originals are remembered."""

from datetime import timedelta

from pydantic import Field

from stream_dedup.settings.values import Duration, Table


class WindowSettings(Table):
    """How long, and how many, originals are remembered."""

    length: Duration = Field(
        timedelta(days=7),
        gt=timedelta(0),
        description="How long an original is remembered. Most copies come within hours; a week covers weekend "
        "round-ups and late archives.",
    )
    future: Duration = Field(
        timedelta(hours=1),
        ge=timedelta(0),
        description="How far a record's timestamp may be ahead of the clock. Beyond it the timestamp is ignored, and "
        "the item gets the current time of its partition.",
    )
    max_originals: int | None = Field(
        None,
        ge=20_000,
        le=2**31,
        description="Most originals remembered by each task. Beyond it the first to arrive are forgotten, whatever "
        "their time, so that memory stays bounded even where timestamps do not advance. All members of a group must "
        "have the same value. Unset: what [worker] memory has room for.",
    )

    @property
    def length_ms(self) -> int:
        """`length` in milliseconds, the unit of event times."""
        return self.length // timedelta(milliseconds=1)

    def latest(self, now: int) -> int:
        """Return the latest event time that is accepted when the clock shows `now`, both in ms."""
        return now + self.future // timedelta(milliseconds=1)
