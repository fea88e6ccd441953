"""Decide a batch, item by item, each against what all items before it left behind; rule.py decides a single pair.

In: a prepared batch, its times, what the Deduplicator remembers, and the earlier batches that are judged, but not yet
final. Out: a `Resolution`: for each item its outcome and the candidate that decided it; what to remember and forget.
`verdicts_of` makes a `Verdict` with its evidence of each outcome. An item passes through these questions:

1. If an original has the item's id and words, the item is a redelivery: a duplicate.
2. If a candidate has the same words, headline included, and it is no new event, the item is a duplicate.
3. If the item has nothing new for a reader of a candidate, it is a duplicate of the one that it lacks least of.
4. If a candidate is an earlier version of it, the item is an update (`policy.updates`): of that one; else, if a
   candidate is the same article, of the one that most likely is.
5. Otherwise the item is another article.

An earlier **version** has the same id, and the same source or a text that is the same article. Ids of two sources may
be equal by chance, or by malice: such an item is a candidate like any other. With `policy.updates = "forward"`
questions 2 and 3 are not asked of a new version.

The fate of an item decides what later ones find: what the index remembers, which passages recur. So the loop is
sequential. It is compiled, because an item is compared with up to twelve others. A new version that is let through
deletes the version that it replaces, and a tombstone every original with its id, because it names nothing else,
whatever their times.

The originals of batches that are not yet final come first, as if they were earlier items of this batch: settled ones.
So nothing that may be lost is ever in the index, and nothing has to be taken out of it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.compiled import njit
from stream_dedup.dedup.batch import EMPTY, ITEM, TOMBSTONE, Delta, Prepared
from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.dedup.candidates import (
    ADDED,
    COLUMN,
    DELETED,
    MAX_CANDIDATES,
    NO_ID,
    Candidates,
    choose,
    find_again,
    find_candidates,
    version_of,
    versions_of,
)
from stream_dedup.dedup.clocks import Arrivals, BatchTimes, scope_of, sightings
from stream_dedup.dedup.corrections import corrections
from stream_dedup.dedup.former_additions import describe_additions, news_of
from stream_dedup.dedup.former_boilerplate import Log, _add, add_original, in_seconds, log_for, undo
from stream_dedup.dedup.former_rule import (
    SAME_ARTICLE,
    is_alike,
    is_another_event,
    is_repeat,
    is_same_article,
    kinship_logit,
    novelty_logit,
    probability,
    strongest,
    thresholds,
)
from stream_dedup.dedup.former_similarity import HOUR, Views, measure, unknown, views_of
from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.probe import ROW_SHIFT
from stream_dedup.index.rows import RowStore, as_bytes
from stream_dedup.index.times import ANY_TIME
from stream_dedup.settings import PolicySettings, Settings

# Outcomes, in the order of the cascade.
SKIPPED, NEW, SAME_ID, SAME_TEXT, NOTHING_NEW, VERSION, REVISED, DIFFERENT = range(8)

# A body is a cut of a longer one if that contains this share of it: 17 of 24 pairs that readers called cuts, and 28 of
# 183 copies, inside boilerplate. Longer: by this ratio.
_CUT, _CUT_RATIO = 0.75, 4 / 3
_CUTS = (None, "longer", "shorter")


class Ruling(NamedTuple):
    """What a verdict says of an outcome. stage: None stands for the view in which the two are most alike."""

    kind: Kind
    stage: Stage | None
    forward: bool
    reason: str = ""


# What becomes of an item that a candidate settles.
_RULINGS = {
    SAME_ID: Ruling(Kind.DUPLICATE, Stage.ID, False, "same id, same words"),
    SAME_TEXT: Ruling(Kind.DUPLICATE, Stage.EXACT, False),
    NOTHING_NEW: Ruling(Kind.DUPLICATE, None, False),
    VERSION: Ruling(Kind.UPDATE, Stage.POLICY, True, "same id, something new; policy.updates = compare"),
    REVISED: Ruling(Kind.UPDATE, None, True),
    DIFFERENT: Ruling(Kind.UNIQUE, Stage.NONE, True),
}
# The same by policy, where it differs.
_RULINGS_BY_POLICY = {
    "compare": {},
    "forward": {VERSION: Ruling(Kind.UPDATE, Stage.POLICY, True, "same id, other words; policy.updates = forward")},
    "drop": {
        VERSION: Ruling(Kind.UPDATE, Stage.POLICY, False, "same id, something new; policy.updates = drop"),
        REVISED: Ruling(Kind.UPDATE, None, False, "the same article with something new; policy.updates = drop"),
    },
}
_WITHDRAWN = Ruling(Kind.TOMBSTONE, Stage.POLICY, True)


class Subjects(NamedTuple):
    """The items to judge. The first of them are settled.

    For each item but the settled ones: kind: EMPTY, ITEM or TOMBSTONE; times: effective, and stated: see `BatchTimes`,
    ms; elapsed: at the arrival; windows: see `Scope`; seen_at: when the item's passages count as seen, in the unit of
    `Boilerplate`. For each item, (m,): id_hash; version: see `version_of`; step, index_time: see `Scope`.
    first_kept_row: the first row still in the index after no addition; next_row: the first one that is added; window:
    ms.
    """

    kind: NDArray[np.int8]
    times: NDArray[np.int64]
    stated: NDArray[np.int64]
    elapsed: NDArray[np.int64]
    windows: NDArray[np.int64]
    seen_at: NDArray[np.uint32]
    id_hash: NDArray[np.uint64]
    version: NDArray[np.uint64]
    step: NDArray[np.int64]
    index_time: NDArray[np.int64]
    settled: int
    first_kept_row: int
    next_row: int
    window: int


class Known(NamedTuple):
    """What the items are compared with, (slots,) each: the items of the batch, and behind them rows of the index.

    views: of the signatures; arrived: elapsed event time at a row's arrival, ms.
    """

    views: Views
    arrived: NDArray[np.int64]


class Resolution(NamedTuple):
    """What was decided so far.

    For each item, (m,): outcome; row, slot: of the candidate that decided (row -1-i: item i of the batch), or
    NO_CANDIDATE and -1; logit: of novelty (NaN: unknown, or not asked); candidate_count; similar: `SIMILARITY` of that
    pair; is_added: the index remembers the item, as row_number; is_forgotten: a later item of the batch deleted it. For
    each deletion, in order: before: it happens before this addition; forgotten: an id or a version. counts: additions
    and deletions; link: (C, m) as `Candidates.previous`, of the newest remembered item; log: of the changes of
    boilerplate.
    """

    outcome: NDArray[np.int8]
    row: NDArray[np.int64]
    slot: NDArray[np.int64]
    logit: NDArray[np.float32]
    candidate_count: NDArray[np.int64]
    similar: NDArray[np.void]
    is_added: NDArray[np.bool_]
    row_number: NDArray[np.int64]
    is_forgotten: NDArray[np.bool_]
    before: NDArray[np.int64]
    forgotten: NDArray[np.uint64]
    counts: NDArray[np.int64]
    link: NDArray[np.int32]
    log: Log


NO_CANDIDATE = 2**62
"""In `Resolution.row`: no candidate decided."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What a Deduplicator remembers; earlier: of batches that are judged, but not yet final, the oldest first."""

    index: HybridIndex
    rows: RowStore
    boilerplate: Boilerplate
    arrivals: Arrivals
    earlier: Sequence[Delta]


