"""The heart: items -> verdicts, without I/O and without a clock of its own.

`judge(items)` says what is to be done with each item and changes nothing. `apply(batch)` makes the index remember the
batch, in one of two ways. Whoever carries the verdicts out first applies it afterwards. Whoever judges the next batch
meanwhile, as the worker does, applies it as pending: `confirm` makes the oldest pending batch final when it is durable,
and after any failure `rollback` takes all pending ones out again, or the whole index is thrown away. So no later verdict
ever hangs on a batch that was not carried out. `restore(delta)` is the same step from the changelog.

No date is trusted: clocks.py says which time counts for an item, windows.py which originals that lets it meet.

The way of one item: its id is known? -> the same text is known? -> candidates from any view (candidates.py) ->
verified similarities, prose included (similarity.py) -> is anything new, is it the same article? (rule.py) -> order,
policy, and what is remembered (decide.py). The evidence names the stage that settled it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.batch import ARRIVAL, Batch, Delta
from stream_dedup.dedup.boilerplate import MOST_PASSAGES, Boilerplate, Image
from stream_dedup.dedup.candidates import bodies_of, find_candidates
from stream_dedup.dedup.clocks import FAR_FUTURE, START, Clocks, Reading, Snapshot
from stream_dedup.dedup.decide import Memory, decide
from stream_dedup.dedup.prepared import Prepared, prepare
from stream_dedup.dedup.similarity import compare
from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.dedup.windows import Arrivals, scope_of
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
from stream_dedup.index.times import ANY_TIME, FORGOTTEN
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings, load_settings

# Expiry walks over the held rows; sixty-four times a window is often enough to keep memory within 2 % of it.
_EXPIRIES_A_WINDOW = 64
_ALL = 2**31 - 1
_OWED = np.dtype([("before", "<i8"), ("row_id", "<u8")])  # as FORGOTTEN, the addition named by its row


@dataclass(slots=True)
class _Undo:
    """What a pending batch has changed, beside the rows that it added."""

    clocks: Snapshot
    step: int  # of the last arrival
    first: int  # the first row that it added
    end: int  # and the one after its last
    passages: Image | None
    suspended: list[int] = field(default_factory=list)  # rows that it forgot


class Deduplicator:
    """Decides which items are near-duplicates of earlier ones.

    Memory: a record and 8 bytes a table for each original within the window. Not thread-safe: one owner, but for
    `prepare`, which any thread may call. Use it in a `with`, or call `close`.

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
        self._most = self.settings.window.max_originals
        self._clocks = Clocks(self._window)
        self._arrivals = Arrivals(self._window)
        self._owed: list[NDArray[np.void]] = []  # what restored blocks forget; `before` is a row
        self._expired_at = 0
        self._evicted = 0
        self._pending: deque[_Undo] = deque()  # oldest first

    @property
    def scheme_id(self) -> int:
        """Id of the fingerprint scheme; it stands in every changelog block."""
        return self.scheme.id

    @property
    def watermark(self) -> int:
        """The event time that the stream has reached, ms since 1970: clocks.py; `clocks.START` before there is one."""
        return self._clocks.watermark

    @property
    def progress(self) -> int:
        """How far the watermark has come, ms: clocks.py."""
        return self._clocks.progress

    def may_hold(self, newest: float, progress: int) -> bool:
        """Whether anything counts still that came up to this progress, the newest of it with this time."""
        horizon = self._clocks.watermark - self._window
        return newest >= horizon or self._arrivals.is_recent(progress, self._clocks.progress)

    @property
    def evicted(self) -> int:
        """Originals forgotten before their time because there were more than `window.max_originals`."""
        return self._evicted

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

    def judge(
        self,
        items: Sequence[Item | Tombstone | BadItem] | Prepared,
        latest: int = FAR_FUTURE,
        *,
        one_clock: bool = False,
    ) -> Batch:
        """Verdicts of the items, in their order; remembers nothing. See the module's first lines.

        `items` may have been prepared before, by a Deduplicator of the same settings; it may be judged more
        than once.

        An item without an event time (negative), with one after `latest` (ms), or with one that stands alone among
        those of its partition counts as of now in the stream's own time. `one_clock`: the partitions say nothing of the
        order of times, all are as one.
        """
        self._forget()  # what restored blocks have left
        ready = items if isinstance(items, Prepared) else self.prepare(items)
        subjects, kinds = ready.subjects, ready.kinds
        prints = ready.prints.with_own_records()  # times are settled below; what was prepared stays as it was
        records = prints.records
        partitions = records["partition"] * 0 if one_clock else records["partition"]
        reading = self._clocks.read(records["time"].copy(), partitions, latest)
        records["time"] = reading.times
        scope = scope_of(reading, self._arrivals)
        pairs = find_candidates(prints, scope, self._index, self._rows, self.settings.index.bucket_limit)
        bodies = bodies_of(pairs, prints, self._rows) if self.scheme.is_exact else None
        places = np.arange(len(pairs.item))
        recurs = self._boilerplate, reading.times - self._window
        similar = compare(prints, pairs.known, pairs.item, places, bodies, recurs, pairs.apart)
        policy, decision = self.settings.policy, self.settings.decision
        room = self._rows.next_row - self._most
        found, memory = decide(
            subjects, kinds, records, scope.windows, pairs, similar, self._rows.id, policy, decision, room
        )
        lacking = "no fingerprint" if self.scheme.is_given else "neither headline nor text has a letter or digit"
        judged = iter(found)
        verdicts = [
            _bad(item.id, str(item))
            if isinstance(item, BadItem)
            else next(judged) or _bad(item.id, f"empty: {lacking}")
            for item in ready.items
        ]
        is_subject = np.array([not isinstance(item, BadItem) for item in ready.items], np.bool_)
        odd = np.zeros(len(ready.items), np.int8)
        odd[is_subject] = reading.odd
        reached = self._clocks.watermark, self._clocks.progress
        if len(reading.times):
            reached = int(reading.watermarks[-1]), int(reading.progress[-1])
        return Batch(verdicts, _delta(prints, subjects, memory, reading, *reached), odd)

    # -- apply -------------------------------------------------------------------------------------------

    def apply(self, batch: Batch, *, pending: bool = False) -> None:
        """Remembers a judged batch; call it once. Without `pending` its verdicts must have been carried out durably.

        With `pending` they need not yet, so that the next batch can be judged meanwhile: `confirm` then makes the
        oldest pending batch final, and `rollback` takes all of them out again. Raises RuntimeError for a batch that is
        not pending while others are.
        """
        if not pending:
            self._require_settled("apply")
            self._remember(batch.delta, later=False)
            self._forget()
            self._tidy()
            return
        delta, first = batch.delta, self._rows.next_row
        passages = self._boilerplate.image(delta.passages) if len(delta.passage_counts) else None
        undo = _Undo(self._clocks.snapshot(), self._arrivals.last_step, first, first + len(delta), passages)
        self._pending.append(undo)
        self._remember(delta, later=False)
        undo.suspended = self._forget(finally_=False)

    def confirm(self) -> None:
        """The oldest pending batch was carried out durably."""
        undo = self._pending.popleft()
        for row in undo.suspended:
            self._index.forget(row)
        self._tidy()

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
            self._arrivals.cut(undo.step)
            self._clocks.put_back(undo.clocks)

    def restore(self, delta: Delta) -> None:
        """Remembers what a changelog block says. Deltas must come in the order in which they were made.

        Sorting, and looking for what is to be forgotten, wait until the next `judge`: a block at a time they would
        take half of a restore. Raises RuntimeError while a batch is pending.
        """
        self._require_settled("restore")
        self._remember(delta, later=True)
        self._tidy()

    def settle(self) -> None:
        """Does now what `restore` has left to the next `judge`, which then need not wait for it."""
        self._forget()
        self._index.settle()

    def _remember(self, delta: Delta, *, later: bool) -> None:
        arrivals, progress = delta.arrivals, delta.progress
        if not len(arrivals) and not len(delta.clocks):  # from before arrivals were remembered
            before = self._clocks.watermark
            progress = self._clocks.progress + (max(delta.watermark - before, 0) if before > START else 0)
            arrivals = np.zeros(len(delta), ARRIVAL)
            arrivals["watermark"], arrivals["progress"] = delta.watermark, progress
        arrived, times = arrivals["watermark"], delta.records["time"]
        first = self._rows.append(delta.records, delta.ids, delta.bodies)
        self._index.add(delta.keys, np.where(arrivals["doubted"], ANY_TIME, times), later=later)
        self._arrivals.add(first, arrivals["progress"])
        if len(delta.passage_counts):
            # What came late was seen when it came: by its own time it would be the first to make room for others.
            seen = np.where(times < arrived - self._window, arrived, times)
            self._boilerplate.add(delta.passages, delta.passage_counts, seen)
        self._clocks.set(delta.clocks, delta.watermark, progress)
        if len(delta.forgotten):
            owed = delta.forgotten.astype(_OWED)
            owed["before"] += first
            self._owed.append(owed)

    def _tidy(self) -> None:
        """Lets go of what no later item can be compared with, and of what is more than the most originals.

        By what is confirmed: what is gone cannot come back after a rollback. Verdicts do not hang on it, as each lookup
        says which rows count.
        """
        watermark, progress, end = self._clocks.watermark, self._clocks.progress, self._rows.next_row
        if self._pending:
            oldest = self._pending[0]
            watermark, progress, end = oldest.clocks.watermark, oldest.clocks.progress, oldest.first
        if progress - self._expired_at > self._window // _EXPIRIES_A_WINDOW:
            self._expired_at = progress
            self._arrivals.forget(progress)
            # Rows that are yet to come are recent.
            recent = min(int(self._arrivals.first_recent(np.array([progress]))[0]), self._rows.next_row)
            self._rows.trim(self._index.expire(watermark - self._window, recent))
        self._evict(end)

    def _evict(self, end: int) -> None:
        """Keeps to the most originals: beyond it those go that came first. end: behind the last confirmed row."""
        held, first = self._index.first_row, end - self._most
        if first > held:
            self._evicted += first - held
            self._rows.trim(self._index.evict(first))

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
            which, rows = self._index.lookup(keys, np.full(len(keys), FORGOTTEN), limit=_ALL)
            same = self._rows.take(rows)["row_id"] == owed["row_id"][which]
            for row in rows[same & (rows < owed["before"][which])].tolist():
                (self._index.forget if finally_ else self._index.suspend)(row)
                forgotten.append(row)
        return forgotten


