"""[window]: how long, and how many, originals are remembered."""

from datetime import timedelta

from pydantic import Field

from stream_dedup.settings.values import Duration, Table


class WindowSettings(Table):
    """How long an original is remembered."""

    length: Duration = Field(
        timedelta(days=7),
        gt=timedelta(0),
        description="Copies come within hours; a week covers weekend round-ups and late archives.",
    )
    future: Duration = Field(
        timedelta(hours=1),
        ge=timedelta(0),
        description="A record's timestamp further ahead of the clock than this says nothing: the item counts as of the "
        "usual time of its partition just then.",
    )
    # At 628 bytes an original 12 GiB: no memory that deploy/README.md sizes, and less than a mistake can fill.
    max_originals: int = Field(
        20_000_000,
        ge=20_000,
        le=2**31,
        description="Most originals remembered (variants count), by each task. Beyond it those that came first are "
        "forgotten, whatever their time: so memory stays bounded where times do not advance. All members of a group "
        "must have the same.",
    )

    @property
    def length_ms(self) -> int:
        """The length in the unit of event times."""
        return self.length // timedelta(milliseconds=1)

    def latest(self, now: int) -> int:
        """The latest event time that counts when a clock says `now`, both in ms: one further ahead is no date."""
        return now + self.future // timedelta(milliseconds=1)
