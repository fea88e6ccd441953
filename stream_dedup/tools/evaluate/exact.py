"""Compare the decision with exact sets: on how many items does it agree with a deduplicator that never errs?

This module computes for items in order of arrival

- `shingle_sets`: their exact shingle sets;
- `first_seen_wins`: the items that a deduplicator with exact sets holds back;
- `alike_pairs`: all pairs of similar sets;
- `fidelity`: how the stream with `decision.jaccard` compares with the exact deduplicator;
- `measured_curve`: the S-curve of the index. For each interval of the exact Jaccard it has the number of pairs and the
  share of them that a key of the body proposes, by the rule of the index (`index.runs.Nearness`). `planner.py`
  predicts that share.

Pairs of one template share the same shingles, so one key proposes thousands of them, or none. So the error bars of the
curve follow from the number of clusters. A cluster is a connected component of the pairs.

Ranks number the shingles by the number of sets that contain them, the rarest first. A shingle of a single set is in no
intersection: the arrays omit it, and the size counts it. So every Jaccard stays exact, and memory on news falls by half
or more.

Source of the search: prefix filtering over an inverted index, Bayardo, Ma, Srikant, "Scaling up all pairs similarity
search", 2007 (AllPairs), with the length filter and the order by rarity of PPJoin (Xiao et al. 2008). Two sets with
J >= t share a member among the rarest |x| - ceil(t |x|) + 1 of each. Boilerplate that thousands of pages share comes
last in this order and is hardly ever looked up. Nothing that could change a result is skipped.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import DOUBLE, INT64, POINTER, Struct, arena, call
from stream_dedup.dedup.decider import Decider
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.rows import set_in
from stream_dedup.index.runs import nearness_of
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.pair_search import cluster_of, unite
from stream_dedup.tools.evaluate.planner import proposed
from stream_dedup.tools.evaluate.rates import Interval, effective_size, wilson

# Tolerance before a ceiling: a product such as .8 * 5 may exceed 4 by a rounding error.
_ROUNDING = 1e-9
# With this number of pairs, the share in an interval that holds 1 % of them is known to .02.
_PAIRS = 200_000
# Comparisons before the search for pairs stops, after about ten seconds. Those found by then are a random sample.
_COMPARISONS = 30_000_000
_NO_LIMIT = 2**62
_BATCH = 500
# Below this Jaccard two pages share little more than phrases; such pairs are numerous, and the curve is flat.
LOWEST = 0.15
INTERVALS = (
    "Pairs of one template or one much-copied article are proposed or missed together. So the intervals (95 %) are "
    "those of as many independent pairs as there are clusters of pairs, connected by alike bodies: of their effective "
    "number, since a few large ones may hold most pairs."
)
"""Explains the intervals of the curve to a person; plain text."""


@dataclass(frozen=True, slots=True, eq=False)
class ShingleSets:
    """n sets. Set i has `sizes[i]` members; `ranks[bounds[i]:bounds[i + 1]]` are those that other sets have, too."""

    ranks: NDArray[np.int32]  # (m,), ascending within a set
    bounds: NDArray[np.int64]  # (n + 1,)
    sizes: NDArray[np.int64]  # (n,)
    shared: int  # the number of distinct shingles in two or more sets; all ranks are below it

    def __len__(self) -> int:
        return len(self.sizes)


def shingle_sets(sets: Iterable[NDArray[np.uint64]]) -> ShingleSets:
    """Convert sets of distinct 64-bit hashes. O(m log m) in the number of members m; at most about 50 bytes a member.

    >>> sets = shingle_sets([np.array([9, 5], np.uint64), np.array([5, 7], np.uint64)])
    >>> sets.ranks.tolist(), sets.sizes.tolist(), sets.shared
    ([0, 0], [2, 2], 1)
    """
    parts = list(sets)
    sizes = np.array([len(part) for part in parts], np.int64)
    members = np.concatenate([np.empty(0, np.uint64), *parts])
    order = np.argsort(members)
    members = members[order]
    numbers = np.empty(len(order), np.int64)  # number of the shingle in hash order
    numbers[order] = np.cumsum(np.diff(members, prepend=members[:1]) != 0)
    del parts, members, order
    counts = np.bincount(numbers)
    alone = int(np.count_nonzero(counts == 1))
    rank_of = np.empty(len(counts), np.int64)
    rank_of[np.argsort(counts, kind="stable")] = np.arange(len(counts)) - alone  # below 0: in one set only
    ranks = rank_of[numbers]
    kept = ranks >= 0
    ordered = np.repeat(np.arange(len(sizes)), sizes)[kept] << 32 | ranks[kept]
    ordered.sort()
    bounds = np.searchsorted(ordered, np.arange(len(sizes) + 1) << 32)
    return ShingleSets(ordered.astype(np.int32), bounds, sizes, len(counts) - alone)


def body_sets(items: Sequence[Item], fingerprinter: Fingerprinter) -> ShingleSets:
    """Return the distinct shingles of each body, those that the sketches of the same scheme represent."""
    bodies = (fingerprinter.exact(item).body for item in items)
    return shingle_sets(np.fromiter(body, np.uint64, len(body)) for body in bodies)


def first_seen_wins(sets: ShingleSets, threshold: float) -> NDArray[np.int64]:
    """For each set find the nearest earlier original with Jaccard >= threshold, which holds it back; -1: none.

    As in the stream the first seen wins, and a set that is held back is not remembered. Ties go to the oldest original.
    Empty sets match nothing and are not remembered. Memory: some 25 bytes for each member that sets share.

    >>> sets = shingle_sets([np.arange(1, 11, dtype=np.uint64), np.arange(1, 10, dtype=np.uint64)])
    >>> first_seen_wins(sets, 0.8).tolist()
    [-1, 0]
    """
    return _search(sets, np.arange(len(sets)), threshold, True, 0, _NO_LIMIT)[0]


def held_by_jaccard(items: Sequence[Item], sets: ShingleSets, threshold: float) -> dict[str, str]:
    """Map the id of each item that exact sets hold back at its first delivery to the id of its original.

    This is the simple rule of most near-duplicate filters. It forgets nothing, so its original may be older than the
    decision's window.
    """
    found: dict[str, str | None] = {}
    for item, place in zip(items, first_seen_wins(sets, threshold).tolist(), strict=True):
        found.setdefault(item.id, items[place].id if place >= 0 else None)
    return {name: original for name, original in found.items() if original is not None}


def alike_pairs(
    sets: ShingleSets, floor: float, most: int = _PAIRS, comparisons: int = _COMPARISONS
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Find pairs with Jaccard >= floor, and return (first, second, exact Jaccard); a random sample if there are many.

    The search stops after `most` pairs or this many comparisons. The sets come in random order, and each is compared
    with those before it, so an early stop yields all pairs among a random choice of the sets.

    >>> sets = shingle_sets([np.array(one, np.uint64) for one in ([1, 2, 3], [2, 3, 4], [8, 9])])
    >>> [one.tolist() for one in alike_pairs(sets, 0.2)]
    [[0], [1], [0.5]]
    """
    order = np.random.default_rng(1).permutation(len(sets))
    _, a, b, jaccard = _search(sets, order, floor, False, most, comparisons)
    return np.minimum(a, b), np.maximum(a, b), jaccard


