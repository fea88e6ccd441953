"""Survey a feed while its items pass: which fields, dates and sources its records have, and what looks wrong.

A `Survey` gets each record's bytes, the item or BadItem that the decoder made of it, and its position. It gives a
`Summary` (summary.py) at any time. A field map that fits nothing, or misread dates, still give plausible results. A
person who sees how often each field is filled, and which dates were read, notices at once.

The survey uses no clock and no I/O, and its memory is bounded. All items and dates are counted. Fields, shapes and
sources need a second read of the record. They cover the first `FIRST` items and then one in `every`, so that a stream
hardly pays for it.
"""

from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from itertools import chain
from typing import Any

import msgspec

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.loose_json import decode_json
from stream_dedup.news.dates import NO_VALUES, NOT_A_DATE, OUT_OF_RANGE, REASONS, milliseconds_of, parsed
from stream_dedup.news.decode import TEXT, Beside, DecodedRecord, Decoder
from stream_dedup.news.formats import Headers
from stream_dedup.news.item import WORDLESS, Item, Tombstone
from stream_dedup.news.names import FIELDS
from stream_dedup.news.plain_values import is_filled
from stream_dedup.phrases import moment
from stream_dedup.settings import Settings
from stream_dedup.tools.survey.proposals import SHOWN_PATHS, Proposals
from stream_dedup.tools.survey.summary import LARGEST, MOST_REASONS, MOST_SOURCES, Dates, Summary, warnings_of

FIRST = 1000
"""Items that are examined in full before sampling begins: enough for shares that are exact to a few percent."""
# Then one item in 100: reading a record of 4 KB again costs about 10 µs, so .1 µs an item on average.
SAMPLED = 100
_REASON, _SAMPLE = 300, 100  # characters of a reason, which may list the fields of a record, and of a first value
_LISTED_RECORDS, _PATHS = 100, 200  # records whose fields are listed, and distinct names that are counted
_TRIED, _LARGEST = 20, 2**20  # records on which proposals are tried, and bytes of one
_HEAD, _LETTERS = 400, 8  # characters of headline and text that are compared, as runs of this length
# Two beginnings with a smaller share of common runs are no versions of one article. 93 in 100 of 6,000 pairs of two
# articles of one site have a smaller share, in four languages, and 3 in 100 of 309 labelled copies, cuts and updates.
_UNLIKE = 0.1
# Two headlines of one text may be an edited one; three unlike ones are those of three articles.
_UNLIKE_TITLES = 3


