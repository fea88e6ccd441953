"""The core of the package: a `Decider` remembers the originals; its calls judge, apply, confirm and restore.

script.py adds to it what a program of your own needs; that one is `stream_dedup.Deduplicator`.

`judge(items)` returns a `Batch`: the verdicts, and a `Delta` with the changes to the index. It changes nothing.
`apply(batch)` updates the index, in one of two ways:

- A caller that makes the verdicts durable first applies the batch afterwards.
- A caller that judges the next batch meanwhile, as the worker does, applies the batch as pending: later items are
  judged as if they followed in the same batch, but the index does not have it yet. `confirm` adds the oldest pending
  batch to the index once it is durable. After a failure `rollback` drops all pending batches; nothing else must be
  undone. So no verdict ever depends on a batch that was lost.

`restore(delta)` applies a delta from the changelog. A batch is judged in four steps:

1. clocks.py chooses each item's effective time, since no date is trusted alone; window.py says where its window ends.
2. candidates.py finds the earlier items within that window that share a key of any view (or the id) with each item.
3. decide.py judges the items in order, each against all that the items before it have changed. For each candidate it
   measures how similar the fingerprints are (similarity.py) and what the item has that the candidate lacks
   (core/novelty.c); rule.py estimates the novelty, and whether both are the same article.
4. findings.py makes the verdicts. The changes to the index are collected here.

Nothing depends on where a batch begins: the same items in the same order get the same verdicts and evidence.
"""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Self

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.batch import ARRIVAL, DELETED, Batch, Delta, Prepared, prepare, stories_of
from stream_dedup.dedup.boilerplate import MOST_PASSAGES, Boilerplate
from stream_dedup.dedup.candidates import named_rows
from stream_dedup.dedup.clocks import FAR_FUTURE, START, BatchTimes, Clocks
from stream_dedup.dedup.decide import DELETION, Decided, count_passages, decide
from stream_dedup.dedup.findings import verdicts_of
from stream_dedup.dedup.rule import rule_of
from stream_dedup.dedup.source_rules import SourceRules
from stream_dedup.dedup.stored import check_delta
from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.dedup.window import Arrivals, may_be_held
from stream_dedup.errors import BadItem, UsageError
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import most_originals
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.rows import RowStore
from stream_dedup.index.times import ANY_TIME, FORGOTTEN
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings, load_settings

# Expiry scans all rows. 64 times per window keep memory within 2 % of what the window needs.
_EXPIRIES_PER_WINDOW = 64


