"""The steps of `pairs` on a corpus: sort keys into candidates, compare pages, compare articles (articles.py).

1. Candidates, by sorting instead of look-ups. The keys of a table, of all its columns together, are sorted with their
   rows; equal neighbours are candidates. The result is one or more *runs* for each table: ascending pair codes, later
   row * 2^32 + earlier row. If the keys of a table do not fit in memory, they are sorted in ranges, and the columns are
   read once for each range. If the pairs do not fit, they make several runs.
2. Pages, by ranges of rows. The codes of a range are contiguous in each run, so one sort merges the runs and removes
   repeated pairs. The result is the near pairs of the range, ordered by (later, earlier).
3. Articles: `learn` finds the boilerplate of the corpus, and near pairs are compared by ranges of rows again.

A bucket of n equal keys has n(n-1)/2 pairs, and a template of a million pages would fill every disk. So each item is
paired with the newest `bucket_limit` items before it in its bucket, as in the stream. A pair is missed only if that
many items lie between the two in every table that they share; a family of more copies may fall into several clusters.
The result counts the pairs that were left out.

Source: bands as buckets, Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4; here sorted instead of
hashed.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.dedup.rule import Rule
from stream_dedup.dedup.verdict import Stage
from stream_dedup.tools.batch.articles import (
    Arrays,
    Rows,
    boilerplate_of,
    compare_articles,
    compare_pages,
    recurring,
)
from stream_dedup.tools.batch.corpus import Corpus

Codes = NDArray[np.uint64]

_STAGES = list(Stage)
# Ranges begin at multiples of this row count, so a run is searched for n / 256 rows instead of n.
_STEP = 256
# Steps in a range at most: the word set of a row takes 4 KB.
_MOST_STEPS = 16
_SHIFT, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_NO_CODES = np.empty(0, np.uint64)
# Bins in which keys are counted before a table is cut into ranges; keys are hashes, so they fill the bins evenly.
_BINS = 2**12
# Rows whose passages are counted at a time, and bytes that counting a passage takes.
_COUNTED_ROWS, _COUNTED_BYTES = 2**14, 32


# -- candidate pairs --------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """Ascending, distinct pair codes; and of the buckets behind them, how many are hot and how many pairs they omit."""

    codes: Codes
    hot: int
    left_out: int


def bucket_pairs(ranges: Iterable[Codes], bucket_limit: int, capacity: int) -> Iterator[Run]:
    """The pair codes of equal neighbours, about `capacity` at a time; the last run may be empty.

    ranges: entries, key * 2^32 + row, ascending within a range; each bucket lies in one range. O(pairs log pairs).
    """
    most, waiting, filled, hot, left_out = max(capacity, bucket_limit), list[Codes](), 0, 0, 0
    for entries in ranges:
        keys = entries >> _SHIFT
        before = np.arange(len(keys)) - np.searchsorted(keys, keys)  # the entries before each one in its bucket
        hot += int(np.count_nonzero(before == bucket_limit + 1))
        left_out += int(np.maximum(before - bucket_limit, 0).sum())
        later = np.flatnonzero(before)
        for back in range(1, min(int(before.max(initial=0)), bucket_limit) + 1):
            later = later[before[later] >= back]
            if filled + len(later) > most:
                yield Run(distinct(np.concatenate([_NO_CODES, *waiting])), hot, left_out)
                waiting, filled, hot, left_out = [], 0, 0, 0
            waiting.append(entries[later] << _SHIFT | entries[later - back] & _LOW)
            filled += len(later)
    yield Run(distinct(np.concatenate([_NO_CODES, *waiting])), hot, left_out)


def sorted_ranges(corpus: Corpus, table: int, capacity: int) -> Iterator[Codes]:
    """The entries of a table, key * 2^32 + row, ascending and distinct, about `capacity` at a time.

    Each bucket lies in one range. O(n log n) time, and some 4 * `capacity` * 8 bytes.
    """
    for low, high in _ranges(corpus, table, capacity):
        entries = []
        for start, keys in corpus.keys(table):
            columns, rows = np.nonzero((keys >= low) & (keys <= high))
            entries.append(codes_of(keys[columns, rows], rows + start))
        yield distinct(np.concatenate(entries))


def _ranges(corpus: Corpus, table: int, capacity: int) -> list[tuple[int, int]]:
    """The (first, last) keys of ranges of about `capacity` entries; 0 is no key."""
    if sum(keys.size for _, keys in corpus.keys(table)) <= capacity:
        return [(1, 2**32 - 1)]
    width = 2**32 // _BINS
    counts = sum(np.bincount(keys.ravel() // np.uint32(width), minlength=_BINS) for _, keys in corpus.keys(table))
    before = np.cumsum(np.asarray(counts)) - counts
    cuts = np.flatnonzero(np.diff(before // capacity, prepend=-1)).tolist()
    return [(max(1, first * width), last * width - 1) for first, last in pairwise([*cuts, _BINS])]


def distinct(codes: Codes) -> Codes:
    """The distinct entries or codes, ascending. Sorts in place. `np.unique` hashes first, which takes twice as long."""
    codes.sort()
    first = np.ones(len(codes), np.bool_)
    np.not_equal(codes[1:], codes[:-1], out=first[1:])
    return codes[first]


def rows_of(codes: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The later and the earlier row of each pair code."""
    return (codes >> _SHIFT).astype(np.int64), (codes & _LOW).astype(np.int64)


def codes_of(later: NDArray[np.integer[Any]], earlier: NDArray[np.integer[Any]]) -> Codes:
    """The inverse of `rows_of`: the high and the low 32 bits."""
    return later.astype(np.uint64) << _SHIFT | earlier.astype(np.uint64)


