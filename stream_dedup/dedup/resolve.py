"""Judge the items of a batch one after the other: the compiled loop behind decide.py.

In: `Subjects` (the items), their `Candidates`, and the signatures of all that may be compared, as arrays. Out: a
`Resolution`: for each item its outcome and the candidate that decided it; the additions and deletions.

Each item is judged against what all earlier items left behind, wherever a batch begins: what the index remembers, which
passages recur. So the loop is sequential. It is compiled, because an item is compared with up to twelve others.

A tombstone, and a new version that is let through, delete the original with their id.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.dedup.boilerplate import SEEN, add_original
from stream_dedup.dedup.candidates import COLUMN, MAX_CANDIDATES
from stream_dedup.dedup.choice import ADDED, DELETED, LOGGED, NO_ID, choose
from stream_dedup.dedup.rule import is_alike, is_repeat, is_same_article, kinship_logit, novelty_logit
from stream_dedup.dedup.similarity import HOUR, Views, measure, unknown
from stream_dedup.index.probe import ROW_SHIFT

# Kinds of subjects. EMPTY: an item without anything to judge it by.
EMPTY, ITEM, TOMBSTONE = 0, 1, 2
# Outcomes, in the order of the cascade; decide.py turns them into verdicts.
SKIPPED, NEW, SAME_ID, SAME_TEXT, NOTHING_NEW, REVISED, DIFFERENT = range(7)

# Containment from which the new body adds nothing: for a text and itself with a tail, sketches estimate this or more in
# 96 of 100 cases (60 to 800 words).
_CONTAINED = np.float32(0.95)


class VersionChange(IntEnum):
    """What becomes of an item whose id an original has."""

    SAME_WORDS = 0
    DROPPED = 1
    COSMETIC = 2
    FORWARDED = 3
    MATERIAL = 4


_SAME_WORDS, _DROPPED, _COSMETIC, _FORWARDED, _MATERIAL = map(int, VersionChange)


class Policy(NamedTuple):
    """The settings of a policy. on_version: the `VersionChange` of other words, MATERIAL: compare the versions."""

    drops_updates: bool
    on_version: int
    cosmetic: np.float32


class Subjects(NamedTuple):
    """The items to judge, (m,) each unless stated otherwise.

    kind: EMPTY, ITEM or TOMBSTONE; id_hash. times: effective, and stated: see `BatchTimes`, ms; window, arrival_step:
    ms. elapsed, step: of the arrival (windows.py). low to old_high: see `Windows`. index_time: as the index would store
    it. seen_at: when the item's passages count as seen, in the unit of `Boilerplate`. first_kept_rows: (m + 1,) the
    first row still in the index after n additions; next_row: the first one that is added.
    """

    kind: NDArray[np.int8]
    id_hash: NDArray[np.uint64]
    times: NDArray[np.int64]
    stated: NDArray[np.int64]
    elapsed: NDArray[np.int64]
    step: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    old_low: NDArray[np.int64]
    old_high: NDArray[np.int64]
    index_time: NDArray[np.int64]
    seen_at: NDArray[np.uint32]
    first_kept_rows: NDArray[np.int64]
    next_row: int
    window: int
    arrival_step: int


class Known(NamedTuple):
    """What the items are compared with, (slots,) each: the items of the batch, and behind them rows of the index.

    views: of the signatures; arrived: elapsed event time at a row's arrival, ms.
    """

    views: Views
    arrived: NDArray[np.int64]


class Resolution(NamedTuple):
    """What was decided.

    For each item, (m,): outcome; row, slot: of the candidate that decided (row -1-i: item i of the batch), or
    NO_CANDIDATE and -1; logit: of novelty (NaN: unknown, or not asked); version: `VersionChange` if the id is the same;
    candidate_count; similar: `SIMILARITY` of that pair; is_added: the index remembers the item. For each deletion, in
    order: before: it happens before this addition; forgotten: hash of the id.
    """

    outcome: NDArray[np.int8]
    row: NDArray[np.int64]
    slot: NDArray[np.int64]
    logit: NDArray[np.float32]
    version: NDArray[np.int8]
    candidate_count: NDArray[np.int64]
    is_added: NDArray[np.bool_]
    before: NDArray[np.int64]
    forgotten: NDArray[np.uint64]
    similar: NDArray[np.void]


NO_CANDIDATE = 2**62
"""In `Resolution.row`: no candidate decided."""


class Progress(NamedTuple):
    """How far a batch of m items is.

    counts: additions, deletions, and changes of boilerplate; link: (C, m) as `Candidates.previous`, of the newest
    remembered item; is_forgotten: (m,) a later item of the batch deleted it; row_number: in the index. changed, before:
    (changes,) positions of the entries of boilerplate that the batch has changed, and (changes, 4) what was there.
    """

    counts: NDArray[np.int64]
    link: NDArray[np.int32]
    is_forgotten: NDArray[np.bool_]
    row_number: NDArray[np.int64]
    changed: NDArray[np.int64]
    before: NDArray[np.uint32]
    resolution: Resolution


def begin(m: int, columns: int, passages: int) -> Progress:
    """Nothing is judged yet. passages: of all items."""
    flags, numbers, codes = np.zeros((2, m), np.bool_), (lambda: np.zeros(m, np.int64)), np.zeros((2, m), np.int8)
    resolution = Resolution(
        codes[0], np.full(m, NO_CANDIDATE), np.full(m, -1), np.full(m, np.nan, np.float32), codes[1], numbers(),
        flags[0], numbers(), np.zeros(m, np.uint64), unknown(m + MAX_CANDIDATES),
    )  # fmt: skip
    links, entries = np.full((columns, m), -1, np.int32), np.zeros((passages, 4), np.uint32)
    return Progress(
        np.zeros(3, np.int64), links, flags[1], numbers(), np.zeros(passages, np.int64), entries, resolution
    )


@njit(nogil=True, cache=True)
def judge_from(j, subjects, candidates, near, known, news, t, policy, bucket_limit, scratch, done):
    """Judge the items from j on. Return the number of items, or the item for which the index has to be asked again.

    That is an item with a key whose newest rows were forgotten, so that older ones take their place. near: of the
    index; t: Thresholds.
    """
    r, s, m = done.resolution, done.resolution.similar, subjects.kind.size
    forgotten_ids = {NO_ID}
    for k in range(done.counts[DELETED]):
        forgotten_ids.add(r.forgotten[k])
    columns = done.link.shape[0]
    # The n candidates of the item at hand: row, slot.
    rows, slots = np.empty(MAX_CANDIDATES, np.int64), np.empty(MAX_CANDIDATES, np.int64)
    given, position = np.empty(columns, np.int64), np.full(m, -1, np.int32)
    nothing = np.zeros(0, np.int64)
    passages_seen, seen_by = np.zeros(SEEN, np.uint32), np.full(SEEN + 1, -1, np.int64)
    while j < m:
        if candidates.is_related[j]:
            for column in range(columns):
                node = candidates.previous[column, j]
                i, other = node >> ROW_SHIFT, node & COLUMN
                done.link[column, j] = node if node < 0 or r.is_added[i] else done.link[other, i]
        if subjects.kind[j] == EMPTY:
            j += 1
            continue
        # 1. The candidates that count now.
        if done.counts[DELETED] > 0 and candidates.is_cut[j] and not candidates.is_changing[j]:
            return j
        n = candidates.last[j] - candidates.first[j]
        if n > 0 or candidates.is_related[j]:
            n = choose(
                j,
                subjects,
                candidates,
                near,
                known,
                bucket_limit,
                done,
                forgotten_ids,
                given,
                position,
                nothing,
                rows,
                slots,
            )
            if n < 0:
                return j
        r.candidate_count[j] = n

        # 2. Decide: by id, by text, by what is new.
        forgets_its_id, is_retained, best = False, False, -1
        for k in range(n):
            if known.views.row_id[slots[k]] == subjects.id_hash[j]:
                best = k
                break
        is_item = subjects.kind[j] == ITEM
        if is_item and n > 0:
            low, high = (best, best + 1) if best >= 0 else (0, n)
            _measure(s, m + low, j, subjects, rows[low:high], slots[low:high], known, news, scratch)
        if not is_item:
            r.outcome[j] = SAME_ID if best >= 0 else NEW
            forgets_its_id = best >= 0
        elif n == 0:
            r.outcome[j] = NEW
            is_retained = True
        elif best >= 0:
            r.outcome[j] = SAME_ID
            r.version[j] = _new_version(
                s[m + best], known.views.body_size[j] < known.views.body_size[slots[best]], policy
            )
            forgets_its_id = is_retained = r.version[j] == _FORWARDED or r.version[j] == _MATERIAL
        else:
            for k in range(n):
                if best < 0 and is_repeat(s[m + k]):
                    best = k
            if best >= 0:
                r.outcome[j] = SAME_TEXT
            else:
                best, r.outcome[j], r.logit[j] = _decide(s, m, n, t)
            is_retained = r.outcome[j] == DIFFERENT or (r.outcome[j] == REVISED and not policy.drops_updates)
        # 3. Record what the item leaves behind.
        if best >= 0:
            r.row[j], r.slot[j] = rows[best], slots[best]
            if is_item:
                s[j] = s[m + best]
        if forgets_its_id:
            gone, at = known.views.row_id[slots[best]], done.counts[DELETED]
            r.before[at], r.forgotten[at] = done.counts[ADDED], gone
            done.counts[DELETED] += 1
            forgotten_ids.add(gone)
            for i in range(j):
                done.is_forgotten[i] |= subjects.id_hash[i] == gone
        if is_retained:
            r.is_added[j] = True
            done.row_number[j] = subjects.next_row + done.counts[ADDED]
            done.counts[ADDED] += 1
        if is_retained and (r.outcome[j] == NEW or r.outcome[j] == DIFFERENT):
            texts = news.texts
            done.counts[LOGGED] = add_original(
                news.entries, texts.passages.hashes, texts.firsts[j, 0], texts.lasts[j, 0], subjects.seen_at[j], j,
                passages_seen, seen_by, done.changed, done.before, done.counts[LOGGED],
            )  # fmt: skip
        j += 1
    return m


@njit(nogil=True, cache=True, inline="always")
def _measure(s, first, j, subjects, rows, slots, known, news, scratch):
    """Compare item j with candidates, into s[first:first + n].

    Hours apart: if the effective times are more than a window apart, the item's stated time counts if it is not, and
    otherwise the time between the two arrivals.
    """
    window = subjects.window
    for k in range(rows.size):
        time = known.views.time[slots[k]]
        gap = abs(subjects.times[j] - time)
        if gap > window:
            gap = abs(subjects.stated[j] - time)
            if gap > window:
                in_batch = rows[k] < 0
                arrived = subjects.step[-1 - rows[k]] * subjects.arrival_step if in_batch else known.arrived[slots[k]]
                gap = min(max(subjects.elapsed[j] - arrived, 0), window)
        s[first + k].apart = gap / HOUR
    measure(s, first, news, j, known.views, known.views, slots, scratch)


@njit(nogil=True, cache=True)
def _decide(s, m, n, t):
    """The candidate that decides, of those measured in s[m:m + n], the outcome, and the log-odds of novelty against it.

    That is the candidate that the item lacks least of, if the item is held back; else the one most likely the same
    article. The oldest of equals.
    """
    best, least = 0, np.float32(np.inf)
    if t.is_plain:
        for k in range(n):
            if is_alike(s[m + k], t) and not s[m + best].body >= s[m + k].body:
                best = k
        return best, NOTHING_NEW if is_alike(s[m + best], t) else DIFFERENT, np.float32(np.nan)
    for k in range(n):
        log_odds = novelty_logit(s[m + k])
        if log_odds < least:
            best, least = k, log_odds
    if least < t.hold_below:
        return best, NOTHING_NEW, least
    closest = np.float32(-np.inf)
    for k in range(n):
        kinship = kinship_logit(s[m + k])
        if kinship > closest:
            best, closest = k, kinship
    return best, REVISED if is_same_article(s[m + best]) else DIFFERENT, novelty_logit(s[m + best])


@njit(nogil=True, cache=True)
def _new_version(s, is_shorter, policy):
    """The `VersionChange` of a pair with the same id. A redelivery (same words) is a duplicate under every policy.

    If the old body contains the new one, as in feeds that drop a footer or a doubled text, the new version adds
    nothing.
    """
    if s.same_text:
        return _SAME_WORDS
    if policy.on_version != _MATERIAL:
        return policy.on_version
    no_body, no_headline = np.isnan(s.body), np.isnan(s.headline)
    like_bodies = no_body or s.body >= policy.cosmetic or (is_shorter and s.containment >= _CONTAINED)
    like_headlines = no_headline or s.headline >= policy.cosmetic
    return _COSMETIC if like_bodies and like_headlines and not (no_body and no_headline) else _MATERIAL
