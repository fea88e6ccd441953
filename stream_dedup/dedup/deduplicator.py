"""The heart: items -> verdicts, without I/O and without a clock of its own.

`judge(items)` says what is to be done with each item and changes nothing; `apply(batch)` makes the index
remember the batch, once whoever does the I/O has made it durable. Between the two a process may die: then
nothing was remembered, and nothing was sent. `restore(delta)` is the same step from the changelog.

The way of one item: its id is known? -> the same text is known? -> candidates from any view (candidates.py) ->
verified similarities, prose included (similarity.py) -> is anything new, is it the same article? (rule.py) -> order,
policy, and what is remembered (decide.py). The evidence names the stage that settled it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.batch import Batch, Delta
from stream_dedup.dedup.boilerplate import MOST_PASSAGES, Boilerplate, Image
from stream_dedup.dedup.candidates import bodies_of, find_candidates
from stream_dedup.dedup.decide import Memory, decide
from stream_dedup.dedup.prepared import Prepared, prepare
from stream_dedup.dedup.similarity import compare
from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.errors import BadItem
from stream_dedup.fingerprint.fingerprint import (
    Fingerprinter,
    Fingerprints,
    Prose,
    identity_key,
    mark_variant,
    variant_key,
)
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.rows import RowStore
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings, load_settings

# Expiry walks over the held rows; sixty-four times a window is often enough to keep memory within 2 % of it.
_EXPIRIES_A_WINDOW = 64
START = -(2**62)
"""The watermark before any item, ms."""
_FAR_FUTURE = 2**62
_ALL = 2**31 - 1
_OWED = np.dtype([("before", "<i8"), ("row_id", "<u8")])  # as FORGOTTEN, the addition named by its row


@dataclass(slots=True)
class _Undo:
    """What takes a pending batch out again: the state before it, and what it has changed."""

    watermark: int
    first: int  # the first row that it added
    end: int  # and the one after its last
    passages: Image | None
    suspended: list[int] = field(default_factory=list)  # rows that it forgot


class Deduplicator:
    """Decides which items are near-duplicates of earlier ones.

    Memory: a record and 8 bytes a table for each original within the window. Not thread-safe: one owner, but for
    `prepare`, which any thread may call.

    >>> dedup = Deduplicator()
    >>> text = "The bridge over the Elm opened on Monday after two years of work, the mayor said."
    >>> batch = dedup.judge([
    ...     Item("1", "Elm bridge opens after two years", text, "post.example", 0),
    ...     Item("2", "Elm bridge opens after two years - Gazette", text + " More soon.", "gazette.example", 1),
    ... ])
    >>> [(v.id, str(v.kind), v.original and v.original.id) for v in batch.verdicts]
    [('1', 'unique', None), ('2', 'duplicate', '1')]
    >>> dedup.apply(batch); len(dedup)
    1
    >>> dedup.close()
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or load_settings()
        self.scheme = Scheme(self.settings.fingerprint)
        self._fingerprint = Fingerprinter(self.scheme)
        self._index = HybridIndex(
            self.scheme.tables,
            recent_limit=self.settings.index.recent_limit,
            bucket_limit=self.settings.index.bucket_limit,
            loose=self.scheme.loose,
            within=self.settings.fingerprint.hamming,
        )
        self._rows = RowStore(self.scheme.record_dtype, with_bodies=self.scheme.is_exact)
        self._boilerplate = Boilerplate()
        self._window = int(self.settings.window.length.total_seconds() * 1000)
        self._owed: list[NDArray[np.void]] = []  # what restored blocks forget; `before` is a row
        self._watermark = START
        self._expired_at = START
        self._pending: deque[_Undo] = deque()  # oldest first

    @property
    def scheme_id(self) -> int:
        """Id of the fingerprint scheme; it stands in every changelog block."""
        return self.scheme.id

    @property
    def watermark(self) -> int:
        """Highest event time applied so far, ms since 1970."""
        return self._watermark

    @property
    def index(self) -> HybridIndex:
        """The index, for metrics."""
        return self._index

    @property
    def rows(self) -> RowStore:
        """What is kept of each original beside its keys, for metrics."""
        return self._rows

    @property
    def boilerplate(self) -> Boilerplate:
        """Passages that recur, for metrics."""
        return self._boilerplate

    def __len__(self) -> int:
        """Rows held; those that expired since the last clearing included."""
        return len(self._rows)

    def close(self) -> None:
        """Stops the background merge."""
        self._index.close()

    # -- judge -------------------------------------------------------------------------------------------

    def prepare(self, items: Sequence[Item | Tombstone | BadItem]) -> Prepared:
        """All of `judge` that depends on the items alone: most of its work, and most of that without the lock.

        Any thread may call it at any time, so that the next batch is fingerprinted while this one is judged,
        sent and committed. O(bytes).

        >>> dedup = Deduplicator()
        >>> item = Item("1", "Elm bridge opens", "The bridge over the Elm opened on Monday.", "post.example", 0)
        >>> prepared = dedup.prepare([item, item])
        >>> [str(verdict.kind) for verdict in dedup.judge(prepared).verdicts]
        ['unique', 'duplicate']
        >>> dedup.close()
        """
        return prepare(items, self._fingerprint)

    def judge(self, items: Sequence[Item | Tombstone | BadItem] | Prepared, latest: int | None = None) -> Batch:
        """Verdicts of the items, in their order; remembers nothing. See the module's first lines.

        `items` may have been prepared before, by a Deduplicator of the same settings; it may be judged more
        than once.

        An item without an event time (negative), or with one after `latest` (ms), counts as of now in the
        stream's own time: it takes the watermark, the highest time before it. So it is judged against what
        came just before it, and one wrong clock cannot push the window on.
        """
        self._forget()  # what restored blocks have left
        ready = items if isinstance(items, Prepared) else self.prepare(items)
        subjects, kinds = ready.subjects, ready.kinds
        prints = ready.prints.with_own_records()  # times are settled below; what was prepared stays as it was
        records = prints.records
        watermarks = settle_times(records["time"], self._watermark, _FAR_FUTURE if latest is None else latest)
        horizons = watermarks - self._window
        pairs = find_candidates(prints, horizons, self._index, self._rows, self.settings.index.bucket_limit)
        bodies = bodies_of(pairs, prints, self._rows) if self.scheme.is_exact else None
        places = np.arange(len(pairs.item))
        similar = compare(prints, pairs.known, pairs.item, places, bodies, (self._boilerplate, horizons))
        policy, decision = self.settings.policy, self.settings.decision
        found, memory = decide(subjects, kinds, records, horizons, pairs, similar, self._rows.id, policy, decision)
        lacking = "no fingerprint" if self.scheme.is_given else "neither headline nor text has a letter or digit"
        judged = iter(found)
        verdicts = [
            _bad(item.id, str(item))
            if isinstance(item, BadItem)
            else next(judged) or _bad(item.id, f"empty: {lacking}")
            for item in ready.items
        ]
        watermark = int(watermarks[-1]) if len(watermarks) else self._watermark
        return Batch(verdicts, _delta(prints, subjects, memory, watermark))

    # -- apply -------------------------------------------------------------------------------------------

    def apply(self, batch: Batch, *, pending: bool = False) -> None:
        """Remembers a judged batch. Call it once, after its verdicts were carried out durably.

        With `pending` it may come before that, so that the next batch can be judged meanwhile: `confirm` then makes the
        oldest pending batch final, and `rollback` takes all of them out again. Raises RuntimeError for a batch that is
        not pending while others are.
        """
        if not pending:
            self._require_settled("apply")
            self._remember(batch.delta, later=False)
            self._forget()
            self._expire(self._watermark)
            return
        delta, first = batch.delta, self._rows.next_row
        passages = self._boilerplate.image(delta.passages) if len(delta.passage_counts) else None
        undo = _Undo(self._watermark, first, first + len(delta), passages)
        self._pending.append(undo)
        self._remember(delta, later=False)
        undo.suspended = self._forget(finally_=False)

    def confirm(self) -> None:
        """The oldest pending batch was carried out durably."""
        undo = self._pending.popleft()
        for row in undo.suspended:
            self._index.forget(row)
        # Not before: what has expired cannot come back.
        self._expire(self._pending[0].watermark if self._pending else self._watermark)

    def rollback(self) -> None:
        """Takes all pending batches out again, as if they had never been applied: every later verdict is the same.

        Their rows keep their numbers and stay dead until they expire. O(what was pending).
        """
        while self._pending:
            undo = self._pending.pop()
            for row in undo.suspended:
                self._index.revive(row)
            for row in range(undo.first, undo.end):
                self._index.forget(row)
            if undo.passages is not None:
                self._boilerplate.put_back(undo.passages)
            self._watermark = undo.watermark

    def restore(self, delta: Delta) -> None:
        """Remembers what a changelog block says. Deltas must come in the order in which they were made.

        Sorting, and looking for what is to be forgotten, wait until the next `judge`: a block at a time they would
        take half of a restore. Raises RuntimeError while a batch is pending.
        """
        self._require_settled("restore")
        self._remember(delta, later=True)
        self._expire(self._watermark)

    def settle(self) -> None:
        """Does now what `restore` has left to the next `judge`, which then need not wait for it."""
        self._forget()
        self._index.settle()

    def _remember(self, delta: Delta, *, later: bool) -> None:
        first = self._rows.append(delta.records, delta.ids, delta.bodies)
        self._index.add(delta.keys, delta.records["time"], later=later)
        if len(delta.passage_counts):
            self._boilerplate.add(delta.passages, delta.passage_counts, delta.records["time"])
        self._watermark = max(self._watermark, delta.watermark)
        if len(delta.forgotten):
            owed = delta.forgotten.astype(_OWED)
            owed["before"] += first
            self._owed.append(owed)

    def _expire(self, watermark: int) -> None:
        if watermark - self._expired_at > self._window // _EXPIRIES_A_WINDOW:
            self._expired_at = watermark
            self._rows.trim(self._index.expire(watermark - self._window))

    def _require_settled(self, what: str) -> None:
        if self._pending:
            raise RuntimeError(f"{what}: {len(self._pending)} batches are pending; confirm them or roll back first")

    def _forget(self, *, finally_: bool = True) -> list[int]:
        """Forgets what is owed, for ever or until a rollback; the rows."""
        if not self._owed:
            return []
        owed = np.concatenate(self._owed)
        self._owed.clear()
        forgotten = []
        for key_of in (identity_key, variant_key):
            keys = np.zeros((len(owed), self.scheme.tables), np.uint32)
            keys[:, -1] = [key_of(int(one)) for one in owed["row_id"]]
            which, rows = self._index.lookup(keys, np.full(len(keys), START), limit=_ALL)
            same = self._rows.take(rows)["row_id"] == owed["row_id"][which]
            for row in rows[same & (rows < owed["before"][which])].tolist():
                (self._index.forget if finally_ else self._index.suspend)(row)
                forgotten.append(row)
        return forgotten


