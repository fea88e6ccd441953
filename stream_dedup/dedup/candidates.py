"""Find the candidates of a batch, earlier items that share a key with an item, and choose the twelve to compare.

In: the fingerprints of a batch and the `Windows` of its times. Out: `Candidates`, from which `choose` takes, for each
item in turn, those that it is compared with. One rule holds wherever a batch begins:

1. A key gives an item the newest `index.bucket_limit` of the remembered items that have it and lie within the item's
   window. Remembered are the originals among all earlier items, those of this batch included.
2. Of these, the `MAX_CANDIDATES` with the highest score are compared, of equals the newest ones. The score is the sum
   over the shared keys of 1 / (items that the key gave), since a rare key says more than one of a form or a menu. An
   item with the same id comes first, unless more than four have it: then it names no article, and is a key like others.

What this batch remembers is known only as its items are judged. So the index is asked for all items at once, and the
result is kept whole where this batch may change it: `is_changing`. decide.py then calls `choose` for each item.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.compiled import njit
from stream_dedup.dedup.clocks import is_in_window
from stream_dedup.fingerprint.bits import GOLDEN
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.probe import ITEM_SHIFT, ROW_SHIFT, is_near
from stream_dedup.index.times import Windows

# Candidates that are compared with an item. This bounds the cost of a burst of copies. On the labelled streams 12, 16
# and 24 candidates give the same rates.
MAX_CANDIDATES = 12
ADDED, DELETED = range(2)
"""Positions in `Resolution.counts` (decide.py)."""
NO_ID = np.uint64(0)
"""No id has this hash."""
COLUMN = (1 << ROW_SHIFT) - 1
"""The bits of a word that hold the column of the item's key."""
# Of a key that gave one item, as an integer: sums are exact in any order. An equal id outweighs 3,074 keys.
_KEY_WEIGHT, _ID_WEIGHT = 1 << 16, 1 << 29
# Items of one id up to which it names an article: several feeds may count 1, 2, 3, and each item of one id takes the
# place of a candidate.
_MOST_OF_ONE_ID = 4


@njit(nogil=True, cache=True, inline="always")
def version_of(row_id, digest):
    """The name of one version of an id, 64 bits: of the hash of the id and the digest of the words.

    The upper half is that of the id, so the same key of the index finds both. A deletion of the id deletes all that
    have it, a deletion of a version those with its words.
    """
    return row_id ^ (digest * GOLDEN >> np.uint64(32))


def versions_of(signatures: NDArray[np.void]) -> NDArray[np.uint64]:
    """`version_of` for signatures, (n,)."""
    names: NDArray[np.uint64] = version_of.py_func(signatures["row_id"], signatures["digest"])
    return names


class Candidates(NamedTuple):
    """Candidates of m items with keys in C columns. The first of them are settled already and ask for nothing.

    - previous: (C, m) where the newest earlier item of the batch has the same key, item << ROW_SHIFT | column, or -1;
      keys: (m, C); is_related: (m,) the item has a previous one.
    - words: as `Found.words`. A group is a row of the index that shares a key with an item: row: (groups,) its number;
      begin, end: its words; slot: where its signature is.
    - first, last: (m,) the groups of each item, by row.
    - is_changing: (m,) what the index gave has to be counted again, because this batch crowds a key of the item, or may
      forget one of many rows. is_cut: (m,) there may be more rows: a key gave as many as it may, or the best were kept.
    - limits: (m,) the rows that the index gave for a key at most.
    """

    previous: NDArray[np.int32]
    keys: NDArray[np.uint32]
    is_related: NDArray[np.bool_]
    words: NDArray[np.int64]
    row: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    slot: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    is_changing: NDArray[np.bool_]
    is_cut: NDArray[np.bool_]
    limits: NDArray[np.int64]


def find_candidates(
    keys: NDArray[np.uint32], windows: Windows, index: HybridIndex, bucket_limit: int, may_forget: bool, first_kept: int
) -> Candidates:
    """Ask the index for all items but the settled ones, which have no `windows`. The caller fills in the slots.

    may_forget: an item was forgotten already; first_kept: the first row still in the index after the batch, if it
    remembers all its items.
    """
    m, ids, settled = len(keys), keys.shape[1] - 1, len(keys) - len(windows)
    found = index.find(keys[settled:], windows)
    words = found.words + (settled << ITEM_SHIFT)
    budgets = np.pad(found.budgets, ((0, 0), (settled, 0)), constant_values=bucket_limit)
    previous, depth = _previous_in_bucket(
        np.ascontiguousarray(index.nearness.buckets(keys.T)), index.nearness.first_columns
    )
    is_related: NDArray[np.bool_] = (depth > 0).any(axis=0)
    is_full: NDArray[np.bool_] = (budgets == 0).any(axis=0)
    is_changing: NDArray[np.bool_] = ((depth > 0) & (depth > budgets)).any(axis=0)
    may_forget |= first_kept > found.first or bool(depth[ids].any() or (words & COLUMN == ids).any())
    if may_forget:
        is_changing |= is_full
    may_trim = ~(is_changing | is_related | may_forget)
    groups = _groups(words, found.first, may_trim, is_full, keys.shape[1])
    limits = np.full(m, bucket_limit)
    return Candidates._make((previous, keys, is_related, words, *groups, is_changing, is_full, limits))


