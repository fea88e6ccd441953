"""The heart: items -> verdicts, without I/O and without a clock of its own.

`judge(items)` says what is to be done with each item and changes nothing. `apply(batch)` makes the index remember the
batch, in one of two ways. Whoever carries the verdicts out first applies it afterwards. Whoever judges the next batch
meanwhile, as the worker does, applies it as pending: `confirm` makes the oldest pending batch final when it is durable,
and after any failure `rollback` takes all pending ones out again, or the whole index is thrown away. So no later
verdict ever hangs on a batch that was not carried out. `restore(delta)` is the same step from the changelog.

No date is trusted: clocks.py says which time counts for an item, windows.py which originals that lets it meet.

The way of one item: its id is known? -> the same text is known? -> candidates from any view (candidates.py) ->
verified similarities, prose included (similarity.py) -> is anything new, is it the same article? (rule.py) -> order,
policy, and what is remembered (decide.py). The evidence names the stage that settled it.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.batch import ARRIVAL, Batch, Delta
from stream_dedup.dedup.batch import FORGOTTEN as FORGOTTEN_ORIGINAL
from stream_dedup.dedup.boilerplate import MOST_PASSAGES, Boilerplate, Image
from stream_dedup.dedup.candidates import bodies_of, find_candidates
from stream_dedup.dedup.clocks import FAR_FUTURE, START, BatchTimes, Clocks
from stream_dedup.dedup.corrections import which_correct
from stream_dedup.dedup.decide import IndexChanges, decide
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
_PENDING_DELETION = np.dtype([("before", "<i8"), ("row_id", "<u8")])  # as FORGOTTEN, the addition named by its row


@dataclass(slots=True)
class _Undo:
    """What takes a pending batch out again: the clocks before it, and what it has added and forgotten."""

    clocks: Clocks
    arrivals: Arrivals
    passages: Image | None
    first: int  # the first row that it added
    end: int  # and the one after its last
    suspended: list[int] = field(default_factory=list)  # rows that it forgot


class Deduplicator:
    """Decides which items are near-duplicates of earlier ones.

    Memory: a signature and 8 bytes a table for each original within the window. Not thread-safe: one owner, but for
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
            limits=self.settings.index,
            dont_care_bits=self.scheme.dont_care_bits,
            max_hamming=self.settings.fingerprint.hamming,
        )
        self._rows = RowStore(self.scheme.signature_dtype, with_bodies=self.scheme.is_exact)
        self._boilerplate = Boilerplate()
        self._window = self.settings.window.length_ms
        self._most = self.settings.window.max_originals
        self._clocks = Clocks(self._window)
        self._arrivals = Arrivals(self._window)
        self._pending_deletions: list[NDArray[np.void]] = []  # what restored blocks forget; `before` is a row
        self._expired_at = 0
        self._evicted = 0
        self._pending: deque[_Undo] = deque()  # oldest first
        self._gaps: list[tuple[int, int]] = []  # rows that were taken out again: they take no room

    @property
    def scheme_id(self) -> int:
        """Id of the fingerprint scheme; it stands in every changelog block."""
        return self.scheme.id

    @property
    def watermark(self) -> int:
        """The event time that the stream has reached, ms since 1970: clocks.py; `clocks.START` before there is one."""
        return self._clocks.watermark

    @property
    def elapsed(self) -> int:
        """How far the watermark has come, ms: clocks.py."""
        return self._clocks.elapsed

    def may_hold(self, newest: float, elapsed: int) -> bool:
        """Whether anything counts still that came up to this elapsed, the newest of it with this time."""
        horizon = self._clocks.watermark - self._window
        return newest >= horizon or self._arrivals.is_recent(elapsed, self._clocks.elapsed)

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
        first = self._rows.first_row
        return len(self._rows) - sum(end - max(start, first) for start, end in self._gaps)

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
        prints = ready.prints.with_own_signatures()  # times are settled below; what was prepared stays as it was
        signatures = prints.signatures
        partitions = signatures["partition"] * 0 if one_clock else signatures["partition"]
        reading = self._clocks.read(signatures["time"].copy(), partitions, latest)
        signatures["time"] = reading.times
        scope = scope_of(reading, self._arrivals)
        pairs = find_candidates(prints, scope, self._index, self._rows, self.settings.index.bucket_limit)
        bodies = bodies_of(pairs, prints, self._rows) if self.scheme.is_exact else None
        places = np.arange(len(pairs.item))
        recurs = self._boilerplate, reading.times - self._window
        corrects, asked = np.zeros(len(subjects), np.bool_), np.unique(pairs.item)
        corrects[asked] = which_correct([subjects[j].title for j in asked.tolist()])
        similar = compare(prints, pairs.known, pairs.item, places, bodies, recurs, pairs.apart, corrects)
        policy, decision = self.settings.policy, self.settings.decision
        first_kept_rows = self._first_with_room(self._rows.next_row + np.arange(len(subjects) + 1))
        found, memory = decide(
            subjects, kinds, signatures, scope.windows, pairs, similar, self._rows.id, policy, decision, first_kept_rows
        )
        judged, lacking = iter(found), str(self.scheme.empty_item)
        verdicts = [
            _bad(item.id, str(item)) if isinstance(item, BadItem) else next(judged) or _bad(item.id, lacking)
            for item in ready.items
        ]
        is_subject = np.array([not isinstance(item, BadItem) for item in ready.items], np.bool_)
        odd = np.zeros(len(ready.items), np.int8)
        odd[is_subject] = reading.odd
        reached = self._clocks.watermark, self._clocks.elapsed
        if len(reading.times):
            reached = int(reading.watermarks[-1]), int(reading.elapsed[-1])
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
            self._let_go()
            return
        delta, first = batch.delta, self._rows.next_row
        passages = self._boilerplate.image(delta.passages) if len(delta.passage_counts) else None
        undo = _Undo(self._clocks.copy(), self._arrivals.copy(), passages, first, first + len(delta))
        self._pending.append(undo)
        self._remember(delta, later=False)
        undo.suspended = self._forget(finally_=False)

    def confirm(self) -> None:
        """The oldest pending batch was carried out durably."""
        undo = self._pending.popleft()
        for row in undo.suspended:
            self._index.forget(row)
        # Not before: what was let go cannot come back. Lookups do not depend on when it goes.
        self._let_go()

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
            if undo.first < undo.end:
                self._gaps.append((undo.first, undo.end))
            if undo.passages is not None:
                self._boilerplate.put_back(undo.passages)
            self._clocks, self._arrivals = undo.clocks, undo.arrivals
        self._gaps.sort()

    def restore(self, delta: Delta) -> None:
        """Remembers what a changelog block says. Deltas must come in the order in which they were made.

        Sorting, and looking for what is to be forgotten, wait until the next `judge`: a block at a time they would
        take half of a restore. Raises RuntimeError while a batch is pending.
        """
        self._require_settled("restore")
        self._remember(delta, later=True)
        self._let_go()

    def memory(self, rows: int) -> Iterator[Delta]:
        """All that is remembered, as deltas of at most so many rows: for `restore`, into a new Deduplicator.

        With `Boilerplate.image` every later verdict is then the same. Rows that are dead but still count among the most
        originals come without keys. Do nothing else with it meanwhile. O(bytes), and for the time it takes 4 bytes a
        row and table. Raises RuntimeError while a batch is pending.
        """
        self._require_settled("memory")
        self.wait_for_merges()
        first, keys, times = self._index.held()
        kept = np.ones(len(keys), np.bool_)
        for start, end in self._gaps:
            kept[max(start - first, 0) : max(end - first, 0)] = False
        places = np.flatnonzero(kept)
        for start in range(0, len(places), rows):
            some = places[start : start + rows]
            held = first + some
            arrivals = np.zeros(len(some), ARRIVAL)
            arrivals["elapsed"] = self._arrivals.before_or_at(held)
            # A dead row must not hold back the rows before it: as one without a time it goes when it is not recent.
            arrivals["doubted"] = (times[some] == ANY_TIME) | (times[some] == FORGOTTEN)
            bodies = self._rows.bodies(held) if self.scheme.is_exact else []
            yield Delta(
                self._rows.take(held),
                keys[some],
                [self._rows.id(row) for row in held.tolist()],
                np.zeros(0, FORGOTTEN_ORIGINAL),
                START,
                list(bodies),
                arrivals=arrivals,
            )
        yield Delta(
            np.zeros(0, self.scheme.signature_dtype),
            np.zeros((0, self.scheme.tables), np.uint32),
            [],
            np.zeros(0, FORGOTTEN_ORIGINAL),
            self._clocks.watermark,
            clocks=self._clocks.held,
            elapsed=self._clocks.elapsed,
        )

    def wait_for_merges(self) -> None:
        """Does now what `restore` has left to the next `judge`, which then need not wait for it."""
        self._forget()
        self._index.wait_for_merges()

    def _remember(self, delta: Delta, *, later: bool) -> None:
        arrivals, elapsed = delta.arrivals, delta.elapsed
        if not len(arrivals) and not len(delta.clocks):  # from before arrivals were remembered
            before = self._clocks.watermark
            elapsed = self._clocks.elapsed + (max(delta.watermark - before, 0) if before > START else 0)
            arrivals = np.zeros(len(delta), ARRIVAL)
            arrivals["watermark"], arrivals["elapsed"] = delta.watermark, elapsed
        arrived, times = arrivals["watermark"], delta.signatures["time"]
        first = self._rows.append(delta.signatures, delta.ids, delta.bodies)
        self._index.add(delta.keys, np.where(arrivals["doubted"], ANY_TIME, times), later=later)
        self._arrivals.add(first, arrivals["elapsed"])
        if len(delta.passage_counts):
            # What came late was seen when it came: by its own time it would be the first to make room for others.
            seen = np.where(times < arrived - self._window, arrived, times)
            self._boilerplate.add(delta.passages, delta.passage_counts, seen)
        self._clocks.set(delta.clocks, delta.watermark, elapsed)
        if len(delta.forgotten):
            pending = delta.forgotten.astype(_PENDING_DELETION)
            pending["before"] += first
            self._pending_deletions.append(pending)

    def _require_settled(self, what: str) -> None:
        if self._pending:
            raise RuntimeError(f"{what}: {len(self._pending)} batches are pending; confirm them or roll back first")

    def _let_go(self) -> None:
        """Lets go of what no later item can be compared with; what is pending is as if it were not there."""
        following = self._pending[0] if self._pending else None
        clocks, end = (following.clocks, following.first) if following else (self._clocks, self._rows.next_row)
        if clocks.elapsed - self._expired_at > self._window // _EXPIRIES_A_WINDOW:
            self._expire(clocks, end)
        self._evict(end)

    def _expire(self, clocks: Clocks, end: int) -> None:
        elapsed = self._expired_at = clocks.elapsed
        self._arrivals.forget(elapsed)
        recent = int(self._arrivals.first_recent(np.array([elapsed]))[0])
        # Rows that are yet to come are recent.
        recent = min(recent, end)
        self._rows.trim(self._index.expire(clocks.watermark - self._window, recent))

    def _evict(self, end: int) -> None:
        """Keeps to the most originals: beyond it those go that came first."""
        held, first = self._index.first_row, int(self._first_with_room(np.array([end]))[0])
        if first > held:
            self._evicted += first - held
            self._rows.trim(self._index.evict(first))
        self._gaps = [gap for gap in self._gaps if gap[1] > self._rows.first_row]

    def _first_with_room(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first of the most originals that are held when the next row is one of `ends`, (n,); may be negative."""
        first: NDArray[np.int64] = ends - self._most
        for start, stop in reversed(self._gaps):
            first -= np.where((first < stop) & (stop <= ends), stop - start, 0)
        return first

    def _forget(self, *, finally_: bool = True) -> list[int]:
        """Forgets what is owed, for ever or until a rollback; the rows."""
        if not self._pending_deletions:
            return []
        pending = np.concatenate(self._pending_deletions)
        self._pending_deletions.clear()
        forgotten = []
        for key_of in (identity_key, variant_key):
            keys = np.zeros((len(pending), self.scheme.tables), np.uint32)
            keys[:, -1] = [key_of(int(one)) for one in pending["row_id"]]
            which, rows = self._index.lookup(keys, np.full(len(keys), FORGOTTEN), limit=_ALL)
            same = self._rows.take(rows)["row_id"] == pending["row_id"][which]
            for row in rows[same & (rows < pending["before"][which])].tolist():
                (self._index.forget if finally_ else self._index.suspend)(row)
                forgotten.append(row)
        return forgotten


def _delta(
    prints: Fingerprints, items: Sequence[Item], memory: IndexChanges, reading: BatchTimes, watermark: int, elapsed: int
) -> Delta:
    """What is to be remembered: the signatures and keys of what was added, variants in their originals' names."""
    added = memory.added.tolist()
    signatures, keys = prints.signatures.take(memory.added), prints.keys.take(memory.added, axis=0)
    ids = [items[j].id for j in added]
    bodies = [prints.bodies[j] for j in added] if prints.bodies else []
    arrivals = np.zeros(len(added), ARRIVAL)
    arrivals["watermark"] = reading.watermarks[memory.added]
    arrivals["elapsed"] = reading.elapsed[memory.added]
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
                signatures[name][n] = value
            keys[n, -1] = variant_key(root)
            arrivals["doubted"][n] = 0  # its time is its original's
    passages, counts = _passages(prints.prose, memory)
    times = arrivals, reading.clocks, elapsed
    return Delta(signatures, keys, ids, memory.forgotten, watermark, bodies, passages, counts, *times)


def _passages(prose: Prose, memory: IndexChanges) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Hashes of the passages of what was added as another article, and how many each addition has, 0 for the rest."""
    first, last = prose.firsts[memory.added], prose.lasts[memory.added]
    counts = np.where(memory.is_another, np.minimum(last - first, MOST_PASSAGES), 0)
    starts = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) + np.repeat(first - starts, counts)
    return prose.hashes[places], counts.astype(np.uint8)


def _bad(name: str, reason: str) -> Verdict:
    return Verdict(name, Kind.BAD, Stage.NONE, False, reason=reason)