class _Corpus(Struct, name="set_corpus"):
    _fields_ = (
        *[(name, POINTER) for name in ("ranks", "bounds", "sizes", "ends", "lists")],
        *[(name, INT64) for name in ("sets", "ranks_shared")],
    )


class _Search(Struct, name="set_search"):
    _fields_ = (
        *[(name, POINTER) for name in ("order", "nearest", "first", "second", "jaccard")],
        *[(name, INT64) for name in ("ordered", "most", "comparisons", "is_first_only")],
        *[(name, DOUBLE) for name in ("floor", "rounding")],
    )


def _search(
    sets: ShingleSets, order: NDArray[np.int64], floor: float, is_first_only: bool, most: int, comparisons: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Compare each set, in `order`, with those before it: (the nearest of each, first, second, Jaccard of the pairs).

    is_first_only: a set that has a near one is not remembered. most: pairs that are returned.
    """
    shared = np.diff(sets.bounds)
    prefix = sets.sizes - np.ceil(floor * sets.sizes - _ROUNDING).astype(np.int64) + 1
    # Members of a single set are the rarest: they come first in the prefix and match nothing.
    ends = sets.bounds[:-1] + np.clip(prefix - (sets.sizes - shared), 0, shared)
    posted = sets.ranks[np.arange(len(sets.ranks)) < np.repeat(ends, shared)]
    lists = np.cumsum(np.bincount(posted + 1, minlength=sets.shared + 1))  # where each posting list begins
    sizes = {"sets": len(sets), "ranks_shared": sets.shared}
    corpus = _Corpus(ranks=sets.ranks, bounds=sets.bounds, sizes=sets.sizes, ends=ends, lists=lists, **sizes)
    limits = {"most": most, "comparisons": comparisons, "floor": floor, "rounding": _ROUNDING}
    nearest, first, second = np.empty(len(sets), np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    found = {"nearest": nearest, "first": first, "second": second, "jaccard": (jaccard := np.empty(most))}
    search = _Search(order=order, ordered=len(order), **limits, is_first_only=is_first_only, **found)
    count = call("pairs_search", arena(), corpus, search)
    return nearest, first[:count], second[:count], jaccard[:count]


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How the stream agrees with exact sets at one threshold, item by item.

    `misses` and `false_drops` include consequences of an earlier disagreement, after which the two remember different
    originals.
    """

    threshold: float
    sketch_bytes: int  # remembered of a body for comparison; with verify = "exact" the mean over the originals
    items: int
    held_exactly: int
    misses: int  # items that only exact sets hold back
    false_drops: int  # items that only the stream holds back
    recall: float  # of the stream against exact sets
    precision: float  # of the stream against exact sets
    agreement: float  # the share of the items on which both agree


def fidelity(
    items: Sequence[Item],
    sets: ShingleSets,
    settings: Settings,
    threshold: float,
    progress: Callable[[int], None] = lambda done: None,
) -> Fidelity:
    """Compare the stream with exact sets. `sets`: the items' bodies, in the same order. Items without one are left out.

    >>> text = "The bridge over the Elm opened on Monday after two years of work, the mayor said."
    >>> items = [Item(name, "", text, "", 0) for name in "ab"]
    >>> settings = Settings()
    >>> sets = body_sets(items, Fingerprinter(Scheme(settings.fingerprint)))
    >>> fidelity(items, sets, settings, 0.8).agreement
    1.0
    """
    exact = first_seen_wins(sets, threshold) >= 0
    held, body_bytes = _stream(items, settings, threshold, progress)
    counts = sets.sizes > 0
    total, held_exactly = int(np.count_nonzero(counts)), int(np.count_nonzero(exact))
    misses, false_drops = (int(np.count_nonzero(differs & counts)) for differs in (exact & ~held, held & ~exact))
    found = held_exactly - misses
    return Fidelity(
        threshold, body_bytes, total, held_exactly, misses, false_drops,
        recall=_share(found, held_exactly),
        precision=_share(found, found + false_drops),
        agreement=_share(total - misses - false_drops, total),
    )  # fmt: skip


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _stream(
    items: Sequence[Item], settings: Settings, threshold: float, progress: Callable[[int], None]
) -> tuple[NDArray[np.bool_], int]:
    """Run the stream with the Jaccard rule: (held back, bytes of a body)."""
    decision = settings.decision.model_copy(update={"jaccard": threshold})
    plain = settings.model_copy(update={"decision": decision})
    held: list[bool] = []
    originals, whole = 0, 0
    with closing(Decider(plain)) as dedup:
        for start in range(0, len(items), _BATCH):
            # Number the items, so that a new version of an id is an item of its own; one time, so that all are in one
            # window; no headline, so that only bodies count.
            part = [
                msgspec.structs.replace(item, id=str(n), title="", time=0)
                for n, item in enumerate(items[start : start + _BATCH], start)
            ]
            batch = dedup.judge(part)
            dedup.apply(batch)
            originals += len(batch.delta)
            whole += sum(len(set_in(body)) for body in batch.delta.bodies)
            held += [not verdict.forward and bool(verdict.original) for verdict in batch.verdicts]
            progress(len(held))
    scheme = Scheme(settings.fingerprint)
    sketch = scheme.signature_dtype["simhash" if scheme.layout else "body"].itemsize  # 0 if the body is stored whole
    return np.array(held, np.bool_), sketch + round(whole / max(originals, 1))


@dataclass(frozen=True, slots=True)
class Point:
    """The pairs with low <= Jaccard < high.

    In simulations with 2 to 20 effective clusters, each proposed as a whole, the interval contains the true share in 89
    to 100 of 100 cases.
    """

    low: float
    high: float
    pairs: int  # their number
    jaccard: float  # the mean
    measured: float  # the share that the index proposes
    predicted: float  # the mean of `proposed` over these pairs
    interval: Interval  # 95 %, Wilson's for the measured share and as many independent pairs as there are clusters
    clusters: float  # the effective number of clusters of pairs


def measured_curve(
    items: Sequence[Item], sets: ShingleSets, fingerprinter: Fingerprinter, steps: int = 17
) -> list[Point]:
    """Measure the S-curve of the body's keys over real pairs, in `steps` intervals of Jaccard above LOWEST.

    `sets`: the shingle sets of the items' bodies. An interval without pairs has no point. For SimHash nothing is
    predicted (NaN): its tables depend on the angle, with feature counts, and not on the Jaccard.
    """
    scheme = fingerprinter.scheme
    body = slice(0, scheme.columns["body" if scheme.layout else "anchors"].stop)
    first, second, jaccard = alike_pairs(sets, LOWEST)
    roots = np.arange(len(sets))
    unite(roots, first, second)
    cluster = cluster_of(roots)[first]
    keys = np.concatenate(
        [np.empty((0, body.stop), np.uint32)]
        + [fingerprinter(items[i : i + _BATCH]).keys[:, body] for i in range(0, len(items), _BATCH)]
    )
    nearness = nearness_of(scheme.dont_care_bits, scheme.table_of, scheme.settings.hamming)
    is_proposed = np.count_nonzero(nearness.matches(keys[first], keys[second]), axis=1) > 0
    edges = np.linspace(LOWEST, 1.0, steps + 1)
    place = np.minimum(np.searchsorted(edges, jaccard, side="right") - 1, steps - 1)
    points = []
    for k in range(steps):
        in_step = place == k
        pairs = int(np.count_nonzero(in_step))
        if pairs:
            expected = np.full(pairs, np.nan) if scheme.layout else proposed(jaccard[in_step], scheme)
            _, number = np.unique(cluster[in_step], return_inverse=True)
            clusters = effective_size(np.bincount(number).astype(np.float64))
            low, high = edges[k : k + 2].round(4).tolist()
            mean, measured, predicted = (
                float(values.mean()) for values in (jaccard[in_step], is_proposed[in_step], expected)
            )
            interval = wilson(measured, clusters)
            points.append(Point(low, high, pairs, mean, measured, predicted, interval, clusters))
    return points
