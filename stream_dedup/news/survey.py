"""Collect statistics about a feed while its items pass: fields, dates, languages, sources, bad items.

In: each record's bytes, the item or BadItem that the decoder made of it, and its position. Out: a `Summary` at any
time. Pure: no clock, no I/O, bounded memory. All items and dates are counted. Statistics that need a second read of
the record (filled fields, languages, sources, lengths) cover the first `FIRST` items and then one in `every`, so that
a stream hardly pays for them.

A record's language is the one that it states (lang, language, inLanguage), otherwise the script of its text.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from stream_dedup.errors import BadItem
from stream_dedup.news.advice import warnings_of
from stream_dedup.news.decode import TEXT, DecodedRecord
from stream_dedup.news.fields import names_in
from stream_dedup.news.item import WORDLESS, Item, Tombstone
from stream_dedup.news.presets import FIELDS
from stream_dedup.news.summary import Dates, Summary, moment
from stream_dedup.news.values import BOM, is_filled
from stream_dedup.settings import Settings

FIRST = 1000
"""Items that are examined in full before sampling begins: enough for shares that are exact to a few percent."""
# Then one item in 100: reading a record of 4 KB again costs about 10 µs, so .1 µs an item on average.
SAMPLED = 100
MOST_REASONS = 3
"""Distinct reasons of bad items, and examples of unreadable dates, in a summary."""
_REASON = 300  # characters of a reason; it may list the fields of a record
_LARGEST = 5
# Distinct sources and ids that are counted: a large feed has some thousand sources.
_NAMES = 4096
# Distinct languages and shapes that are counted, and shown.
_LABELS = 64
_SHOWN_LABELS = 20
# Records whose fields are listed, distinct fields that are counted, and shown.
_LISTED_RECORDS = 100
_PATHS = 200
_SHOWN_PATHS = 12
# Values kept for the median; when they are full the stride doubles.
_VALUES = 2048
# Characters of a field's first value.
_SAMPLE = 100
# Characters of a text that determine its script.
_LETTERS = 200


class _Stated(msgspec.Struct):
    """The fields in which records state their language."""

    lang: Any = None
    language: Any = None
    inLanguage: Any = None  # noqa: N815 - schema.org's name


class Survey:
    """Accumulates the statistics of a feed. `items`: records added so far. Not thread-safe.

    `read`: `Decoder.read`. `latest` (ms): later times count as in the future, as in the decision. `is_record`: times
    are Kafka timestamps, ordered within each partition; otherwise they are the items' own dates, in one order.
    `in_order`: False if the order of the items means nothing. `place` formats a position: an input and a line number,
    or a partition and an offset.

    >>> from stream_dedup.news.decode import Decoder
    >>> from stream_dedup.settings import Settings
    >>> decode = Decoder(Settings().item)
    >>> survey = Survey(decode.read, Settings())
    >>> line = b'{"id": 1, "title": "Elm bridge opens", "published": "2024-01-01"}'
    >>> survey.add(decode(line, None, None, 0, 1), line, 0, 1)
    >>> survey.summary().filled["title"], [one.kind for one in survey.summary().warnings]
    (1, ['no-text', 'no-source'])
    """

    def __init__(
        self,
        read: Callable[[bytes], DecodedRecord],
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
        self._is_record, self._in_order, self._every, self._place = is_record, in_order, every, place
        self._stated = msgspec.json.Decoder(_Stated)
        self.items = self._bad = self._tombstones = self._looked = self._names = 0
        self._reasons: dict[str, tuple[str, int]] = {}  # reason -> first position, count
        self._previous: dict[int, int] = {}  # partition -> time of its last item
        self._earliest: int | None = None
        self._last: int | None = None
        self._missing = self._unreadable = self._future = self._backwards = self._furthest = self._jumps = (
            self._forwards
        ) = 0
        self._examples: list[str] = []
        self._first_future = ""
        self._shapes: Counter[str] = Counter()
        self._filled: Counter[str] = Counter()
        self._samples: dict[str, str] = {}
        self._languages: Counter[str] = Counter()
        self._sources: Counter[str] = Counter()
        self._more_sources = False
        self._ids: set[int] = set()
        self._compared = 0
        self._lengths = _Values()
        self._paths: dict[str, tuple[int, int]] = {}  # field of a record -> count, characters in all

    def add(self, item: Item | Tombstone | BadItem, value: bytes | None, part: int, number: int) -> None:
        """Count one record: the decoded item, its bytes, and its position."""
        self.items += 1
        if isinstance(item, Tombstone):
            self._tombstones += 1
            return
        is_sampled = self._looked < FIRST or self.items % self._every == 0
        if isinstance(item, BadItem):
            is_empty = item.reason == "empty"
            self._count_bad(_short_reason(value) if is_empty and value else str(item), part, number)
            if is_sampled and is_empty and value:  # show the fields that the record has instead
                record = self._read_again(value)
                if record is not None:
                    self._count_fields(value, record)
            return
        if item.fingerprint is None and not _has_word(item.title) and not _has_word(item.text):
            self._count_bad(str(BadItem("empty", WORDLESS)), part, number)
        has_no_date = item.time < 0 and not self._is_record
        record = self._read_again(value) if value is not None and (is_sampled or has_no_date) else None
        self._count_time(item.time, record, part, number)
        if is_sampled and value is not None:
            self._count_fields(value, record)
            self._count_item(item, value)

    def summary(self) -> Summary:
        """Return the summary so far. O(values kept)."""
        dates = Dates(
            "timestamp" if self._is_record else "published",
            self._earliest,
            self._last,
            self._missing,
            self._unreadable,
            list(self._examples),
            self._future,
            self._backwards if self._in_order else None,
            self._furthest,
            self._jumps,
            self._forwards,
            self._first_future,
        )
        paths = sorted(self._paths, key=lambda path: -self._paths[path][1] / self._paths[path][0])
        summary = Summary(
            items=self.items,
            bad=self._bad,
            tombstones=self._tombstones,
            looked=self._looked,
            shapes=dict(self._shapes.most_common()),
            filled={name: self._filled[name] for name in FIELDS},
            samples=dict(self._samples),
            names=self._names,
            compared=self._compared,
            repeated=self._compared - len(self._ids),
            dates=dates,
            languages=dict(self._languages.most_common(_SHOWN_LABELS)),
            sources=len(self._sources),
            more_sources=self._more_sources,
            largest=self._sources.most_common(_LARGEST),
            length=self._lengths.middle(),
            reasons=[
                f"{place}: {reason}" + (f" ({count:,} times)" if count > 1 else "")
                for reason, (place, count) in self._reasons.items()
            ],
            paths=paths[:_SHOWN_PATHS],
            warnings=[],
        )
        warnings = warnings_of(summary, self._settings, self._window, paths)
        return msgspec.structs.replace(summary, warnings=warnings)

    def _count_bad(self, reason: str, part: int, number: int) -> None:
        self._bad += 1
        reason = _short(reason, _REASON)
        if reason in self._reasons or len(self._reasons) < MOST_REASONS:
            place, count = self._reasons.get(reason) or (self._place(part, number), 0)
            self._reasons[reason] = place, count + 1

    def _count_time(self, time: int, record: DecodedRecord | None, part: int, number: int) -> None:
        if time < 0:
            if record is None or record.time_reason is None:
                self._missing += 1
                return
            self._unreadable += 1
            if len(self._examples) < MOST_REASONS:
                value = _short(repr(record.fields["published"]), _SAMPLE)
                self._examples.append(f"{self._place(part, number)}: {value} is {record.time_reason}")
            return
        if time > self.latest:
            self._future += 1
            self._first_future = self._first_future or f"{self._place(part, number)}: {moment(time)}"
            return
        if self._earliest is None or time < self._earliest:
            self._earliest = time
        if self._last is None or time > self._last:
            self._last = time
        if not self._in_order:
            return
        partition = part if self._is_record else 0
        # Compare with the previous item, not with the latest time: one wrong late date would make all after it look
        # late.
        step = time - self._previous.get(partition, time)
        self._previous[partition] = time
        if step < 0:
            self._backwards += 1
            self._furthest = max(self._furthest, -step)
            self._jumps += -step > self._window
        self._forwards += step > 0

    def _read_again(self, value: bytes) -> DecodedRecord | None:
        try:
            return self._read(value)
        except (BadItem, UnicodeDecodeError, msgspec.DecodeError, RecursionError):
            return None  # it was decoded before, so its format has no fields

    def _count_fields(self, value: bytes, record: DecodedRecord | None) -> None:
        self._looked += 1
        if record is None:  # a format without fields
            _count(self._shapes, TEXT, _LABELS)
            self._count_filled("text", value[:_SAMPLE].decode(errors="replace"))
            return
        _count(self._shapes, record.shape, _LABELS)
        for name, content in record.fields.items():
            if is_filled(content):
                self._count_filled(name, content)
        if self._looked <= _LISTED_RECORDS:
            self._count_paths(value)

    def _count_filled(self, name: str, content: Any) -> None:
        self._filled[name] += 1
        if name not in self._samples:
            self._samples[name] = _short(" ".join(str(content)[: 2 * _SAMPLE].split()), _SAMPLE)

    def _count_item(self, item: Item, value: bytes) -> None:
        self._names += item.id != f"{item.partition}:{item.offset}"
        if self._compared < _NAMES:
            self._compared += 1
            self._ids.add(hash(item.id))
        self._lengths.add(len(item.text))
        _count(self._languages, self._language(item, value), _LABELS)
        if item.source and not _count(self._sources, _short(item.source, _SAMPLE), _NAMES):
            self._more_sources = True

    def _language(self, item: Item, value: bytes) -> str:
        try:
            stated = self._stated.decode(value.removeprefix(BOM))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return script_of(item.text or item.title)
        for language in (stated.lang, stated.language, stated.inLanguage):
            if isinstance(language, str) and language.strip():
                return _short(language.strip().lower(), 20)
        return script_of(item.text or item.title)

    def _count_paths(self, value: bytes) -> None:
        try:
            record = msgspec.json.decode(value.removeprefix(BOM))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        for path, length in _leaves(record):
            if path in self._paths or len(self._paths) < _PATHS:
                count, characters = self._paths.get(path, (0, 0))
                self._paths[path] = count + 1, characters + length


class _Values:
    """Smallest, median and largest of a stream of values; beyond `_VALUES` values the median comes from a sample."""

    def __init__(self) -> None:
        self._kept: list[int] = []
        self._stride = 1
        self._count = 0
        self._least = self._most = 0

    def add(self, value: int) -> None:
        self._least = min(value, self._least) if self._count else value
        self._most = max(value, self._most)
        if self._count % self._stride == 0:
            self._kept.append(value)
            if len(self._kept) == _VALUES:
                self._kept, self._stride = self._kept[::2], self._stride * 2
        self._count += 1

    def middle(self) -> tuple[int, int, int] | None:
        """Return (smallest, median, largest), or None if there are no values."""
        if not self._kept:
            return None
        return self._least, sorted(self._kept)[len(self._kept) // 2], self._most


def script_of(text: str) -> str:
    """Return the script of most letters at the beginning of a text, by their Unicode names.

    >>> script_of("Die Brücke"), script_of("Мост открыт"), script_of("埃尔姆桥周一开通"), script_of("123")
    ('Latin script', 'Cyrillic script', 'Han script', 'no letters')
    """
    scripts = Counter(map(_script, filter(str.isalpha, text[:_LETTERS])))
    return f"{scripts.most_common(1)[0][0]} script" if scripts else "no letters"


def _short_reason(value: bytes) -> str:
    """Say why a record is empty, in fewer words than its BadItem, which lists every field that was searched."""
    names = names_in(value)
    present = ", ".join(names[:_SHOWN_PATHS]) + (", …" if len(names) > _SHOWN_PATHS else "")
    return f"empty: neither a title nor a text is found; the record has: {present or 'no fields'}"


# Large enough for the letters of a few languages.
@lru_cache(maxsize=8192)
def _script(letter: str) -> str:
    word = unicodedata.name(letter, "unknown").split(" ", 1)[0].split("-", 1)[0]
    return {"CJK": "Han"}.get(word, word.capitalize())


def _has_word(text: str) -> bool:
    # The first character decides for nearly all texts.
    return text[:1].isalnum() or any(map(str.isalnum, text))


def _count(counter: Counter[str], name: str, limit: int) -> bool:
    """Count a name; False if `limit` other names are counted already."""
    if name not in counter and len(counter) >= limit:
        return False
    counter[name] += 1
    return True


def _leaves(value: Any, path: str = "", depth: int = 4) -> list[tuple[str, int]]:
    """List (dotted path, characters) of each string or number in a decoded record, with the first element of lists."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return [(path, len(str(value)))] if path else []
    if not depth:
        return []
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    return [
        leaf
        for name, child in inner
        for leaf in _leaves(child, f"{path}.{_short(str(name), 60)}" if path else _short(str(name), 60), depth - 1)
    ]


def _short(text: str, most: int) -> str:
    """Cut a text to at most `most` characters, and replace control characters, which could rewrite a terminal."""
    text = text if len(text) <= most else text[: most - 1] + "…"
    return (
        text
        if text.isprintable()
        else "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    )
