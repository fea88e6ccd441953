"""What a feed was understood to be: the figures that a `Survey` has gathered, and the same in words.

In: counts. Out: `Summary`, and of it JSON, rows for screens and the page, and a line for the log. Why: a field map that
fits nothing, or dates that mean something else, give plausible results. A person who sees how often each field was
filled, and which dates came out, notices at once.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from stream_dedup.news.presets import FIELDS

_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000))


class Dates(msgspec.Struct, frozen=True):
    """The times that the window is counted in; all of them ms since 1970.

    `origin`: what they are, "published" or "timestamp" (of the Kafka record). Future ones do not count, so `earliest`
    and `latest` leave them out. `backwards`: items dated before one that came earlier; `furthest_back`: by how much at
    most (ms); `late`: those of them by more than the window. `examples`: of what cannot be read, with place and reason;
    `first_future`: the first future one and its place, "" where there is none.
    """

    origin: str
    earliest: int | None
    latest: int | None
    missing: int
    unreadable: int
    examples: list[str]
    future: int
    backwards: int | None
    furthest_back: int
    jumps: int
    forwards: int
    first_future: str = ""

    @property
    def known(self) -> bool:
        return self.earliest is not None


class Warned(msgspec.Struct, frozen=True):
    """Something that looks wrong. `kind`: a fixed word; `text`: for a person, with the cure."""

    kind: str
    text: str


class Summary(msgspec.Struct, frozen=True):
    """What came in. `items` counts all; `bad` and `dates` are of all, the rest of the `looked` items that were read.

    `shapes`: field map -> items; `filled`: our field -> items that have it, `samples`: its first value; `names`: items
    with an id of their own or of the record's key; `repeated`: of the ids that were compared (`compared`) those that
    came before; `languages`: stated, or the script of the text (" script" at the end); `sources` are at least so many
    if `more_sources`; `largest`: the sources with most items; `length`: smallest, median and largest number of
    characters of a text; `reasons`: the first different ones of bad items, each with its first place; `paths`: the
    fields that the first records have, those with the longest values first.
    """

    items: int
    bad: int
    tombstones: int
    looked: int
    shapes: dict[str, int]
    filled: dict[str, int]
    samples: dict[str, str]
    names: int
    compared: int
    repeated: int
    dates: Dates
    languages: dict[str, int]
    sources: int
    more_sources: bool
    largest: list[tuple[str, int]]
    length: tuple[int, int, int] | None
    reasons: list[str]
    paths: list[str]
    warnings: list[Warned]

    @property
    def all_bad(self) -> bool:
        """Whether there is nothing that could be judged."""
        return self.bad == self.items - self.tombstones

    @property
    def is_sampled(self) -> bool:
        """Whether only some of the items were read for fields, languages, sources and lengths."""
        return self.looked < self.items - self.bad - self.tombstones

    def as_json(self) -> dict[str, Any]:
        """Plain values; dates in ms since 1970."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def rows_of(summary: Summary) -> list[tuple[str, str]]:
    """(name, what was found) for each thing there is something to say of."""
    rows = [("items", _items(summary))]
    if summary.looked:
        rows.append(("read as", ", ".join(f"{name} ({count:,})" for name, count in summary.shapes.items())))
        rows.append(("filled", ", ".join(f"{name} {share(summary, name)}" for name in FIELDS)))
        dates = summary.dates
        if dates.known or dates.missing or dates.unreadable or dates.future:
            rows.append((_ORIGINS[dates.origin], _dates(dates)))
    if summary.languages:
        rows.append(("languages", _languages(summary.languages)))
    if summary.largest:
        more = "more than " if summary.more_sources else ""
        rows.append(("sources", f"{more}{summary.sources:,}: {_counted(summary.largest)}"))
    if summary.length:
        least, median, most = summary.length
        rows.append(("text", f"{median:,} characters (median; {least:,} to {most:,})"))
    return rows


def in_a_line(summary: Summary) -> str:
    """All of it in a line for the log."""
    rows = rows_of(summary)
    return "; ".join([rows[0][1], *(f"{name}: {told}" for name, told in rows[1:])])


def share(summary: Summary, field: str) -> str:
    """How often a field is filled, of the items that were read.

    Not rounded to all or nothing while one is missing or there.
    """
    count, all_ = summary.filled.get(field, 0), summary.looked
    if not all_:
        return "-"
    percent = 100 * count / all_
    if 0 < percent < 1:
        return "under 1 %"
    return "over 99 %" if 99 < percent < 100 else f"{percent:.0f} %"


def moment(milliseconds: int) -> str:
    """
    >>> moment(1_700_000_000_000), moment(10**17)
    ('2023-11-14 22:13 UTC', 'out of any calendar')
    """
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "out of any calendar"


def span(milliseconds: int) -> str:
    """
    >>> span(90_000_000), span(3_600_000), span(10)
    ('1 day', '1 hour', 'under a second')
    """
    for unit, size in _UNITS:
        if milliseconds >= size:
            count = milliseconds // size
            return f"{count:,} {unit}{'s' if count != 1 else ''}"
    return "under a second"


_LANGUAGES = 5
_ORIGINS = {"published": "dates", "timestamp": "record times"}


def _items(summary: Summary) -> str:
    told = f"{summary.items:,} item{'s' if summary.items != 1 else ''}, {summary.bad:,} bad"
    if summary.tombstones:
        told += f", {summary.tombstones:,} tombstones"
    if summary.is_sampled:
        told += f" (fields, languages, sources and text: counted in {summary.looked:,} of them)"
    return told


def _dates(dates: Dates) -> str:
    if dates.earliest is None or dates.latest is None:
        told = "none can be used"
    else:
        told = f"{moment(dates.earliest).removesuffix(' UTC')} to {moment(dates.latest)}"
    odd = [
        f"{count:,} {name}"
        for count, name in (
            (dates.missing, "missing"),
            (dates.unreadable, "unreadable"),
            (dates.future, "in the future"),
        )
        if count
    ]
    if dates.backwards:
        odd.append(f"{dates.backwards:,} out of order (by {span(dates.furthest_back)} at most)")
    elif dates.known and dates.backwards is not None:
        odd.append("in order")
    return "; ".join([told, ", ".join(odd)]) if odd else told


def _languages(counts: dict[str, int]) -> str:
    first = list(counts.items())[:_LANGUAGES]
    more = len(counts) - len(first)
    return _counted(first) + (f" and {more} more" if more else "")


def _counted(pairs: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in pairs)
