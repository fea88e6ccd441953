"""Decide a batch, item by item, each against what all items before it left behind; rule.py decides a single pair.

core/judge.c asks an item the questions, in `judge_item`, and says how one text under two headlines gets its verdict.
`decide` gathers what it needs: the prepared batch, the times of its items, what the Decider remembers, and the
earlier batches that are judged, but not yet final. It returns an `OUTCOME` for each item, with the candidate that
decided it, and what to remember and forget. findings.py makes verdicts of the outcomes.

An earlier **version** has the same id, and the same source or a text that is the same article. Two sources may have
equal ids by chance, or by malice: such an item is a candidate like any other. With `policy.updates = "forward"` a new
version is let through even if it says nothing new.

The fate of an item decides what later ones find: what the index remembers, which passages recur. So the loop is
sequential, and `remember` in judge.c is all that an item leaves behind. A new version that is let through deletes the
version that it replaces. A tombstone deletes every original with its id, whatever their times, because it names nothing
else.

Pending items come first, as if they were earlier items of this batch: the originals of batches that are judged, but not
yet final. So nothing that may be lost is ever in the index, and nothing has to be taken out of it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup import core
from stream_dedup.core import BOOL, INT64, POINTER, fields
from stream_dedup.dedup.additions import MOST_NEW
from stream_dedup.dedup.batch import Delta, Prepared
from stream_dedup.dedup.boilerplate import Boilerplate, Log, in_seconds, log_for
from stream_dedup.dedup.candidates import bounds_of, links_of, named_rows, versions_of
from stream_dedup.dedup.clocks import BatchTimes
from stream_dedup.dedup.corrections import corrections
from stream_dedup.dedup.rule import Rule
from stream_dedup.dedup.similarity import SIMILARITY, Signatures, new_items_of, signatures_of
from stream_dedup.dedup.source_rules import PREFER
from stream_dedup.dedup.window import Arrivals, CoreArrivals, Scope, scope_of, sightings
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.rows import RowStore, as_bytes
from stream_dedup.index.times import ANY_TIME
from stream_dedup.settings import Settings

SKIPPED, NEW, SAME_ID, SAME_TEXT, NOTHING_NEW, VERSION, REVISED, PREFERRED, DIFFERENT = range(9)
"""What the questions in judge.c find; the same in core.h. SKIPPED: there is nothing to judge the item by; NEW: it has
no candidate; PREFERRED: it would be held back, but for its source."""
SUBJECT = core.record(
    "subject",
    [
        *fields("<u8", "row_id version"),
        *fields("<i8", "time stated elapsed step index_time"),
        ("window", "<i8", (5,)),
        *fields("<i8", "first_hit last_hit"),
        ("seen_at", "<u4"),
        ("kind", "u1"),
        ("is_preferred", "?"),
    ],
)
"""An item to judge, or a pending item, of which only row_id, version, step and index_time are known.

row_id: the hash of its id.
version: see `candidates.versions_of`.
time, stated: effective and stated time, see `BatchTimes`, ms.
elapsed: event time at the arrival, ms.
step, index_time, window: see `Scope`.
first_hit, last_hit: the hits of its lookup, see `index.hybrid.Found`.
seen_at: when its passages count as seen, s.
kind: EMPTY, ITEM or TOMBSTONE.
is_preferred: a rule for sources prefers it."""
ORIGIN = core.record("origin", [*fields("<i8", "time offset"), ("partition", "<i4"), ("body_size", "<u4")])
"""Where and when an item came, and how long it is; as in its signature."""
OUTCOME = core.record(
    "outcome",
    [
        *fields("<i8", "row row_number"),
        ("original", ORIGIN),
        ("similar", SIMILARITY),
        ("adds", MOST_NEW),
        ("logit", "<f4"),
        ("candidates", "<i4"),
        ("finding", "u1"),
        *fields("?", "is_added is_counted"),
    ],
)
"""What became of an item.

row: the candidate that decided (row -1-i: item i), if the finding is SAME_ID or later.
row_number: its own row in the index, if `is_added`.
original: the candidate that decided.
similar: the similarities of this pair.
adds: what an update adds.
logit: the log-odds of novelty; NaN if unknown or not computed.
candidates: their number.
finding: SKIPPED to DIFFERENT.
is_added: it is remembered.
is_counted: its passages count, see boilerplate.py."""
DELETION = core.record("deletion", [("before", "<i8"), ("name", "<u8")])
"""Originals to forget.