def row_ranges(runs: Sequence[Codes], size: int, capacity: int) -> Iterator[tuple[int, list[Codes]]]:
    """Cut the rows 0 to `size` into ranges of about `capacity` codes: the end of each, and its slice of each run."""
    edges = np.append(np.arange(0, size, _STEP), size).astype(np.uint64)
    positions = np.array([np.searchsorted(run, edges << _SHIFT) for run in runs]).reshape(len(runs), len(edges))
    codes = positions.sum(axis=0)
    start = 0
    while start < len(edges) - 1:
        end = int(np.searchsorted(codes, codes[start] + capacity, side="right")) - 1
        end = min(max(end, start + 1), start + _MOST_STEPS, len(edges) - 1)
        yield int(edges[end]), [run[at[start] : at[end]] for run, at in zip(runs, positions, strict=True)]
        start = end


def near_pairs(corpus: Corpus, rule: Rule, slices: Sequence[Codes]) -> tuple[int, Arrays]:
    """The number of distinct candidates in `slices`, and those that are near, as pages.

    O(candidates · bytes of a signature). Several threads may call it at once.
    """
    codes = distinct(np.concatenate([_NO_CODES, *slices]))
    rows, later, earlier = _numbered(codes)
    near = compare_pages(corpus.prints(rows), later, earlier, rule)
    return len(codes), {"codes": codes[near.is_near], "is_copy": near.is_copy[near.is_near]}


def learn(corpus: Corpus, copies: Codes, memory: int) -> Boilerplate:
    """The passages that recur in three articles of the corpus. Of copies one counts, the first by its digest.

    O(passages), and some `memory` bytes; an item has some fifty passages.
    """
    rows, later, earlier = _numbered(copies)
    by_digest = np.argsort(corpus.signatures(rows)["digest"], kind="stable")
    place = np.argsort(by_digest)
    roots = cluster_of(unite(np.arange(len(rows)), place[later], place[earlier]))
    is_counted = np.ones(corpus.size, np.bool_)
    is_counted[rows[by_digest[roots != np.arange(len(rows))]]] = False
    counted = np.flatnonzero(is_counted)
    parts = 1 + corpus.passage_count * _COUNTED_BYTES // memory
    some = np.split(counted, range(_COUNTED_ROWS, len(counted), _COUNTED_ROWS))

    def chunks(part: int) -> Iterator[tuple[NDArray[np.uint32], Rows]]:
        """A part of the hashes. Each hash is in one."""
        for hashes, owners in map(corpus.passages, some):
            is_in = hashes % parts == part
            yield hashes[is_in], owners[is_in]

    found = [recurring(chunks(part)) for part in range(parts)]
    return boilerplate_of(np.sort(np.concatenate(found)))


def article_pairs(corpus: Corpus, rule: Rule, boilerplate: Boilerplate | None, slices: Sequence[Codes]) -> Arrays:
    """The codes of near pairs, and FOUND of each. boilerplate: None: compare pages.

    O(pairs · words of an article). Several threads may call it at once.
    """
    codes = np.concatenate([_NO_CODES, *slices])
    rows, later, earlier = _numbered(codes)
    with_texts = boilerplate is not None
    corrects = corpus.corrects(rows) if with_texts else None
    found = compare_articles(corpus.prints(rows, with_texts), later, earlier, rule, boilerplate, corrects)
    return {"codes": codes, "found": found}


def _numbered(codes: Codes) -> tuple[Rows, Rows, Rows]:
    """The distinct rows of codes, ascending, and the places of the later and the earlier row of each code in them."""
    rows, places = np.unique(np.concatenate(rows_of(codes)), return_inverse=True)
    return rows, places[: len(codes)], places[len(codes) :]


def unite(roots: Rows, a: Rows, b: Rows) -> Rows:
    """Join the rows a[p] and b[p] for each p in the forest `roots` (n,) int64, which begins as arange(n); return it.

    The smaller of two roots becomes the root of both, so the name of a tree does not depend on the order of the pairs.
    Each pass halves the paths. Source: Shiloach, Vishkin, "An O(log n) parallel connectivity algorithm", Journal of
    Algorithms 1982.
    """
    rows = np.concatenate([a, b])
    while True:
        while (roots[rows] != (up := roots[roots[rows]])).any():
            roots[rows] = up
        x, y = roots[a], roots[b]
        if (x == y).all():
            return roots
        np.minimum.at(roots, np.maximum(x, y), np.minimum(x, y))


def cluster_of(roots: Rows) -> Rows:
    """The root of each row, (n,). Flattens the forest in place and returns it. O(n log n)."""
    while (roots != (up := roots[roots])).any():
        roots[:] = up
    return roots


def pair_rows(pairs: NDArray[np.void], a: list[str], b: list[str]) -> dict[str, list[Any]]:
    """The columns of the output for FOUND pairs, with the ids of the earlier and the later items."""
    return {
        "a": a,
        "b": b,
        "stage": [str(_STAGES[stage]) for stage in pairs["stage"].tolist()],
        **{name: _rounded(pairs[name]) for name in ("body", "containment", "headline")},
        "distance": [None if bits is None else int(bits) for bits in _rounded(pairs["distance"])],
    }


def _rounded(column: NDArray[np.float32]) -> list[float | None]:
    """Four digits, as in a verdict; NaN becomes None."""
    rounded = np.round(column.astype(np.float64), 4).tolist()
    return [None if x != x else x for x in rounded]