class Decider:
    """Decides which items are near-duplicates of earlier ones.

    Each original within the window takes a signature, its id, and 8 bytes per table. For one thread at a time: a second
    call at the same time raises UsageError. Any thread may call `prepare` and `len` and read the properties, as metrics
    do. Use it in a `with` statement, or call `close`.

    >>> text = "The bridge over the Elm opened on Monday after two years of work, the mayor said."
    >>> with Decider() as dedup:
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
        self._source_rules = SourceRules(self.settings.sources)
        self._preferred = self._source_rules.preferred(self.scheme)
        self._rule = rule_of(self.settings.decision, has_words=self.scheme.has_bodies)
        self._lock = threading.RLock()
        # What is remembered; public for metrics and saved states.
        self.index = HybridIndex(
            self.scheme.table_of,
            dont_care_bits=self.scheme.dont_care_bits,
            max_hamming=self.settings.fingerprint.hamming,
        )
        self.rows = RowStore(self.scheme.signature_dtype, with_bodies=self.scheme.has_bodies)
        self.boilerplate = Boilerplate()
        self._window = self.settings.window.length_ms
        self.max_originals = most_originals(self.settings, self.scheme)
        """Most originals to remember: `window.max_originals`, or as many as fit into `worker.memory`."""
        self.evicted = 0
        """Originals forgotten within the window because there were more."""
        self._clocks = Clocks(self._window)
        self._arrivals = Arrivals(self._window, self.settings.index.texts_ms)
        self._deletions: list[NDArray[np.void]] = []  # not done yet, DELETION each; `before` is a row number
        self._expired_at = 0
        self._pending: deque[Delta] = deque()  # oldest first

    @property
    def scheme_id(self) -> int:
        """The id of the fingerprint scheme, which every changelog block contains."""
        return self.scheme.id

    @property
    def watermark(self) -> int:
        """The event time that the stream has reached, ms since 1970 (clocks.py); at first `clocks.START`."""
        return self._clocks.watermark

    @property
    def elapsed(self) -> int:
        """The event time elapsed on the watermark, ms; a leap counts as a quarter of a window (clocks.py)."""
        return self._clocks.elapsed

    def may_hold(self, newest: float, elapsed: int) -> bool:
        """Return whether rows that arrived by `elapsed`, with times of at most `newest`, may still count; both ms."""
        return may_be_held(newest, elapsed, self._clocks.watermark, self._clocks.elapsed, self._arrivals)

    def __len__(self) -> int:
        """Count the rows in memory and pending, with those that have expired since the last clean-up."""
        return len(self.rows) + sum(map(len, tuple(self._pending)))  # a copy, since the owner may change it meanwhile

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the background merges."""
        self.index.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse a second thread at once. To wait would hide that verdicts depend on which thread comes first."""
        if not self._lock.acquire(blocking=False):
            raise UsageError(
                "another thread is using this Decider; only `prepare` may run beside other calls. Hold a lock "
                "from `judge` to `apply`"
            )
        try:
            yield
        finally:
            self._lock.release()

    # -- judge -------------------------------------------------------------------------------------------

    def prepare(self, items: Sequence[Item | Tombstone | BadItem]) -> Prepared:
        """Fingerprint the items: the part of `judge` that depends on the items alone, and most of its work.

        Any thread may call it at any time, so the next batch can be fingerprinted while this one is judged, sent and
        committed. It runs mostly without the interpreter lock. O(bytes).

        >>> dedup = Decider()
        >>> item = Item("1", "Elm bridge opens", "The bridge over the Elm opened on Monday.", "post.example", 0)
        >>> prepared = dedup.prepare([item, item])
        >>> [str(verdict.kind) for verdict in dedup.judge(prepared).verdicts]
        ['unique', 'duplicate']
        >>> dedup.close()
        """
        return prepare(items, self._fingerprint, self._source_rules)

    def judge(
        self,
        items: Sequence[Item | Tombstone | BadItem] | Prepared,
        latest: int = FAR_FUTURE,
        *,
        one_clock: bool = False,
    ) -> Batch:
        """Return the verdicts of the items, in order, and the changes to the index; change nothing.

        `items` may be the result of `prepare` of a Decider with the same settings; it can be judged repeatedly.
        Raises UsageError if it is of another scheme.

        An item gets the current time of its partition if its own event time is missing (negative), after `latest` (ms),
        or far from the others of its partition. `one_clock`: treat all partitions as one, because times are not in
        order within them.
        """
        ready = items if isinstance(items, Prepared) else self.prepare(items)
        self._require_own_scheme(ready.scheme, "these items were prepared")
        with self._alone():
            self._forget()
            clocks = deepcopy(self._clocks) if self._pending else self._clocks
            for delta in self._pending:
                clocks.set(delta.clocks, delta.watermark, delta.elapsed)
            signatures = ready.prints.signatures
            partitions = signatures["partition"] * 0 if one_clock else signatures["partition"]
            times = clocks.read(np.ascontiguousarray(signatures["time"]), partitions, latest)
            remembered = self.index, self.rows, self.boilerplate, self._arrivals, self._pending
            decided = decide(ready, times, *remembered, self.max_originals, self.settings, self._rule, self._preferred)
            pending = (name for delta in self._pending for name in delta.names())
            of_subjects = verdicts_of(ready, decided, pending, self.rows.name, self.settings.policy)
            remaining = iter(of_subjects)
            empty = str(self.scheme.empty_item)
            verdicts = [
                _bad(item.id, str(item)) if isinstance(item, BadItem) else next(remaining) or _bad(item.id, empty)
                for item in ready.items
            ]
            odd = np.zeros(len(ready.items), np.int8)
            odd[[not isinstance(item, BadItem) for item in ready.items]] = times.odd
            delta = _delta_of(ready, decided, of_subjects, times, clocks)
            return Batch(verdicts, delta, odd, scheme=self.scheme_id)

    # -- apply -------------------------------------------------------------------------------------------

    def apply(self, batch: Batch, *, pending: bool = False) -> None:
        """Take a judged batch into the index; its verdicts are durable. Call it once per batch.

        With `pending` they need not be durable yet: the batch waits beside the index, and counts for the next one.
        Raises UsageError without `pending` while other batches are pending, and for a batch of another scheme.
        """
        self._require_own_scheme(batch.scheme, "this batch was judged")
        with self._alone():
            if pending:
                self._pending.append(batch.delta)
            else:
                self._require_none_pending("apply")
                self._finish(batch.delta)

    def confirm(self) -> None:
        """Add the oldest pending batch to the index, whose verdicts are durable now."""
        with self._alone():
            self._finish(self._pending.popleft())

    def _finish(self, delta: Delta) -> None:
        self._add(delta, defer_sort=False)
        self._forget()
        self._expire_and_evict()

    def rollback(self) -> None:
        """Drop all pending batches: every later verdict is as if they had never been applied."""
        with self._alone():
            self._pending.clear()

    def restore(self, delta: Delta) -> None:
        """Apply a delta from the changelog. Deltas must come in the order in which they were made.

        Sorting and deletions wait for the next `judge` or `catch_up`: block by block they would take half of a restore.
        Raises UsageError while a batch is pending, and CorruptBlock (stored.py) before anything is added.
        """
        with self._alone():
            self._require_none_pending("restore")
            check_delta(delta, self.scheme)
            self._add(delta, defer_sort=True)
            self._expire_and_evict()

    def forget(self, item_id: str) -> bool:
        """Forget all originals with this id, so that their next copy is let through; return whether any was known.

        It is for an item that should not have been let through, and that no `Tombstone` withdraws. A caller with a
        changelog judges a tombstone instead, because this call does not reach the changelog. Raises UsageError while a
        batch is pending.
        """
        with self._alone():
            self._require_none_pending("forget")
            self._forget()
            self._deletions.append(np.array([(self.rows.next_row, self.scheme.identity(item_id))], DELETION))
            return self._forget() > 0

    def export(self, rows: int) -> Iterator[Delta]:
        """Export the whole index as deltas of at most `rows` rows, to `restore` into a new Decider.

        If `Boilerplate.entries` are copied, too, every later verdict is the same. Dead rows that still count towards
        `window.max_originals` have no keys. Do not use the Decider while iterating. O(bytes), and 4 bytes per row
        and table meanwhile. Raises UsageError while a batch is pending.
        """
        self._require_none_pending("export")
        self.catch_up()
        first, keys, times = self.index.export()
        nothing = np.zeros(0, DELETED)
        for start in range(0, len(keys), rows):
            chunk = slice(start, start + rows)
            chunk_rows = first + np.arange(start, min(start + rows, len(keys)))
            arrivals = np.zeros(len(chunk_rows), ARRIVAL)
            arrivals["elapsed"] = self._arrivals.before_or_at(chunk_rows)
            # Without a trusted time, a dead row is freed as soon as it is no longer recent, and so are those before it.
            arrivals["doubted"] = (times[chunk] == ANY_TIME) | (times[chunk] == FORGOTTEN)
            bodies = list(self.rows.bodies(chunk_rows)) if self.scheme.has_bodies else []
            names = [self.rows.name(row) for row in chunk_rows.tolist()]
            ids, stories, signatures = [name for name, _ in names], stories_of(names), self.rows.take(chunk_rows)
            yield Delta(signatures, keys[chunk], ids, nothing, START, bodies, arrivals=arrivals, stories=stories)
        signatures, no_keys = np.zeros(0, self.scheme.signature_dtype), np.zeros((0, keys.shape[1]), np.uint32)
        clocks = self._clocks
        yield Delta(signatures, no_keys, [], nothing, clocks.watermark, clocks=clocks.states, elapsed=clocks.elapsed)

    def catch_up(self) -> None:
        """Do the work that `restore` has deferred, so that the next `judge` need not."""
        with self._alone():
            self._forget()
            self.index.catch_up()

    def _add(self, delta: Delta, *, defer_sort: bool) -> None:
        arrivals, times = delta.arrivals, delta.signatures["time"]
        self.index.add(delta.keys, np.where(arrivals["doubted"], ANY_TIME, times), defer_sort=defer_sort)
        first = self.rows.append(delta.signatures, delta.ids, delta.bodies, delta.stories)
        self._arrivals.add(first, arrivals["elapsed"])
        count_passages(self.boilerplate, delta, self._window)
        self._clocks.set(delta.clocks, delta.watermark, delta.elapsed)
        if len(delta.forgotten):
            deletions = delta.forgotten.astype(DELETION)
            deletions["before"] += first
            self._deletions.append(deletions)

    def _require_own_scheme(self, scheme: int, what: str) -> None:
        if scheme != self.scheme_id:
            raise UsageError(
                f"{what} under fingerprint scheme {scheme:016x}, and here it is {self.scheme_id:016x}; "
                "both need the same [fingerprint] settings"
            )

    def _require_none_pending(self, operation: str) -> None:
        if self._pending:
            raise UsageError(f"{operation}: {len(self._pending)} pending batches; confirm them or roll back first")

    def _expire_and_evict(self) -> None:
        """Free the rows that no later item can be compared with. Look-ups do not depend on when this happens."""
        elapsed = self._clocks.elapsed
        if elapsed - self._expired_at > self._window // _EXPIRIES_PER_WINDOW:
            self._expired_at = elapsed
            self._arrivals.forget(elapsed)
            recent = int(self._arrivals.first_recent(np.array([elapsed]))[0])
            earliest = self._clocks.watermark - self._window
            self.rows.trim(self.index.expire(earliest, min(recent, self.rows.next_row)))
            self.rows.drop_sequences(self._arrivals.first_with_text(elapsed))
        evicted = self.rows.next_row - self.max_originals - self.index.first_row
        if evicted > 0:
            self.evicted += evicted
            self.rows.trim(self.index.evict(self.index.first_row + evicted))

    def _forget(self) -> int:
        """Forget the originals that later items have deleted; return their number."""
        if not self._deletions:
            return 0
        deletions, count = np.concatenate(self._deletions), 0
        self._deletions.clear()
        for gone in named_rows(deletions, self.index, self.rows):
            for row in gone.tolist():
                self.index.forget(row)
            count += len(gone)
        return count


def _delta_of(
    ready: Prepared, decided: Decided, verdicts: Sequence[Verdict | None], times: BatchTimes, clocks: Clocks
) -> Delta:
    """Collect the changes of a batch to the index. verdicts: those of its subjects; clocks: as they were before it."""
    added, prints = np.flatnonzero(decided.outcomes["is_added"]), ready.prints
    names = [(verdict.id, verdict.story) for j in added.tolist() if (verdict := verdicts[j])]
    if len(names) < len(added):
        raise ValueError("an item without a verdict is to be remembered")
    arrivals = np.zeros(len(added), ARRIVAL)
    arrivals["watermark"], arrivals["elapsed"] = times.watermarks[added], times.elapsed[added]
    arrivals["doubted"] = times.is_doubted[added]
    counts, hashes = np.zeros(len(added), np.int64), np.zeros(0, np.uint32)
    if (texts := prints.texts) is not None:
        first, last = texts.firsts[added, 0], texts.lasts[added, 0]
        counts = np.where(decided.outcomes["is_counted"][added], np.minimum(last - first, MOST_PASSAGES), 0)
        passages = np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        hashes = texts.passages["hash"][passages]
    watermark, elapsed = clocks.watermark, clocks.elapsed
    if len(times.times):
        watermark, elapsed = int(times.watermarks[-1]), int(times.elapsed[-1])
    return Delta(
        signatures=decided.signatures.take(added),
        keys=prints.keys.take(added, axis=0),
        ids=[name for name, _ in names],
        forgotten=decided.deletions.astype(DELETED),
        watermark=watermark,
        bodies=[prints.bodies[j] for j in added.tolist()] if prints.bodies else [],
        passages=hashes,
        passage_counts=counts.astype(np.uint8),
        arrivals=arrivals,
        clocks=times.clocks,
        elapsed=elapsed,
        stories=stories_of(names),
    )


def _bad(name: str, reason: str) -> Verdict:
    return Verdict(name, Kind.BAD, Stage.NONE, False, reason=reason)
