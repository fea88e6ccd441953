"""Compute the memory that originals take in the index and its stores, at rest and while tables merge; and how many fit.

All functions are pure; tests and the memory benchmark compare them with measurements.
"""

import math
from collections import Counter
from dataclasses import dataclass

from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.rows import SEQUENCE_HEAD
from stream_dedup.index.runs import directory_bits
from stream_dedup.settings import Settings
from stream_dedup.settings.judging import FEWEST_ORIGINALS, IndexSettings, WindowSettings
from stream_dedup.settings.memory import sized, work_bytes

# Bytes beside signature and tables: 8 for the time in the index, 4 for the end of the id in the store. Spare capacity
# is never written to, so it takes no memory.
BOOKKEEPING = 12
# Peak memory of the tables beyond their memory at rest, as a share of it: a quarter is expired rows whose run is not
# yet rewritten, the rest is the run that a merge writes while the old ones still exist. Measured: 1.22 to 1.27 in a
# sliding window with batches of up to a 64th of it. A restore stays below.
_MERGING = 1.3
# Expired rows are removed every 64th of a window (decider.py).
_UNCLEARED = 1 / 64
# Resident memory at its highest was 1.06 to 1.17 times `peak_bytes` at 1 and 4 million originals: the arrays of times
# while they grow, and pages that are not returned at once.
MEMORY_SLACK = 1.15
BODY_SHINGLES = 500.0
"""Words, and about as many distinct shingles, of an article whose body is kept."""
_BODY_END = 4  # where each body ends
HASH_BITS = 24  # of a member of a packed set
MAX_MEMBERS = 1 << 16
"""Most members of a packed set (core/sets.c)."""
# Sequences are kept so much longer: 1/64 window for its steps (dedup/window.py), as much for whole segments of rows.
_STEP = 1 / 32
ROWS_OF_AN_INDEX = 2**32 - 1
"""The most keys in one table of an index, and so the most rows: both are numbered with 32 bits (runs.py)."""


