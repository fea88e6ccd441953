"""The heart: items -> verdicts, without I/O and without a clock of its own.

`judge(items)` says what is to be done with each item and changes nothing; `apply(batch)` makes the index
remember the batch, once whoever does the I/O has made it durable. Between the two a process may die: then
nothing was remembered, and nothing was sent. `restore(delta)` is the same step from the changelog.

The cascade of one item: its id is known? -> the same text is known? -> candidates from any view -> verified
similarities -> rule -> guard -> policy. The first original that fits wins, and the evidence names the stage.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.batch import FORGOTTEN, Batch, Delta
from stream_dedup.dedup.overlay import pairs_within
from stream_dedup.dedup.policy import answer_same_id
from stream_dedup.dedup.rule import GUARD_REASON, STAGE_OF, Finding, judge_pairs
from stream_dedup.dedup.similarity import Similarities, compare
from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.errors import BadItem
from stream_dedup.fingerprint.fingerprint import Fingerprinter, Fingerprints, identity_key
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.rows import RowStore
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings, load_settings

# Expiry walks over the held rows; sixty-four times a window is often enough to keep memory within 2 % of it.
_EXPIRIES_A_WINDOW = 64
_LONG_AGO = -(2**62)


class _Pairs(NamedTuple):
    """Candidate pairs of a batch, by item; `row` is a row of the index, or -1-i for item i of the batch."""

    item: NDArray[np.int32]
    row: NDArray[np.int64]
    similar: Similarities
    finding: NDArray[np.int8]
    coordinates: NDArray[np.void]  # the candidates' records


class Deduplicator:
    """Decides which items are near-duplicates of earlier ones.

    Memory: a record and 8 bytes a table for each original within the window. Not thread-safe: one owner.

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
        )
        self._rows = RowStore(self.scheme.record_dtype)
        self._window = int(self.settings.window.length.total_seconds() * 1000)
        self._watermark = _LONG_AGO
        self._expired_at = _LONG_AGO

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

    def __len__(self) -> int:
        """Rows held; those that expired since the last clearing included."""
        return len(self._rows)

    def close(self) -> None:
        """Stops the background merge."""
        self._index.close()

    # -- judge -------------------------------------------------------------------------------------------

    def judge(self, items: Sequence[Item | Tombstone | BadItem]) -> Batch:
        """Verdicts of the items, in their order; remembers nothing. See the module's first lines."""
        at = [i for i, item in enumerate(items) if not isinstance(item, BadItem)]
        subjects = [_as_item(items[i]) for i in at]
        tombstone = np.array([isinstance(items[i], Tombstone) for i in at], np.bool_)
        prints = self._fingerprint(subjects)
        records, keys = prints.records, prints.keys
        empty = (records["headline_size"] == 0) & (records["body_size"] == 0) & ~tombstone
        keys[tombstone, :-1] = 0  # a tombstone is looked up by its id alone
        keys[empty] = 0
        watermarks = np.maximum.accumulate(np.append(self._watermark, records["time"]))[1:]
        pairs = self._candidates(prints, watermarks - self._window)

        judging = _Judging(self, subjects, pairs)
        verdicts: list[Verdict | None] = [None] * len(items)
        bounds = np.searchsorted(pairs.item, np.arange(len(subjects) + 1)).tolist()
        skip = (tombstone | empty).tolist()
        for j, i in enumerate(at):
            if not skip[j]:
                verdicts[i] = judging.item(j, bounds[j], bounds[j + 1])
            elif tombstone[j]:
                verdicts[i] = judging.tombstone(j, bounds[j], bounds[j + 1])
            else:
                verdicts[i] = _bad(subjects[j].id, "empty: neither headline nor text has a letter or digit")
        for i, item in enumerate(items):
            if isinstance(item, BadItem):
                verdicts[i] = _bad(item.id, str(item))
        added = judging.added
        delta = Delta(
            records[added],
            keys[added],
            [subjects[j].id for j in added],
            np.array(judging.forgotten, FORGOTTEN),
            int(watermarks[-1]) if len(watermarks) else self._watermark,
        )
        return Batch([v for v in verdicts if v is not None], delta)

    def _candidates(self, prints: Fingerprints, horizons: NDArray[np.int64]) -> _Pairs:
        """Pairs from the index and from the batch itself, verified, ordered by item, oldest candidate first."""
        records, keys = prints.records, prints.keys
        item, row = self._index.lookup(keys, horizons)
        later, earlier = pairs_within(keys, self.settings.index.bucket_limit)
        in_window = records["time"][earlier] >= horizons[later]
        later, earlier = later[in_window], earlier[in_window]
        known = np.concatenate([self._rows.take(row), records[earlier]])
        items = np.concatenate([item, later]).astype(np.int32)
        rows = np.concatenate([row, -1 - earlier.astype(np.int64)])
        # By item; rows of the index before those of the batch, each from the oldest.
        age = np.where(rows < 0, 2**62 - 1 - rows, rows)
        order = np.lexsort((age, items))
        items, rows, known = items[order], rows[order], known[order]
        similar = compare(prints, known, items, np.arange(len(items)))
        return _Pairs(items, rows, similar, judge_pairs(similar, self.settings.decision), known)

    # -- apply -------------------------------------------------------------------------------------------

    def apply(self, batch: Batch) -> None:
        """Remembers a judged batch. Call it once, after its verdicts were carried out durably."""
        self.restore(batch.delta)

    def restore(self, delta: Delta) -> None:
        """Remembers what a changelog block says. Deltas must come in the order in which they were made."""
        first = self._rows.append(delta.records, delta.ids)
        self._index.add(delta.keys, delta.records["time"])
        self._watermark = max(self._watermark, delta.watermark)
        if len(delta.forgotten):
            self._forget(delta, first)
        if self._watermark - self._expired_at > self._window // _EXPIRIES_A_WINDOW:
            self._expired_at = self._watermark
            self._rows.trim(self._index.expire(self._watermark - self._window))

    def _forget(self, delta: Delta, first: int) -> None:
        keys = np.zeros((len(delta.forgotten), self.scheme.tables), np.uint32)
        keys[:, -1] = [identity_key(int(one)) for one in delta.forgotten["row_id"]]
        which, rows = self._index.lookup(keys, np.full(len(keys), _LONG_AGO))
        records = self._rows.take(rows)
        same = records["row_id"] == delta.forgotten["row_id"][which]
        before = rows < first + delta.forgotten["before"][which].astype(np.int64)
        for row in rows[same & before].tolist():
            self._index.forget(row)

    # -- help for _Judging -------------------------------------------------------------------------------

    def original(self, pairs: _Pairs, p: int, subjects: Sequence[Item]) -> Original:
        """The candidate of pair p, as the evidence names it."""
        row, record = int(pairs.row[p]), pairs.coordinates[p]
        name = subjects[-1 - row].id if row < 0 else self._rows.id(row)
        return Original(name, int(record["time"]), int(record["partition"]), int(record["offset"]))


