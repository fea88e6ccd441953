"""Predict what the keys of bodies find and cost: recall, false candidates, bytes, and the memory that a feed needs.

All functions are pure; nothing is run. `stream-dedup plan` prints the results, and tests compare the predictions with a
measured index. `evaluate` says what follows from settings. `sizing` says what memory a feed needs, in its operator's
words: items a day, window, share held back.

**S-curve**: the probability that keys propose a pair of Jaccard s (`recall_at`).

**Anchors.** Two texts share an anchor if the first of their common runs of eight words, in the order of hashes, is
among the k first of both. The probability that t runs of one text alone precede it is J (1 - J)^t, J being the Jaccard
of the runs; fewer than k of these may be of either text (`anchored`). A changed word breaks more runs than shingles:
what keeps a share s of its shingles of three words keeps s^(8/3) of its runs if words change one by one (`lengthened`),
and nearly s if passages are replaced. Measured exponents: 2.4 to 2.7 in Reuters' wire, 1.1 to 2.3 in a German paper,
1.4 to 2.0 in English and Chinese web news. Of pairs of these and of Nepali news with a Jaccard of the shingles from .25
on, 16 anchors find, in the mean of eight seeds, what `anchored` says of their true J, within .05, and at least what it
says of `lengthened` less .04. One seed differs by up to .09: pairs of one template are found or missed together.

**SimHash.** A layout finds every pair within k bits for certain. So the recall at a body Jaccard J is the share of such
pairs whose fingerprints differ in at most k bits. Two binary vectors of equal size with Jaccard J have the cosine
c = 2J / (1 + J), and each bit differs with probability q = arccos(c) / pi (Charikar 2002). The distance is then
binomial. deploy/sizing.md says how far real pairs are from that.

**Candidates.** Unrelated fingerprints are not uniform: few pairs share phrases, and they dominate the longer a key is.
If the bits of a pair differ with probability q, it agrees in p selected bits with probability (1 - q)^p. `UNRELATED` is
the distribution of q over unrelated pairs.
"""

import math
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint.scheme import ANCHORS, HEADLINE_BANDS, Scheme
from stream_dedup.fingerprint.simhash import BITS, Layout
from stream_dedup.index.footprint import (
    BODY_SHINGLES,
    MEMORY_SLACK,
    Footprint,
    footprint,
    most_originals,
    peak_bytes,
    sequence_bytes,
    set_bytes,
)
from stream_dedup.settings import FingerprintSettings, Settings
from stream_dedup.settings.judging import FEWEST_ORIGINALS, IndexSettings, WindowSettings
from stream_dedup.settings.memory import batch_bytes, record_bytes, work_bytes

MOST_FINGERPRINTS = 2**34
"""The most that are planned for: twice the largest collection in the papers (Manku et al. 2007: 8 billion pages)."""
KEY_BITS = 32
"""Bits of a key of the index."""
PLAIN_JACCARD = 0.5
"""The Jaccard at which recall counts, unless another is given."""
# Jaccards of the printed curve.
_CURVE_AT = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
# Share of unrelated pairs by q, the probability that a bit differs: a mixture of binomials, fitted (EM, grid of .03) to
# the distances of all 209 M pairs of originals with body Jaccard < .5 of English web news (10,389) and Reuters' wire
# (17,633), for 64 and 128 bits. The counted pairs that agree in p bits, relative to
# uniform fingerprints: 16 bits 1.03, 26 bits 1.2 to 1.5, 28 bits .9 to 1.2 (few pairs); this model: 1.04, 1.19, 1.33.
# Chinese news with character 5-grams gives 1.5 times as many at 16 bits and 9 to 13 times as many at 26.
UNRELATED: dict[str, tuple[tuple[float, float], ...]] = {
    "uniform": ((0.5, 1.0),),
    "shingles": ((0.14, 3.1e-9), (0.17, 4.2e-8), (0.29, 8.7e-6), (0.47, 0.023), (0.5, 0.977)),
}  # fmt: skip
# Probability that a key of an unrelated pair agrees: of one anchor, and of a band of the headline (mean of J^3). Pairs
# with J < .5; the bands from 1.1 M pairs of English web news, the anchor from 40 M pairs each of Reuters' wire (.7e-5)
# and a German paper (1.9 to 3.1e-5). A site that fills in templates has more: English web news 26e-5, Nepali bulletins
# 30e-5. Chinese with characters gives 10 to 300 times as much.
_UNRELATED_ANCHOR = 2e-5
_UNRELATED_HEADLINE = 7.5e-5
_MEMORY_STEP = 2**29  # memory is proposed in halves of a GiB
_DAY = timedelta(days=1)


