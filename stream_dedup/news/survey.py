"""Survey a feed while its items pass: which fields, dates and sources its records have, and what looks wrong.

In: each record's bytes, the item or BadItem that the decoder made of it, and its position. Out: a `Summary` at any
time; from it JSON, rows for screens and the status page, and a line for the log. Why: a field map that fits nothing, or
misread dates, still give plausible results. A person who sees how often each field is filled, and which dates were
read, notices at once; a warning names the cause of a wrong result that raises no error, and its cure.

Pure: no clock, no I/O, bounded memory. All items and dates are counted. What needs a second read of the record (filled
fields, shapes, sources) covers the first `FIRST` items and then one in `every`, so that a stream hardly pays for it.
"""

import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from itertools import chain
from typing import Any

import msgspec

from stream_dedup.errors import BadItem
from stream_dedup.news.dates import milliseconds_of
from stream_dedup.news.decode import TEXT, DecodedRecord
from stream_dedup.news.envelope import Headers
from stream_dedup.news.ids import SharedIds
from stream_dedup.news.item import WORDLESS, Item, Tombstone
from stream_dedup.news.lists import PARTS
from stream_dedup.news.names import FIELDS
from stream_dedup.news.values import is_filled
from stream_dedup.phrases import counted, moment, span
from stream_dedup.settings import ItemSettings, Settings
from stream_dedup.surrogates import tolerant

FIRST = 1000
"""Items that are examined in full before sampling begins: enough for shares that are exact to a few percent."""
# Then one item in 100: reading a record of 4 KB again costs about 10 µs, so .1 µs an item on average.
SAMPLED = 100
MOST_REASONS = 3
"""Distinct reasons of bad items, and examples of unreadable dates, in a summary."""
_REASON, _SAMPLE = 300, 100  # characters of a reason, which may list the fields of a record, and of a first value
_LARGEST = 5
_DECODE = tolerant(msgspec.json.Decoder().decode)
_MOST_SOURCES = 4096  # that are counted: a large feed has some thousand
# Records whose fields are listed, distinct fields that are counted, and shown.
_LISTED_RECORDS, _PATHS, _SHOWN_PATHS = 100, 200, 12
_PROSE = 40  # mean characters of a field that may be a text
# With fewer items a share means nothing. From this share on, bad items are more than slips in single records.
_FEW, _MANY_BAD = 10, 0.05
# Three times as many steps back as forward are more than jitter: in a reversed feed nearly all steps go back.
_MOSTLY = 3
# Records and their own dates lie apart: a tenth of the items by more than a window, or the dates spread over days, as
# bulletins do, while the records span a tenth of that at most. Late items of a live feed are fewer.
_APART, _SPREAD_MS, _DENSER = 10, 2 * 86_400_000, 10
# The first month of 1970: seconds read as milliseconds fall into it until the year 2055.
_SECONDS_AS_MS = 31 * 86_400_000
_READABLE = (
    "ISO 8601 (2024-01-31T10:00:00Z), RFC 2822 (Wed, 31 Jan 2024 10:00:00 GMT), the day first with dots "
    "(31.01.2024 10:00), a number of seconds or milliseconds since 1970"
)
# The names that a field probably has in records of no known shape; a text is the longest field of none of these.
_LIKELY = {
    "id": re.compile(r"(^|[._-])(\w*id|uri|key)$", re.I),
    "title": re.compile(r"title|headline|heading|subject", re.I),
    "source": re.compile(r"source|site|publisher|domain|host", re.I),
    "url": re.compile(r"url|link|href", re.I),
    "published": re.compile(r"date|time|publish|created", re.I),
}
_CONCLUDED = {"title": "title", "text": "text", "id": "id", "source": "source", "url": "url", "dates": "published"}
# The fields whose lack gives wrong results without an error, and what is lost.
_LACKS = {
    "title": "No item has a title, by which many duplicates are found",
    "text": "No item has a text, so titles alone are compared",
    "published": "No item has a date, so no original is ever too old",
    "id": "No item has an id, so a new version of an article is not known as one (its place stands in, such as 0:17)",
    "source": "No item has a source or url, so a site's own series cannot be told from copies on other sites",
}
# The fields that only the envelopes of CloudEvents have, and what is wrong if they are alike.
_LENT = {
    "id": "The ids are those of the CloudEvents, so a new version of an article counts as another article",
    "source": "All items have the source of their CloudEvents, so copies on other sites look like a site's own series",
    "published": "All items have one date, that of their CloudEvents, so no original is ever too old",
}


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
    with two places. `sources`: their number, counted up to 4,096; `largest`: those with the most items. `lent`: field
    -> items that have it from the envelope of a CloudEvent only. `reasons`: the first distinct reasons of bad items,
    each with its first position. `paths`: the fields of the first records, those with the longest values first.
    `origins`: field -> name that was read -> items; `left`: name of a further text, which was not -> items. `notes`:
    what a person should know of how files were read.
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


