"""Costs of an item in each role: processor time, bytes, and how they grow with the originals.

Constants and the functions that combine them, for capacity.py. Times are processor time on one core of the reference
machine (AMD EPYC, 2 cores shared with the broker; tests/benchmarks/results). `make bench ARGS="--only capacity"`
measures those of the judge by the number of originals beside what these functions return. Those named in ESTIMATED are
not measured yet. What lies beyond four million originals is extrapolated.
"""

from typing import NamedTuple

from stream_dedup.dedup.candidates import MAX_CANDIDATES
from stream_dedup.evaluate.planner import present
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import DecisionSettings, FingerprintSettings, Settings

# -- costs of an item, µs of processor time; bytes are those of its record --------------------------------------

# Reading and sending a record with the patched client, in transactions: 4.0 and 8.5 µs at 1 KB, 9 and 18 at 4.2 KB
# (tests/benchmarks/client.py).
_CONSUME, _CONSUME_KB = 2.3, 1.6
_PRODUCE, _PRODUCE_KB = 5.3, 3.0
# JSON to item: 7.5 µs at 1 KB, 10.5 at 3.1, 14 to 16 at 4.2.
_DECODE, _DECODE_KB = 4.5, 2.4
# Section "fingerprint": 5.5 µs at 200 bytes of text, 9.5 at 1 KB, 20 at 4 KB, 116 at 20 KB.
_FINGERPRINT, _FINGERPRINT_KB = 5.0, 4.3
# What else a worker does for an item: the transaction's share, headers, metrics, the survey of what comes in. The
# section "worker" has 77 µs an item when nothing is held back, and the parts above add up to 12 less.
_WORKER_REST = 12.0
# One process uses 1.12 cores (section "worker": items a second × processor time an item): sending, packing and
# merging run in threads of their own, but most of the work holds the interpreter lock.
CORES_USED = 1.12

# The judge, by the number of originals. Section "capacity", 10^4, 10^5, 10^6, 4·10^6: fresh 3.5, 4.7, 5.2, 8.3 µs.
_JUDGE = 1.0
_LOOKUP, _LOOKUP_EXPONENT = 2.2, 0.17
# An insert with its share of all merges and of the expiry: 2.2, 3.9, 4.7, 8.2 µs.
_APPLY, _APPLY_EXPONENT = 2.5, 0.18
_REFERENCE = 10_000  # originals for which _LOOKUP and _APPLY hold,
_TABLES = 30  # and tables, those of the default; both are in proportion to them
# Comparing an unrelated candidate, and finding one, compared or not: 48 found and 24 compared cost 25 to 28 µs more
# than none, some 600 found and 24 compared 72 to 79.
_COMPARE, _FETCH = 1.0, 0.085
# A copy that is held back costs this much more: its prose is compared.
_HELD_BACK = 8.5
# Originals that share a key with an item of news, and those of them that are compared (section "capacity", 54,700 items
# of five English corpora in random order): .53 and .53 at 3,750 originals, .98 and .97 at 7,500, 1.7 and 1.6 at 15,000,
# 2.7 and 2.5 at 30,000. Common phrases make them, and [index] bucket_limit makes them grow slower than the originals.
# The exponents fall with the size (found: .88, .81, .66), so the extrapolation is on the safe side.
_NEWS = 50_000
_FOUND, _FOUND_EXPONENT = 4.0, 0.75
_COMPARED, _COMPARED_EXPONENT = 3.4, 0.62

# Split mode: section "split", 36,000 articles of 3.1 KB: 57, 20.5 and 32 µs an item for fingerprint, judge (7.6 of it
# decide) and publish, where one worker takes 71 to 81. What the parts above do not explain: packing fingerprints, 10.8
# by itself, and the rest of that role; reading and unpacking them (5.8 by itself), writing verdicts and the changelog,
# the transaction's share; joining a verdict with its record, and the rest of publishing.
_PACK_FINGERPRINT = 11.0
_FINGERPRINT_REST = 8.5
_JUDGE_BLOCKS = 13.0
_JOIN_VERDICT = 1.0
_PUBLISH_REST = 9.0
# The fingerprint of an article of 3.8 KB in a block has 1,400 bytes, its verdict 13.
FINGERPRINT_BYTES = 1400
VERDICT_BYTES = 20
# Records of the input and their copies in one transaction; an estimate.
PUBLISH_BUFFER = 64 * 2**20
ESTIMATED = ("PUBLISH_BUFFER",)
"""The constants that are estimates, not measurements."""

# -- bytes, restore ----------------------------------------------------------------------------------------------