class Decided(NamedTuple):
    """A batch that is judged. The first `settled` items and `forgets` deletions are those of the earlier batches.

    signatures: of what the items were compared with, by slot: the items, and behind them rows of the index.
    """

    resolution: Resolution
    signatures: NDArray[np.void]
    settled: int
    additions: NDArray[np.int64]
    deletions: slice


class _Slots(NamedTuple):
    """What items are compared with: the items of the batch, and behind them rows of the index."""

    signatures: NDArray[np.void]
    bodies: list[bytes]
    arrived: NDArray[np.int64]


def decide(ready: Prepared, times: BatchTimes, memory: Memory, most: int, settings: Settings) -> Decided:
    """Judge a batch; the memory is as before when this returns. `most`: originals that the index holds.

    O(candidates), and a lookup for each item whose candidates were forgotten in this batch.
    """
    index, rows, boilerplate = memory.index, memory.rows, memory.boilerplate
    arrivals, earlier = memory.arrivals, memory.earlier
    prints, limit = ready.prints, settings.index.bucket_limit
    settled = sum(map(len, earlier))
    signatures = np.empty(settled + len(prints.signatures), prints.signatures.dtype)
    parts = [delta.signatures for delta in earlier]
    as_bytes(signatures)[:] = np.concatenate([as_bytes(part) for part in (*parts, prints.signatures)])
    signatures["time"][settled:] = times.times
    # In one memory order always: to numba another order is another type.
    keys = np.ascontiguousarray(np.concatenate([*(delta.keys for delta in earlier), prints.keys]))
    bodies = [*(body for delta in earlier for body in delta.bodies), *prints.bodies]
    scope, seen_at = scope_of(times, arrivals), sightings(times.times, times.watermarks, arrivals.window)
    doubted = [np.where(delta.arrivals["doubted"], ANY_TIME, delta.signatures["time"]) for delta in earlier]
    steps = [arrivals.steps(delta.arrivals["elapsed"]) for delta in earlier]

    subjects = Subjects(
        ready.kinds, times.times, times.stated, times.elapsed, scope.windows, in_seconds(seen_at),
        signatures["row_id"].copy(), versions_of(signatures),
        np.concatenate([*steps, scope.steps]), np.concatenate([*doubted, scope.times]), settled,
        rows.next_row - most, rows.next_row, arrivals.window,
    )  # fmt: skip
    may_forget = any(len(delta.forgotten) for delta in earlier) or bool((ready.kinds == TOMBSTONE).any())
    found = find_candidates(keys, scope.windows, index, limit, may_forget, subjects.first_kept_row + len(signatures))
    known, slots = _with_rows(_Slots(signatures, bodies, subjects.step * arrivals.step), found.row, memory)
    found = found._replace(slot=slots)
    news = news_of(prints, _marked(ready, found, settled), (boilerplate, scope.begins))
    done = _begin(subjects, found, news.texts.passages.ends.size, earlier)
    asked = thresholds(settings.decision, has_words=prints.texts is not None)
    updates = settings.policy.updates
    j = settled
    try:
        for delta in earlier:
            count_passages(boilerplate, delta, arrivals.window, done.log)
        while True:
            sides = Known(views_of(known.signatures, known.bodies), known.arrived)
            j = _judge_from(
                j,
                subjects,
                found,
                index.nearness,
                sides,
                news,
                asked,
                updates == "forward",
                updates == "drop",
                limit,
                done,
            )
            if j == len(signatures):
                break
            window = scope.windows[j - settled : j - settled + 1]
            found, again = find_again(found, j, window, index, 2 * int(found.limits[j]))
            known, slots = _with_rows(known, again, memory)
            found.slot[len(found.slot) - len(again) :] = slots
    finally:
        undo(boilerplate.entries.view(np.uint32).reshape(-1, 4), done.log)
    forgets = sum(len(delta.forgotten) for delta in earlier)
    additions = settled + np.flatnonzero(done.is_added[settled:])
    return Decided(done, known.signatures, settled, additions, slice(forgets, int(done.counts[DELETED])))


