"""Choose the candidates that an item is compared with, by the rule in candidates.py.

In: the `Candidates` of a batch, and how far its items are judged (`Progress`). Out: rows and slots of one item's
candidates. Called by resolve.py for each item in turn, because the batch's own items count like those of the index once
they are remembered.
"""

import numpy as np
from numba import njit

from stream_dedup.dedup.candidates import COLUMN, MAX_CANDIDATES, keep_best, weigh_keys
from stream_dedup.dedup.windows import RECENT_STEPS
from stream_dedup.index.probe import ROW_SHIFT, is_near
from stream_dedup.index.times import ANY_TIME

ADDED, DELETED, LOGGED = range(3)
"""Positions in `Progress.counts`."""
NO_ID = np.uint64(0)
"""No id has this hash."""


@njit(nogil=True, cache=True, inline="always")
def choose(
    j, subjects, candidates, near, known, bucket_limit, done, forgotten_ids, given, position, nothing, rows, slots
):
    """Write rows and slots of item j's candidates, the oldest first; return their number, -1 to ask the index again.

    given: (C,) scratch, the rows that each key has given; position: (m,) scratch, all -1; nothing: an empty array.
    """
    first_kept, has_forgotten = subjects.first_kept_rows[done.counts[ADDED]], done.counts[DELETED] > 0
    in_batch, hits = nothing, nothing
    if candidates.is_related[j]:
        in_batch, hits = _in_batch(
            j, subjects, candidates, near, known, bucket_limit, done, first_kept, given, position
        )
    else:
        given[:] = 0
    first, last = candidates.first[j], candidates.last[j]
    known_before, total, n = last - first, last - first + in_batch.size, 0
    is_known, keep = True, np.ones(total, np.bool_)
    if total <= MAX_CANDIDATES and not candidates.is_changing[j]:
        for g in range(first, last):
            is_gone = has_forgotten and known.views.row_id[candidates.slot[g]] in forgotten_ids
            keep[g - first] = candidates.row[g] >= first_kept and not is_gone
    else:
        for k in range(in_batch.size):
            position[in_batch[k]] = known_before + k
        scores = np.zeros(total, np.int64)
        is_known = _count_from_index(
            j, candidates, known, bucket_limit, first_kept, has_forgotten, forgotten_ids, given, scores
        )
        for hit in hits:
            scores[position[hit >> ROW_SHIFT]] += given[hit & COLUMN]
        keep_best(scores, keep)
    position[in_batch] = -1
    if not is_known:
        return -1
    for k in range(total):
        if keep[k] and k < known_before:
            rows[n], slots[n] = candidates.row[first + k], candidates.slot[first + k]
        elif keep[k]:
            rows[n], slots[n] = -1 - in_batch[k - known_before], in_batch[k - known_before]
        n += keep[k]
    return n


@njit(nogil=True, cache=True, inline="always")
def _in_batch(j, subjects, candidates, near, known, bucket_limit, done, first_kept, given, position):
    """Items of the batch that share a key with item j, ascending; for each shared key of j item << ROW_SHIFT | column.

    Sets `given`, and `position` of these items to 0.
    """
    found, hits, count, hit_count = np.empty(32, np.int64), np.empty(32, np.int64), 0, 0
    for column in range(given.size):
        given[column] = 0
        dont_care, most = np.uint64(near.dont_care_bits[column]), np.uint64(near.max_hamming)
        node = np.int64(done.link[column, j])
        while node >= 0 and given[column] < bucket_limit:
            i, other = node >> ROW_SHIFT, node & COLUMN
            counts = not done.is_forgotten[i] and done.row_number[i] >= first_kept and _is_visible(subjects, j, i)
            if dont_care:
                counts = counts and is_near(
                    np.uint64(candidates.keys[j, column]), np.uint64(candidates.keys[i, other]), dont_care, most
                )
            if counts:
                given[column] += 1
                if position[i] < 0:
                    position[i] = 0
                    found = _with_room(found, count)
                    found[count] = i
                    count += 1
                hits = _with_room(hits, hit_count)
                hits[hit_count] = i << ROW_SHIFT | column
                hit_count += 1
            node = np.int64(done.link[other, i])
    found[:count].sort()
    return found[:count], hits[:hit_count]


@njit(nogil=True, cache=True, inline="always")
def _with_room(array, count):
    if count < array.size:
        return array
    longer = np.empty(2 * count, np.int64)
    longer[:count] = array
    return longer


@njit(nogil=True, cache=True)
def _count_from_index(j, candidates, known, bucket_limit, first_kept, has_forgotten, forgotten_ids, given, scores):
    """Score the rows of the index that count for item j; return whether the index gave enough.

    The newest rows come first, after those of the batch, which `given` counts already. It ends as the keys' weights.
    """
    first, last = candidates.first[j], candidates.last[j]
    listed, gone = np.zeros(given.size, np.int64), np.zeros(given.size, np.int64)
    counts = np.zeros(candidates.end[last - 1] - candidates.begin[first] if last > first else 0, np.bool_)
    start = candidates.begin[first] if last > first else 0
    for g in range(last - 1, first - 1, -1):
        is_gone = has_forgotten and known.views.row_id[candidates.slot[g]] in forgotten_ids
        for w in range(candidates.begin[g], candidates.end[g]):
            column = candidates.words[w] & COLUMN
            listed[column] += 1
            gone[column] += is_gone
            if not is_gone and candidates.row[g] >= first_kept and given[column] < bucket_limit:
                given[column] += 1
                counts[w - start] = True
    for column in range(given.size):
        is_cut = listed[column] >= candidates.limits[j] and given[column] < bucket_limit
        if is_cut and gone[column] > candidates.limits[j] - bucket_limit:
            return False
    weigh_keys(given)
    for g in range(first, last):
        for w in range(candidates.begin[g], candidates.end[g]):
            if counts[w - start]:
                scores[g - first] += given[candidates.words[w] & COLUMN]
    return True


@njit(nogil=True, cache=True, inline="always")
def _is_visible(subjects, j, i):
    """Whether the index would return item i of the batch for item j, if it already had it; see windows.py."""
    time = subjects.index_time[i]
    if subjects.step[i] >= subjects.step[j] - RECENT_STEPS:
        return subjects.low[j] <= time <= subjects.high[j] or time == ANY_TIME
    return subjects.old_low[j] <= time <= subjects.old_high[j]
