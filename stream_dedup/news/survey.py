"""Items as they come -> what a feed was understood to be, and what looks wrong about it.

In: each record's bytes, the item or BadItem that the decoder made of it, its place. Out: a `Summary` at any time. Pure:
no clock, no I/O, and a bounded memory whatever comes. All items are counted, and their dates; what needs the record
read once more (which fields are filled, languages, sources, lengths) is done for the first `FIRST`, then for one in
`every`, so that a stream hardly pays.

Languages are those that records state (lang, language, inLanguage); of the others the script of the text is told.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from stream_dedup.errors import BadItem
from stream_dedup.news.advice import warnings_of
from stream_dedup.news.decode import DecodedRecord
from stream_dedup.news.fields import names_in
from stream_dedup.news.item import WORDLESS, Item, Tombstone
from stream_dedup.news.presets import FIELDS
from stream_dedup.news.summary import Dates, Summary, moment
from stream_dedup.news.values import BOM, is_filled
from stream_dedup.settings import Settings

FIRST = 1000
"""Items that are read in full before only a sample is: as many as a share within some percent needs."""
# One in so many after that: reading a record of 4 KB again costs some 10 µs, which is then .1 µs an item.
SAMPLED = 100
MOST_REASONS = 3
"""Different reasons of bad items that are told, and examples of dates."""
_REASON = 300  # characters; it may list a record's fields
_LARGEST = 5
# Distinct names kept: a large feed has some thousand sources, and nobody reads more than a few.
_NAMES = 4096
# Languages, shapes.
_LABELS = 64
_LABELS_TOLD = 20
# Records of which all fields are listed, and fields that are told.
_LISTED = 100
_PATHS = 200
_PATHS_TOLD = 12
# Values kept for the median; with more the stride doubles.
_VALUES = 2048
# Characters of a field's first value.
_SAMPLE = 100
# Of a text, for its script.
_LETTERS = 200


class _Stated(msgspec.Struct):
    """Where records say their language."""

    lang: Any = None
    language: Any = None
    inLanguage: Any = None  # noqa: N815 - schema.org's name


class Survey:
    """Gathers; not thread-safe. `items` counts what was added.

    `read`: `Decoder.read`. `latest`: a later time (ms) counts as one in the future, as in the judgement. `is_record`:
    the times are those of Kafka's records, in order within a partition; else of the own dates, all of one order; not
    `in_order`: the order says nothing. `place` names an input and a number, or a partition and an offset, for a person.

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
        self._reasons: dict[str, tuple[str, int]] = {}  # what is wrong -> where it was first, how often
        self._before: dict[int, int] = {}  # partition -> the time of its last item
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
        self._paths: dict[str, tuple[int, int]] = {}  # field of a record -> how often, characters in all

    def add(self, item: Item | Tombstone | BadItem, value: bytes | None, part: int, number: int) -> None:
        """Takes one record: what was made of it, its bytes, and where it stood."""
        self.items += 1
        if isinstance(item, Tombstone):
            self._tombstones += 1
            return
        looks = self._looked < FIRST or self.items % self._every == 0
        if isinstance(item, BadItem):
            is_empty = item.reason == "empty"
            self._note_bad(_in_short(value) if is_empty and value else str(item), part, number)
            if looks and is_empty and value:  # what it has instead is what a person needs
                reading = self._read_again(value)
                if reading is not None:
                    self._look(value, reading)
            return
        if item.fingerprint is None and not _says_something(item.title) and not _says_something(item.text):
            self._note_bad(str(BadItem("empty", WORDLESS)), part, number)
        is_unread = item.time < 0 and not self._is_record
        reading = self._read_again(value) if value is not None and (looks or is_unread) else None
        self._note_time(item.time, reading, part, number)
        if looks and value is not None:
            self._look(value, reading)
            self._look_at(item, value)

    def summary(self) -> Summary:
        """All of it by now. O(what is kept)."""
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
        paths = sorted(self._paths, key=lambda one: -self._paths[one][1] / self._paths[one][0])
        seen = Summary(
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
            languages=dict(self._languages.most_common(_LABELS_TOLD)),
            sources=len(self._sources),
            more_sources=self._more_sources,
            largest=self._sources.most_common(_LARGEST),
            length=self._lengths.middle(),
            reasons=[
                f"{place}: {reason}" + (f" ({count:,} times)" if count > 1 else "")
                for reason, (place, count) in self._reasons.items()
            ],
            paths=paths[:_PATHS_TOLD],
            warnings=[],
        )
        return msgspec.structs.replace(seen, warnings=warnings_of(seen, self._settings, self._window, paths))

    def _note_bad(self, reason: str, part: int, number: int) -> None:
        self._bad += 1
        reason = _short(reason, _REASON)
        if reason in self._reasons or len(self._reasons) < MOST_REASONS:
            place, count = self._reasons.get(reason) or (self._place(part, number), 0)
            self._reasons[reason] = place, count + 1

    def _note_time(self, time: int, reading: DecodedRecord | None, part: int, number: int) -> None:
        if time < 0:
            if reading is None or reading.time_reason is None:
                self._missing += 1
                return
            self._unreadable += 1
            if len(self._examples) < MOST_REASONS:
                value = _short(repr(reading.fields["published"]), _SAMPLE)
                self._examples.append(f"{self._place(part, number)}: {value} is {reading.time_reason}")
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
        order = part if self._is_record else 0
        # Against the one before, not the latest so far: one date that is too late would make all after it look late.
        step = time - self._before.get(order, time)
        self._before[order] = time
        if step < 0:
            self._backwards += 1
            self._furthest = max(self._furthest, -step)
            self._jumps += -step > self._window
        self._forwards += step > 0

    def _read_again(self, value: bytes) -> DecodedRecord | None:
        try:
            return self._read(value)
        except (BadItem, UnicodeDecodeError, msgspec.DecodeError, RecursionError):
            return None  # the item was made of it, so this is a format without fields

    def _look(self, value: bytes, reading: DecodedRecord | None) -> None:
        """At the record."""
        self._looked += 1
        if reading is None:  # a format without fields
            _count(self._shapes, "text", _LABELS)
            self._fill("text", value[:_SAMPLE].decode(errors="replace"))
            return
        _count(self._shapes, reading.shape, _LABELS)
        for name, found in reading.fields.items():
            if is_filled(found):
                self._fill(name, found)
        if self._looked <= _LISTED:
            self._list(value)

    def _fill(self, name: str, found: Any) -> None:
        self._filled[name] += 1
        if name not in self._samples:
            self._samples[name] = _short(" ".join(str(found)[: 2 * _SAMPLE].split()), _SAMPLE)

    def _look_at(self, item: Item, value: bytes) -> None:
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
        for one in (stated.lang, stated.language, stated.inLanguage):
            if isinstance(one, str) and one.strip():
                return _short(one.strip().lower(), 20)
        return script_of(item.text or item.title)

    def _list(self, value: bytes) -> None:
        try:
            record = msgspec.json.decode(value.removeprefix(BOM))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        for path, length in _leaves(record):
            if path in self._paths or len(self._paths) < _PATHS:
                count, characters = self._paths.get(path, (0, 0))
                self._paths[path] = count + 1, characters + length