def _marked(ready: Prepared, found: Candidates, settled: int) -> NDArray[np.int8]:
    """(n,) `corrections` of the items that are compared with another: one in five."""
    marked = np.zeros(len(ready.subjects), np.int8)
    compared = np.flatnonzero((found.last > found.first) | found.is_related) - settled
    compared = compared[compared >= 0]
    marked[compared] = corrections([ready.subjects[j] for j in compared.tolist()])
    return marked


def count_passages(boilerplate: Boilerplate, delta: Delta, window: int, log: Log | None = None) -> None:
    """Count the passages of a batch's originals."""
    if len(delta.passage_counts):
        seen = sightings(delta.signatures["time"], delta.arrivals["watermark"], window)
        counts = delta.passage_counts.astype(np.int64)
        _add(
            boilerplate.entries.view(np.uint32).reshape(-1, 4),
            delta.passages,
            counts,
            in_seconds(seen),
            log or log_for(0),
        )


def _with_rows(slots: _Slots, added: NDArray[np.int64], memory: Memory) -> tuple[_Slots, NDArray[np.int64]]:
    """Add rows of the index. Return also their slots, (n,)."""
    first, size = len(slots.signatures), len(slots.signatures) + len(added)
    signatures: NDArray[np.void] = np.empty(size, slots.signatures.dtype)
    as_bytes(signatures)[:first] = as_bytes(slots.signatures)
    places = np.arange(first, size)
    memory.rows.take(added, signatures, places)
    bodies = [*slots.bodies, *memory.rows.bodies(added)] if slots.bodies else []
    arrived = np.append(slots.arrived, memory.arrivals.before_or_at(added))
    return _Slots(signatures, bodies, arrived), places