def needed(originals: float) -> int:
    """Return the memory of a process whose originals take `originals` bytes.

    >>> needed(898 * 2**20) >> 20
    1699
    """
    memory = 0
    while memory < (least := int(work_bytes(batch_bytes(memory), record_bytes(memory)) + originals)):
        memory = least
    return memory


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
    for others in range(2 * anchors - 1):
        of_first = range(max(others - anchors + 1, 0), min(others, anchors - 1) + 1)
        both_few = math.fsum(math.comb(others, n) * split**n * (1 - split) ** (others - n) for n in of_first)
        found = found + both_few * (1 - j) ** others
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
    """Return the probability that a MinHash scheme's anchors propose two bodies of this Jaccard, at least: with words
    changed one by one.

    >>> scheme = Scheme(FingerprintSettings())
    >>> [round(float(p), 3) for p in proposed([0.2, 0.3, 0.4, 0.5], scheme)]
    [0.534, 0.853, 0.974, 0.998]
    """
    return anchored(lengthened(jaccard, 1 + scheme.anchor_runs.last / scheme.shingle_widths.words), ANCHORS)


def bit_difference(jaccard: float) -> float:
    """Return the probability that a bit of two bodies with this Jaccard differs.

    >>> round(bit_difference(0.9), 3)
    0.104
    """
    return math.acos(min(2 * jaccard / (1 + jaccard), 1.0)) / math.pi


def within(hamming: int, bits: int, difference: float) -> float:
    """Return the probability that at most `hamming` of `bits` differ, if each differs with this probability.

    >>> round(within(3, 64, 0.05), 3)
    0.601
    """
    return math.fsum(
        math.comb(bits, count) * difference**count * (1 - difference) ** (bits - count) for count in range(hamming + 1)
    )