class Survey:
    """Accumulates the summary of a feed. `items`: records added so far. Not thread-safe.

    `read`: `Decoder.read`. `latest` (ms): later times count as in the future, as in the decision. `is_record`: times
    are ordered within each partition, and are Kafka timestamps unless [item] time = "published"; otherwise they are the
    items' own dates, in one order.
    `in_order`: False if the order of the items means nothing. `place` formats a position: an input and a line number,
    or a partition and an offset.

    >>> from stream_dedup.news.decode import Decoder
    >>> decode = Decoder(Settings().item)
    >>> survey = Survey(decode.read, Settings())
    >>> line = b'{"id": 1, "title": "Elm bridge opens", "published": "2024-01-01"}'
    >>> survey.add(decode(line, None, None, 0, 1), line, 0, 1)
    >>> survey.summary().filled["title"], [one.kind for one in survey.summary().warnings]
    (1, ['no-text', 'no-source'])
    """

    def __init__(
        self,
        read: Callable[[bytes, Headers], DecodedRecord],
        settings: Settings,
        *,
        latest: int = 2**62,
        is_record: bool = False,
        in_order: bool = True,
        every: int = SAMPLED,
        place: Callable[[int, int], str] = lambda part, number: f"{part}:{number}",
    ) -> None:
        self._read, self._settings, self.latest = read, settings.item, latest
        self._window = settings.window.length_ms
        self._is_record, self._every, self._place = is_record, every, place
        self._is_timed_by_record = is_record and settings.item.time == "record"
        self._found = Summary(
            Dates("timestamp" if self._is_timed_by_record else "published", in_order), filled=dict.fromkeys(FIELDS, 0)
        )
        self._reasons: dict[str, tuple[str, int]] = {}  # reason -> first position, count
        self._previous: dict[int, int] = {}  # partition -> time of its last item
        self._dated: list[tuple[int, int]] = []  # of Kafka records: timestamp, own date
        self._shapes: Counter[str] = Counter()
        self._schemas: Counter[str] = Counter()
        self._sources: Counter[str] = Counter()
        self._lent: Counter[str] = Counter()  # field -> items that have it from their envelope only
        self._paths: Counter[str] = Counter()  # field of a record -> characters in all
        self._ids = SharedIds()
        self._origins: dict[str, Counter[str]] = {name: Counter() for name in FIELDS}
        self._left: Counter[str] = Counter()
        self._urls: set[str] = set()
        self.notes: Sequence[str] = ()

    @property
    def items(self) -> int:
        return self._found.items

    def add(
        self, item: Item | Tombstone | BadItem, value: bytes | None, part: int, number: int, headers: Headers = ()
    ) -> None:
        """Count one record: the decoded item, its bytes, its position, and its headers on Kafka."""
        found = self._found
        found.items += 1
        if isinstance(item, Tombstone):
            found.tombstones += 1
            return
        is_sampled = value is not None and (found.looked < FIRST or found.items % self._every == 0)
        if isinstance(item, BadItem):
            self._count_bad(str(item), part, number)
            if is_sampled and item.reason == "empty":  # show the fields that the record has instead
                self._count_fields(self._read_again(value, headers))
            return
        if item.fingerprint is None and not any(map(str.isalnum, chain(item.title, item.text))):
            self._count_bad(str(BadItem("empty", WORDLESS)), part, number)
        has_no_date = item.time < 0 and not self._is_timed_by_record
        record = self._read_again(value, headers) if is_sampled or has_no_date else None
        self._count_time(item.time, record, part, number)
        self._ids.add(item, self._place(part, number))
        if is_sampled:
            self._count_fields(record)
            if self._is_timed_by_record and record is not None and len(self._dated) < FIRST:
                own = milliseconds_of(record.fields["published"])
                self._dated += [(item.time, own)] if own >= 0 else []
            found.names += item.id != f"{item.partition}:{item.offset}"
            if item.source and (item.source in self._sources or len(self._sources) < _MOST_SOURCES):
                self._sources[_short(item.source, _SAMPLE)] += 1

    def summary(self) -> Summary:
        """Return the summary so far. O(values kept)."""
        listed = max(1, min(self._found.looked, _LISTED_RECORDS))
        paths = {path: length / listed for path, length in self._paths.most_common()}
        found = deepcopy(self._found)
        if dated := self._dated:
            dates, tenth = found.dates, len(dated) // 10
            dates.dated, dates.apart = len(dated), sum(abs(time - own) > self._window for time, own in dated)
            times, owns = (sorted(each) for each in zip(*dated, strict=True))
            dates.record_spread, dates.spread = times[-1 - tenth] - times[tenth], owns[-1 - tenth] - owns[tenth]
        found.shapes = dict(self._shapes.most_common())
        found.sources, found.largest = len(self._sources), self._sources.most_common(_LARGEST)
        found.reasons = [
            f"{place}: {reason}" + (f" ({count:,} times)" if count > 1 else "")
            for reason, (place, count) in self._reasons.items()
        ]
        found.schemas = dict(self._schemas.most_common(_LARGEST))
        found.lent = dict(self._lent)
        if self._ids.ids:
            found.shared_ids, found.shared_id = self._ids.shared, self._ids.example
        found.paths = list(paths)[:_SHOWN_PATHS]
        found.origins = {name: dict(each.most_common(_LARGEST)) for name, each in self._origins.items() if each}
        found.left, found.notes = dict(self._left.most_common(_LARGEST)), list(self.notes)
        found.warnings = [
            Warned(*each)
            for each in chain(
                _warnings(found, self._settings, self._window, paths), self._shared_ids(), self._longer(paths)
            )
        ]
        return found

    def _shared_ids(self) -> Iterator[tuple[str, str]]:
        """Warn of ids that name no articles; the addresses may tell them apart, if nearly all differ."""
        if self._ids.ids:
            is_apart = _FEW * len(self._urls) >= (_FEW - 1) * min(self._found.looked, _MOST_SOURCES)
            other = next(iter(self._origins["url"]), None) if is_apart else None
            yield (
                "shared-ids",
                f"{self._ids.shared:,} items share their id with an item of another text, such as "
                f"{self._ids.example}: their ids name no articles. In files such items are judged by their texts "
                "alone, as if they had no id; on Kafka each counts as a new version of the one before it, if the "
                "source is the same. Let the producer give each its own, or name a field that tells them apart"
                f"{_such_as({'id': other})}.",
            )

    def _longer(self, paths: Mapping[str, float]) -> Iterator[tuple[str, str]]:
        """Warn of a field that is longer than what was read as the text, and has no name of a text."""
        read = max((self._paths[path] for path in self._origins["text"]), default=0)
        others = [
            path
            for path in paths
            if path not in self._left and not any(path in each for each in self._origins.values())
        ]
        if read and others and self._paths[others[0]] > 2 * read and paths[others[0]] >= _PROSE:
            yield (
                "longer-field",
                f"The longest field, {others[0]}, is not read; the text is {', '.join(self._origins['text'])}. If "
                f"it has the article, name it{_such_as({'text': others[0]})}.",
            )

    def _count_bad(self, reason: str, part: int, number: int) -> None:
        self._found.bad += 1
        reason = _short(reason, _REASON)
        if reason in self._reasons or len(self._reasons) < MOST_REASONS:
            place, count = self._reasons.get(reason) or (self._place(part, number), 0)
            self._reasons[reason] = place, count + 1

    def _count_time(self, time: int, record: DecodedRecord | None, part: int, number: int) -> None:
        dates = self._found.dates
        if time < 0:
            if record is None or record.time_reason is None:
                dates.missing += 1
                return
            dates.unreadable += 1
            if len(dates.examples) < MOST_REASONS:
                value = _short(repr(record.fields["published"]), _SAMPLE)
                dates.examples.append(f"{self._place(part, number)}: {value} is {record.time_reason}")
            return
        if time > self.latest:
            dates.future += 1
            dates.first_future = dates.first_future or f"{self._place(part, number)}: {moment(time)}"
            return
        dates.earliest = time if dates.earliest is None else min(dates.earliest, time)
        dates.latest = time if dates.latest is None else max(dates.latest, time)
        if not dates.in_order:
            return
        partition = part if self._is_record else 0
        # Compare with the previous item, not with the latest time: one wrong late date would make all after it look
        # late.
        step = time - self._previous.get(partition, time)
        self._previous[partition] = time
        dates.forwards += step > 0
        dates.backwards += step < 0
        dates.furthest_back = max(dates.furthest_back, -step)
        dates.jumps += -step > self._window

    def _read_again(self, value: bytes | None, headers: Headers) -> DecodedRecord | None:
        with suppress(BadItem):
            return None if value is None else self._read(value, headers)
        return None

    def _count_fields(self, record: DecodedRecord | None) -> None:
        if record is None:
            return
        found = self._found
        found.looked += 1
        self._shapes[record.shape] += 1
        self._left.update(record.left)
        for name, origin in record.names.items():
            self._origins[name][origin] += 1
        self._lent.update(record.around)
        if record.schema:
            self._schemas[record.schema] += 1
        for name, content in record.fields.items():
            if is_filled(content):
                found.filled[name] += 1
                if name == "url" and len(self._urls) < _MOST_SOURCES:
                    self._urls.add(str(content)[:_REASON])
                if name not in found.samples:
                    found.samples[name] = _short(" ".join(str(content)[: 2 * _SAMPLE].split()), _SAMPLE)
        if record.shape == TEXT or found.looked > _LISTED_RECORDS:
            return
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # in a member that no field map names
            for path, length in _leaves(_DECODE(record.value.removeprefix(BOM_UTF8))):
                if path in self._paths or len(self._paths) < _PATHS:
                    self._paths[path] += length


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
        more = "more than " if summary.sources == _MOST_SOURCES else "at least " if summary.is_sampled else ""
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
    return ", ".join(f"{name} {100 * count / of:.0f} %" for name, count in counts.items())