def indexes(items: int, keys: int = 1) -> int:
    """Return how many indexes hold `items` originals with up to `keys` keys in one table.

    >>> [indexes(items) for items in (1_000_000, 2**32 - 1, 2**34)]
    [1, 1, 5]
    """
    return -(-items * keys // ROWS_OF_AN_INDEX)


def peak_bytes(items: int, takes: "Footprint") -> int:
    """Return the peak memory of `items` originals, including merges and expired rows that are not yet removed."""
    resting = takes.bytes_per_item * (1 + _UNCLEARED)
    return math.ceil(items * (resting + _MERGING * takes.keys * takes.key_bytes))


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes that an original takes.

    record_bytes: its signature.
    keys: how many keys it has in the tables.
    key_bytes: each of these.
    id_bytes: its id.
    bytes_per_item: in total.
    """

    record_bytes: int
    keys: int
    key_bytes: float
    id_bytes: float
    bytes_per_item: float


def footprint(scheme: Scheme, items: int, id_bytes: float = 40.0, body_bytes: float = 0.0) -> Footprint:
    """Compute the bytes an original takes at rest under any scheme; `body_bytes`: its packed body, if kept.

    More originals than one index holds are spread evenly. The memory benchmark measures the same as resident memory.

    >>> from stream_dedup.settings import FingerprintSettings
    >>> round(footprint(Scheme(FingerprintSettings()), 10_000_000).bytes_per_item)
    496
    """
    widths = Counter(scheme.table_of).values()
    rows = -(-items // indexes(items, max(widths)))
    signature, keys = scheme.signature_dtype.itemsize, sum(width * table_bytes(rows * width) for width in widths)
    total = signature + body_bytes + keys + id_bytes + BOOKKEEPING
    return Footprint(signature, scheme.key_columns, keys / scheme.key_columns, id_bytes, total)


def expected_body_bytes(scheme: Scheme, settings: Settings) -> float:
    """Compute the bytes of a body of 500 words on average over the window: sequences are kept for a part of it.

    >>> from stream_dedup.settings import load_settings
    >>> round(expected_body_bytes(Scheme((settings := load_settings()).fingerprint), settings))
    301
    """
    if not scheme.has_bodies:
        return 0.0
    packed = set_bytes(BODY_SHINGLES) if scheme.is_exact else 0.0
    return packed + sequence_bytes(settings.index, settings.window)


def sequence_bytes(index: IndexSettings, window: WindowSettings) -> float:
    """Compute the bytes of the words of 500 in order, on average over the window: they are kept for a part of it."""
    kept = index.texts_ms / window.length_ms * (1 + _STEP)
    return _BODY_END + min(kept, 1) * (SEQUENCE_HEAD + 2 * BODY_SHINGLES)


def set_bytes(shingles: float) -> float:
    """Return the mean bytes of a packed set of this many shingles; accurate to 2 % from ten shingles on.

    >>> round(set_bytes(600))
    1220
    """
    if shingles < 1:
        return 0.0
    low = math.floor(math.log2(max(2.0**HASH_BITS * 11 / (16 * shingles), 1.0)))  # k, see rice_bits
    mean = 2.0**HASH_BITS / shingles
    # How often 2^low fits into a geometric variable with this mean, on average. The end wastes half a byte on average.
    quotient = 1.0 / math.expm1(2.0**low / mean)
    return min(shingles, MAX_MEMBERS) * (low + 1 + quotient) / 8 + 0.5


def most_originals(settings: Settings, scheme: Scheme, tasks: int = 1, *, fewest: int = 0) -> int:
    """Return how many originals each of `tasks` may remember: `window.max_originals`; unset: what memory has room for.

    Raises ConfigError if those set by hand do not fit into `worker.memory`, or not even `fewest` do.

    >>> from stream_dedup.settings import load_settings
    >>> settings = load_settings(worker={"memory": "2G"})
    >>> most_originals(settings, Scheme(settings.fingerprint))
    1000000
    """
    worker, limit = settings.worker, settings.window.max_originals
    work = work_bytes(worker.batch_bytes, worker.max_record_bytes)
    body_bytes = expected_body_bytes(scheme, settings)

    def takes(originals: int) -> float:
        return MEMORY_SLACK * peak_bytes(originals, footprint(scheme, originals, body_bytes=body_bytes))

    smallest, share = limit or fewest, "" if tasks == 1 else f" for each of {tasks} partitions"
    if smallest and work + tasks * takes(smallest) > worker.memory:
        raise ConfigError(
            f"[window] max_originals = {smallest:,}{share} take up to {sized(tasks * takes(smallest))}, and the "
            f"process with its batches {sized(work)}: more than [worker] memory = {sized(worker.memory)}. Raise "
            "memory, and the container's limit with it; or lower max_originals, [worker] batch_bytes or "
            "max_record_bytes"
        )
    # Half of what a table numbers: dead rows stay until they are half of it (runs.py).
    most = 2**31 // max(Counter(scheme.table_of).values())
    if limit is not None:
        if limit > most:
            raise ConfigError(f"[window] max_originals = {limit:,}, but one index holds at most {most:,} of these keys")
        return limit
    room = (worker.memory - work) / tasks
    fitting = int(room / takes(FEWEST_ORIGINALS) * FEWEST_ORIGINALS)
    # The directories of another number may take more of each.
    while fitting > FEWEST_ORIGINALS and takes(fitting) > room:
        fitting = int(0.98 * fitting)
    # Two digits: machines of one kind differ by some pages, and members of a group should remember the same.
    return min(max(fitting - fitting % int(10 ** max(len(str(fitting)) - 2, 0)), FEWEST_ORIGINALS), most)


def table_bytes(keys: int) -> float:
    """Return the bytes of a key in one table of a run of `keys`: key, row number, and its share of the directory.

    >>> table_bytes(1_000_000)
    8.52
    """
    directory = 4 * ((1 << directory_bits(keys)) + 1)
    return round(8 + directory / max(keys, 1), 2)
