"""The S-curve of an index: the probability that it proposes a pair of Jaccard s, predicted and measured.

**Bands.** With b bands of r rows a pair becomes a candidate with probability 1 - (1 - s^r)^b. Within a band all r
values must agree (AND, which lowers the curve); one matching band suffices (OR, which raises it). Source: Leskovec,
Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4.

**Anchors.** Two texts share an anchor if the first of their common runs of eight words, in the order of hashes, is
among the k first of both. Before it, t runs of one text alone come with probability J (1 - J)^t, J being the Jaccard of
the runs; fewer than k of them may be of either text (`anchored`). A changed word breaks more runs than shingles: what
keeps a share s of its shingles of three words keeps s^(8/3) of its runs if words change one by one (`lengthened`), and
nearly s if passages are replaced. Measured exponents: 2.4 to 2.7 in Reuters' wire, 1.1 to 2.3 in a German paper, 1.4 to
2.0 in English and Chinese web news. Of pairs of these and of Nepali news with a Jaccard of the shingles from .25 on, 16
anchors find, in the mean of eight seeds, what `anchored` says of their true J, within .05, and at least what it says of
`lengthened` less .04. One seed differs by up to .09: pairs of one template are found or missed together.

**SimHash.** A layout finds every pair within k bits for certain. So the recall at a body Jaccard J is the share of such
pairs whose fingerprints differ in at most k bits. Two binary vectors of equal size with Jaccard J have the cosine
c = 2J / (1 + J), and each bit differs with probability q = arccos(c) / pi (Charikar 2002). The distance is then
binomial. docs/operating.md says how far real pairs are from that; tests/benchmarks/simhash.py measures it.

In: items and their exact sets. Out: for each interval of the exact Jaccard, the number of pairs and the share of them
that a key of the body proposes, by the rule of the index (`index.probe.Nearness`).

Pairs of one template share the same shingles, so one key proposes thousands of them, or none. So what counts for the
error bars is the number of clusters: a cluster is a connected component of the alike pairs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_dedup.batch.pairs import cluster_of, unite
from stream_dedup.evaluate.exact import ShingleSets, alike_pairs
from stream_dedup.evaluate.intervals import Interval, effective_size, wilson
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.probe import nearness_of
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings

# Below this Jaccard two pages share little more than phrases; such pairs are numerous, and the curve is flat.
LOWEST = 0.15
# With single words as features the cosine is not that of the shingles. Mean share of differing bits by body Jaccard,
# the mean of both corpora (pairs of bodies with 40 shingles or more, 64 and 128 bits).
_TOKENS_AT = (0.0, 0.225, 0.35, 0.45, 0.55, 0.65, 0.75, 0.825, 0.875, 0.925, 0.965, 0.99, 1.0)
_TOKENS = {
    "tf": (0.5, 0.237, 0.209, 0.175, 0.142, 0.104, 0.079, 0.069, 0.045, 0.035, 0.032, 0.024, 0.0),
    "uniform": (0.5, 0.298, 0.258, 0.223, 0.201, 0.155, 0.126, 0.111, 0.080, 0.067, 0.045, 0.031, 0.0),
    "idf": (0.5, 0.357, 0.310, 0.252, 0.193, 0.153, 0.118, 0.096, 0.075, 0.075, 0.061, 0.027, 0.0),
}
_BATCH = 500
INTERVALS = (
    "Pairs of one template or one much-copied article are proposed or missed together. So the intervals (95 %) are "
    "those of as many independent pairs as there are clusters of pairs, connected by alike bodies: of their effective "
    "number, since a few large ones may hold most pairs."
)
"""What a person needs to read the intervals of the curve; plain text."""


def predicted(similarity: ArrayLike, bands: int, rows: int) -> NDArray[np.float64]:
    """Return the probability that two sets of this Jaccard share a key in at least one of `bands` tables.

    >>> [round(float(p), 3) for p in predicted([0.2, 0.5, 0.8], 20, 5)]
    [0.006, 0.47, 1.0]
    """
    s = np.asarray(similarity, np.float64)
    return 1.0 - (1.0 - s**rows) ** bands


def anchored(jaccard: ArrayLike, anchors: int, split: float = 0.5) -> NDArray[np.float64]:
    """Return the probability that two sets share one of their `anchors` smallest hashes.

    jaccard: of the sets that anchors are taken from. split: of the members of one set alone, the share that the first
    has: .5 for sets of one size, 0 if the second holds the first. For large sets; small ones share a little more.

    >>> [round(float(p), 3) for p in anchored([0.1, 0.2, 0.5], 16)]
    [0.942, 0.997, 1.0]
    >>> round(float(anchored(0.25, 16, split=0)), 3)  # all of it is in a text four times as long
    0.99
    """
    j = np.asarray(jaccard, np.float64)
    found = np.zeros_like(j)
    for before in range(2 * anchors - 1):
        of_first = range(max(before - anchors + 1, 0), min(before, anchors - 1) + 1)
        both_few = math.fsum(math.comb(before, n) * split**n * (1 - split) ** (before - n) for n in of_first)
        found = found + both_few * (1 - j) ** before
    return j * found


def lengthened(jaccard: ArrayLike, times: float) -> NDArray[np.float64]:
    """Return the Jaccard of shingles `times` as long, of two texts of one length in which single words differ.

    >>> [round(float(j), 3) for j in lengthened([0.3, 0.5, 0.8, 1.0], 8 / 3)]
    [0.068, 0.204, 0.575, 1.0]
    """
    j = np.asarray(jaccard, np.float64)
    share = (2 * j / (1 + j)) ** times
    return share / (2 - share)


def proposed(jaccard: ArrayLike, scheme: Scheme) -> NDArray[np.float64]:
    """Return the probability that a MinHash scheme's keys of the body propose two bodies of this Jaccard.

    By anchors at least: with words changed one by one.

    >>> scheme = Scheme(FingerprintSettings())
    >>> [round(float(p), 3) for p in proposed([0.2, 0.3, 0.4, 0.5], scheme)]
    [0.534, 0.853, 0.974, 0.998]
    """
    s = scheme.settings
    times = scheme.anchor_words / scheme.shingle_widths.words
    by_anchors = anchored(lengthened(jaccard, times), s.anchors)
    return 1 - (1 - by_anchors) * (1 - predicted(jaccard, s.body_bands, s.body_rows))


def bit_difference(jaccard: float, fingerprint: FingerprintSettings) -> float:
    """Return the probability that a bit of two bodies with this Jaccard differs.

    >>> round(bit_difference(0.9, FingerprintSettings(family="simhash")), 3)
    0.104
    """
    if fingerprint.features == "tokens":
        return float(np.interp(jaccard, _TOKENS_AT, _TOKENS[fingerprint.weights]))
    return math.acos(min(2 * jaccard / (1 + jaccard), 1.0)) / math.pi


def within(hamming: int, bits: int, difference: float) -> float:
    """Return the probability that at most `hamming` of `bits` differ, if each differs with this probability.

    >>> round(within(3, 64, 0.05), 3)
    0.601
    """
    return math.fsum(
        math.comb(bits, count) * difference**count * (1 - difference) ** (bits - count) for count in range(hamming + 1)
    )


def recall_at(jaccard: float, hamming: int, fingerprint: FingerprintSettings) -> float | None:
    """Return the share of the pairs at this body Jaccard that are within the distance; None for given fingerprints."""
    if fingerprint.family == "given":
        return None
    return within(hamming, fingerprint.bits, bit_difference(jaccard, fingerprint))


@dataclass(frozen=True, slots=True)
class Point:
    """The pairs with low <= Jaccard < high: their number, mean Jaccard, and proposed share, measured and predicted.

    predicted: the mean of `proposed` over these pairs. clusters: the effective number of clusters of pairs. interval:
    95 %, Wilson's for the measured share and as many independent pairs as there are clusters. Simulated with clusters
    that are proposed as a whole, it holds the true share in 89 to 100 of 100 cases, with 2 to 20 effective clusters.
    """

    low: float
    high: float
    pairs: int
    jaccard: float
    measured: float
    predicted: float
    interval: Interval
    clusters: float


def measured_curve(
    items: Sequence[Item], sets: ShingleSets, fingerprinter: Fingerprinter, steps: int = 17
) -> list[Point]:
    """Measure the S-curve of the body's keys over real pairs, in `steps` intervals of Jaccard above LOWEST.

    `sets`: the shingle sets of the items' bodies. An interval without pairs has no point. For SimHash nothing is
    predicted (NaN): its tables depend on the angle, with feature counts, and not on the Jaccard.
    """
    scheme = fingerprinter.scheme
    body = slice(0, scheme.columns["body"].stop)  # anchors come first
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
        inside = place == k
        pairs = int(np.count_nonzero(inside))
        if pairs:
            expected = np.full(pairs, np.nan) if scheme.layout else proposed(jaccard[inside], scheme)
            _, number = np.unique(cluster[inside], return_inverse=True)
            trials = np.bincount(number).astype(np.float64)
            points.append(
                Point(
                    round(float(edges[k]), 4),
                    round(float(edges[k + 1]), 4),
                    pairs,
                    float(jaccard[inside].mean()),
                    float(is_proposed[inside].mean()),
                    float(expected.mean()),
                    wilson(float(is_proposed[inside].mean()), effective_size(trials)),
                    effective_size(trials),
                )
            )
    return points
