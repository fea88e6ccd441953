"""What the status page remembers: the last items by id, the last held back and the last updates beside their originals.

In: committed batches. Out: `Seen` and `Beside`, copies safe to read on any thread. Why: the index keeps fingerprints,
not texts, so without this nobody could see what a held-back item was held back for. It is bounded in number and in
bytes, and dies with the process: what is older stands in the topics. An item costs the worker some 2 µs (measured, in
batches of a thousand; a verdict costs some fifty).
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from sys import getsizeof

import msgspec

from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.stream.observer import BatchReport, Observer

HELD = 50
"""Held-back items kept beside their originals, and as many updates that were let through."""
BAD = 10
"""Dead letters kept."""
TITLE, TEXT = 300, 1500
"""Characters kept of a headline and of a text: a reader recognises an article by its first paragraphs."""
ITEM_BYTES = 2_700
"""Budget of one item: 1,800 characters of Latin script take one byte each, others two or four; beside them
verdict, ids and places. Where items take more, fewer are kept."""
_OVERHEAD = 800  # of a duplicate with its evidence measured 770, of a unique item half of it


@dataclass(slots=True)  # not frozen: making a frozen one takes twice the time, and every item makes one
class Seen:
    """An item that was judged; never changed. `at` is when (seconds since 1970), `time` its event time (ms)."""

    verdict: Verdict
    at: float
    source: str
    time: int
    partition: int
    offset: int
    title: str
    text: str
    cut: bool  # the text went on
    passed: "Seen | None"  # not let through: what of this id was let through before
    nbytes: int


@dataclass(frozen=True, slots=True)
class Beside:
    """A held-back item or an update, and its original if that was still remembered. `number` counts both, from 1."""

    number: int
    item: Seen
    original: Seen | None


class Recent(Observer):
    """The last `limit` items (0: none), by id, in at most `limit` times ITEM_BYTES.

    >>> from stream_dedup.dedup.verdict import Stage
    >>> recent = Recent(1000, clock=lambda: 5.0)
    >>> recent.take(Item("1", "Elm bridge opens", "At last.", "post.example", 0),
    ...             Verdict("1", Kind.UNIQUE, Stage.NONE, True))
    >>> recent.find("1").title, recent.find("2"), len(recent)
    ('Elm bridge opens', None, 1)
    """

    def __init__(self, limit: int, *, clock: Callable[[], float] = time.time) -> None:
        self.limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._items: OrderedDict[str, Seen] = OrderedDict()
        self._bytes = 0
        self._held: deque[Beside] = deque(maxlen=HELD if limit else 0)
        self._updates: deque[Beside] = deque(maxlen=HELD if limit else 0)
        self._bad: deque[Seen] = deque(maxlen=BAD if limit else 0)
        self._count = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def nbytes(self) -> int:
        """Bytes taken, as estimated for the bound."""
        return self._bytes

    def find(self, name: str) -> Seen | None:
        """The last that was seen of this id."""
        with self._lock:
            return self._items.get(name)

    def held(self) -> list[Beside]:
        """The newest first."""
        with self._lock:
            return list(reversed(self._held))

    def updates(self) -> list[Beside]:
        """Those that were let through, the newest first."""
        with self._lock:
            return list(reversed(self._updates))

    def bad(self) -> list[Seen]:
        """The newest first."""
        with self._lock:
            return list(reversed(self._bad))

    def since(self) -> float | None:
        """When the oldest that is remembered was judged."""
        with self._lock:
            return next(iter(self._items.values())).at if self._items else None

    def batch(self, report: BatchReport) -> None:
        if not self.limit:
            return
        now = self._clock()
        with self._lock:  # once: a page waits a millisecond for a large batch
            for item, verdict in zip(report.items, report.verdicts, strict=True):
                self._take(item, verdict, now)

    def take(self, item: Item | Tombstone | BadItem, verdict: Verdict) -> None:
        """Remembers one. O(1)."""
        with self._lock:
            self._take(item, verdict, self._clock())

    def _take(self, item: Item | Tombstone | BadItem, verdict: Verdict, now: float) -> None:
        title = text = source = ""
        moment, partition, offset, cut = -1, -1, -1, False
        if isinstance(item, BadItem):
            # Whatever could not be judged may have a key of a megabyte.
            verdict = msgspec.structs.replace(verdict, id=verdict.id[:TITLE], reason=verdict.reason[:TEXT])
        else:
            moment, partition, offset = item.time, item.partition, item.offset
            if isinstance(item, Item):
                title, text, source, cut = item.title[:TITLE], item.text[:TEXT], item.source, len(item.text) > TEXT
        name, items = verdict.id, self._items
        before = items.pop(name, None)
        passed = None if verdict.forward else _let_through(before)
        nbytes = _OVERHEAD + getsizeof(name) + getsizeof(title) + getsizeof(text) + (passed.nbytes if passed else 0)
        if verdict.original is not None:
            nbytes += getsizeof(verdict.original.id)
        seen = Seen(verdict, now, source, moment, partition, offset, title, text, cut, passed, nbytes)
        if verdict.kind is Kind.BAD:
            self._bad.append(seen)
        elif not verdict.forward or verdict.kind is Kind.UPDATE:
            self._count += 1
            original = verdict.original
            found = _let_through(before if original is None or original.id == name else items.get(original.id))
            (self._updates if verdict.forward else self._held).append(Beside(self._count, seen, found))
        if before is not None:
            self._bytes -= before.nbytes
        items[name] = seen
        self._bytes += nbytes
        while len(items) > self.limit or self._bytes > self.limit * ITEM_BYTES:
            self._bytes -= items.popitem(last=False)[1].nbytes


def _let_through(seen: Seen | None) -> Seen | None:
    """Of what is remembered under an id: the item that readers downstream have."""
    return seen if seen is None or seen.verdict.forward else seen.passed