class Survey:
    """Accumulates the summary of a feed. `items`: records added so far. Not thread-safe.

    `read`: `Decoder.read`. `latest` (ms): later times count as in the future, as in the decision. `is_record`: the
    times are ordered within each partition, and are Kafka timestamps unless [item] time = "published". Otherwise they
    are the items' own dates, in one order. `in_order`: False if the order of the items means nothing. `place` formats a
    position: an input and a line number, or a partition and an offset.

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
        dates = Dates("timestamp" if self._is_timed_by_record else "published", in_order)
        self._summary = Summary(dates, filled=dict.fromkeys(FIELDS, 0))
        self._reasons: dict[str, tuple[str, int]] = {}  # reason -> first position, count
        self._previous: dict[int, int] = {}  # partition -> time of its last item
        self._dated: list[tuple[int, int]] = []  # of Kafka records: timestamp, own date
        self._shapes: Counter[str] = Counter()
        self._schemas: Counter[str] = Counter()
        self._sources: Counter[str] = Counter()
        self._paths: Counter[str] = Counter()  # field of a record -> characters in all
        self._ids = SharedIds()
        self._notices = Notices()
        self._origins: dict[str, Counter[str]] = {name: Counter() for name in FIELDS}
        self._left: Counter[str] = Counter()
        self._urls: set[str] = set()
        self._first: list[bytes] = []  # records on which proposals are tried
        self.notes: Sequence[str] = ()

    @property
    def items(self) -> int:
        return self._summary.items

    def add(
        self,
        item: Item | Tombstone | BadItem,
        value: bytes | None,
        part: int,
        number: int,
        headers: Headers = (),
        beside: Beside | None = None,
    ) -> None:
        """Count one record: the decoded item, its bytes, its position, and its headers on Kafka.

        `beside`: of the decoder. Without it a record is read a second time if its item has no date, to tell why.
        """
        summary = self._summary
        summary.items += 1
        if isinstance(item, Tombstone):
            summary.tombstones += 1
            return
        is_sampled = value is not None and (summary.looked < FIRST or summary.items % self._every == 0)
        if isinstance(item, BadItem):
            self._count_bad(str(item), part, number)
            if is_sampled and item.reason == "empty":  # show the fields that the record has instead
                self._count_fields(self._read_again(value, headers))
            return
        if item.fingerprint is None and not any(map(str.isalnum, chain(item.title, item.text))):
            self._count_bad(str(BadItem("empty", WORDLESS)), part, number)
        has_no_date = item.time < 0 and not self._is_timed_by_record
        record = self._read_again(value, headers) if is_sampled or (has_no_date and beside is None) else None
        published = record.fields["published"] if record else beside.published if beside and has_no_date else None
        self._count_time(item.time, published, part, number)
        if self._ids.items < FIRST:  # `add` would ignore it, and the name of its place takes a tenth of this method
            self._ids.add(item, self._place(part, number))
        if is_sampled:
            self._notices.add(item)
            self._count_fields(record)
            if self._is_timed_by_record and record is not None and len(self._dated) < FIRST:
                date = milliseconds_of(record.fields["published"])
                self._dated += [(item.time, date)] if date >= 0 else []
            summary.names += item.id != f"{item.partition}:{item.offset}"
            if item.source and (item.source in self._sources or len(self._sources) < MOST_SOURCES):
                self._sources[_short(item.source, _SAMPLE)] += 1

    def summary(self) -> Summary:
        """Return the summary so far. O(values kept)."""
        listed = max(1, min(self._summary.looked, _LISTED_RECORDS))
        paths = {path: length / listed for path, length in self._paths.most_common()}
        summary = deepcopy(self._summary)
        if dated := self._dated:
            dates, tenth = summary.dates, len(dated) // 10
            dates.dated, dates.apart = len(dated), sum(abs(time - date) > self._window for time, date in dated)
            dates.record_spread, dates.spread = (
                column[-1 - tenth] - column[tenth] for column in map(sorted, zip(*dated, strict=True))
            )
        summary.shapes = dict(self._shapes.most_common())
        summary.sources, summary.largest = len(self._sources), self._sources.most_common(LARGEST)
        summary.reasons = [
            f"{place}: {reason}" + (f" ({count:,} times)" if count > 1 else "")
            for reason, (place, count) in self._reasons.items()
        ]
        summary.schemas = dict(self._schemas.most_common(LARGEST))
        summary.noticed, summary.notice = self._notices.items, self._notices.example
        if self._ids.ids:
            summary.shared_ids, summary.shared_id = self._ids.shared, self._ids.example
        summary.paths = list(paths)[:SHOWN_PATHS]
        summary.origins = {name: dict(counts.most_common()) for name, counts in self._origins.items() if counts}
        summary.left, summary.notes = dict(self._left.most_common()), list(self.notes)
        summary.addresses = len(self._urls)
        # Several records are one item each, with its paragraphs.
        first = decode_json(self._first[0].removeprefix(BOM_UTF8)) if len(self._first) == 1 else None
        proposals = Proposals(paths, self._values, first, self._settings.query is not None)
        summary.warnings = list(warnings_of(summary, self._settings, self._window, proposals))
        return summary

    def _values(self, field: str, path: str) -> list[Any]:
        """Return the values of a field in the first records, if the settings map it to a path."""
        with suppress(ConfigError, ValueError):  # a name that is no path
            read = Decoder(self._settings.model_copy(update={"fields": self._settings.fields | {field: path}})).read
            values = list[Any]()
            for record in self._first:
                with suppress(BadItem):
                    values.append(read(record).fields[field])
            return values
        return []

    def _count_bad(self, reason: str, part: int, number: int) -> None:
        self._summary.bad += 1
        reason = _short(reason, _REASON)
        if reason in self._reasons or len(self._reasons) < MOST_REASONS:
            place, count = self._reasons.get(reason) or (self._place(part, number), 0)
            self._reasons[reason] = place, count + 1

    def _count_time(self, time: int, published: Any, part: int, number: int) -> None:
        dates = self._summary.dates
        if time < 0:
            if (why := why_unreadable(published)) is None:
                dates.missing += 1
                return
            dates.unreadable += 1
            if len(dates.examples) < MOST_REASONS:
                value = _short(repr(published), _SAMPLE)
                dates.examples.append(f"{self._place(part, number)}: {value} is {why}")
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
        # Compare with the previous item: after one wrong late date all items would be before the latest time.
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
        summary = self._summary
        summary.looked += 1
        self._shapes[record.shape] += 1
        for counts, name in [(self._left, name) for name in record.left] + [
            (self._origins[field], name) for field, name in record.names.items() if field in self._origins
        ]:
            if name in counts or len(counts) < _PATHS:
                counts[name] += 1
        for name in record.lent:
            summary.lent[name] = summary.lent.get(name, 0) + 1
        if record.schema:
            self._schemas[record.schema] += 1
        for name, content in record.fields.items():
            if is_filled(content):
                summary.filled[name] += 1
                if name == "url" and len(self._urls) < MOST_SOURCES:
                    self._urls.add(str(content)[:_REASON])
                if name not in summary.samples:
                    summary.samples[name] = _short(" ".join(str(content)[: 2 * _SAMPLE].split()), _SAMPLE)
        if record.shape == TEXT or summary.looked > _LISTED_RECORDS:
            return
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # in a member that no field map names
            value = decode_json(record.value.removeprefix(BOM_UTF8))
            if len(self._first) < _TRIED and len(record.value) < _LARGEST:
                self._first.append(record.value)
            for path, length in _leaves(value):
                if path in self._paths or len(self._paths) < _PATHS:
                    self._paths[path] += length


def why_unreadable(published: Any) -> str | None:
    """Return one of dates.REASONS, or None if the date is readable or missing.

    >>> why_unreadable("yesterday"), why_unreadable(1e30), why_unreadable("03/04/2024"), why_unreadable(None)
    ('not a date', 'out of range', 'day or month first', None)
    """
    if published is None or (isinstance(published, str) and published.strip() in ("", *NO_VALUES)):
        return None
    try:
        parsed(published)
    except OverflowError:
        return OUT_OF_RANGE
    except ValueError as error:  # Python's own errors have other messages: no such day, hour or number
        return str(error) if str(error) in REASONS else NOT_A_DATE
    return None


def _leaves(value: Any, path: str = "", depth: int = 4) -> Iterator[tuple[str, int]]:
    """Yield the dotted path and length of each string or number. Addresses count 0; elements have their list's path."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield path, 0 if str(value).startswith(("http://", "https://")) else len(str(value))
    elif isinstance(value, list) and depth:
        for child in value[:20]:
            yield from _leaves(child, path, depth - 1)
    elif isinstance(value, dict) and depth:
        for name, child in value.items():
            yield from _leaves(child, f"{path}.{_short(str(name), 60)}".removeprefix("."), depth - 1)