def _counted(pairs: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in pairs)


def _warnings(
    found: Summary, settings: ItemSettings, window: int, paths: Mapping[str, float]
) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of each warning, the most serious first. `window` in ms; `paths`: mean
    characters of the fields of the records."""
    items = found.items - found.tombstones
    if not found.items:
        yield "nothing", "The input is empty: there are no records."
        return
    first = f" The first: {found.reasons[0]}." if found.reasons else ""
    if found.bad and found.all_bad:
        yield "all-bad", f"All {items:,} items are bad: nothing can be judged.{first}"
    elif items >= _FEW and found.bad >= _MANY_BAD * items:
        yield "many-bad", f"{found.bad:,} of {items:,} items are bad.{first}"
    if any("not UTF-8" in reason for reason in found.reasons):
        yield (
            "not-utf-8",
            "Items are not UTF-8. If it is Latin-1, as in old exports: iconv -f WINDOWS-1252 -t UTF-8 FILE > OTHER",
        )
    if found.looked:
        yield from _absent(found, settings, paths)
    if not found.all_bad:  # they have no dates that count, and another cause comes first
        yield from _lent(found, paths)
    dates = found.dates
    if dates.unreadable:
        count = counted(dates.unreadable, "date")
        yield "unreadable-dates", f"{count} cannot be read ({dates.examples[0]}). What can be read: {_READABLE}."
    if dates.latest is not None and dates.latest < _SECONDS_AS_MS:
        yield (
            "dates-1970",
            f"All dates lie in January 1970 ({moment(dates.latest)} at the latest): they look like seconds where "
            "milliseconds are meant. Let the producer write milliseconds since 1970.",
        )
    if dates.future:
        yield (
            "future-dates",
            f"{counted(dates.future, 'date')} in the future ({dates.first_future}) do not count. Is the clock right "
            "that gave them?",
        )
    is_dense = dates.spread >= max(_SPREAD_MS, _DENSER * dates.record_spread)
    if dates.dated >= _FEW and (_APART * dates.apart >= dates.dated or is_dense):
        yield (
            "backfill",
            f"Of the first {counted(dates.dated, 'dated record')}, {dates.apart:,} are dated further than the window "
            f"({span(window)}) from their Kafka timestamp. Without a tenth at each end, timestamps span "
            f"{span(dates.record_spread)}, and dates {span(dates.spread)}. By timestamps a backfill is compared as one "
            'moment: set [item] time = "published" to go by the dates.',
        )
    if dates.jumps or dates.backwards >= max(_FEW, _MOSTLY * dates.forwards):
        yield (
            "backwards",
            f"At {counted(dates.backwards, 'place')} the dates go back, at {dates.jumps:,} by more than the "
            f"window ({span(window)}), by {span(dates.furthest_back)} at most: of each pair the later copy may be let "
            "through, the earlier held back. Sort the items by date, the oldest first, or correct the dates.",
        )


def _absent(found: Summary, settings: ItemSettings, paths: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Warn of fields that no item has, and propose fields of the records for them."""
    has = {name: bool(count) for name, count in found.filled.items()}
    has |= {"id": bool(found.names), "source": bool(found.largest)}
    if settings.fingerprint is not None or settings.format == "text":
        has |= {"title": True, "text": True}
    if found.all_bad or found.dates.origin == "timestamp" or found.dates.unreadable:
        has["published"] = True
    missing = [name for name in _LACKS if not has[name]]
    if missing[:2] == ["title", "text"]:
        yield "no-fields", f"No item has a title or a text{_cure(paths, missing[:2])}"
        return  # other missing fields have the same cause
    for name in missing:
        yield f"no-{name}", f"{_LACKS[name]}{_cure(paths, ['source', 'url'] if name == 'source' else [name])}"


