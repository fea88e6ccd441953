"""Retain the last judged items with their texts, and pair each held-back item, or update, with its original.

The index keeps fingerprints, not texts. So the status page (board.py) and reports (report.py) need the items retained
here to show an item beside its original. They are bounded in number and bytes, and texts are cut. An item costs some
2 µs (measured in batches of a thousand; a verdict takes some 50 µs).
"""

from collections import OrderedDict
from dataclasses import dataclass
from sys import getsizeof

import msgspec

from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone

TITLE_CHARS = 300
"""Characters retained of a headline."""
_REASON_CHARS = 1500  # of a bad item, which may quote the record
_PAIRED = (Kind.UPDATE, Kind.DUPLICATE)
ITEM_BYTES = 2_700
"""Bytes budgeted for one item with 1,800 characters of headline and text: a character of Latin script takes one byte,
of other scripts two or four; the rest is for verdict, ids and offsets. If items take more, fewer are retained."""
_OVERHEAD = 800  # measured: 770 for a duplicate with its evidence, half of that for a unique item


class JudgedItem(msgspec.Struct, frozen=True, gc=False):
    """A judged item."""

    verdict: Verdict
    judged_at: float  # seconds since 1970
    source: str
    time: int  # of the event, ms
    partition: int
    offset: int
    title: str
    text: str
    truncated: bool  # the text goes on
    let_through: "JudgedItem | None"  # for a held-back item: the last item of its id that was let through
    nbytes: int


@dataclass(frozen=True, slots=True)
class ItemPair:
    """A held-back item, an update or a dead letter, and its original if it is still retained.

    `number` counts all of them, from 1.
    """

    number: int
    item: JudgedItem
    original: JudgedItem | None


def judged_item(
    item: Item | Tombstone | BadItem,
    verdict: Verdict,
    now: float,
    text_chars: int,
    let_through: JudgedItem | None = None,
) -> JudgedItem:
    """Return what is retained of an item: at most `text_chars` characters of its text. `now`: seconds since 1970."""
    title = text = source = ""
    time_ms, partition, offset, truncated = -1, -1, -1, False
    if isinstance(item, BadItem):
        # The key of a bad record may have a megabyte.
        verdict = msgspec.structs.replace(verdict, id=verdict.id[:TITLE_CHARS], reason=verdict.reason[:_REASON_CHARS])
    else:
        time_ms, partition, offset = item.time, item.partition, item.offset
        if isinstance(item, Item):
            title, text, source = item.title[:TITLE_CHARS], item.text[:text_chars], item.source
            truncated = len(item.text) > text_chars
    nbytes = _OVERHEAD + getsizeof(title) + getsizeof(text) + getsizeof(verdict.id)
    if verdict.story != verdict.id:
        nbytes += getsizeof(verdict.story)
    if (compared := verdict.compared) is not None and compared.id not in (verdict.id, verdict.story):
        nbytes += getsizeof(compared.id)
    if let_through is not None:
        nbytes += let_through.nbytes
    return JudgedItem(verdict, now, source, time_ms, partition, offset, title, text, truncated, let_through, nbytes)


class Retained:
    """The last `limit` items by id, in at most `most_bytes`. For one thread at a time.

    >>> from stream_dedup.dedup.verdict import Original, Stage
    >>> retained = Retained(10, 10_000, 1500)
    >>> retained.add(Item("1", "Elm bridge opens", "", "", 0), Verdict("1", Kind.UNIQUE, Stage.NONE, True), 0.0)
    >>> held = Verdict("2", Kind.DUPLICATE, Stage.HEADLINE, False, Original("1", 0, 0, 0))
    >>> retained.add(Item("2", "Elm bridge opens", "", "", 0), held, 0.0).original.title
    'Elm bridge opens'
    """

    def __init__(self, limit: int, most_bytes: int, text_chars: int) -> None:
        self._limit, self._most_bytes, self._text_chars = limit, most_bytes, text_chars
        self._items: OrderedDict[str, JudgedItem] = OrderedDict()
        self._count = 0
        self.nbytes = 0
        """The estimate of the bytes in use that the bound applies to."""

    def __len__(self) -> int:
        return len(self._items)

    def find(self, item_id: str) -> JudgedItem | None:
        """Return the last item of this id."""
        return self._items.get(item_id)

    def since(self) -> float | None:
        """Return when the oldest retained item was judged."""
        return next(iter(self._items.values())).judged_at if self._items else None

    def add(self, item: Item | Tombstone | BadItem, verdict: Verdict, now: float) -> ItemPair | None:
        """Retain an item. Return its pair if it is bad or has an original. O(1)."""
        items, pair = self._items, None
        previous = items.pop(verdict.id[:TITLE_CHARS] if verdict.kind is Kind.BAD else verdict.id, None)
        let_through = None if verdict.forward else _let_through(previous)
        judged = judged_item(item, verdict, now, self._text_chars, let_through)
        item_id = judged.verdict.id
        if not verdict.forward or verdict.kind in _PAIRED:
            self._count += 1
            original = verdict.original
            last = previous if original is None or original.id == item_id else items.get(original.id)
            pair = ItemPair(self._count, judged, _let_through(last))
        if previous is not None:
            self.nbytes -= previous.nbytes
        items[item_id] = judged
        self.nbytes += judged.nbytes
        while len(items) > self._limit or self.nbytes > self._most_bytes:
            self.nbytes -= items.popitem(last=False)[1].nbytes
        return pair


def _let_through(item: JudgedItem | None) -> JudgedItem | None:
    """Return the last item of an id that was let through, given the last item of the id."""
    return item if item is None or item.verdict.forward else item.let_through