def _delta(
    prints: Fingerprints, items: Sequence[Item], memory: Memory, reading: Reading, watermark: int, progress: int
) -> Delta:
    """What is to be remembered: the records and keys of what was added, variants in their originals' names."""
    added = memory.added.tolist()
    records, keys = prints.records.take(memory.added), prints.keys.take(memory.added, axis=0)
    ids = [items[j].id for j in added]
    bodies = [prints.bodies[j] for j in added] if prints.bodies else []
    arrivals = np.zeros(len(added), ARRIVAL)
    arrivals["watermark"] = reading.watermarks[memory.added]
    arrivals["progress"] = reading.progress[memory.added]
    arrivals["doubted"] = reading.is_doubted[memory.added]
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
            arrivals["doubted"][n] = 0  # its time is its original's
    passages, counts = _passages(prints.prose, memory)
    times = arrivals, reading.clocks, progress
    return Delta(records, keys, ids, memory.forgotten, watermark, bodies, passages, counts, *times)


def _passages(prose: Prose, memory: Memory) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Hashes of the passages of what was added as another article, and how many each addition has, 0 for the rest."""
    first, last = prose.firsts[memory.added], prose.lasts[memory.added]
    counts = np.where(memory.is_another, np.minimum(last - first, MOST_PASSAGES), 0)
    starts = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) + np.repeat(first - starts, counts)
    return prose.hashes[places], counts.astype(np.uint8)


def _bad(name: str, reason: str) -> Verdict:
    return Verdict(name, Kind.BAD, Stage.NONE, False, reason=reason)
