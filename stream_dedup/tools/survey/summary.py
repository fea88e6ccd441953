"""What a survey of a feed found, and the warnings that follow from it.

A `Summary` becomes JSON, rows for screens and the status page, a line for the log, and a conclusion in one line. A
warning names a cause of wrong results that raise no error, and a cure that works when followed to the letter.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from stream_dedup.news.names import CRAWLED, FIELDS, plain_name
from stream_dedup.phrases import counted, moment, span
from stream_dedup.settings import ItemSettings
from stream_dedup.tools.survey.proposals import PROSE, Proposals, such_as

MOST_REASONS = 3
"""Distinct reasons of bad items, and examples of unreadable dates, in a summary."""
MOST_SOURCES = 4096
"""Sources and addresses that are counted: a large feed has some thousand."""
LARGEST = 5
"""Sources and names that are shown: those with the most items."""


class Dates(msgspec.Struct):
    """The event times of a feed, in ms since 1970."""

    origin: str  # where they come from: "published", or "timestamp" (of the Kafka record)
    in_order: bool  # whether the order of the items means something
    earliest: int | None = None  # like `latest` without times in the future
    latest: int | None = None
    missing: int = 0
    unreadable: int = 0
    examples: list[str] = []  # unreadable dates with position and reason
    future: int = 0
    first_future: str = ""  # the first time in the future with its position
    dated: int = 0  # those of the first Kafka records that have a readable date of their own
    apart: int = 0  # those of these dates that are further than a window from the record's time
    spread: int = 0  # what the middle eight tenths of these dates span
    record_spread: int = 0  # what the middle eight tenths of these records' times span
    forwards: int = 0  # items dated after their predecessor; 0 if the order means nothing
    backwards: int = 0  # items dated before their predecessor
    furthest_back: int = 0  # the largest step back
    jumps: int = 0  # steps back longer than the window


class Warned(msgspec.Struct, frozen=True):
    """A warning about a feed. `kind`: a fixed word for programs; `text`: the cause and the cure for a person."""

    kind: str
    text: str


class Summary(msgspec.Struct):
    """What a feed contains. `items`, `bad` and `dates` cover all items, the rest only the `looked` ones (a sample)."""

    dates: Dates
    items: int = 0
    bad: int = 0
    tombstones: int = 0
    looked: int = 0
    shapes: dict[str, int] = {}  # preset -> items
    schemas: dict[str, int] = {}  # schema of a registry -> items
    filled: dict[str, int] = {}  # field -> items that have it
    samples: dict[str, str] = {}  # field -> its first value
    names: int = 0  # items whose id comes from the record or its key
    shared_ids: int = 0  # of the first thousand items those that share their id with an unlike one, if half of them do
    shared_id: str = ""  # such an id with two places
    noticed: int = 0  # of the first thousand items those whose text stands under unlike headlines of their site
    notice: str = ""  # such a text
    addresses: int = 0  # counted up to MOST_SOURCES
    sources: int = 0  # counted up to MOST_SOURCES
    largest: list[tuple[str, int]] = []  # the sources with the most items
    lent: dict[str, int] = {}  # field -> items that have it only from the envelope of a CloudEvent
    reasons: list[str] = []  # the first distinct reasons of bad items, each with its first position
    paths: list[str] = []  # the fields of the first records, those with the longest values first
    origins: dict[str, dict[str, int]] = {}  # field -> name that was read -> items
    left: dict[str, int] = {}  # name of a text that was not read -> items
    notes: list[str] = []  # what a person should know of how files were read
    warnings: list[Warned] = []

    @property
    def all_bad(self) -> bool:
        """Return whether no item can be judged."""
        return self.bad == self.items - self.tombstones

    @property
    def is_sampled(self) -> bool:
        """Return whether fields, shapes and sources come from a sample of the items."""
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
        dates = summary.dates
        has_dates = dates.latest is not None or dates.missing or dates.unreadable or dates.future
        rows += [
            ("read as", _counted(summary.shapes.items())),
            ("schemas", _counted(summary.schemas.items())),
            ("filled", ", ".join(f"{name} {share(summary, name)}" for name in FIELDS)),
            ("text from", _shares(summary.origins.get("text", {}), summary.looked)),
            ("shorter texts", _shares(summary.left, summary.looked)),
            ("record times" if dates.origin == "timestamp" else "dates", _dates(dates) if has_dates else ""),
        ]
    if summary.largest:
        prefix = "more than " if summary.sources == MOST_SOURCES else "at least " if summary.is_sampled else ""
        rows.append(("sources", f"{prefix}{summary.sources:,}: {_counted(summary.largest)}"))
    return [row for row in rows if row[1]]


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
    fields = {"title": "title", "text": "text", "id": "id", "source": "source", "url": "url", "published": "dates"}
    named = ((name, summary.origins.get(field)) for field, name in fields.items())
    read = ", ".join(f"{name} from {next(iter(origins))}" for name, origins in named if origins)
    shape = f" as {', '.join(summary.shapes)}" if summary.shapes and not summary.all_bad else ""
    text = f"read {items - summary.bad:,} of {items:,}{shape}" + (f": {read}" if read and not summary.all_bad else "")
    first = sorted(summary.warnings, key=lambda warned: warned.kind == "all-bad")[:1] if summary.all_bad else []
    return text + "".join(f". To do first: {warned.text}" for warned in first)


def share(summary: Summary, field: str) -> str:
    """Format the share of sampled items that have a field; 0 and 100 % are exact.

    Dates of files are counted in all items, because the first thousand may come from one input.
    """
    if not summary.looked:
        return "-"
    filled, total = summary.filled[field], summary.looked
    if summary.is_sampled and field == "published" and summary.dates.origin == "published":
        total = summary.items - summary.bad - summary.tombstones
        filled = max(0, total - summary.dates.missing)
    percent = 100 * filled / total
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


def _shares(counts: Mapping[str, int], total: int) -> str:
    return ", ".join(f"{name} {100 * count / total:.0f} %" for name, count in islice(counts.items(), LARGEST))


def _counted(pairs: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in pairs)


# -- warnings ----------------------------------------------------------------------------------------------

# With fewer items a share means nothing. A larger share of bad items is more than slips in single records.
_FEW, _MANY_BAD = 10, 0.05
# Three times as many steps back as forward are more than jitter: in a reversed feed nearly all steps go back.
_MOSTLY = 3
# A backfill: a tenth of the items are dated more than a window from their record, or the dates spread over days, as
# bulletins do, while the records span a tenth of that at most. A live feed has fewer late items.
_APART, _SPREAD_MS, _DENSER = 10, 2 * 86_400_000, 10
# The first month of 1970: seconds read as milliseconds fall into it until the year 2055.
_SECONDS_AS_MS = 31 * 86_400_000
_READABLE = (
    "ISO 8601 (2024-01-31T10:00:00Z), RFC 2822 (Wed, 31 Jan 2024 10:00:00 GMT), the day first with dots "
    "(31.01.2024 10:00), a number of seconds or milliseconds since 1970"
)
# Fields whose lack gives wrong results without an error, and what is lost.
_LACKS = {
    "title": "No item has a title, by which many duplicates are found",
    "text": "No item has a text, so titles alone are compared",
    "published": "No item has a date, so no original is ever too old",
    "id": "No item has an id, so a new version of an article is not known as one (its place stands in, such as 0:17)",
    "source": "No item has a source or a url that names one (as news.google.com does not), so a site's own series "
    "cannot be told from copies on other sites",
}
# What stands in on Kafka.
_STAND_INS = {
    "published": "No item has a date of its own, so the timestamps of the records count",
    "id": "No item has an id of its own, so the keys of the records count, or else their places: if the keys do "
    "not name the articles, other articles count as new versions",
}
# Fields that only the envelopes of CloudEvents have, and what is wrong if these are all alike.
_LENT = {
    "id": "The ids are those of the CloudEvents, so a new version of an article counts as another article",
    "source": "All items have the source of their CloudEvents, so copies on other sites look like a site's own series",
    "published": "All items have one date, that of their CloudEvents, so no original is ever too old",
}


def warnings_of(summary: Summary, settings: ItemSettings, window: int, proposals: Proposals) -> Iterator[Warned]:
    """Yield the warnings, the most serious first.

    `window` is in ms. `proposals` has the fields of the records.
    """
    items = summary.items - summary.tombstones
    if not summary.items:
        yield Warned("nothing", "The input is empty: there are no records.")
        return
    first = f" The first: {summary.reasons[0]}." if summary.reasons else ""
    if summary.bad and summary.all_bad:
        yield Warned("all-bad", f"All {items:,} items are bad: nothing can be judged.{first}")
    elif items >= _FEW and summary.bad >= _MANY_BAD * items:
        yield Warned("many-bad", f"{summary.bad:,} of {items:,} items are bad.{first}")
    if any("not UTF-8" in reason for reason in summary.reasons):
        yield Warned(
            "not-utf-8",
            "Items are not UTF-8. If it is Latin-1, as in old exports: iconv -f WINDOWS-1252 -t UTF-8 FILE > OTHER",
        )
    if summary.looked:
        yield from _absent(summary, settings, proposals)
    if not summary.all_bad:  # they have no dates that count, and another cause comes first
        yield from _lent(summary, proposals)
    dates = summary.dates
    if dates.unreadable:
        text = f"{counted(dates.unreadable, 'date')} cannot be read ({dates.examples[0]})"
        yield Warned("unreadable-dates", f"{text}. What can be read: {_READABLE}.")
    if dates.latest is not None and dates.latest < _SECONDS_AS_MS:
        yield Warned(
            "dates-1970",
            f"All dates lie in January 1970 ({moment(dates.latest)} at the latest): they look like seconds where "
            "milliseconds are meant. Let the producer write milliseconds since 1970.",
        )
    if dates.future:
        yield Warned(
            "future-dates",
            f"{counted(dates.future, 'date')} in the future ({dates.first_future}) do not count. Is the clock "
            "that gave them right?",
        )
    is_dense = dates.spread >= max(_SPREAD_MS, _DENSER * dates.record_spread)
    if dates.dated >= _FEW and (_APART * dates.apart >= dates.dated or is_dense):
        yield Warned(
            "backfill",
            f"Of the first {counted(dates.dated, 'dated record')}, {dates.apart:,} are dated further than the window "
            f"({span(window)}) from their Kafka timestamp. Without a tenth at each end, timestamps span "
            f"{span(dates.record_spread)}, and dates {span(dates.spread)}. By timestamps a backfill is compared as one "
            'moment: set [item] time = "published" to go by the dates.',
        )
    if dates.jumps or dates.backwards >= max(_FEW, _MOSTLY * dates.forwards):
        yield Warned(
            "backwards",
            f"At {counted(dates.backwards, 'place')} the dates go back, at {dates.jumps:,} by more than the "
            f"window ({span(window)}), by {span(dates.furthest_back)} at most: of each pair the later copy may be let "
            "through, the earlier held back. Sort the items by date, the oldest first, or correct the dates.",
        )
    crawled = [name for name in summary.origins.get("published", {}) if plain_name(name) in CRAWLED]
    if crawled:
        yield Warned(
            "crawl-dates",
            f"Dates come from {crawled[0]}, which says when a crawler came: the order of the copies is that of the "
            f"crawl, and an old article looks new{proposals.cure('published')}",
        )
    if summary.noticed:
        yield Warned(
            "notices",
            f"{summary.noticed:,} items have a text that stands under unlike headlines on their site, such as "
            f"{summary.notice!r}: a notice, of cookies or a paid plan, and no article. It proves nothing; the "
            "headlines decide. Let the producer leave it out, or fetch the articles.",
        )
    yield from _shared_ids(summary, proposals)
    yield from _longer(summary, proposals)


def _shared_ids(summary: Summary, proposals: Proposals) -> Iterator[Warned]:
    """Warn of ids that name no articles, and propose the addresses if nearly all of them differ."""
    if summary.shared_ids:
        differ = _FEW * summary.addresses >= (_FEW - 1) * min(summary.looked, MOST_SOURCES)
        paths = summary.origins.get("url", {}) if differ else ()
        address = next((path for path in paths if proposals.works("id", path)), None)
        yield Warned(
            "shared-ids",
            f"{summary.shared_ids:,} items share their id with an item of another text, such as "
            f"{summary.shared_id}: their ids name no articles. In files such items are judged by their texts "
            "alone, as if they had no id; on Kafka each counts as a new version of the one before it, if the "
            "source is the same. Let the producer give each its own, or name a field that tells them apart"
            f"{such_as({'id': address})}.",
        )


def _longer(summary: Summary, proposals: Proposals) -> Iterator[Warned]:
    """Warn of a field that is longer than the text, although its name is no name of a text."""
    paths = proposals.paths
    read = max((paths.get(path, 0) for path in summary.origins.get("text", {})), default=0)
    known = {*summary.left, *(path for names in summary.origins.values() for path in names)}
    longest = next((path for path in paths if path not in known), "")
    if read and longest and PROSE <= paths[longest] > 2 * read and proposals.works("text", longest):
        yield Warned(
            "longer-field",
            f"The longest field, {longest}, is not read; the text is {', '.join(summary.origins['text'])}. If "
            f"it has the article, name it{such_as({'text': longest})}.",
        )


def _absent(summary: Summary, settings: ItemSettings, proposals: Proposals) -> Iterator[Warned]:
    """Warn of fields that no item has, and propose fields of the records for them."""
    has = {name: bool(count) for name, count in summary.filled.items()}
    has |= {"source": bool(summary.largest)}
    if settings.has_fingerprints or settings.preset == "text":
        has |= {"title": True, "text": True}
    if settings.preset == "text":
        has |= {"id": bool(summary.names), "published": True}
    if summary.all_bad or summary.dates.unreadable:
        has["published"] = True
    stand_in = {"id": summary.names > 0, "published": summary.dates.origin == "timestamp"}
    lacks = _LACKS | {name: _STAND_INS[name] for name, does in stand_in.items() if does}
    missing = [name for name in lacks if not has[name]]
    if missing[:2] == ["title", "text"]:
        yield Warned("no-fields", f"No item has a title or a text{proposals.cure('title', 'text')}")
        return  # other missing fields have the same cause
    for name in missing:
        yield Warned(f"no-{name}", f"{lacks[name]}{proposals.cure(name)}")


def _lent(summary: Summary, proposals: Proposals) -> Iterator[Warned]:
    """Warn if the envelopes say the same of all items, or describe the records and not the articles."""
    alike = {"id": True, "source": summary.sources == 1, "published": summary.dates.earliest == summary.dates.latest}
    for name, text in _LENT.items():
        if alike[name] and _FEW <= summary.looked == summary.lent.get(name):
            yield Warned(f"envelope-{name}", f"{text}{proposals.cure(name)}")