class _Judging:
    """The one pass over a batch in order: who is retained decides whom later items may be duplicates of."""

    def __init__(self, owner: Deduplicator, subjects: Sequence[Item], pairs: _Pairs) -> None:
        self.owner, self.subjects, self.pairs = owner, subjects, pairs
        self.policy = owner.settings.policy
        self.cosmetic = owner.settings.decision.cosmetic
        self.added: list[int] = []  # positions in `subjects`, in order
        self.forgotten: list[tuple[int, int]] = []
        self._retained: set[int] = set()  # rows of the batch (negative) that are originals now
        self._gone: set[int] = set()  # rows of the index that this batch forgets

    def item(self, j: int, start: int, end: int) -> Verdict:
        subject = self.subjects[j]
        alive = [p for p in range(start, end) if self._is_alive(int(self.pairs.row[p]))]
        if not alive:
            return self._retain(j, Verdict(subject.id, Kind.UNIQUE, Stage.NONE, True))
        similar, finding = self.pairs.similar, self.pairs.finding
        for p in alive:
            if similar.same_id[p]:
                return self._same_id(j, p, len(alive))
        for p in alive:
            if similar.same_text[p]:
                return self._duplicate(j, p, Stage.EXACT, len(alive))
        alike = [p for p in alive if finding[p] > Finding.NOTHING]
        if alike:
            best = max(alike, key=self._closeness)  # of equals the first: the oldest
            return self._duplicate(j, best, STAGE_OF[Finding(int(finding[best]))], len(alive))
        guarded = [p for p in alive if finding[p] == Finding.GUARDED]
        best = max(guarded or alive, key=self._closeness)
        stage, guard = (Stage.GUARD, GUARD_REASON) if guarded else (Stage.NONE, None)
        near = self.owner.original(self.pairs, best, self.subjects)
        evidence = self._evidence(best, len(alive), guard)
        return self._retain(j, Verdict(subject.id, Kind.UNIQUE, stage, True, near, evidence))

    def tombstone(self, j: int, start: int, end: int) -> Verdict:
        subject = self.subjects[j]
        for p in range(start, end):
            if self.pairs.similar.same_id[p] and self._is_alive(int(self.pairs.row[p])):
                original = self.owner.original(self.pairs, p, self.subjects)
                self._forget(p)
                return Verdict(subject.id, Kind.TOMBSTONE, Stage.POLICY, True, original)
        return Verdict(subject.id, Kind.TOMBSTONE, Stage.NONE, True)

    def _same_id(self, j: int, p: int, candidates: int) -> Verdict:
        similar = self.pairs.similar
        kind, stage, forward, reason = answer_same_id(
            bool(similar.same_text[p]), float(similar.body[p]), float(similar.headline[p]), self.policy, self.cosmetic
        )
        original = self.owner.original(self.pairs, p, self.subjects)
        verdict = Verdict(self.subjects[j].id, kind, stage, forward, original, self._evidence(p, candidates), reason)
        if not forward:
            return verdict
        self._forget(p)
        return self._retain(j, verdict)

    def _duplicate(self, j: int, p: int, stage: Stage, candidates: int) -> Verdict:
        original = self.owner.original(self.pairs, p, self.subjects)
        verdict = Verdict(self.subjects[j].id, Kind.DUPLICATE, stage, False, original, self._evidence(p, candidates))
        return self._retain(j, verdict) if self.policy.index_duplicates else verdict

    def _retain(self, j: int, verdict: Verdict) -> Verdict:
        self.added.append(j)
        self._retained.add(-1 - j)
        return verdict

    def _forget(self, p: int) -> None:
        row = int(self.pairs.row[p])
        self._retained.discard(row)
        self._gone.add(row)
        self.forgotten.append((len(self.added), int(self.pairs.coordinates["row_id"][p])))

    def _is_alive(self, row: int) -> bool:
        return row in self._retained if row < 0 else row not in self._gone

    def _closeness(self, p: int) -> float:
        s = self.pairs.similar
        return float(np.nansum([s.body[p], s.lead[p], s.headline[p]]))

    def _evidence(self, p: int, candidates: int, guard: str | None = None) -> Evidence:
        s = self.pairs.similar
        return Evidence(
            _or_none(s.body[p]),
            _or_none(s.containment[p]),
            _or_none(s.lead[p]),
            _or_none(s.headline[p]),
            bool(s.same_source[p]),
            guard,
            candidates,
        )


def _or_none(x: np.float32) -> float | None:
    return None if np.isnan(x) else float(x)


def _as_item(item: Item | Tombstone | BadItem) -> Item:
    if isinstance(item, Item):
        return item
    if isinstance(item, Tombstone):
        return Item(item.id, "", "", "", item.time, item.partition, item.offset)
    raise TypeError(f"a bad item has no fingerprint: {item}")


def _bad(name: str, reason: str) -> Verdict:
    return Verdict(name, Kind.BAD, Stage.NONE, False, reason=reason)