def _begin(subjects: Subjects, found: Candidates, passages: int, earlier: Sequence[Delta]) -> Resolution:
    """The settled items are remembered, unless one of them forgot another. passages: of all items."""
    m, settled = len(subjects.id_hash), sum(map(len, earlier))
    most, logged = m + sum(len(one.forgotten) for one in earlier), passages + sum(len(one.passages) for one in earlier)
    flags, numbers = np.zeros((2, m), np.bool_), np.zeros((2, m), np.int64)
    befores, forgotten = np.zeros(most, np.int64), np.zeros(most, np.uint64)
    numbers[1, :settled] = subjects.next_row + np.arange(settled)
    flags[0, :settled] = True
    first, deletions = 0, 0
    for delta in earlier:
        for before, gone in delta.forgotten.tolist():
            ids, versions = subjects.id_hash[: first + before], subjects.version[: first + before]
            flags[1, : first + before] |= (ids == gone) | (versions == gone)
            befores[deletions], forgotten[deletions] = first + before, gone
            deletions += 1
        first += len(delta)
    return Resolution(
        np.zeros(m, np.int8), np.full(m, NO_CANDIDATE), np.full(m, -1), np.full(m, np.nan, np.float32), numbers[0],
        unknown(m + MAX_CANDIDATES), flags[0], numbers[1], flags[1], befores, forgotten,
        np.array([settled, deletions]), found.previous.copy(), log_for(logged),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def _judge_from(j, subjects, candidates, near, known, news, t, forwards, drops, bucket_limit, done):
    """Judge the items from j on. Return the number of items, or the item for which the index has to be asked again.

    That is an item with a key whose newest rows were forgotten, so that older ones take their place. near: of the
    index; t: Thresholds; forwards, drops: `policy.updates`. `news` has nothing of the settled items: item j is number
    `new` there.
    """
    s, m = done.similar, subjects.id_hash.size
    rows = slots = np.zeros(0, np.int64)
    forgotten = {NO_ID}
    for k in range(done.counts[DELETED]):
        forgotten.add(done.forgotten[k])
    while j < m:
        if candidates.is_related[j]:
            for column in range(done.link.shape[0]):
                node = candidates.previous[column, j]
                i, other = node >> ROW_SHIFT, node & COLUMN
                done.link[column, j] = node if node < 0 or done.is_added[i] else done.link[other, i]
        new = j - subjects.settled
        if subjects.kind[new] == EMPTY:
            j += 1
            continue
        # 1. The candidates that count now.
        if done.counts[DELETED] > 0 and candidates.is_cut[j] and not candidates.is_changing[j]:
            return j
        n = 0
        if candidates.last[j] > candidates.first[j] or candidates.is_related[j]:
            rows, slots, is_known = choose(j, subjects, candidates, near, known, bucket_limit, done, forgotten)
            if not is_known:
                return j
            n = rows.size
        done.candidate_count[j] = n

        # 2. Decide.
        best, outcome, gone = -1, NEW, NO_ID
        if subjects.kind[new] == ITEM and n > 0:
            for k in range(n):
                s[m + k].apart = _hours_apart(new, slots[k], subjects, known)
            measure(s, m, news, new, j, known.views, known.views, slots)
            best, outcome, done.logit[j] = _decide(s, m, n, t, forwards)
            s[j] = s[m + best]
            if outcome == VERSION and not drops:
                gone = version_of(subjects.id_hash[j], known.views.digest[slots[best]])
        elif subjects.kind[new] == TOMBSTONE:
            gone = subjects.id_hash[
                j
            ]  # also originals outside its window: who withdraws an item may have another clock
            for k in range(n):  # the newest, if there are several
                if known.views.row_id[slots[k]] == gone:
                    best, outcome = k, SAME_ID
        done.outcome[j] = outcome

        # 3. Record what the item leaves behind.
        if best >= 0:
            done.row[j], done.slot[j] = rows[best], slots[best]
        if gone != NO_ID:
            at = done.counts[DELETED]
            done.before[at], done.forgotten[at] = done.counts[ADDED], gone
            done.counts[DELETED] += 1
            forgotten.add(gone)
            for i in range(j):
                done.is_forgotten[i] |= subjects.id_hash[i] == gone or subjects.version[i] == gone
        is_another = subjects.kind[new] == ITEM and outcome in (NEW, DIFFERENT)
        if is_another or (not drops and outcome in (VERSION, REVISED)):
            done.is_added[j] = True
            done.row_number[j] = subjects.next_row + done.counts[ADDED]
            done.counts[ADDED] += 1
        if is_another:
            texts = news.texts
            first, last = texts.firsts[new, 0], texts.lasts[new, 0]
            add_original(news.entries, texts.passages.hashes, first, last, subjects.seen_at[new], done.log)
        j += 1
    return m


@njit(nogil=True, cache=True, inline="always")
def _hours_apart(new, slot, subjects, known):
    """If the effective times are more than a window apart, the item's stated time counts if it is not, and otherwise
    the time between the two arrivals.
    """
    time = known.views.time[slot]
    gap = abs(subjects.times[new] - time)
    if gap > subjects.window:
        gap = abs(subjects.stated[new] - time)
    if gap > subjects.window:
        gap = min(max(subjects.elapsed[new] - known.arrived[slot], 0), subjects.window)
    return gap / HOUR


@njit(nogil=True, cache=True)
def _decide(s, m, n, t, forwards):
    """The candidate that decides, of those measured in s[m:m + n], the outcome, and the log-odds of novelty against it.

    Of equal candidates the oldest, of versions the newest.
    """
    version, repeated, no_logit = -1, -1, np.float32(np.nan)
    for k in range(n):
        if s[m + k].same_id and s[m + k].same_text:
            return k, SAME_ID, no_logit
        if _is_version(s[m + k], t):
            version = k
        elif repeated < 0 and is_repeat(s[m + k]):
            repeated = k
    if forwards and version >= 0:
        return version, VERSION, no_logit
    if repeated >= 0:
        return repeated, SAME_TEXT, no_logit
    best, log_odds, is_held = _lacks_least(s, m, n, t)
    if is_held:
        return best, NOTHING_NEW, log_odds
    if version >= 0:
        return version, VERSION, no_logit if t.is_plain else novelty_logit(s[m + version], t.trees)
    if t.is_plain:
        return best, DIFFERENT, no_logit
    closest = np.float32(-np.inf)
    for k in range(n):
        kinship = kinship_logit(s[m + k], t.kinship)
        if kinship > closest:
            best, closest = k, kinship
    is_same = closest >= SAME_ARTICLE and not is_another_event(s[m + best])
    return best, REVISED if is_same else DIFFERENT, novelty_logit(s[m + best], t.trees)


@njit(nogil=True, cache=True, inline="always")
def _is_version(s, t):
    """Whether the known item of a pair is an earlier version of the new one."""
    return s.same_id and (s.same_source or (is_alike(s, t) if t.is_plain else is_same_article(s, t.kinship)))


@njit(nogil=True, cache=True)
def _lacks_least(s, m, n, t):
    """The candidate that the item lacks least of, the log-odds of novelty against it, and whether the item is held
    back. By plain similarity, the one whose body is most alike.
    """
    best, least = 0, np.float32(np.inf)
    if t.is_plain:
        for k in range(n):
            if is_alike(s[m + k], t) and not s[m + best].body >= s[m + k].body:
                best = k
        return best, np.float32(np.nan), is_alike(s[m + best], t)
    for k in range(n):
        log_odds = novelty_logit(s[m + k], t.trees)
        if log_odds < least:
            best, least = k, log_odds
    return best, least, least < t.hold_below


# -- in verdicts -------------------------------------------------------------------------------------------------------


def verdicts_of(
    ready: Prepared, decided: Decided, settled_ids: Sequence[str], id_of: Callable[[int], str], policy: PolicySettings
) -> list[Verdict | None]:
    """Return a verdict per subject (None for an empty one). O(items).

    settled_ids: of the settled items; id_of: returns the id of a row of the index.
    """
    items, resolution, texts, p = ready.subjects, decided.resolution, ready.prints.texts, decided.settled
    ids, rulings = [*settled_ids, *(item.id for item in items)], _RULINGS | _RULINGS_BY_POLICY[policy.updates]
    parts = _verdict_parts(decided)
    verdicts: list[Verdict | None] = []
    outcomes, slots = resolution.outcome[p:].tolist(), resolution.slot[p:].tolist()
    settled = zip(items, ready.kinds.tolist(), outcomes, slots, strict=True)
    for j, (item, kind, outcome, slot) in enumerate(settled):
        if outcome == SKIPPED:
            verdicts.append(None)
            continue
        if outcome == NEW:
            verdicts.append(Verdict(item.id, Kind.TOMBSTONE if kind == TOMBSTONE else Kind.UNIQUE, Stage.NONE, True))
            continue
        row, time, partition, offset, stage, evidence = next(parts)
        ruling = rulings[outcome]
        if kind == TOMBSTONE:
            ruling, evidence = _WITHDRAWN, None
        elif ruling.kind is Kind.UPDATE and texts is not None:
            adds = describe_additions(
                item, texts, j, decided.signatures["words"][slot], decided.signatures["figures"][slot]
            )
            evidence = msgspec.structs.replace(evidence, adds=adds)
        other = Original(id_of(row) if row >= 0 else ids[-1 - row], time, partition, offset)
        original, nearest = (None, other) if ruling.kind is Kind.UNIQUE else (other, None)
        stage = stage if ruling.stage is None else ruling.stage
        verdicts.append(
            Verdict(item.id, ruling.kind, stage, ruling.forward, original, evidence, ruling.reason, nearest)
        )
    return verdicts


def _verdict_parts(decided: Decided) -> Iterator[Any]:
    """For each item that a candidate settled: its row, time, partition and offset, and parts of the verdict.

    Built column by column, because an element of an array costs ten times as much as one of a list.
    """
    resolution, signatures = decided.resolution, decided.signatures
    judged = np.flatnonzero(resolution.slot >= 0)
    s, chosen = resolution.similar[judged], signatures.take(resolution.slot[judged])
    size, of_chosen = signatures["body_size"][judged], chosen["body_size"]
    is_cut = s["containment"] >= _CUT
    is_cut &= np.maximum(size, of_chosen) >= _CUT_RATIO * np.minimum(size, of_chosen)
    cuts = np.where(is_cut, np.where(size > of_chosen, 1, 2), 0)
    with np.errstate(invalid="ignore"):
        new_words = np.minimum(s["new_words"], s["words"])  # a filter estimates, and may estimate more
        share = new_words / np.maximum(s["words"], 1)
    evidence = map(
        Evidence,
        _or_none(s["body"]),
        _or_none(s["containment"]),
        _or_none(s["headline"]),
        _or_none(s["article_coverage"]),
        s["same_source"].tolist(),
        map(_CUTS.__getitem__, cuts.tolist()),
        resolution.candidate_count[judged].tolist(),
        (None if bits is None else int(bits) for bits in _or_none(s["distance"])),
        _or_none(probability(resolution.logit[judged])),
        _or_none(new_words),
        _or_none(share),
        (None if count is None else round(count) for count in _or_none(s["new_numbers"])),
    )
    places = (chosen[name].tolist() for name in ("time", "partition", "offset"))
    return zip(resolution.row[judged].tolist(), *places, strongest(s), evidence, strict=True)


def _or_none(values: NDArray[np.floating[Any]]) -> list[float | None]:
    return [x if x == x else None for x in values.tolist()]  # NaN differs from itself
