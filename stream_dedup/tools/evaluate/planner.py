"""Predict what the keys of bodies find and cost (recall, false candidates, bytes), and propose better settings.

All functions are pure; nothing is run. `stream-dedup plan` prints the results, and tests compare the predictions with a
measured index. `evaluate` says what follows from settings. `advise` proposes other settings if the present ones fall
short. `sizing` says what memory a feed needs, in its operator's words: items a day, window, share held back.

For MinHash it plans the fewest anchors with a recall; if the settings have no anchors, the fewest bands for each number
of rows. For SimHash and given fingerprints it plans the layouts that guarantee a Hamming distance, and the least
distance with a recall.

**S-curve**: the probability that keys propose a pair of Jaccard s (`recall_at`).

**Bands.** With b bands of r rows a pair becomes a candidate with probability 1 - (1 - s^r)^b. Within a band all r
values must agree (AND, which lowers the curve); one matching band suffices (OR, which raises it). Source: Leskovec,
Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4.

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
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint.packed_sets import expected_bytes
from stream_dedup.fingerprint.scheme import HEADLINE_BANDS, HEADLINE_ROWS, Scheme
from stream_dedup.fingerprint.simhash import Layout
from stream_dedup.fingerprint.simhash import layout as parse_layout
from stream_dedup.index.footprint import (
    BODY_SHINGLES,
    FEWEST,
    MEMORY_SLACK,
    Footprint,
    footprint,
    most_originals,
    peak_bytes,
    sequence_bytes,
)
from stream_dedup.settings import DecisionSettings, FingerprintSettings, Settings
from stream_dedup.settings.judging import MOST_BANDS, IndexSettings, WindowSettings
from stream_dedup.settings.memory import needed, sized

MOST_FINGERPRINTS = 2**34
"""The most that are planned for: twice the largest collection in the papers (Manku et al. 2007: 8 billion pages)."""
KEY_BITS = 32
"""Bits of a key of the index."""
# From here on longer keys hardly find fewer candidates: as many share the 32 bits of a key's hash by chance.
_LONG_KEY = 40
_MOST_ANCHORS = 64
# Jaccards of the printed curve.
_CURVE_AT = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
# With single words as features the cosine is not that of the shingles, so it was measured: the mean share of differing
# bits by body Jaccard, in both corpora (pairs of bodies with 40 shingles or more, 64 and 128 bits).
_TOKENS_AT = (0.0, 0.225, 0.35, 0.45, 0.55, 0.65, 0.75, 0.825, 0.875, 0.925, 0.965, 0.99, 1.0)
_TOKENS = {
    "tf": (0.5, 0.237, 0.209, 0.175, 0.142, 0.104, 0.079, 0.069, 0.045, 0.035, 0.032, 0.024, 0.0),
    "uniform": (0.5, 0.298, 0.258, 0.223, 0.201, 0.155, 0.126, 0.111, 0.080, 0.067, 0.045, 0.031, 0.0),
    "idf": (0.5, 0.357, 0.310, 0.252, 0.193, 0.153, 0.118, 0.096, 0.075, 0.075, 0.061, 0.027, 0.0),
}
# Share of unrelated pairs by q, the probability that a bit differs: a mixture of binomials, fitted (EM, grid of .03) to
# the distances of all 209 M pairs of originals with body Jaccard < .5 of English web news (10,389) and Reuters' wire
# (17,633), for 64 and 128 bits. The counted pairs that agree in p bits, relative to
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
# Probability that a key of an unrelated pair agrees: of one anchor, and of a band of r = 1..8 rows (mean of J^r, of the
# body and of the headline). Pairs with J < .5; the bands from 1.1 M pairs of English web news, the anchor from 40 M
# pairs each of Reuters' wire (.7e-5) and a German paper (1.9 to 3.1e-5). A site that fills in templates has more:
# English web news 26e-5, Nepali bulletins 30e-5. Chinese with characters gives 10 to 300 times as much.
_UNRELATED_ANCHOR = 2e-5
_UNRELATED_BODY = (6.2e-4, 3.5e-5, 5.3e-6, 1.1e-6, 3.0e-7, 1.0e-7, 4.0e-8, 1.7e-8)
_UNRELATED_HEADLINE = (1.5e-2, 9.5e-4, 7.5e-5, 8.6e-6, 1.5e-6, 3.9e-7, 1.3e-7, 4.5e-8)
# Costs in µs. A false candidate takes 4 to 10 (fetch and compare). A key takes .2; the rest stands for its 9 bytes an
# original. 150 keys that are read in a row of a near table cost less than two cache misses (index/probe.py).
_CANDIDATE_US, _KEY_US, _KEY_READ_US = 4.0, 1.0, 0.001
_MEMORY_STEP = 2**29  # memory is proposed in halves of a GiB
_DAY = timedelta(days=1)


def predicted(similarity: ArrayLike, bands: int, rows: int) -> NDArray[np.float64]:
    """Return the probability that two sets of this Jaccard share a key in at least one of `bands` tables.

    >>> predicted(np.arange(2, 9) / 10, 20, 5).round(3).tolist()  # the book's table
    [0.006, 0.047, 0.186, 0.47, 0.802, 0.975, 1.0]
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


