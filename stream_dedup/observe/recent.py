"""Recent items for the status page: by id, and the last held-back items and updates with their originals.

The index keeps fingerprints, not texts, so the page needs this cache to show which original an item was held back for.
`Recent` observes committed batches and returns immutable copies, safe to read on any thread. It is bounded in items and
bytes, and ends with the process; older items are in the topics. It costs the worker some 2 µs an item (measured in
batches of a thousand; a verdict takes some 50 µs).
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
from stream_dedup.worker.observer import BatchReport, Observer

PAIRS = 50
"""Held-back items retained with their originals, and the same number of updates."""
DEAD_LETTERS = 10
"""Dead letters retained."""
TITLE_CHARS, TEXT_CHARS = 300, 1500
"""Characters retained of a headline and of a text: a reader recognises an article by its first paragraphs."""
ITEM_BYTES = 2_700
"""Bytes budgeted for one item: 1,800 characters of Latin script add a byte each, others two or four; the rest is for
verdict, ids and offsets. If items add more, fewer are retained."""
_OVERHEAD = 800  # measured: 770 for a duplicate with its evidence, half of that for a unique item


@dataclass(slots=True)  # not frozen: that doubles the time of construction, and every item is one
class JudgedItem:
    """A judged item; never changed. `judged_at` is in seconds since 1970, `time` is the event time in ms."""

    verdict: Verdict
    judged_at: float
    source: str
    time: int
    partition: int
    offset: int
    title: str
    text: str
    truncated: bool  # the text goes on
    let_through: "JudgedItem | None"  # of an item held back: the last item of its id that was let through
    nbytes: int


@dataclass(frozen=True, slots=True)
class ItemPair:
    """A held-back item or an update, and its original if that is still retained. `number` counts both, from 1."""

    number: int
    item: JudgedItem
    original: JudgedItem | None


class Recent(Observer):
    """The last `limit` items (0: none) by id, in at most `limit` times ITEM_BYTES.

    >>> from stream_dedup.dedup.verdict import Stage
    >>> recent = Recent(1000, clock=lambda: 5.0)
    >>> recent.add(Item("1", "Elm bridge opens", "At last.", "post.example", 0),
    ...             Verdict("1", Kind.UNIQUE, Stage.NONE, True))
    >>> recent.find("1").title, recent.find("2"), len(recent)
    ('Elm bridge opens', None, 1)
    """

    def __init__(self, limit: int, *, clock: Callable[[], float] = time.time) -> None:
        self.limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._items: OrderedDict[str, JudgedItem] = OrderedDict()
        self._bytes = 0
        self._held_back: deque[ItemPair] = deque(maxlen=PAIRS if limit else 0)
        self._updates: deque[ItemPair] = deque(maxlen=PAIRS if limit else 0)
        self._dead_letters: deque[JudgedItem] = deque(maxlen=DEAD_LETTERS if limit else 0)
        self._count = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def nbytes(self) -> int:
        """Estimate of the bytes in use, on which the bound acts."""
        return self._bytes

    def find(self, item_id: str) -> JudgedItem | None:
        """Return the last item of this id."""
        with self._lock:
            return self._items.get(item_id)

    def held_back(self) -> list[ItemPair]:
        """Return the held-back items, newest first."""
        with self._lock:
            return list(reversed(self._held_back))

    def updates(self) -> list[ItemPair]:
        """Return the updates that were let through, newest first."""
        with self._lock:
            return list(reversed(self._updates))

    def dead_letters(self) -> list[JudgedItem]:
        """Return the dead letters, newest first."""
        with self._lock:
            return list(reversed(self._dead_letters))

    def since(self) -> float | None:
        """Return when the oldest retained item was judged."""
        with self._lock:
            return next(iter(self._items.values())).judged_at if self._items else None

    def batch(self, report: BatchReport) -> None:
        if not self.limit:
            return
        now = self._clock()
        with self._lock:  # once for the batch: a page waits a millisecond for a large one
            for item, verdict in zip(report.items, report.verdicts, strict=True):
                self._add(item, verdict, now)

    def add(self, item: Item | Tombstone | BadItem, verdict: Verdict) -> None:
        """Retain one item. O(1)."""
        with self._lock:
            self._add(item, verdict, self._clock())

    def _add(self, item: Item | Tombstone | BadItem, verdict: Verdict, now: float) -> None:
        title = text = source = ""
        time_ms, partition, offset, truncated = -1, -1, -1, False
        if isinstance(item, BadItem):
            # The key of a bad record may have a megabyte.
            verdict = msgspec.structs.replace(verdict, id=verdict.id[:TITLE_CHARS], reason=verdict.reason[:TEXT_CHARS])
        else:
            time_ms, partition, offset = item.time, item.partition, item.offset
            if isinstance(item, Item):
                title, text, source = item.title[:TITLE_CHARS], item.text[:TEXT_CHARS], item.source
                truncated = len(item.text) > TEXT_CHARS
        item_id, items = verdict.id, self._items
        previous = items.pop(item_id, None)
        let_through = None if verdict.forward else _let_through(previous)
        nbytes = _OVERHEAD + getsizeof(item_id) + getsizeof(title) + getsizeof(text)
        if let_through is not None:
            nbytes += let_through.nbytes
        if verdict.original is not None:
            nbytes += getsizeof(verdict.original.id)
        judged = JudgedItem(
            verdict, now, source, time_ms, partition, offset, title, text, truncated, let_through, nbytes
        )
        if verdict.kind is Kind.BAD:
            self._dead_letters.append(judged)
        elif not verdict.forward or verdict.kind is Kind.UPDATE:
            self._count += 1
            original = verdict.original
            last = previous if original is None or original.id == item_id else items.get(original.id)
            pairs = self._updates if verdict.forward else self._held_back
            pairs.append(ItemPair(self._count, judged, _let_through(last)))
        if previous is not None:
            self._bytes -= previous.nbytes
        items[item_id] = judged
        self._bytes += nbytes
        while len(items) > self.limit or self._bytes > self.limit * ITEM_BYTES:
            self._bytes -= items.popitem(last=False)[1].nbytes


def _let_through(item: JudgedItem | None) -> JudgedItem | None:
    """Return the last item of this id that was let through, given the last item of the id."""
    return item if item is None or item.verdict.forward else item.let_through
