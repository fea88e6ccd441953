"""Model the layouts of SimHashes: what they guarantee, how far apart pairs are, and the false candidates.

In: settings of [fingerprint], a body Jaccard. Out: the layouts for a Hamming distance, the recall of a distance, the
share of unrelated pairs that the tables propose. tests/benchmarks/simhash.py measures both on any corpus.

Recall. A layout finds every pair within k for certain. So the recall at a body Jaccard J is the share of such pairs
whose fingerprints differ in at most k bits. Two binary vectors of equal size with Jaccard J have the cosine
c = 2J / (1 + J), and each bit differs with probability q = arccos(c) / pi (Charikar 2002). The distance is then
binomial. `ACCURACY` says how far real pairs are from that.

Candidates. Unrelated fingerprints are not uniform: few pairs share phrases, and they dominate the longer a key is. If
the bits of a pair differ with probability q, it agrees in p selected bits with probability (1 - q)^p. `UNRELATED` is
the distribution of q over unrelated pairs.
"""

import math
from collections import Counter
from functools import lru_cache

import numpy as np

from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint.layout import Layout
from stream_dedup.fingerprint.layout import layout as parse_layout
from stream_dedup.settings import FingerprintSettings

KEY_BITS = 32
"""Bits of a key of the index."""
# From here on longer keys hardly find fewer candidates: as many share the 32 bits of a key's hash by chance.
_LONG_KEY = 40

_LETTERS = (
    "With shingle_letters these figures are too low: unrelated texts share more letters than words, so more of them "
    "are proposed. Measure your own with `stream-dedup evaluate CORPUS`."
)

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
    "minhash": (
        "Recall is that of a copy whose words are changed one by one, the hardest for anchors. In the mean of eight "
        "seeds 16 of them find as many pairs of English, German, Nepali and Chinese news and of Reuters' wire with a "
        "Jaccard from .25 on, or .04 fewer at most. Where one text holds the other, the Jaccard is its share of the "
        "longer. False candidates are those of wire and newspapers; sites that fill in templates have ten times as "
        "many, as far as [index] bucket_limit lets them through."
    ),
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
    is_simhash = fingerprint.family == "simhash"
    found = [ACCURACY[fingerprint.features if is_simhash else fingerprint.family]]
    if fingerprint.shingle_letters and not is_simhash:
        found.append(_LETTERS)
    elif fingerprint.shingle_letters and fingerprint.features == "shingles":
        found.append(f"{_LETTERS} {_SIMHASH_LETTERS}")
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


def _kind_of(fingerprint: FingerprintSettings) -> str:
    """Return the key of `UNRELATED` for these settings."""
    if fingerprint.family == "given":
        return "uniform"
    return "shingles" if fingerprint.features == "shingles" else f"tokens {fingerprint.weights}"


def layouts_of(hamming: int, bits: int) -> list[str]:
    """The layouts that guarantee this distance and no larger one (at distance 0: those for 1).

    >>> layouts_of(3, 64)
    ['4 choose 1', '5 choose 2', '6 choose 3', '7 choose 4', '8 choose 5', '4 x 4']
    >>> layouts_of(6, 64), layouts_of(17, 128)
    (['8 choose 2', '9 choose 3', '10 choose 4', '11 choose 5', '12 choose 6', '7 x 7'], [])
    """
    return list(_layouts(max(hamming, 1), bits))


@lru_cache
def _layouts(hamming: int, bits: int) -> tuple[str, ...]:
    found = []
    for chosen in range(1, bits - hamming):
        found.append(f"{hamming + chosen} choose {chosen}")
        if bits * chosen // (hamming + chosen) >= _LONG_KEY:
            break
    found.append(f"{hamming + 1} x {hamming + 1}")
    return tuple(name for name in found if _is_allowed(name, bits))


def _is_allowed(name: str, bits: int) -> bool:
    try:
        parse_layout(name, bits)
    except ConfigError:
        return False
    return True


def least_hamming(recall: float, jaccard: float, fingerprint: FingerprintSettings) -> int:
    """The least distance with this recall. Raises ConfigError if no layout guarantees it.

    >>> least_hamming(0.9, 0.95, FingerprintSettings(family="simhash"))
    7
    """
    bits, difference = fingerprint.bits, bit_difference(jaccard, fingerprint)
    hamming = next(k for k in range(bits + 1) if within(k, bits, difference) >= min(recall, 1 - 1e-9))
    most = largest_hamming(bits)
    if hamming > most:
        wider = (
            ""
            if bits == 128
            else f" (with [fingerprint] bits = 128 {within(largest_hamming(128), 128, difference):.3f})"
        )
        raise ConfigError(
            f"recall {recall:.4g} at body Jaccard {jaccard:g} takes {hamming} of {bits} bits, and no layout guarantees "
            f"more than {most}, with recall {within(most, bits, difference):.3f}{wider}. A SimHash finds "
            "near-identical bodies: ask for less, for a higher --threshold, or set family = 'minhash'"
        )
    return hamming


def out_of_reach(hamming: int, bits: int) -> str:
    """Why no layout guarantees this distance; plain text."""
    wider = "" if bits == 128 else f", with [fingerprint] bits = 128 {largest_hamming(128)}"
    return (
        f"no layout of {bits} bits guarantees a distance of {hamming}: keys would be too short or tables too many; the "
        f"largest is {largest_hamming(bits)}{wider}"
    )


def largest_hamming(bits: int) -> int:
    """The largest distance that an allowed layout guarantees.

    >>> largest_hamming(64), largest_hamming(128)
    (10, 16)
    """
    return max(k for k in range(1, bits) if k == 1 or _layouts(k, bits))


def false_candidates(tables: Layout, fingerprint: FingerprintSettings) -> tuple[float, float]:
    """The probability that an unrelated fingerprint is proposed, and the keys read for it in near tables.

    Tables are taken as independent for a pair, which overstates the first: tables share bits.
    """
    found = read = 0.0
    selected_bits = np.bitwise_count(tables.masks).sum(axis=1).tolist()
    counts = Counter(zip(selected_bits, tables.dont_care_bits, strict=True))  # they differ by one or two
    for difference, share in UNRELATED[_kind_of(fingerprint)]:
        missed = 1.0
        for (selected, loose), count in counts.items():
            agrees = (1 - difference) ** selected
            if loose:
                read += count * share * agrees
                agrees *= within(min(fingerprint.hamming, loose), loose, difference)
            else:
                agrees = min(agrees + 2.0**-KEY_BITS, 1.0)  # a long key is a hash
            missed *= (1 - agrees) ** count
        found += share * (1 - missed)
    return found, read