def _short(text: str, most: int) -> str:
    """Cut a text to `most` characters, and replace control characters, which could rewrite a terminal."""
    text = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


class SharedIds:
    """Finds ids that name no article: one guid on all entries of a file, the site's link in place of the article's.

    It counts, among the first items of an input, those that share their id with an unlike one. A few are no fault of
    the field: an article was rewritten, or an editor made a mistake. So half of the items must have such an id.

    >>> shared, texts = SharedIds(), ("The bridge opened on Monday.", "Crews of the ferries stayed ashore.")
    >>> for text in texts:
    ...     shared.add(Item("https://elm.example", "", text, "", 0), text[:8])
    >>> shared.ids, shared.example
    (frozenset({'https://elm.example'}), "'https://elm.example' (The brid, Crews of)")
    """

    def __init__(self) -> None:
        self.items = 0
        self.example = ""
        """An id, and the places of two items that have it; "" if there is none."""
        self._seen: dict[str, tuple[str, str]] = {}  # id -> beginning and place of its first item
        self._counts: Counter[str] = Counter()
        self._unlike: set[str] = set()

    @property
    def shared(self) -> int:
        """The number of items that share their id with an unlike one."""
        return sum(self._counts[name] for name in self._unlike)

    @property
    def ids(self) -> frozenset[str]:
        """The ids that name no article, if at least half of the items have one."""
        return frozenset(self._unlike) if 2 * self.shared >= self.items else frozenset()

    def add(self, item: Item, place: str) -> None:
        """Count an item, up to `FIRST`; `place` is for people. O(1)."""
        if self.items >= FIRST:
            return
        self.items += 1
        self._counts[item.id] += 1
        beginning = f"{item.title} {item.text[:_HEAD]}"[:_HEAD]
        first, first_place = self._seen.setdefault(item.id, (beginning, place))
        if first != beginning and item.id not in self._unlike and _are_unlike(first, beginning):
            self._unlike.add(item.id)
            self.example = self.example or f"{item.id[:_HEAD]!r} ({first_place}, {place})"


class Notices:
    """Finds texts that stand under unlike headlines of one site, among the first items.

    >>> notices = Notices()
    >>> for title in ("Elm bridge opens", "Goats stop a train", "Clock museum moves"):
    ...     notices.add(Item("", title, "Accept our cookies to read on.", "elm.example", 0))
    >>> notices.items, notices.example
    (3, 'Accept our cookies to read on.')
    """

    def __init__(self) -> None:
        self.items = 0
        self.example = ""
        self._titles: dict[tuple[str, str], list[str]] = {}  # site and text -> unlike headlines, up to _UNLIKE_TITLES

    def add(self, item: Item) -> None:
        """Count an item. O(1)."""
        place = item.source, item.text[:_HEAD]
        if not (item.text and item.title) or (place not in self._titles and len(self._titles) >= FIRST):
            return
        titles = self._titles.setdefault(place, [])
        if len(titles) < _UNLIKE_TITLES and all(_are_unlike(item.title, title) for title in titles):
            titles.append(item.title[:_HEAD])
            self.items += _UNLIKE_TITLES - 1 if len(titles) == _UNLIKE_TITLES else 0
        if len(titles) == _UNLIKE_TITLES:
            self.items += 1
            self.example = self.example or _short(item.text, _SAMPLE)


def _are_unlike(text: str, known: str) -> bool:
    a, b = _runs(text), _runs(known)
    return len(a & b) < _UNLIKE * min(len(a), len(b))


def _runs(text: str) -> set[str]:
    letters = "".join(filter(str.isalnum, text.casefold()))
    return {letters[start : start + _LETTERS] for start in range(max(1, len(letters) - _LETTERS + 1))}