def find_again(
    candidates: Candidates, j: int, window: Windows, index: HybridIndex, limit: int
) -> tuple[Candidates, NDArray[np.int64]]:
    """Ask the index for item j alone, for up to `limit` rows a key. Return the candidates, and (n,) its rows.

    Its groups and words are put at the end; the caller fills in their slots. window: (1, 5).
    """
    found = index.find(candidates.keys[j : j + 1], window, limit)
    may_trim, is_cut, words = np.zeros(1, np.bool_), np.ones(1, np.bool_), len(candidates.words)
    row, begin, end, slot, _, last = _groups(found.words, found.first, may_trim, is_cut, candidates.keys.shape[1])
    candidates.first[j], candidates.last[j] = len(candidates.row), len(candidates.row) + last[0]
    candidates.is_changing[j], candidates.limits[j] = True, limit
    longer = {"words": found.words, "row": row, "begin": begin + words, "end": end + words, "slot": slot}
    joined = {name: np.concatenate([getattr(candidates, name), part]) for name, part in longer.items()}
    return candidates._replace(**joined), row


@njit(nogil=True, cache=True)
def _previous_in_bucket(keys, first_columns):
    """For keys (C, m): where the newest earlier item has the same key in the same table, see `Candidates`, and the
    number of all earlier items that have it, (C, m).
    """
    m = keys.shape[1]
    previous, depth = np.full(keys.shape, -1, np.int32), np.zeros(keys.shape, np.int32)
    bits = 6
    while 1 << bits < 4 * m * np.diff(first_columns).max():  # three slots in four stay free: probe sequences are short
        bits += 1
    mask = (1 << bits) - 1
    newest = np.empty(mask + 1, np.int32)  # hash table: where each key was last; for most tables in the first cache
    for table in range(first_columns.size - 1):
        newest[:] = -1
        for j in range(m):
            for column in range(first_columns[table], first_columns[table + 1]):
                key = keys[column, j]
                if not key:
                    continue
                slot = np.int64((np.uint64(key) * GOLDEN) >> np.uint64(64 - bits))
                while newest[slot] >= 0 and keys[newest[slot] & COLUMN, newest[slot] >> ROW_SHIFT] != key:
                    slot = (slot + 1) & mask
                node = newest[slot]
                i, other = node >> ROW_SHIFT, node & COLUMN
                if i == j:  # the item has the key twice
                    previous[column, j], depth[column, j] = previous[other, j], depth[other, j]
                    continue
                if node >= 0:
                    previous[column, j], depth[column, j] = node, depth[other, i] + 1
                newest[slot] = j << ROW_SHIFT | column
    return previous, depth


@njit(nogil=True, cache=True)
def _groups(words, base, may_trim, is_cut, columns):
    """Gather the words of each item and row, see `Candidates`; of items that may be trimmed only the best rows.

    Sets is_cut of these.
    """
    m = may_trim.size
    row, begin, end = np.empty(words.size, np.int64), np.empty(words.size, np.int64), np.empty(words.size, np.int64)
    first, last = np.empty(m, np.int64), np.empty(m, np.int64)
    keep, given = np.empty(words.size, np.bool_), np.empty(columns, np.int64)
    count, w = 0, 0
    for j in range(m):
        first[j], first_word = count, w
        while w < words.size and words[w] >> ITEM_SHIFT == j:
            both = words[w] >> ROW_SHIFT
            row[count] = (both & ((1 << (ITEM_SHIFT - ROW_SHIFT)) - 1)) + base
            begin[count] = w
            while w < words.size and words[w] >> ROW_SHIFT == both:
                w += 1
            end[count] = w
            count += 1
        if count - first[j] > MAX_CANDIDATES and may_trim[j]:
            given[:] = 0
            for v in range(first_word, w):
                given[words[v] & COLUMN] += 1
            weigh_keys(given)
            scores = np.zeros(count - first[j], np.int64)
            for g in range(first[j], count):
                for v in range(begin[g], end[g]):
                    scores[g - first[j]] += given[words[v] & COLUMN]
            keep_best(scores, keep[first[j] : count])
            kept = first[j]
            for g in range(first[j], count):
                if keep[g]:
                    row[kept], begin[kept], end[kept] = row[g], begin[g], end[g]
                    kept += 1
            count, is_cut[j] = kept, True
        last[j] = count
    return row[:count].copy(), begin[:count].copy(), end[:count].copy(), np.arange(count), first, last


