"""Judge the items of a batch one after the other: the compiled loop behind decide.py.

In: `Subjects` (the items), their `Candidates`, and the signatures of all that may be compared, as arrays. Out: a
`Resolution`: for each item its outcome and the candidate that decided it; the additions and deletions.

Each item is judged against what all earlier items left behind, wherever a batch begins: what the index remembers, which
passages recur, which time a variant counts by. So the loop is sequential. It is compiled, because news items that have
candidates have 17 on average.

Every remembered item has a **canonical id**: its own if it was let through, that of its original if it is a variant. A
tombstone, and a new version that is let through, delete the original with that id together with its variants.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.dedup.boilerplate import SEEN, add_original
from stream_dedup.dedup.candidates import COLUMN, MAX_CANDIDATES
from stream_dedup.dedup.choice import ADDED, DELETED, LOGGED, NO_ID, choose
from stream_dedup.dedup.rule import (
    Finding,
    gated_logit,
    is_repeat,
    judge_pair,
    novelty_logit,
    shows_section_headline,
    vetoed,
)
from stream_dedup.dedup.similarity import HOUR, Similarities, Views, measure, pair_at
from stream_dedup.index.probe import ROW_SHIFT

# Kinds of subjects. EMPTY: an item without anything to judge it by.
EMPTY, ITEM, TOMBSTONE = 0, 1, 2
# Outcomes, in the order of the cascade; decide.py turns them into verdicts.
SKIPPED, NEW, SAME_ID, SAME_TEXT, NOTHING_NEW, REVISED, DIFFERENT = range(7)

_NOTHING = int(Finding.NOTHING)
# A duplicate becomes a variant below this Jaccard of body or headline. Above it, the original's keys find the same
# copies, and each copy would cost a row.
_DISTINCT = np.float32(0.8)
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
    keeps_variants: bool


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

    views: of the signatures; of a variant of the batch, row_id and time become those of its original. is_variant;
    arrived: elapsed event time at a row's arrival, ms.
    """

    views: Views
    is_variant: NDArray[np.bool_]
    arrived: NDArray[np.int64]


class Resolution(NamedTuple):
    """What was decided.

    For each item, (m,): outcome; row, slot: of the candidate that decided (row -1-i: item i of the batch), or
    NO_CANDIDATE and -1; finding and logit of that pair (NaN: unknown, or not asked); against_original: novelty
    compares with the original of the candidate, which is a variant; version: `VersionChange` if the id is the same;
    candidate_count; similar: of that pair; is_added: the index remembers the item; variant_of: hash of the id of the
    original of which it is a variant, or 0. For each deletion, in order: before: it happens before this addition;
    forgotten: hash of the id.
    """

    outcome: NDArray[np.int8]
    row: NDArray[np.int64]
    slot: NDArray[np.int64]
    finding: NDArray[np.int8]
    logit: NDArray[np.float32]
    against_original: NDArray[np.bool_]
    version: NDArray[np.int8]
    candidate_count: NDArray[np.int64]
    is_added: NDArray[np.bool_]
    variant_of: NDArray[np.uint64]
    before: NDArray[np.int64]
    forgotten: NDArray[np.uint64]
    similar: Similarities


NO_CANDIDATE = 2**62
"""In `Resolution.row`: no candidate decided."""


class Progress(NamedTuple):
    """How far a batch of m items is.

    counts: additions, deletions, and changes of boilerplate; link: (C, m) as `Candidates.previous`, of the newest
    remembered item; canonical: ids of remembered items; row_number: in the index. changed, before: (changes,)
    positions of the entries of boilerplate that the batch has changed, and (changes, 4) what was there.
    """

    counts: NDArray[np.int64]
    link: NDArray[np.int32]
    canonical: NDArray[np.uint64]
    row_number: NDArray[np.int64]
    changed: NDArray[np.int64]
    before: NDArray[np.uint32]
    resolution: Resolution