def recall_at(jaccard: float, fingerprint: FingerprintSettings) -> float | None:
    """Return the probability that the keys of a body find another with this Jaccard; None for given fingerprints."""
    if fingerprint.family == "minhash":
        return float(proposed(jaccard, Scheme(fingerprint)))
    if fingerprint.family == "given":
        return None
    return within(fingerprint.hamming, fingerprint.bits, bit_difference(jaccard, fingerprint))


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is planned for: originals remembered at a time, and the mean length of an id and of a body in shingles."""

    items: int
    id_bytes: float = 40.0
    body_shingles: float = BODY_SHINGLES


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings of [fingerprint] and what follows."""

    settings: dict[str, Any]
    recall: float | None  # of a pair at the threshold; None for given fingerprints
    takes: Footprint
    body_bytes: float
    false_candidates: float  # unrelated originals that the keys propose for an item, at most
    keys_read: float  # keys that an item reads in near tables
    key_bits: tuple[int, int]  # fewest and most bits that a table of a layout selects
    memory: int  # bytes of all originals at rest
    peak: int  # the most bytes, while tables merge

    @property
    def process(self) -> int:
        """The [worker] memory that has room for the originals while tables merge."""
        return needed(MEMORY_SLACK * self.peak)

    @property
    def price(self) -> float:
        """The cost of an item by its candidates, keys, and keys read, in µs."""
        work = self.false_candidates * _CANDIDATE_US + self.keys_read * _KEY_READ_US
        return work + self.takes.keys * _KEY_US

    def toml(self) -> str:
        """Return the settings as TOML."""
        lines = [
            f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}"
            for name, value in self.settings.items()
        ]
        return "\n".join(["[fingerprint]", *lines]) + "\n"


@dataclass(frozen=True, slots=True)
class Advice:
    """The plan of the present settings, and that of better ones."""

    recall: float | None  # as requested; None for a family without it
    hamming: int | None  # as requested; None for a family without it
    threshold: float  # the body Jaccard at which recall counts
    memory: int | None  # the bound of the process, in bytes; None: no bound
    present: Plan
    proposed: Plan | None  # None: keep the present settings
    choices: list[Plan]  # all plans that meet the request, the cheapest first
    # (body Jaccard, recall of the present settings, recall of the proposed ones)
    curve: list[tuple[float, float | None, float | None]]

    @property
    def changes_scheme(self) -> bool:
        """Whether the proposal needs a migration: a Hamming distance alone is not part of the scheme."""
        if self.proposed is None:
            return False
        now = self.present.settings
        return any(now.get(name) != value for name, value in self.proposed.settings.items() if name != "hamming")


