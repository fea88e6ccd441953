"""Compute the memory that originals take in the index and its stores, at rest and while tables merge.

In: a scheme and a number of originals. Out: bytes. Pure; tests and the memory benchmark compare it with measurements.
"""

import math
from dataclasses import dataclass

from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.run import directory_bits

# Bytes beside signature and tables: 8 for the time in the index, 4 for the end of the id in the store. Spare capacity
# is never written to, so it takes no memory.
BOOKKEEPING = 12
# Peak memory of the tables beyond their memory at rest, as a share of it: a quarter is expired rows whose run is not
# yet rewritten, the rest is the run that a merge writes while the old ones still exist. Measured: 1.22 to 1.27 in a
# sliding window with batches of up to a 64th of it. A restore stays below.
_MERGING = 1.3
# Expired rows are removed every 64th of a window (deduplicator.py).
_UNCLEARED = 1 / 64
ROWS_OF_AN_INDEX = 2**32 - 1
"""The most rows that an index numbers: a pair of a lookup has 32 bits for the row (index/hybrid.py)."""


def indexes(items: int) -> int:
    """Return how many indexes hold `items` originals.

    >>> [indexes(items) for items in (1_000_000, 2**32 - 1, 2**34)]
    [1, 1, 5]
    """
    return -(-items // ROWS_OF_AN_INDEX)


def sized(count: float) -> str:
    """Format a number of bytes.

    >>> sized(1_572_864_000), sized(1000), sized(5 * 2**40)
    ('1,500 MiB', '1,000 bytes', '5,120 GiB')
    """
    if count >= 2**40:
        return f"{count / 2**30:,.0f} GiB"
    return f"{count / 2**20:,.0f} MiB" if count >= 10 * 2**20 else f"{count:,.0f} bytes"


def peak_bytes(items: int, takes: "Footprint") -> int:
    """Return the peak memory of `items` originals, including merges and expired rows that are not yet removed."""
    resting = takes.bytes_per_item * (1 + _UNCLEARED)
    return math.ceil(items * (resting + _MERGING * takes.tables * takes.table_bytes))


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes an original takes: its signature (`record_bytes`), its entry in each table, its id, and in total."""

    record_bytes: int
    tables: int
    table_bytes: float
    id_bytes: float
    bytes_per_item: float


def footprint(scheme: Scheme, items: int, id_bytes: float = 40.0, body_bytes: float = 0.0) -> Footprint:
    """Compute the bytes an original takes at rest under any scheme; `body_bytes`: its packed body, if kept.

    More originals than one index holds are spread evenly. The memory benchmark measures the same as resident memory.

    >>> from stream_dedup.settings import FingerprintSettings
    >>> round(footprint(Scheme(FingerprintSettings()), 10_000_000).bytes_per_item)
    609
    """
    signature, entry = scheme.signature_dtype.itemsize, table_bytes(-(-items // indexes(items)))
    total = signature + body_bytes + scheme.tables * entry + id_bytes + BOOKKEEPING
    return Footprint(signature, scheme.tables, entry, id_bytes, total)


def table_bytes(rows: int, key_bytes: int = 4) -> float:
    """Return the bytes of a row in one table of a run of `rows`: key, row number, and its share of the directory.

    >>> table_bytes(1_000_000)
    8.52
    """
    directory = 4 * ((1 << directory_bits(rows)) + 1)
    return round(key_bytes + 4 + directory / max(rows, 1), 2)