def begin(m: int, columns: int, passages: int) -> Progress:
    """Nothing is judged yet. passages: of all items."""
    ids, numbers = (lambda: np.zeros(m, np.uint64)), (lambda: np.zeros(m, np.int64))
    flags, codes = (lambda: np.zeros(m, np.bool_)), (lambda: np.zeros(m, np.int8))
    resolution = Resolution(
        codes(), np.full(m, NO_CANDIDATE), np.full(m, -1), codes(), np.full(m, np.nan, np.float32), flags(), codes(),
        numbers(), flags(), ids(), numbers(), ids(), Similarities.empty(m + MAX_CANDIDATES),
    )  # fmt: skip
    links, entries = np.full((columns, m), -1, np.int32), np.zeros((passages, 4), np.uint32)
    return Progress(np.zeros(3, np.int64), links, ids(), numbers(), np.zeros(passages, np.int64), entries, resolution)


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
    # The n candidates of the item at hand: row, slot, canonical id; which one is compared for novelty.
    rows, slots = np.empty(MAX_CANDIDATES, np.int64), np.empty(MAX_CANDIDATES, np.int64)
    canonicals, findings = np.empty(MAX_CANDIDATES, np.uint64), np.empty(MAX_CANDIDATES, np.int8)
    logits, against = np.empty(MAX_CANDIDATES, np.float32), np.empty(MAX_CANDIDATES, np.int64)
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
        for k in range(n):
            canonicals[k] = known.views.row_id[slots[k]]
        r.candidate_count[j] = n

        # 2. Decide: by id, by text, by novelty, by the rule.
        forgets_its_id, is_retained, best = False, False, -1
        for k in range(n):
            if canonicals[k] == subjects.id_hash[j]:
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
                pair_at(s, m + best), known.views.body_size[j] < known.views.body_size[slots[best]], policy
            )
            forgets_its_id = is_retained = r.version[j] == _FORWARDED or r.version[j] == _MATERIAL
        else:
            for k in range(n):
                if best < 0 and is_repeat(pair_at(s, m + k)):
                    best = k
            if best >= 0:
                r.outcome[j] = SAME_TEXT
            else:
                best = _decide(s, m, n, t, known.is_variant, slots, canonicals, findings, logits, against)
                r.outcome[j] = _outcome_of(findings[best], logits[best], t)
                r.finding[j] = findings[best]
                r.logit[j] = logits[best] if np.isfinite(logits[best]) else np.float32(np.nan)
                r.against_original[j] = against[best] != best
                s.words[m + best], s.new_words[m + best] = s.words[m + against[best]], s.new_words[m + against[best]]
            is_retained = r.outcome[j] == DIFFERENT or (r.outcome[j] == REVISED and not policy.drops_updates)
            is_distinct = s.body[m + best] < _DISTINCT or s.headline[m + best] < _DISTINCT
            is_same = r.outcome[j] != SAME_TEXT and findings[best] > _NOTHING
            if not is_retained and is_same and is_distinct and policy.keeps_variants:
                r.variant_of[j] = done.canonical[j] = canonicals[best]
                r.is_added[j] = True
        # 3. Record what the item leaves behind.
        if best >= 0:
            r.row[j], r.slot[j] = rows[best], slots[best]
            if is_item:
                _copy(s, m + best, j)
        if forgets_its_id:
            gone, at = canonicals[best], done.counts[DELETED]
            r.before[at], r.forgotten[at] = done.counts[ADDED], gone
            done.counts[DELETED] += 1
            forgotten_ids.add(gone)
            for i in range(j):
                if done.canonical[i] == gone:
                    done.canonical[i] = NO_ID
        if is_retained:
            done.canonical[j], r.is_added[j] = subjects.id_hash[j], True
        if r.is_added[j]:
            done.row_number[j] = subjects.next_row + done.counts[ADDED]
            done.counts[ADDED] += 1
        if r.variant_of[j] != NO_ID:
            slot, original_time = j, known.views.time[slots[best]]
            known.views.row_id[slot], known.views.time[slot] = r.variant_of[j], original_time
            known.is_variant[slot], subjects.index_time[j] = True, original_time
        elif is_retained and (r.outcome[j] == NEW or r.outcome[j] == DIFFERENT):
            prose = news.prose
            done.counts[LOGGED] = add_original(
                news.entries, prose.hashes, prose.firsts[j], prose.lasts[j], subjects.seen_at[j], j, passages_seen,
                seen_by, done.changed, done.before, done.counts[LOGGED],
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
        s.apart[first + k] = gap / HOUR
    measure(s, first, news, j, known.views, known.views, slots, scratch)


@njit(nogil=True, cache=True, inline="always")
def _decide(s, m, n, t, slot_is_variant, slots, canonicals, findings, logits, against):
    """Fill in findings and log-odds of the candidates, measured in s[m:m + n]; return the one that decides.

    That is the one that the item lacks least of, if it is held back for that; else the closest one.
    """
    is_section = False
    for k in range(n):
        pair = pair_at(s, m + k)
        is_section |= shows_section_headline(pair, t)
        findings[k], logits[k], against[k] = judge_pair(pair, t), novelty_logit(pair, t), k
    # A variant takes the log-odds of its original: no reader saw the variant, so novelty is against the original.
    for k in range(n):
        if slot_is_variant[slots[k]]:
            for other in range(n):
                if canonicals[other] == canonicals[k] and not slot_is_variant[slots[other]]:
                    logits[k], against[k] = logits[other], other
                    break
    best = -1
    for k in range(n):
        pair = pair_at(s, m + k)
        logits[k] = gated_logit(pair, findings[k], logits[k], is_section)
        findings[k] = vetoed(pair, findings[k], is_section)
        if not np.isnan(logits[k]) and (best < 0 or logits[k] < logits[best]):
            best = k  # the oldest of equals
    return best if best >= 0 and logits[best] < t.hold_below else _closest(s, m, n, findings)


@njit(nogil=True, cache=True, inline="always")
def _closest(s, m, n, findings):
    """The closest candidate: among the same articles, else among those with a guard's veto, else among all; the
    oldest of equals.
    """
    best, best_rank, best_closeness = 0, -1, 0.0
    for k in range(n):
        rank = 2 if findings[k] > _NOTHING else (1 if findings[k] < _NOTHING else 0)
        closeness = _or_zero(s.body[m + k]) + _or_zero(s.lead[m + k]) + _or_zero(s.headline[m + k])
        if rank > best_rank or (rank == best_rank and closeness > best_closeness):
            best, best_rank, best_closeness = k, rank, closeness
    return best


@njit(inline="always")
def _or_zero(share):
    return np.float64(0) if np.isnan(share) else np.float64(share)


@njit(nogil=True, cache=True, inline="always")
def _outcome_of(finding, log_odds, t):
    if log_odds < t.hold_below:
        return NOTHING_NEW
    if finding <= _NOTHING:
        return DIFFERENT
    return NOTHING_NEW if np.isnan(log_odds) else REVISED


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


@njit(nogil=True, cache=True, inline="always")
def _copy(s, p, to):
    """Copy the similarities of pair p to pair `to`."""
    s.body[to], s.containment[to], s.lead[to], s.headline[to] = s.body[p], s.containment[p], s.lead[p], s.headline[p]
    s.swapped[to], s.grounded[to], s.apart[to], s.coverage[to] = s.swapped[p], s.grounded[p], s.apart[p], s.coverage[p]
    s.smaller_size[to], s.expands_flash[to], s.corrects[to] = s.smaller_size[p], s.expands_flash[p], s.corrects[p]
    s.same_source[to], s.same_text[to], s.same_id[to] = s.same_source[p], s.same_text[p], s.same_id[p]
    s.distance[to], s.within_hamming[to] = s.distance[p], s.within_hamming[p]
    s.log_size_ratio[to], s.words[to], s.new_words[to] = s.log_size_ratio[p], s.words[p], s.new_words[p]
