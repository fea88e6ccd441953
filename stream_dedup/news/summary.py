"""The summary of a feed: which fields, dates, languages and sources its records have.

In: the counts of a `Survey`. Out: `Summary`; from it JSON, rows for screens and the status page, and a line for the
log. Why: a field map that fits nothing, or misread dates, still give plausible results. A person who sees how often
each field is filled, and which dates were read, notices at once.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from stream_dedup.news.presets import FIELDS
from stream_dedup.phrases import counted

_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000))


class Dates(msgspec.Struct, frozen=True):
    """The event times of a feed, in ms since 1970.

    `origin`: where they come from, "published" or "timestamp" (of the Kafka record). `earliest` and `latest` leave out
    times in the future. `backwards`: items dated before the item ahead of them; `furthest_back`: the largest such step
    in ms; `jumps`: the steps longer than the window; `forwards`: items dated after the item ahead of them. `examples`:
    unreadable dates with position and reason. `first_future`: the first time in the future with its position, or "".
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
    """A warning about a feed. `kind`: a fixed word for programs; `text`: the cause and the cure for a person."""

    kind: str
    text: str


class Summary(msgspec.Struct, frozen=True):
    """What a feed contains. `items`, `bad` and `dates` cover all items, the rest only the `looked` ones (a sample).

    `shapes`: preset -> items. `filled`: field -> items that have it; `samples`: its first value. `names`: items whose
    id comes from the record or its key. `repeated`: ids, among the `compared` ones, that an earlier item has.
    `languages`: as stated, otherwise the script of the text (with the suffix " script"). `sources`: their number, a
    lower bound if `more_sources`; `largest`: the sources with the most items. `length`: smallest, median and largest
    text in characters. `reasons`: the first distinct reasons of bad items, each with its first position. `paths`: the
    fields of the first records, those with the longest values first.
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
        """Whether no item can be judged."""
        return self.bad == self.items - self.tombstones

    @property
    def is_sampled(self) -> bool:
        """Whether fields, languages, sources and lengths come from a sample of the items."""
        return self.looked < self.items - self.bad - self.tombstones

    def as_json(self) -> dict[str, Any]:
        """Return plain values; dates in ms since 1970."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def rows_of(summary: Summary) -> list[tuple[str, str]]:
    """Return (name, text) for each property that has a value."""
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


def summary_line(summary: Summary) -> str:
    """Format the summary as one line for the log."""
    rows = rows_of(summary)
    return "; ".join([rows[0][1], *(f"{name}: {text}" for name, text in rows[1:])])


def share(summary: Summary, field: str) -> str:
    """Format the share of sampled items that have a field; never rounded to 0 or 100 % unless it is exact."""
    count, all_ = summary.filled.get(field, 0), summary.looked
    if not all_:
        return "-"
    percent = 100 * count / all_
    if 0 < percent < 1:
        return "under 1 %"
    return "over 99 %" if 99 < percent < 100 else f"{percent:.0f} %"


def moment(milliseconds: int) -> str:
    """Format a time in ms since 1970.

    >>> moment(1_700_000_000_000), moment(10**17)
    ('2023-11-14 22:13 UTC', 'out of any calendar')
    """
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "out of any calendar"


def span(milliseconds: int) -> str:
    """Format a duration in ms by its largest unit.

    >>> span(90_000_000), span(3_600_000), span(10)
    ('1 day', '1 hour', 'under a second')
    """
    for unit, size in _UNITS:
        if milliseconds >= size:
            return counted(milliseconds // size, unit)
    return "under a second"


_LANGUAGES = 5
_ORIGINS = {"published": "dates", "timestamp": "record times"}


def _items(summary: Summary) -> str:
    text = f"{counted(summary.items, 'item')}, {summary.bad:,} bad"
    if summary.tombstones:
        text += f", {counted(summary.tombstones, 'tombstone')}"
    if summary.is_sampled:
        text += f" (fields, languages, sources and text: counted in {summary.looked:,} of them)"
    return text


def _dates(dates: Dates) -> str:
    if dates.earliest is None or dates.latest is None:
        text = "none can be used"
    else:
        text = f"{moment(dates.earliest).removesuffix(' UTC')} to {moment(dates.latest)}"
    remarks = [
        f"{count:,} {name}"
        for count, name in (
            (dates.missing, "missing"),
            (dates.unreadable, "unreadable"),
            (dates.future, "in the future"),
        )
        if count
    ]
    if dates.backwards:
        remarks.append(f"{dates.backwards:,} out of order (by {span(dates.furthest_back)} at most)")
    elif dates.known and dates.backwards is not None:
        remarks.append("in order")
    return "; ".join([text, ", ".join(remarks)]) if remarks else text


def _languages(counts: dict[str, int]) -> str:
    first = list(counts.items())[:_LANGUAGES]
    more = len(counts) - len(first)
    return _counted(first) + (f" and {more} more" if more else "")


def _counted(pairs: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in pairs)