# Verdict headers of a record that is let through, and of one that is held back (with the evidence).
HEADER_BYTES, EVIDENCE_BYTES = 100, 700
# An original in the changelog: 361 bytes with real texts, 414 with random ones. Slow streams write it twice: in a
# block, and in the merged block that replaces it.
CHANGELOG_BYTES = 361
CHANGELOG_WRITES = 2
BATCHES_HELD = 4  # a batch is in memory as records, as items, as outgoing records and packed
# Section "restore": 2.2 to 2.8 s for a million originals from Kafka, and 3.8 s from the start to the first commit, of
# which 2.3 belong to the restore. Section "capacity", processor time of the index alone: 2.0 to 3.2 s a million from
# 10^4 to 4·10^6 originals.
_RESTORE_MILLION = 2.8
_RESTORE_INDEX_MILLION = 2.4
_START = 1.5

# -- the judge by the number of originals ---------------------------------------------------------------------


class JudgeCost(NamedTuple):
    """Costs of an item in the judge, µs: to judge it, and to apply it (average over all items)."""

    judge: float
    apply: float


def judge_us(
    originals: float, compared: float, held_back: float, found: float | None = None, tables: int = _TABLES
) -> JudgeCost:
    """Return the cost of an item with `compared` unrelated candidates of `found` (default: as many).

    >>> [round(sum(judge_us(10**n, 0, 0.0)), 1) for n in (4, 6, 8)]
    [5.7, 11.5, 24.7]
    """
    scale = max(originals, 1) / _REFERENCE
    candidates = _COMPARE * compared + _FETCH * (compared if found is None else found)
    lookup, apply = _LOOKUP * scale**_LOOKUP_EXPONENT, _APPLY * scale**_APPLY_EXPONENT
    share = tables / _TABLES
    judge = _JUDGE + share * lookup + candidates + _HELD_BACK * held_back
    return JudgeCost(judge, (1.0 - held_back) * share * apply)


def candidates(originals: float, settings: Settings) -> tuple[float, float]:
    """Return how many unrelated originals an item finds, and how many of them are compared with it.

    Measured for English news with the default tables. Other tables change what is found as they change the false
    candidates that `planner.present` predicts. For families without bands the bounds are taken.

    >>> from stream_dedup.settings import load_settings
    >>> [round(count, 1) for count in candidates(50_000, load_settings())]
    [4.0, 3.4]
    """
    fingerprint = settings.fingerprint
    scheme = Scheme(fingerprint)
    most = float(scheme.views["headline"].stop * settings.index.bucket_limit)
    if not has_views(fingerprint):
        return most, float(MAX_CANDIDATES)
    usual = present(_NEWS, FingerprintSettings(), DecisionSettings()).false_candidates
    ratio = present(_NEWS, fingerprint, settings.decision).false_candidates / usual
    found = min(_FOUND * ratio * (originals / _NEWS) ** _FOUND_EXPONENT, most)
    return found, min(_COMPARED * ratio * (originals / _NEWS) ** _COMPARED_EXPONENT, found, float(MAX_CANDIDATES))


def has_views(fingerprint: FingerprintSettings) -> bool:
    """Whether the candidates of news were measured for such fingerprints."""
    return fingerprint.family == "minhash" and fingerprint.views == "all"


class Restore(NamedTuple):
    """Seconds of a restore: processor time of the index, and from the start of a process to its first commit."""

    cpu: float
    total: float


def restore_seconds(originals: float) -> Restore:
    """Return how long it takes to restore the index from Kafka.

    >>> round(restore_seconds(10**6).total, 1)
    4.3
    """
    return Restore(_RESTORE_INDEX_MILLION * originals / 1e6, _START + _RESTORE_MILLION * originals / 1e6)


class RoleCosts(NamedTuple):
    """Costs of an item in the single worker, and in each role of split mode, µs."""

    worker: float
    fingerprint: float
    judge: float
    publish: float


def role_costs(item_bytes: float, decide_us: float) -> RoleCosts:
    """Return the costs of an item whose decision takes `decide_us` (`judge_us`)."""
    kb = item_bytes / 1000
    consume, decode = _CONSUME + _CONSUME_KB * kb, _DECODE + _DECODE_KB * kb
    fingerprint, produce = _FINGERPRINT + _FINGERPRINT_KB * kb, _PRODUCE + _PRODUCE_KB * kb
    return RoleCosts(
        consume + decode + fingerprint + decide_us + produce + _WORKER_REST,
        consume + decode + fingerprint + _PACK_FINGERPRINT + _FINGERPRINT_REST,
        decide_us + _JUDGE_BLOCKS,
        consume + _JOIN_VERDICT + produce + _PUBLISH_REST,
    )