before: the deletion comes before this addition.
name: an id or a version."""


class _Keys(core.Struct, name="batch_keys"):
    """The keys of the items, (m, C), and their links (`links_of`); which keys match, and how many items one gives."""

    _fields_ = (*fields(POINTER, "values links dont_care_bits"), *fields(INT64, "columns max_hamming bucket_limit"))


class _FoundHits(core.Struct, name="found_hits"):
    """What the index found: `index.hybrid.Found`."""

    _fields_ = (("hits", POINTER), *fields(INT64, "count first_row"))


class _StoredRows(core.Struct, name="stored_rows"):
    """The rows of the index: where they are, the first, the next, and the first one that is not evicted."""

    _fields_ = (("segments", POINTER), *fields(INT64, "first next first_kept"))


class _Deletions(core.Struct, name="deletions"):
    """DELETIONs, `count` of at most `room`."""

    _fields_ = (("list", POINTER), *fields(INT64, "count room"))


class _Batch(core.Struct, name="batch"):
    """All that judge.c needs of a batch; see core.h."""

    _fields_ = (
        *fields(POINTER, "subjects outcomes"),
        ("items", Signatures),
        ("keys", _Keys),
        ("found", _FoundHits),
        ("rows", _StoredRows),
        ("arrivals", CoreArrivals),
        ("deletions", _Deletions),
        ("preferred", POINTER),
        *fields(INT64, "preferred_count pending added"),
        ("state", POINTER),
        *fields(BOOL, "forwards drops"),
    )


class Decided(NamedTuple):
    """A batch of n items that is judged.

    outcomes: (n,) OUTCOME, in whose rows items are counted from the first of the earlier batches.
    signatures: (n,) with effective times.
    deletions: DELETION.
    has_novelty: novelty is computed.
    """

    outcomes: NDArray[np.void]
    signatures: NDArray[np.void]
    deletions: NDArray[np.void]
    has_novelty: bool


def decide(
    prepared: Prepared,
    times: BatchTimes,
    index: HybridIndex,
    rows: RowStore,
    boilerplate: Boilerplate,
    arrivals: Arrivals,
    earlier: Sequence[Delta],
    max_originals: int,
    settings: Settings,
    rule: Rule,
    preferred: NDArray[np.uint64],
) -> Decided:
    """Judge a batch; what is remembered is as before when this returns.

    earlier: the deltas of batches that are judged, but not yet final, the oldest first.
    max_originals: how many the index holds.
    rule: that of the settings.
    preferred: see `SourceRules.preferred`.

    O(candidates), and a lookup for each item some of whose candidates this batch deletes. Each deleted row of the index
    is looked up once a batch; a step of the core follows for each deletion, and for each version of an id.
    """
    prints, pending = prepared.prints, sum(map(len, earlier))
    signatures = np.empty(pending + len(prints.signatures), prints.signatures.dtype)
    parts = [delta.signatures for delta in earlier]
    as_bytes(signatures)[:] = np.concatenate([as_bytes(part) for part in (*parts, prints.signatures)])
    signatures["time"][pending:] = times.times
    keys = np.ascontiguousarray(np.concatenate([*(delta.keys for delta in earlier), prints.keys]))
    scope = scope_of(times, arrivals)
    subjects = _subjects(prepared, times, scope, signatures, arrivals, earlier)
    # One lookup for all items. Which items of the batch will be remembered shows as they are judged.
    found, links = index.find(keys[pending:], scope.windows), links_of(keys, index.nearness)
    bounds, hits = bounds_of(found.hits, len(prepared.subjects)), found.hits
    subjects["first_hit"][pending:], subjects["last_hit"][pending:] = bounds[:-1], bounds[1:]
    is_compared = (bounds[1:] > bounds[:-1]) | (links[pending:] >= 0).any(axis=1)
    outcomes, deletions = np.zeros(len(subjects), OUTCOME), _deletions(earlier, len(subjects))
    outcomes["row_number"][:pending], outcomes["is_added"][:pending] = rows.next_row + np.arange(pending), True
    deleted = sum(len(delta.forgotten) for delta in earlier)
    bodies = [*(body for delta in earlier for body in delta.bodies), *prints.bodies]
    near = index.nearness
    batch = _Batch(
        subjects=subjects,
        outcomes=outcomes,
        items=signatures_of(signatures, bodies),
        keys=_Keys(
            values=keys,
            links=links,
            dont_care_bits=near.dont_care_bits,
            columns=keys.shape[1],
            max_hamming=near.max_hamming,
            bucket_limit=index.bucket_limit,
        ),
        found=_FoundHits(hits=hits, count=len(hits), first_row=found.first),
        rows=_StoredRows(
            segments=rows.segments(), first=rows.first_row, next=rows.next_row, first_kept=rows.next_row - max_originals
        ),
        arrivals=arrivals.packed(),
        deletions=_Deletions(list=deletions, count=deleted, room=len(deletions)),
        preferred=preferred,
        preferred_count=len(preferred),
        pending=pending,
        added=pending,
        forwards=settings.policy.updates == "forward",
        drops=settings.policy.updates == "drop",
    )
    news = new_items_of(prints, _marked(prepared, is_compared), (boilerplate, scope.begins))
    passages = 0 if prints.texts is None else len(prints.texts.passages)
    log, item = log_for(passages + sum(len(delta.passages) for delta in earlier)), pending
    hidden, noted = np.zeros(0, np.uint8), 0
    try:
        for delta in earlier:
            count_passages(boilerplate, delta, arrivals.window, log)
        while (item := core.call("judge_items", core.arena("judge"), batch, news, rule, log, item)) < len(subjects):
            # The core stops at an item if this batch has deleted so many of the rows that the index gave for it that
            # older ones may count. Ask again without the deleted rows, put the answer in the place of the former one,
            # which was at least as long, and let the core go on; its state is in this arena.
            if not noted:
                hidden = np.zeros(rows.next_row - found.first, np.uint8)
            latest = deletions[noted : batch.deletions.count].copy()
            latest["before"] = rows.next_row  # all rows of the index came before
            for gone in named_rows(latest, index, rows):
                hidden[gone - found.first] = 1
            noted, j = batch.deletions.count, item - pending
            visible = index.find(keys[item : item + 1], scope.windows[j : j + 1], hidden=hidden).hits
            first = int(subjects["first_hit"][item])
            last = subjects["last_hit"][item] = first + len(visible)
            hits[first:last] = visible
    finally:
        boilerplate.undo(log)
    deletions["before"] -= pending
    new_deletions = deletions[deleted : batch.deletions.count]
    return Decided(outcomes[pending:], signatures[pending:], new_deletions, bool(news.asks_novelty))


def _subjects(
    prepared: Prepared,
    times: BatchTimes,
    scope: Scope,
    signatures: NDArray[np.void],
    arrivals: Arrivals,
    earlier: Sequence[Delta],
) -> NDArray[np.void]:
    """Return the SUBJECT records, (m,), but for what the index finds; the items of earlier batches come first."""
    subjects = np.zeros(len(signatures), SUBJECT)
    subjects["row_id"], subjects["version"] = signatures["row_id"], versions_of(signatures)
    doubted = [np.where(delta.arrivals["doubted"], ANY_TIME, delta.signatures["time"]) for delta in earlier]
    subjects["index_time"] = np.concatenate([*doubted, scope.times])
    subjects["step"] = np.concatenate([*(arrivals.steps(delta.arrivals["elapsed"]) for delta in earlier), scope.steps])
    new = subjects[len(signatures) - len(prepared.subjects) :]
    new["time"], new["stated"], new["elapsed"] = times.times, times.stated, times.elapsed
    new["window"], new["kind"] = scope.windows, prepared.kinds
    new["is_preferred"] = [rule == PREFER for rule in prepared.rules]
    new["seen_at"] = in_seconds(sightings(times.times, times.watermarks, arrivals.window))
    return subjects


def _deletions(earlier: Sequence[Delta], items: int) -> NDArray[np.void]:
    """Return the deletions of earlier batches, and room for one of each item."""
    deletions = np.zeros(items + sum(len(delta.forgotten) for delta in earlier), DELETION)
    start = added = 0
    for delta in earlier:
        part = deletions[start : start + len(delta.forgotten)]
        part["before"], part["name"] = delta.forgotten["before"] + np.int64(added), delta.forgotten["name"]
        start, added = start + len(part), added + len(delta)
    return deletions


def _marked(prepared: Prepared, is_compared: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Return the `corrections` of items, (n,), 0 for those that are compared with no other: four in five."""
    marked, hints = np.zeros(len(prepared.subjects), np.int8), prepared.prints.hints
    compared = np.flatnonzero(is_compared)
    items = [prepared.subjects[j] for j in compared.tolist()]
    marked[compared] = corrections(items, None if hints is None else hints[compared])
    return marked


def count_passages(boilerplate: Boilerplate, delta: Delta, window: int, log: Log | None = None) -> None:
    """Count the passages of a batch's originals."""
    if len(delta.passage_counts):
        seen = sightings(delta.signatures["time"], delta.arrivals["watermark"], window)
        boilerplate.add(delta.passages, delta.passage_counts, seen, log)
