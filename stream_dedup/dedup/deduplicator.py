"""The core of the package: `Deduplicator` turns items into verdicts, without I/O and without a clock of its own.

`judge(items)` returns a `Batch`: the verdicts, and a `Delta` with the changes to the index. It changes nothing.
`apply(batch)` updates the index, in one of two ways:

- A caller that first makes the verdicts durable applies the batch afterwards.
- A caller that judges the next batch meanwhile, as the worker does, applies it as pending. `confirm` makes the oldest
  pending batch final once it is durable; after a failure, `rollback` removes all pending batches. So no verdict ever
  depends on a batch that was lost.

`restore(delta)` applies a delta from the changelog. A batch is judged in five steps:

1. clocks.py chooses the time that counts for each item, since no single date is trusted; windows.py derives from it
   the originals that the item may be compared with.
2. candidates.py finds the earlier items that share a key of any view (or the id) with each item.
3. resolve.py judges the items in order, each against what all items before it left behind. For each candidate it asks
   similarity.py, which compares the fingerprints, prose included, and
4. rule.py: how likely has it something new, and is it the same article?
5. decide.py makes the verdicts and collects the changes to the index.

So nothing depends on where a batch begins: the same items in the same order get the same verdicts and evidence.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.batch import ARRIVAL, Batch, Delta
from stream_dedup.dedup.batch import FORGOTTEN as FORGOTTEN_ORIGINAL
from stream_dedup.dedup.boilerplate import MOST_PASSAGES, Boilerplate, Snapshot
from stream_dedup.dedup.clocks import FAR_FUTURE, START, BatchTimes, Clocks
from stream_dedup.dedup.decide import IndexChanges, Memory, decide
from stream_dedup.dedup.prepared import Prepared, prepare
from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.dedup.windows import Arrivals
from stream_dedup.errors import BadItem, CorruptBlock, UsageError
from stream_dedup.fingerprint.fingerprint import Fingerprinter, Fingerprints, Texts, identity_key
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import most_originals
from stream_dedup.index.hybrid import MAX_ITEMS, HybridIndex
from stream_dedup.index.rows import RowStore
from stream_dedup.index.times import ANY_TIME, EARLIEST, FORGOTTEN
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings, load_settings

# Expiry scans all rows; 64 times per window keep memory within 2 % of what the window needs.
_EXPIRIES_PER_WINDOW = 64
_NO_LIMIT = 2**31 - 1
_PENDING_DELETION = np.dtype([("before", "<i8"), ("row_id", "<u8")])  # as FORGOTTEN, but `before` is a row number


@dataclass(slots=True)
class _Undo:
    """What `rollback` needs to remove a pending batch: the state before it, and the rows it added and suspended."""

    clocks: Clocks
    arrivals: Arrivals
    passages: Snapshot | None
    first: int  # rows first to end - 1 were added
    end: int
    suspended: list[int] = field(default_factory=list)  # rows that the batch forgot


class OneThread:
    """Refuses a second thread, at once: waiting would hide that verdicts depend on which thread comes first.

    >>> alone = OneThread()
    >>> with alone, alone:  # the same thread may enter again
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise UsageError(
                "another thread is using this Deduplicator; only `prepare` may run beside other calls. Hold a lock "
                "from `judge` to `apply`, or around each use of `filter`"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Deduplicator:
    """Decides which items are near-duplicates of earlier ones.

    Each original within the window takes a signature, its id, and 8 bytes per table. For one thread at a time: a call
    beside that of another thread raises UsageError. `prepare` is free, and so are the properties and `len`, which
    metrics read. Use it in a `with` statement, or call `close`.

    >>> text = "The bridge over the Elm opened on Monday after two years of work, the mayor said."
    >>> with Deduplicator() as dedup:
    ...     batch = dedup.judge([
    ...         Item("1", "Elm bridge opens after two years", text, "post.example", 0),
    ...         Item("2", "Elm bridge opens after two years - Gazette", text + " More soon.", "gazette.example", 1),
    ...     ])
    ...     dedup.apply(batch)
    >>> [(v.id, str(v.kind), v.original and v.original.id) for v in batch.verdicts]
    [('1', 'unique', None), ('2', 'duplicate', '1')]
    >>> len(dedup)
    1
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or load_settings()
        self.scheme = Scheme(self.settings.fingerprint)
        self._fingerprint = Fingerprinter(self.scheme)
        self._alone = OneThread()
        self._index = HybridIndex(
            self.scheme.table_of,
            limits=self.settings.index,
            dont_care_bits=self.scheme.dont_care_bits,
            max_hamming=self.settings.fingerprint.hamming,
        )
        self._rows = RowStore(self.scheme.signature_dtype, with_bodies=self.scheme.is_exact)
        self._boilerplate = Boilerplate()
        self._window = self.settings.window.length_ms
        self._max_originals = most_originals(self.settings, self.scheme)
        self._clocks = Clocks(self._window)
        self._arrivals = Arrivals(self._window)
        self._pending_deletions: list[NDArray[np.void]] = []  # _PENDING_DELETION each
        self._expired_at = 0
        self._evicted = 0
        self._pending: deque[_Undo] = deque()  # oldest first
        self._gaps: list[tuple[int, int]] = []  # ranges of rolled-back rows, which do not count as originals

    @property
    def scheme_id(self) -> int:
        """Id of the fingerprint scheme; every changelog block contains it."""
        return self.scheme.id

    @property
    def watermark(self) -> int:
        """The event time that the stream has reached, ms since 1970 (clocks.py); at first `clocks.START`."""
        return self._clocks.watermark

    @property
    def elapsed(self) -> int:
        """Event time elapsed on the watermark, ms; a leap counts as a quarter of a window (clocks.py)."""
        return self._clocks.elapsed

    def may_hold(self, newest: float, elapsed: int) -> bool:
        """Whether rows that arrived by `elapsed` (ms on the watermark), none with a time after `newest`, may count."""
        horizon = self._clocks.watermark - self._window
        return newest >= horizon or self._arrivals.is_recent(elapsed, self._clocks.elapsed)

    @property
    def max_originals(self) -> int:
        """Most originals remembered: `window.max_originals`, or what `worker.memory` has room for."""
        return self._max_originals

    @property
    def evicted(self) -> int:
        """Originals forgotten within the window because there were more than `window.max_originals`."""
        return self._evicted

    @property
    def index(self) -> HybridIndex:
        """The index, for metrics."""
        return self._index

    @property
    def rows(self) -> RowStore:
        """Signatures, ids and bodies of the originals, for metrics."""
        return self._rows

    @property
    def boilerplate(self) -> Boilerplate:
        """The table of recurring passages, for metrics and saved states."""
        return self._boilerplate

    def __len__(self) -> int:
        """Rows in memory, including those that expired since the last clean-up."""
        first = self._rows.first_row
        return len(self._rows) - sum(end - max(start, first) for start, end in self._gaps)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the background merges."""
        self._index.close()

    # -- judge -------------------------------------------------------------------------------------------

    def prepare(self, items: Sequence[Item | Tombstone | BadItem]) -> Prepared:
        """Fingerprint the items: the part of `judge` that depends on the items alone, and most of its work.

        Any thread may call it at any time, so the next batch is fingerprinted while this one is judged, sent and
        committed. It mostly runs without the interpreter lock. O(bytes).

        >>> dedup = Deduplicator()
        >>> item = Item("1", "Elm bridge opens", "The bridge over the Elm opened on Monday.", "post.example", 0)
        >>> prepared = dedup.prepare([item, item])
        >>> [str(verdict.kind) for verdict in dedup.judge(prepared).verdicts]
        ['unique', 'duplicate']
        >>> dedup.close()
        """
        return prepare(items, self._fingerprint)

    def judge(
        self,
        items: Sequence[Item | Tombstone | BadItem] | Prepared,
        latest: int = FAR_FUTURE,
        *,
        one_clock: bool = False,
    ) -> Batch:
        """Return the verdicts of the items, in order, and the changes to the index; change nothing.

        `items` may be the result of `prepare`, by a Deduplicator of the same settings; it can be judged repeatedly.

        An item without an event time (negative), with one after `latest` (ms), or with one far from the others of its
        partition gets the current time of its partition instead. `one_clock`: treat all partitions as one, because
        times are not in order within them.
        """
        ready = items if isinstance(items, Prepared) else self.prepare(items)
        with self._alone:
            return self._judge(ready, latest, one_clock)

    def _judge(self, ready: Prepared, latest: int, one_clock: bool) -> Batch:
        self._apply_deletions()  # those of restored blocks
        subjects = ready.subjects
        prints = ready.prints.with_copied_signatures()  # their times are replaced below; `ready` does not change
        signatures = prints.signatures
        partitions = signatures["partition"] * 0 if one_clock else signatures["partition"]
        batch_times = self._clocks.read(signatures["time"].copy(), partitions, latest)
        signatures["time"] = batch_times.times
        first_kept_rows = self._first_kept_rows(self._rows.next_row + np.arange(len(subjects) + 1))
        memory = Memory(self._index, self._rows, self._boilerplate, self._arrivals)
        decided, changes = decide(ready, prints, batch_times, memory, first_kept_rows, self.settings)
        remaining, empty = iter(decided), str(self.scheme.empty_item)
        verdicts = [
            _bad(item.id, str(item)) if isinstance(item, BadItem) else next(remaining) or _bad(item.id, empty)
            for item in ready.items
        ]
        is_subject = np.array([not isinstance(item, BadItem) for item in ready.items], np.bool_)
        odd = np.zeros(len(ready.items), np.int8)
        odd[is_subject] = batch_times.odd
        after = self._clocks.watermark, self._clocks.elapsed
        if len(batch_times.times):
            after = int(batch_times.watermarks[-1]), int(batch_times.elapsed[-1])
        return Batch(verdicts, _make_delta(prints, subjects, changes, batch_times, *after), odd)

    # -- apply -------------------------------------------------------------------------------------------

    def apply(self, batch: Batch, *, pending: bool = False) -> None:
        """Add a judged batch to the index; call it once per batch. Without `pending`, its verdicts must be durable.

        With `pending`, they need not be durable yet, so that the next batch can be judged meanwhile: `confirm` makes
        the oldest pending batch final, and `rollback` removes all pending ones. Raises RuntimeError without `pending`
        while other batches are pending.
        """
        with self._alone:
            self._apply(batch, pending)

    def _apply(self, batch: Batch, pending: bool) -> None:
        if not pending:
            self._require_none_pending("apply")
            self._add(batch.delta, defer_sort=False)
            self._apply_deletions()
            self._expire_and_evict()
            return
        delta, first = batch.delta, self._rows.next_row
        passages = self._boilerplate.snapshot(delta.passages) if len(delta.passage_counts) else None
        undo = _Undo(self._clocks.copy(), self._arrivals.copy(), passages, first, first + len(delta))
        self._pending.append(undo)
        self._add(delta, defer_sort=False)
        undo.suspended = self._apply_deletions(permanently=False)

    def confirm(self) -> None:
        """Make the oldest pending batch final: its verdicts are durable now."""
        with self._alone:
            undo = self._pending.popleft()
            for row in undo.suspended:
                self._index.forget(row)
            # Not in `apply`: expiry and eviction cannot be undone. Lookups do not depend on when they happen.
            self._expire_and_evict()

    def rollback(self) -> None:
        """Remove all pending batches: every later verdict is as if they had never been applied.

        Their rows keep their numbers and stay dead until they expire. O(pending rows).
        """
        with self._alone:
            self._rollback()

    def _rollback(self) -> None:
        while self._pending:
            undo = self._pending.pop()
            for row in undo.suspended:
                self._index.revive(row)
            for row in range(undo.first, undo.end):
                self._index.forget(row)
            if undo.first < undo.end:
                self._gaps.append((undo.first, undo.end))
            if undo.passages is not None:
                self._boilerplate.put_back(undo.passages)
            self._clocks, self._arrivals = undo.clocks, undo.arrivals
        self._gaps = _joined(sorted(self._gaps))

    def restore(self, delta: Delta) -> None:
        """Apply a delta from the changelog. Deltas must come in the order in which they were made.

        Sorting and deletions are deferred to the next `judge` or `wait_for_merges`: done block by block they would take
        half of a restore. Raises RuntimeError while a batch is pending, and CorruptBlock for keys of another number of
        tables and for impossible times, before anything is added.
        """
        with self._alone:
            self._restore(delta)

    def _restore(self, delta: Delta) -> None:
        self._require_none_pending("restore")
        if delta.keys.shape[1] != self.scheme.key_columns:
            raise CorruptBlock(
                f"a block has {delta.keys.shape[1]} keys a row, and its scheme {self.scheme.key_columns}"
            )
        times = delta.signatures["time"]
        if len(delta.arrivals):
            times = times[delta.arrivals["doubted"] == 0]
        if len(times) and times.min() < EARLIEST:
            raise CorruptBlock(f"a block has a time of {times.min()}, which only an item of doubtful time can have")
        self._add(delta, defer_sort=True)
        self._expire_and_evict()

    def export(self, rows: int) -> Iterator[Delta]:
        """Export the whole index as deltas of at most `rows` rows, to `restore` into a new Deduplicator.

        If `Boilerplate.snapshot` is restored too, every later verdict is the same. Dead rows that still count towards
        `window.max_originals` have no keys. Do not use the Deduplicator while iterating. O(bytes); needs 4 bytes per
        row and table meanwhile. Raises RuntimeError while a batch is pending.
        """
        self._require_none_pending("export")
        self.wait_for_merges()
        first, keys, times = self._index.export()
        is_exported = np.ones(len(keys), np.bool_)
        for start, end in self._gaps:
            is_exported[max(start - first, 0) : max(end - first, 0)] = False
        exported = np.flatnonzero(is_exported)
        for start in range(0, len(exported), rows):
            chunk = exported[start : start + rows]
            chunk_rows = first + chunk
            arrivals = np.zeros(len(chunk), ARRIVAL)
            arrivals["elapsed"] = self._arrivals.before_or_at(chunk_rows)
            # Without a trusted time, a dead row is freed as soon as it is no longer recent, and so are those before it.
            arrivals["doubted"] = (times[chunk] == ANY_TIME) | (times[chunk] == FORGOTTEN)
            bodies = self._rows.bodies(chunk_rows) if self.scheme.is_exact else []
            yield Delta(
                self._rows.take(chunk_rows),
                keys[chunk],
                [self._rows.id(row) for row in chunk_rows.tolist()],
                np.zeros(0, FORGOTTEN_ORIGINAL),
                START,
                list(bodies),
                arrivals=arrivals,
            )
        yield Delta(
            np.zeros(0, self.scheme.signature_dtype),
            np.zeros((0, self.scheme.key_columns), np.uint32),
            [],
            np.zeros(0, FORGOTTEN_ORIGINAL),
            self._clocks.watermark,
            clocks=self._clocks.states,
            elapsed=self._clocks.elapsed,
        )

    def wait_for_merges(self) -> None:
        """Do now the work that `restore` deferred, so that the next `judge` need not."""
        with self._alone:
            self._apply_deletions()
            self._index.wait_for_merges()

    def _add(self, delta: Delta, *, defer_sort: bool) -> None:
        arrivals, elapsed = delta.arrivals, delta.elapsed
        if not len(arrivals) and not len(delta.clocks):  # written by a version that did not record arrivals
            before = self._clocks.watermark
            elapsed = self._clocks.elapsed + (max(delta.watermark - before, 0) if before > START else 0)
            arrivals = np.zeros(len(delta), ARRIVAL)
            arrivals["watermark"], arrivals["elapsed"] = delta.watermark, elapsed
        arrived, times = arrivals["watermark"], delta.signatures["time"]
        first = self._rows.append(delta.signatures, delta.ids, delta.bodies)
        self._index.add(delta.keys, np.where(arrivals["doubted"], ANY_TIME, times), defer_sort=defer_sort)
        self._arrivals.add(first, arrivals["elapsed"])
        if len(delta.passage_counts):
            # Late items count as seen on arrival: by their own times, their passages would be the first to be replaced.
            seen = np.where(times < arrived - self._window, arrived, times)
            self._boilerplate.add(delta.passages, delta.passage_counts, seen)
        self._clocks.set(delta.clocks, delta.watermark, elapsed)
        if len(delta.forgotten):
            pending = delta.forgotten.astype(_PENDING_DELETION)
            pending["before"] += first
            self._pending_deletions.append(pending)

    def _require_none_pending(self, operation: str) -> None:
        if self._pending:
            raise RuntimeError(f"{operation}: {len(self._pending)} pending batches; confirm them or roll back first")

    def _expire_and_evict(self) -> None:
        """Free the rows that no later item can be compared with, as of the last batch that is not pending."""
        oldest = self._pending[0] if self._pending else None
        clocks, end = (oldest.clocks, oldest.first) if oldest else (self._clocks, self._rows.next_row)
        if clocks.elapsed - self._expired_at > self._window // _EXPIRIES_PER_WINDOW:
            self._expire(clocks, end)
        self._evict(end)

    def _expire(self, clocks: Clocks, end: int) -> None:
        elapsed = self._expired_at = clocks.elapsed
        self._arrivals.forget(elapsed)
        recent = int(self._arrivals.first_recent(np.array([elapsed]))[0])
        recent = min(recent, end)  # rows of pending batches are recent
        self._rows.trim(self._index.expire(clocks.watermark - self._window, recent))

    def _evict(self, end: int) -> None:
        """Forget the oldest arrivals beyond `window.max_originals`."""
        current, first = self._index.first_row, int(self._first_kept_rows(np.array([end]))[0])
        if first > current:
            self._evicted += first - current
            self._rows.trim(self._index.evict(first))
        self._gaps = [gap for gap in self._gaps if gap[1] > self._rows.first_row]

    def _first_kept_rows(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """First row within `window.max_originals` when the next row is one of `ends`, (n,); may be negative."""
        first: NDArray[np.int64] = ends - self._max_originals
        for start, stop in reversed(self._gaps):
            first -= np.where((first < stop) & (stop <= ends), stop - start, 0)
        return first

    def _apply_deletions(self, *, permanently: bool = True) -> list[int]:
        """Forget the rows of the pending deletions, or suspend them for a rollback; return these rows."""
        if not self._pending_deletions:
            return []
        pending = np.concatenate(self._pending_deletions)
        self._pending_deletions.clear()
        forgotten = []
        keys = np.zeros((len(pending), self.scheme.key_columns), np.uint32)
        keys[:, -1] = [identity_key(int(row_id)) for row_id in pending["row_id"]]
        for start in range(0, len(keys), MAX_ITEMS):
            part, asked = pending[start : start + MAX_ITEMS], keys[start : start + MAX_ITEMS]
            deletion, rows = self._index.lookup(asked, np.full(len(asked), FORGOTTEN), limit=_NO_LIMIT)
            same_id = self._rows.take(rows)["row_id"] == part["row_id"][deletion]
            for row in rows[same_id & (rows < part["before"][deletion])].tolist():
                (self._index.forget if permanently else self._index.suspend)(row)
                forgotten.append(row)
        return forgotten


def _make_delta(
    prints: Fingerprints,
    items: Sequence[Item],
    changes: IndexChanges,
    batch_times: BatchTimes,
    watermark: int,
    elapsed: int,
) -> Delta:
    """Build the delta of a batch."""
    added = changes.added.tolist()
    signatures, keys = prints.signatures.take(changes.added), prints.keys.take(changes.added, axis=0)
    ids = [items[j].id for j in added]
    bodies = [prints.bodies[j] for j in added] if prints.bodies else []
    arrivals = np.zeros(len(added), ARRIVAL)
    arrivals["watermark"] = batch_times.watermarks[changes.added]
    arrivals["elapsed"] = batch_times.elapsed[changes.added]
    arrivals["doubted"] = batch_times.is_doubted[changes.added]
    passages, counts = _passages(prints.texts or Texts.nothing(len(items)), changes)
    times = arrivals, batch_times.clocks, elapsed
    return Delta(signatures, keys, ids, changes.forgotten, watermark, bodies, passages, counts, *times)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join sorted ranges that touch: a batch that fails again and again makes one.

    >>> _joined([(1, 3), (3, 4), (6, 7)])
    [(1, 4), (6, 7)]
    """
    joined: list[tuple[int, int]] = []
    for start, end in ranges:
        first = joined.pop()[0] if joined and joined[-1][1] == start else start
        joined.append((first, end))
    return joined


def _passages(texts: Texts, changes: IndexChanges) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Passage hashes of the added items that are articles of their own, and their number per addition (else 0)."""
    first, last = texts.firsts[changes.added, 0], texts.lasts[changes.added, 0]
    counts = np.where(changes.is_another, np.minimum(last - first, MOST_PASSAGES), 0)
    starts = np.cumsum(counts) - counts
    passages = np.arange(counts.sum()) + np.repeat(first - starts, counts)
    return texts.passages.hashes[passages], counts.astype(np.uint8)


def _bad(name: str, reason: str) -> Verdict:
    return Verdict(name, Kind.BAD, Stage.NONE, False, reason=reason)