def advise(
    traffic: Traffic,
    fingerprint: FingerprintSettings,
    decision: DecisionSettings,
    *,
    recall: float | None = None,
    hamming: int | None = None,
    memory: int | None = None,
) -> Advice:
    """Evaluate the present settings. If they fall short of the request, propose the cheapest ones that meet it.

    `recall` counts at `decision.body`; without it the present recall stays. A layout is planned for `hamming`, or for
    the least distance with this recall. `memory` bounds the process, [worker] memory. Raises ConfigError, which says
    what is possible.

    >>> found = advise(Traffic(1_000_000), FingerprintSettings(), DecisionSettings())
    >>> round(found.present.recall, 3), found.proposed is None
    (0.998, True)
    >>> simhash = FingerprintSettings(family="simhash")
    >>> advise(Traffic(1_000_000), simhash, DecisionSettings(body=0.95), recall=0.9).proposed.settings
    {'hamming': 7, 'layout': '11 choose 4'}
    """
    now = evaluate(traffic, fingerprint, decision)
    if fingerprint.family == "minhash":
        recall = now.recall or 0.0 if recall is None else recall
        is_enough = (now.recall or 0.0) >= recall
        options = _keys_with_recall(recall, fingerprint, decision.body)
    else:
        # A higher recall than the requested one is enough; another distance than the requested one is not.
        is_enough = hamming in (None, fingerprint.hamming)
        if recall is not None:
            hamming = least_hamming(recall, decision.body, fingerprint)
            is_enough = fingerprint.hamming >= hamming
        hamming = fingerprint.hamming if hamming is None else hamming
        options = [{"hamming": hamming, "layout": name} for name in layouts_of(hamming, fingerprint.bits)]
        if not options:
            raise ConfigError(_out_of_reach(hamming, fingerprint.bits))
    made = (evaluate(traffic, fingerprint.model_copy(update=option), decision) for option in options)
    choices = sorted(made, key=lambda plan: (plan.price, plan.peak))
    chosen = None
    if not is_enough or (memory is not None and now.process > memory):
        chosen = next((plan for plan in choices if memory is None or plan.process <= memory), None)
        if chosen is None:
            smallest = min(choices, key=lambda plan: plan.peak)
            named = ", ".join(f"{name} = {value}" for name, value in smallest.settings.items())
            raise ConfigError(
                f"{traffic.items:,} originals need at least {sized(smallest.process)} of [worker] memory ({named}), "
                f"not {sized(memory or 0)}; take a shorter window, less recall or a smaller distance, or more memory"
            )
    proposal = fingerprint.model_copy(update=chosen.settings) if chosen else None
    points = _CURVE_AT if fingerprint.family != "given" else ()
    curve = [
        (point, recall_at(point, fingerprint), recall_at(point, proposal) if proposal else None) for point in points
    ]
    return Advice(recall, hamming, decision.body, memory, now, chosen, choices, curve)


def evaluate(traffic: Traffic, fingerprint: FingerprintSettings, decision: DecisionSettings) -> Plan:
    """Say what follows from settings. Raises ConfigError if a layout does not guarantee its distance.

    >>> settings = FingerprintSettings(family="simhash", layout="4 choose 1")
    >>> made = evaluate(Traffic(1_000_000), settings, DecisionSettings())
    >>> made.takes.keys, made.key_bits, round(made.takes.bytes_per_item), round(made.false_candidates, 2)
    (6, (16, 16), 161, 0.75)
    """
    scheme = Scheme(fingerprint)
    tables, keys_read, key_bits, body_bytes = scheme.layout, 0.0, (KEY_BITS, KEY_BITS), 0.0
    if tables:
        settings: dict[str, Any] = {"hamming": fingerprint.hamming, "layout": fingerprint.layout}
        selected = np.bitwise_count(tables.masks).sum(axis=1)
        key_bits = int(selected.min()), int(selected.max())
        false, read = _false_candidates(tables, fingerprint)
        keys_read = traffic.items * read
    else:
        settings = {"anchors": fingerprint.anchors}
        if fingerprint.body_bands:
            settings |= {"body_bands": fingerprint.body_bands, "body_rows": fingerprint.body_rows}
        false = fingerprint.anchors * _UNRELATED_ANCHOR
        for bands, rows, shares in (
            (fingerprint.body_bands, fingerprint.body_rows, _UNRELATED_BODY),
            (HEADLINE_BANDS, HEADLINE_ROWS, _UNRELATED_HEADLINE),
        ):
            false += bands * (shares[min(rows, len(shares)) - 1] + 2.0**-KEY_BITS)  # an upper bound for more rows
        body_bytes = sequence_bytes(IndexSettings(), WindowSettings())
        body_bytes += expected_bytes(traffic.body_shingles) if scheme.is_exact else 0.0
    takes = footprint(scheme, traffic.items, traffic.id_bytes, body_bytes)
    return Plan(
        settings, recall_at(decision.body, fingerprint), takes, body_bytes, traffic.items * false, keys_read, key_bits,
        math.ceil(traffic.items * takes.bytes_per_item), peak_bytes(traffic.items, takes),
    )  # fmt: skip


