"""What a survey of a feed found: as JSON, as rows for screens and the status page, as a line for the log.

In: the counts of a `Survey`. Out: text for people; `conclusion` says in one line how the items were read.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import msgspec

from stream_dedup.news.names import FIELDS
from stream_dedup.phrases import counted, moment, span

MOST_REASONS = 3
"""Distinct reasons of bad items, and examples of unreadable dates, in a summary."""
MOST_SOURCES = 4096
"""Sources and addresses that are counted: a large feed has some thousand."""
SHOWN_PATHS = 12
"""Fields of the records that are shown."""
LARGEST = 5
"""Sources and names that are shown, those with the most items."""
_CONCLUDED = {"title": "title", "text": "text", "id": "id", "source": "source", "url": "url", "dates": "published"}


class Dates(msgspec.Struct):
    """The event times of a feed, in ms since 1970.

    `origin`: where they come from, "published" or "timestamp" (of the Kafka record). `earliest` and `latest` leave out
    times in the future. `examples`: unreadable dates with position and reason. `first_future`: the first time in the
    future with its position, or "". `dated`: of the first Kafka records, those with a readable date of their own;
    `apart`: those of them that are dated further than a window from the record's time; `spread`, `record_spread`: what
    the middle eight tenths of these dates and times span, ms. `forwards`, `backwards`: items dated after, and before,
    the item ahead of them, 0 if the order means nothing; `furthest_back`: the largest step back; `jumps`: steps back
    longer than the window.
    """

    origin: str
    in_order: bool
    earliest: int | None = None
    latest: int | None = None
    missing: int = 0
    unreadable: int = 0
    examples: list[str] = []
    future: int = 0
    first_future: str = ""
    dated: int = 0
    apart: int = 0
    spread: int = 0
    record_spread: int = 0
    forwards: int = 0
    backwards: int = 0
    furthest_back: int = 0
    jumps: int = 0


class Warned(msgspec.Struct, frozen=True):
    """A warning about a feed. `kind`: a fixed word for programs; `text`: the cause and the cure for a person."""

    kind: str
    text: str


class Summary(msgspec.Struct):
    """What a feed contains. `items`, `bad` and `dates` cover all items, the rest only the `looked` ones (a sample).

    `shapes`: preset -> items; `schemas`: schema of a registry -> items. `filled`: field -> items that have it;
    `samples`: its first value. `names`: items whose id comes from the record or its key. `shared_ids`: of the first
    thousand items, those whose id an unlike one has, too, if these are half of them or more; `shared_id`: such an id
    with two places. `addresses`, `sources`: their numbers, counted up to 4,096; `largest`: those with the most items.
    `lent`: field -> items that have it from the envelope of a CloudEvent only. `reasons`: the first distinct reasons
    of bad items, each with its first position. `paths`: the fields of the first records, those with the longest values
    first. `origins`: field -> name that was read -> items; `left`: name of a further text, which was not -> items.
    `notes`: what a person should know of how files were read.
    """

    dates: Dates
    items: int = 0
    bad: int = 0
    tombstones: int = 0
    looked: int = 0
    shapes: dict[str, int] = {}
    schemas: dict[str, int] = {}
    filled: dict[str, int] = {}
    samples: dict[str, str] = {}
    names: int = 0
    shared_ids: int = 0
    shared_id: str = ""
    addresses: int = 0
    sources: int = 0
    largest: list[tuple[str, int]] = []
    lent: dict[str, int] = {}
    reasons: list[str] = []
    paths: list[str] = []
    origins: dict[str, dict[str, int]] = {}
    left: dict[str, int] = {}
    notes: list[str] = []
    warnings: list[Warned] = []

    @property
    def all_bad(self) -> bool:
        """Whether no item can be judged."""
        return self.bad == self.items - self.tombstones

    @property
    def is_sampled(self) -> bool:
        """Whether fields, shapes and sources come from a sample of the items."""
        return self.looked < self.items - self.bad - self.tombstones

    def as_json(self) -> dict[str, Any]:
        """Return plain values; dates in ms since 1970."""
        return dict(msgspec.to_builtins(self))


def rows_of(summary: Summary) -> list[tuple[str, str]]:
    """Return (name, text) for each property that has a value."""
    count = f"{counted(summary.items, 'item')}, {summary.bad:,} bad"
    if summary.tombstones:
        count += f", {counted(summary.tombstones, 'tombstone')}"
    if summary.is_sampled:
        count += f" (fields and sources: counted in {summary.looked:,} of them)"
    rows = [("items", count)]
    if summary.looked:
        rows.append(("read as", _counted(summary.shapes.items())))
        if summary.schemas:
            rows.append(("schemas", _counted(summary.schemas.items())))
        rows.append(("filled", ", ".join(f"{name} {share(summary, name)}" for name in FIELDS)))
        if texts := summary.origins.get("text"):
            rows.append(("text from", _shares(texts, summary.looked)))
        if summary.left:
            rows.append(("shorter texts", _shares(summary.left, summary.looked)))
        dates = summary.dates
        if dates.latest is not None or dates.missing or dates.unreadable or dates.future:
            rows.append(("record times" if dates.origin == "timestamp" else "dates", _dates(dates)))
    if summary.largest:
        more = "more than " if summary.sources == MOST_SOURCES else "at least " if summary.is_sampled else ""
        rows.append(("sources", f"{more}{summary.sources:,}: {_counted(summary.largest)}"))
    return rows


def summary_line(summary: Summary) -> str:
    """Format the summary as one line for the log."""
    rows = rows_of(summary)
    return "; ".join([rows[0][1], *(f"{name}: {text}" for name, text in rows[1:])])


def conclusion(summary: Summary) -> str:
    """Say in a line how the items were read, or what to do first.

    >>> conclusion(Summary(Dates("published", True), items=1, looked=1, origins={"text": {"body": 1}}))
    'read 1 of 1: text from body'
    """
    items = summary.items - summary.tombstones
    named = ((name, summary.origins.get(field)) for name, field in _CONCLUDED.items())
    read = ", ".join(f"{name} from {next(iter(origins))}" for name, origins in named if origins)
    shape = f" as {', '.join(summary.shapes)}" if summary.shapes and not summary.all_bad else ""
    text = f"read {items - summary.bad:,} of {items:,}{shape}" + (f": {read}" if read and not summary.all_bad else "")
    first = sorted(summary.warnings, key=lambda warned: warned.kind == "all-bad")[:1] if summary.all_bad else []
    return text + "".join(f". To do first: {warned.text}" for warned in first)


def share(summary: Summary, field: str) -> str:
    """Format the share of sampled items that have a field; never rounded to 0 or 100 % unless it is exact.

    Dates of files are counted in all items, because the first thousand may be of one input.
    """
    if not summary.looked:
        return "-"
    filled, of = summary.filled[field], summary.looked
    if summary.is_sampled and field == "published" and summary.dates.origin == "published":
        of = summary.items - summary.bad - summary.tombstones
        filled = max(0, of - summary.dates.missing)
    percent = 100 * filled / of
    if 0 < percent < 1:
        return "under 1 %"
    return "over 99 %" if 99 < percent < 100 else f"{percent:.0f} %"


def _dates(dates: Dates) -> str:
    if dates.earliest is None or dates.latest is None:
        text = "none can be used"
    else:
        text = f"{moment(dates.earliest).removesuffix(' UTC')} to {moment(dates.latest)}"
    counts = ((dates.missing, "missing"), (dates.unreadable, "unreadable"), (dates.future, "in the future"))
    remarks = [f"{count:,} {name}" for count, name in counts if count]
    if dates.backwards:
        remarks.append(f"{dates.backwards:,} out of order (by {span(dates.furthest_back)} at most)")
    elif dates.latest is not None and dates.in_order:
        remarks.append("in order")
    return "; ".join([text, ", ".join(remarks)]) if remarks else text


def _shares(counts: Mapping[str, int], of: int) -> str:
    return ", ".join(f"{name} {100 * count / of:.0f} %" for name, count in islice(counts.items(), LARGEST))


def _counted(pairs: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in pairs)