def settle_times(times: NDArray[np.int64], before: int, latest: int = _FAR_FUTURE) -> NDArray[np.int64]:
    """The watermark at each item, (n,) ms, where it was `before`; sets the times of items that state none that counts.

    >>> times = np.array([5, -1, 3, -1])
    >>> settle_times(times, START).tolist(), times.tolist()
    ([5, 5, 5, 5], [5, 5, 3, 5])
    """
    states_none = (times < 0) | (times > latest)
    stated = np.where(states_none, START, times)
    watermarks = np.maximum.accumulate(np.append(before, stated))[1:]
    # Before the first stated time there is no watermark; 1970 stands in for it.
    watermarks = np.maximum(watermarks, 0)
    times[states_none] = watermarks[states_none]
    return watermarks


def _delta(prints: Fingerprints, items: Sequence[Item], memory: Memory, watermark: int) -> Delta:
    """What is to be remembered: the records and keys of what was added, variants in their originals' names."""
    added = memory.added.tolist()
    records, keys = prints.records.take(memory.added), prints.keys.take(memory.added, axis=0)
    ids = [items[j].id for j in added]
    bodies = [prints.bodies[j] for j in added] if prints.bodies else []
    for n, j in enumerate(added):
        if j in memory.roots:
            original, root = memory.roots[j]
            ids[n] = original.id
            for name, value in (
                ("row_id", root),
                ("time", original.time),
                ("partition", original.partition),
                ("offset", mark_variant(original.offset)),
            ):
                records[name][n] = value
            keys[n, -1] = variant_key(root)
    passages, counts = _passages(prints.prose, memory)
    return Delta(records, keys, ids, memory.forgotten, watermark, bodies, passages, counts)


def _passages(prose: Prose, memory: Memory) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Hashes of the passages of what was added as another article, and how many each addition has, 0 for the rest."""
    first, last = prose.firsts[memory.added], prose.lasts[memory.added]
    counts = np.where(memory.is_another, np.minimum(last - first, MOST_PASSAGES), 0)
    starts = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) + np.repeat(first - starts, counts)
    return prose.hashes[places], counts.astype(np.uint8)


def _bad(name: str, reason: str) -> Verdict:
    return Verdict(name, Kind.BAD, Stage.NONE, False, reason=reason)