def recall_at(jaccard: float, fingerprint: FingerprintSettings) -> float | None:
    """Return the probability that the keys of a body find another with this Jaccard; None for given fingerprints."""
    if fingerprint.family == "minhash":
        return float(proposed(jaccard, Scheme(fingerprint)))
    if fingerprint.family == "given":
        return None
    return within(fingerprint.hamming, BITS, bit_difference(jaccard))


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is planned for: originals remembered at a time, and the mean length of an id and of a body in shingles."""

    items: int
    id_bytes: float = 40.0
    body_shingles: float = BODY_SHINGLES


@dataclass(frozen=True, slots=True)
class Plan:
    """What follows from settings of [fingerprint]."""

    recall: float | None  # of a pair at the threshold; None for given fingerprints
    takes: Footprint
    body_bytes: float
    false_candidates: float  # unrelated originals that the keys propose for an item, at most
    keys_read: float  # keys that an item reads in near tables
    memory: int  # bytes of all originals at rest
    peak: int  # the most bytes, while tables merge
    curve: list[tuple[float, float]]  # body Jaccard and recall; empty for given fingerprints

    @property
    def process(self) -> int:
        """The [worker] memory that has room for the originals while tables merge."""
        return needed(MEMORY_SLACK * self.peak)


def evaluate(traffic: Traffic, fingerprint: FingerprintSettings, jaccard: float = PLAIN_JACCARD) -> Plan:
    """Say what follows from settings; `recall` counts at this Jaccard of two bodies.

    >>> made = evaluate(Traffic(1_000_000), FingerprintSettings(family="simhash"))
    >>> made.takes.keys, round(made.takes.bytes_per_item), round(made.false_candidates, 2)
    (12, 212, 0.25)
    """
    scheme = Scheme(fingerprint)
    keys_read, body_bytes = 0.0, 0.0
    if scheme.layout:
        false, read = _false_candidates(scheme.layout, fingerprint)
        keys_read = traffic.items * read
    else:
        false = ANCHORS * _UNRELATED_ANCHOR + HEADLINE_BANDS * (_UNRELATED_HEADLINE + 2.0**-KEY_BITS)
        body_bytes = sequence_bytes(IndexSettings(), WindowSettings())
        body_bytes += set_bytes(traffic.body_shingles) if scheme.is_exact else 0.0
    takes = footprint(scheme, traffic.items, traffic.id_bytes, body_bytes)
    points = ((point, recall_at(point, fingerprint)) for point in _CURVE_AT)
    return Plan(
        recall_at(jaccard, fingerprint), takes, body_bytes, traffic.items * false, keys_read,
        math.ceil(traffic.items * takes.bytes_per_item), peak_bytes(traffic.items, takes),
        [(point, recall) for point, recall in points if recall is not None],
    )  # fmt: skip


def _false_candidates(tables: Layout, fingerprint: FingerprintSettings) -> tuple[float, float]:
    """Return the probability that an unrelated fingerprint is proposed, and the keys read for it in near tables.

    Tables are taken as independent for a pair, which overstates the first: tables share bits.
    """
    found = read = 0.0
    counts = Counter(zip(np.bitwise_count(tables.masks).tolist(), tables.dont_care_bits, strict=True))
    for difference, share in UNRELATED["uniform" if fingerprint.family == "given" else "shingles"]:
        missed = 1.0
        for (selected, loose), count in counts.items():  # they differ by one or two
            agrees = (1 - difference) ** selected
            if loose:
                read += count * share * agrees
                agrees *= within(min(fingerprint.hamming, loose), loose, difference)
            else:
                agrees = min(agrees + 2.0**-KEY_BITS, 1.0)  # a long key is a hash
            missed *= (1 - agrees) ** count
        found += share * (1 - missed)
    return found, read


# -- memory for a feed ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sizing:
    """The need of `originals` in a window of `length`."""

    originals: int
    length: timedelta
    memory: int  # bytes of [worker] memory with room for them
    given: int | None = None  # the bytes that the operator has; None: not said
    room: int = 0  # the originals that fit into these
    fitting: timedelta = timedelta()  # the window that fits into them

    @property
    def fits(self) -> bool:
        """Whether the given memory has room for all."""
        return self.room >= self.originals

    def toml(self) -> str:
        """Return the settings as TOML, with the given memory if that suffices."""
        memory = self.given if self.given and self.fits else self.memory
        return f'[worker]\nmemory = "{memory / 2**30:g}G"\n\n{self.window(self.length)}'

    def window(self, length: timedelta) -> str:
        """Return a window as TOML.

        >>> Sizing(1, _DAY, 1).window(timedelta(days=4.66))
        '[window]\\nlength = "111h"\\n'
        """
        for unit, name in ((_DAY, "d"), (timedelta(hours=1), "h")):
            if length >= unit and (unit is not _DAY or not length % unit):
                return f'[window]\nlength = "{length // unit}{name}"\n'
        return f'[window]\nlength = "{length // timedelta(minutes=1)}m"\n'


def sizing(settings: Settings, per_day: int, share_held: float, memory: int | None = None) -> Sizing:
    """Compute the memory that `per_day` items a day need in the window of `settings`.

    The room of a memory is that of the running worker (index/footprint.py), as in the table of deploy/sizing.md.
    Raises ConfigError if no process can hold the items, or if `memory` cannot hold a worker.

    >>> from stream_dedup.settings import load_settings
    >>> found = sizing(load_settings(), 200_000, 0.2, 2**31)
    >>> found.originals, found.fits, found.room
    (1120000, False, 1000000)
    """
    length = settings.window.length
    originals = max(1, math.ceil(per_day * (1 - share_held) * (length / _DAY)))
    scheme = Scheme(settings.fingerprint)

    def room(size: int, fewest: int = 0) -> int:
        tables = {"worker": {"memory": size}, "window": {"max_originals": None}}
        changed = {name: getattr(settings, name).model_copy(update=values) for name, values in tables.items()}
        return most_originals(settings.model_copy(update=changed), scheme, fewest=fewest)

    least = needed(MEMORY_SLACK * peak_bytes(originals, footprint(scheme, originals)))
    size = -(-least // _MEMORY_STEP) * _MEMORY_STEP
    while room(size) < originals:  # room is rounded down to two digits, and bodies may need some
        size += max(_MEMORY_STEP, size // 50 // _MEMORY_STEP * _MEMORY_STEP)
        if size > 3 * least and room(size) == room(2 * size):
            raise ConfigError(
                f"{originals:,} originals are more than one process can hold ({room(size):,}): take a shorter window, "
                "or divide the stream (deploy/sizing.md, When one worker is not enough)"
            )
    if memory is None:
        return Sizing(originals, length, size)
    has = room(memory, FEWEST_ORIGINALS)
    return Sizing(originals, length, size, memory, has, length * min(1.0, has / originals))
