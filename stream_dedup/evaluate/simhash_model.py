"""Model how far apart SimHashes are: those of near-duplicates, and those of unrelated bodies.

In: a body Jaccard and the settings of the features. Out: the probability that a bit differs, the recall of a distance,
and the distribution of unrelated pairs. tests/benchmarks/simhash.py measures both on any corpus.

Recall. A layout finds every pair within k for certain. So the recall at a body Jaccard J is the share of such pairs
whose fingerprints differ in at most k bits. Two binary vectors of equal size with Jaccard J have the cosine
c = 2J / (1 + J), and each bit differs with probability q = arccos(c) / pi (Charikar 2002). The distance is then
binomial. `ACCURACY` says how far real pairs are from that.

Candidates. Unrelated fingerprints are not uniform: few pairs share phrases, and they dominate the longer a key is. If
the bits of a pair differ with probability q, it agrees in p selected bits with probability (1 - q)^p. `UNRELATED` is
the distribution of q over unrelated pairs.
"""

import math

import numpy as np

from stream_dedup.evaluate.planner import LETTERS
from stream_dedup.settings import FingerprintSettings

# Share of unrelated pairs by q, the probability that a bit differs: a mixture of binomials, fitted (EM, grid of .03) to
# the distances of all 209 M pairs of originals with body Jaccard < .5 of English web news (10,389) and Reuters' wire
# (17,633), for 64 and 128 bits (tests/benchmarks/simhash.py). The counted pairs that agree in p bits, relative to
# uniform fingerprints: 16 bits 1.03, 26 bits 1.2 to 1.5, 28 bits .9 to 1.2 (few pairs); this model: 1.04, 1.19, 1.33.
# Chinese news with character 5-grams gives 1.5 times as many at 16 bits and 9 to 13 times as many at 26. Single words:
# at 26 bits 2,400 (Reuters) and 7,400 (web) times as many as uniform; the model has 2,850.
UNRELATED: dict[str, tuple[tuple[float, float], ...]] = {
    "uniform": ((0.5, 1.0),),
    "shingles": ((0.14, 3.1e-9), (0.17, 4.2e-8), (0.29, 8.7e-6), (0.47, 0.023), (0.5, 0.977)),
    "tokens tf": (
        (0.08, 6.2e-7), (0.11, 1.0e-6), (0.14, 2.1e-5), (0.17, 6.2e-5), (0.2, 8.3e-4), (0.23, 0.0079), (0.26, 0.031),
        (0.29, 0.076), (0.32, 0.11), (0.35, 0.12), (0.38, 0.17), (0.41, 0.15), (0.44, 0.098), (0.47, 0.17),
        (0.5, 0.067),
    ),
    "tokens uniform": (
        (0.02, 3.4e-9), (0.11, 3.8e-7), (0.2, 3.1e-6), (0.23, 3.5e-5), (0.32, 6.8e-4), (0.35, 8.5e-4), (0.38, 2.9e-4),
        (0.41, 0.0077), (0.44, 0.42), (0.47, 0.54), (0.5, 0.03),
    ),
    "tokens idf": (
        (0.02, 9.6e-9), (0.05, 4.3e-8), (0.11, 5.8e-7), (0.2, 1.3e-5), (0.23, 1.5e-5), (0.32, 6.3e-4), (0.35, 7.8e-4),
        (0.47, 0.19), (0.5, 0.81),
    ),
}  # fmt: skip

# With single words as features the cosine is not that of the shingles. Mean share of differing bits by body Jaccard,
# the mean of both corpora (pairs of bodies with 40 shingles or more, 64 and 128 bits).
_TOKENS_AT = (0.0, 0.225, 0.35, 0.45, 0.55, 0.65, 0.75, 0.825, 0.875, 0.925, 0.965, 0.99, 1.0)
_TOKENS = {
    "tf": (0.5, 0.237, 0.209, 0.175, 0.142, 0.104, 0.079, 0.069, 0.045, 0.035, 0.032, 0.024, 0.0),
    "uniform": (0.5, 0.298, 0.258, 0.223, 0.201, 0.155, 0.126, 0.111, 0.080, 0.067, 0.045, 0.031, 0.0),
    "idf": (0.5, 0.357, 0.310, 0.252, 0.193, 0.153, 0.118, 0.096, 0.075, 0.075, 0.061, 0.027, 0.0),
}

ACCURACY = {
    "shingles": (
        "Recall is modelled: bits differ with probability arccos(2J / (1 + J)) / pi. On real pairs (English web news, "
        "Reuters) with J from .5 the measured share within k is off by at most .17 for k up to 6, and by .19 up to 10; "
        "with idf weights by .16 and .36."
    ),
    "tokens": (
        "Recall is from measured distances of real pairs (English web news, Reuters), as if bits differed "
        "independently. The measured share within k is off by at most .25 with tf weights, and by .33 with uniform and "
        "idf weights, by which the two corpora differ."
    ),
    "given": (
        "How far apart near-duplicates are is a property of your fingerprints, so no recall is given. Candidates are "
        "those of uniform fingerprints; real ones have more."
    ),
}
"""What a person needs to read the recall; plain text, by features or family."""
_SIMHASH_LETTERS = (
    "On the same news, 16 to 27 times as many pairs agree in 26 bits as uniform ones with 5 letters, and 140 to 360 "
    "times with 4. Recall at a Jaccard of letters is higher than modelled, for k = 3 at J from .9 by up to .4."
)


def remarks(fingerprint: FingerprintSettings) -> list[str]:
    """Return what a person needs to read the figures of a plan; plain text.

    >>> [text[:19] for text in remarks(FingerprintSettings(family="simhash", shingle_letters=5))]
    ['Recall is modelled:', 'With shingle_letter']
    """
    found = [ACCURACY["given" if fingerprint.family == "given" else fingerprint.features]]
    if fingerprint.family == "simhash" and fingerprint.shingle_letters and fingerprint.features == "shingles":
        found.append(f"{LETTERS} {_SIMHASH_LETTERS}")
    return found


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


def kind_of(fingerprint: FingerprintSettings) -> str:
    """Return the key of `UNRELATED` for these settings."""
    if fingerprint.family == "given":
        return "uniform"
    return "shingles" if fingerprint.features == "shingles" else f"tokens {fingerprint.weights}"