class _Values:
    """Smallest, median and largest of any number of values; beyond `_VALUES` the median of every so manieth."""

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
        """(smallest, median, largest); None: there are none."""
        if not self._kept:
            return None
        return self._least, sorted(self._kept)[len(self._kept) // 2], self._most


def script_of(text: str) -> str:
    """The script that most letters at the beginning of a text are of, by their Unicode names.

    >>> script_of("Die Brücke"), script_of("Мост открыт"), script_of("埃尔姆桥周一开通"), script_of("123")
    ('Latin script', 'Cyrillic script', 'Han script', 'no letters')
    """
    scripts = Counter(map(_script, filter(str.isalpha, text[:_LETTERS])))
    return f"{scripts.most_common(1)[0][0]} script" if scripts else "no letters"


def _in_short(value: bytes) -> str:
    """Why a record is empty; its own detail lists every field that was looked for."""
    names = names_in(value)
    has = ", ".join(names[:_PATHS_TOLD]) + (", …" if len(names) > _PATHS_TOLD else "")
    return f"empty: neither a title nor a text is found; the record has: {has or 'no fields'}"


# The letters of a few languages.
@lru_cache(maxsize=8192)
def _script(letter: str) -> str:
    word = unicodedata.name(letter, "unknown").split(" ", 1)[0].split("-", 1)[0]
    return {"CJK": "Han"}.get(word, word.capitalize())


def _says_something(text: str) -> bool:
    # The first character says it of nearly all texts.
    return text[:1].isalnum() or any(map(str.isalnum, text))


def _count(counter: Counter[str], name: str, limit: int) -> bool:
    """Whether the name is among the at most `limit` that are counted."""
    if name not in counter and len(counter) >= limit:
        return False
    counter[name] += 1
    return True


def _leaves(value: Any, path: str = "", depth: int = 4) -> list[tuple[str, int]]:
    """(dotted path, characters) of each string or number in a decoded record; of a list its first member."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return [(path, len(str(value)))] if path else []
    if not depth:
        return []
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    return [
        found
        for name, one in inner
        for found in _leaves(one, f"{path}.{_short(str(name), 60)}" if path else _short(str(name), 60), depth - 1)
    ]


def _short(text: str, most: int) -> str:
    """At most so many characters, none of which could rewrite a terminal's lines."""
    text = text if len(text) <= most else text[: most - 1] + "…"
    return (
        text
        if text.isprintable()
        else "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    )