def _lent(found: Summary, paths: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Warn of what an envelope says of all items alike, or of each record and not of its article."""
    alike = {"id": True, "source": found.sources == 1, "published": found.dates.earliest == found.dates.latest}
    for name, text in _LENT.items():
        if alike[name] and _FEW <= found.looked == found.lent.get(name):
            yield f"envelope-{name}", f"{text}{_cure(paths, ['source', 'url'] if name == 'source' else [name])}"


def _cure(paths: Mapping[str, float], missing: Sequence[str]) -> str:
    """List the fields that the records have, the probable ones as a setting."""
    if not paths:
        return "."
    own = [path for path in paths if not PARTS.search(path.rpartition(".")[0])]
    likely = {name: [path for path in own if pattern.search(path)] for name, pattern in _LIKELY.items()}
    guesses = {name: min(likely[name], key=len, default=None) for name in missing if name in likely}
    # The longest fields of names that say nothing: of a table without a header, too.
    known = {path for each in likely.values() for path in each}
    rest = iter([path for path in own if path not in known])
    if "text" in missing:
        guesses["text"] = next((path for path in rest if paths[path] >= _PROSE or "title" in missing), None)
    if "text" in missing and "title" in missing and not guesses["title"]:
        guesses["title"] = next(rest, None)
    present = f"{', '.join([*paths][:_SHOWN_PATHS])}{', …' if len(paths) > _SHOWN_PATHS else ''}"
    return f". The records have {present}: if one of them is the field, name it{_such_as(guesses)}."


def _such_as(guesses: Mapping[str, str | None]) -> str:
    """How to name fields in the settings, as two lines of a file in one."""
    examples = ", ".join(f'{name} = "{path}"' for name, path in guesses.items() if path)
    return f" under [item.fields] in the settings (--config FILE){f', such as {examples}' if examples else ''}"


def _leaves(value: Any, path: str = "", depth: int = 4) -> Iterator[tuple[str, int]]:
    """Yield (dotted path, characters but of addresses) of each string or number; elements have their list's path."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield path, 0 if str(value).startswith(("http://", "https://")) else len(str(value))
    elif isinstance(value, list) and depth:
        for child in value[:20]:
            yield from _leaves(child, path, depth - 1)
    elif isinstance(value, dict) and depth:
        for name, child in value.items():
            yield from _leaves(child, f"{path}.{_short(str(name), 60)}".removeprefix("."), depth - 1)


def _short(text: str, most: int) -> str:
    """Cut a text to at most `most` characters, and replace control characters, which could rewrite a terminal."""
    text = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