@njit(nogil=True, cache=True, inline="always")
def weigh_keys(given):
    """Replace in (C,) the number of items that each key gave by what sharing it adds to a score. Ids come last."""
    names_one = given[-1] <= _MOST_OF_ONE_ID
    for column in range(given.size):
        given[column] = max(_KEY_WEIGHT // max(given[column], 1), 1)
    if names_one:
        given[-1] = _ID_WEIGHT


@njit(nogil=True, cache=True)
def keep_best(scores, keep):
    """Set keep[k] for the MAX_CANDIDATES highest scores, of equals for the last; clear it for the others and for 0."""
    ranked = np.empty(scores.size, np.int64)
    for k in range(scores.size):
        ranked[k] = scores[k] << 32 | k
        keep[k] = False
    ranked.sort()
    for k in range(max(scores.size - MAX_CANDIDATES, 0), scores.size):
        if ranked[k] >> 32:
            keep[ranked[k] & 0xFFFFFFFF] = True


# -- for one item -----------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True, inline="always")
def choose(j, subjects, candidates, near, known, bucket_limit, done, forgotten):
    """The rows and slots of item j's candidates, the oldest first, row -1-i for item i of the batch; and whether the
    index gave enough. If not, it has to be asked again.
    """
    given = np.zeros(candidates.keys.shape[1], np.int64)
    first_kept, has_forgotten = subjects.first_kept_row + done.counts[ADDED], done.counts[DELETED] > 0
    in_batch = hits = np.zeros(0, np.int64)
    if candidates.is_related[j]:
        hits = _in_batch(j, subjects, candidates, near, bucket_limit, done, first_kept, given)
        in_batch = np.empty(hits.size, np.int64)
        for k in range(hits.size):
            in_batch[k] = hits[k] >> ROW_SHIFT
        in_batch = np.unique(in_batch)
    first, last = candidates.first[j], candidates.last[j]
    known_before, total = last - first, last - first + in_batch.size
    is_known, keep = True, np.ones(total, np.bool_)
    if total <= MAX_CANDIDATES and not candidates.is_changing[j]:
        for g in range(first, last):
            is_gone = has_forgotten and _is_gone(known.views, candidates.slot[g], forgotten)
            keep[g - first] = candidates.row[g] >= first_kept and not is_gone
    else:
        scores = np.zeros(total, np.int64)
        is_known = _count_from_index(
            j, candidates, known, bucket_limit, first_kept, has_forgotten, forgotten, given, scores
        )
        for hit in hits:
            scores[known_before + np.searchsorted(in_batch, hit >> ROW_SHIFT)] += given[hit & COLUMN]
        keep_best(scores, keep)
    rows, slots, n = np.empty(total, np.int64), np.empty(total, np.int64), 0
    for k in range(total):  # faster than to join arrays and to choose of them
        if keep[k] and k < known_before:
            rows[n], slots[n] = candidates.row[first + k], candidates.slot[first + k]
        elif keep[k]:
            rows[n], slots[n] = -1 - in_batch[k - known_before], in_batch[k - known_before]
        n += keep[k]
    return rows[:n], slots[:n], is_known


@njit(nogil=True, cache=True, inline="always")
def _is_gone(views, slot, forgotten):
    """Whether this batch has deleted a row of the index: its id, or this version."""
    row_id = views.row_id[slot]
    return row_id in forgotten or version_of(row_id, views.digest[slot]) in forgotten


@njit(nogil=True, cache=True, inline="always")
def _in_batch(j, subjects, candidates, near, bucket_limit, done, first_kept, given):
    """Items of the batch that share a key with item j, for each key: item << ROW_SHIFT | column. Counts `given`."""
    hits = [np.int64(0) for _ in range(0)]
    for column in range(given.size):
        dont_care, most = np.uint64(near.dont_care_bits[column]), np.uint64(near.max_hamming)
        node = np.int64(done.link[column, j])
        while node >= 0 and given[column] < bucket_limit:
            i, other = node >> ROW_SHIFT, node & COLUMN
            counts = not done.is_forgotten[i] and done.row_number[i] >= first_kept
            step, time = subjects.step[i], subjects.index_time[i]
            counts = counts and is_in_window(step, time, subjects.step[j], subjects.windows, j - subjects.settled)
            if dont_care:
                counts = counts and is_near(
                    np.uint64(candidates.keys[j, column]), np.uint64(candidates.keys[i, other]), dont_care, most
                )
            if counts:
                given[column] += 1
                hits.append(i << ROW_SHIFT | column)
            node = np.int64(done.link[other, i])
    return np.array(hits)


@njit(nogil=True, cache=True)
def _count_from_index(j, candidates, known, bucket_limit, first_kept, has_forgotten, forgotten, given, scores):
    """Score the rows of the index that count for item j; return whether the index gave enough.

    The newest rows come first, after those of the batch, which `given` counts already. It ends as the keys' weights.
    """
    first, last = candidates.first[j], candidates.last[j]
    listed, gone = np.zeros(given.size, np.int64), np.zeros(given.size, np.int64)
    counts = np.zeros(candidates.end[last - 1] - candidates.begin[first] if last > first else 0, np.bool_)
    start = candidates.begin[first] if last > first else 0
    for g in range(last - 1, first - 1, -1):
        is_gone = has_forgotten and _is_gone(known.views, candidates.slot[g], forgotten)
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