def _keys_with_recall(recall: float, fingerprint: FingerprintSettings, jaccard: float) -> list[dict[str, Any]]:
    """Return the fewest anchors with this recall; without anchors, the fewest bands for each number of rows."""
    options: list[dict[str, Any]] = []
    if fingerprint.anchors:
        tried = ({"anchors": count} for count in range(1, _MOST_ANCHORS + 1))
        enough = (
            option for option in tried if (recall_at(jaccard, fingerprint.model_copy(update=option)) or 0.0) >= recall
        )
        options = list(islice(enough, 1))
    else:
        for rows in range(1, len(_UNRELATED_BODY) + 1):
            agree = jaccard**rows
            bands = 1 if agree >= 1 else math.ceil(math.log1p(-recall) / math.log1p(-agree) - 1e-9)
            if bands <= MOST_BANDS:
                options.append({"body_bands": max(bands, 1), "body_rows": rows})
    if not options:
        limit = f"{_MOST_ANCHORS} anchors" if fingerprint.anchors else f"{MOST_BANDS} bands"
        raise ConfigError(f"recall {recall:.4g} cannot be had at body Jaccard {jaccard:g} with {limit}; ask for less")
    return options


@lru_cache
def layouts_of(hamming: int, bits: int) -> tuple[str, ...]:
    """Return the layouts that guarantee this distance and no larger one (at distance 0: those for 1).

    >>> layouts_of(3, 64)
    ('4 choose 1', '5 choose 2', '6 choose 3', '7 choose 4', '8 choose 5', '4 x 4')
    >>> layouts_of(6, 64), layouts_of(17, 128)
    (('8 choose 2', '9 choose 3', '10 choose 4', '11 choose 5', '12 choose 6', '7 x 7'), ())
    """
    hamming = max(hamming, 1)
    # The first key that is long enough is the last one that is worth its tables.
    chosen = range(1, bits - hamming)
    most = next((count for count in chosen if bits * count // (hamming + count) >= _LONG_KEY), len(chosen))
    found = []
    for name in (*(f"{hamming + keys} choose {keys}" for keys in range(1, most + 1)), f"{hamming + 1} x {hamming + 1}"):
        with suppress(ConfigError):  # not allowed
            parse_layout(name, bits)
            found.append(name)
    return tuple(found)


def least_hamming(recall: float, jaccard: float, fingerprint: FingerprintSettings) -> int:
    """Return the least distance with this recall. Raises ConfigError if no layout guarantees it.

    >>> least_hamming(0.9, 0.95, FingerprintSettings(family="simhash"))
    7
    """
    bits, difference = fingerprint.bits, bit_difference(jaccard, fingerprint)
    hamming = next(k for k in range(bits + 1) if within(k, bits, difference) >= min(recall, 1 - 1e-9))
    most = largest_hamming(bits)
    if hamming > most:
        of_128 = f" (with [fingerprint] bits = 128 {within(largest_hamming(128), 128, difference):.3f})"
        wider = "" if bits == 128 else of_128
        raise ConfigError(
            f"recall {recall:.4g} at body Jaccard {jaccard:g} takes {hamming} of {bits} bits, and no layout guarantees "
            f"more than {most}, with recall {within(most, bits, difference):.3f}{wider}. A SimHash finds "
            "near-identical bodies: ask for less, for a higher --threshold, or set family = 'minhash'"
        )
    return hamming


def _out_of_reach(hamming: int, bits: int) -> str:
    """Say in plain text why no layout guarantees this distance."""
    wider = "" if bits == 128 else f", with [fingerprint] bits = 128 {largest_hamming(128)}"
    return (
        f"no layout of {bits} bits guarantees a distance of {hamming}: keys would be too short or tables too many; the "
        f"largest is {largest_hamming(bits)}{wider}"
    )


def largest_hamming(bits: int) -> int:
    """Return the largest distance that an allowed layout guarantees.

    >>> largest_hamming(64), largest_hamming(128)
    (10, 16)
    """
    return max(k for k in range(1, bits) if k == 1 or layouts_of(k, bits))


def _kind_of(fingerprint: FingerprintSettings) -> str:
    """Return the key of `UNRELATED` for these settings."""
    if fingerprint.family == "given":
        return "uniform"
    return "shingles" if fingerprint.features == "shingles" else f"tokens {fingerprint.weights}"


def _false_candidates(tables: Layout, fingerprint: FingerprintSettings) -> tuple[float, float]:
    """Return the probability that an unrelated fingerprint is proposed, and the keys read for it in near tables.

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
    has = room(memory, FEWEST)
    return Sizing(originals, length, size, memory, has, length * min(1.0, has / originals))
