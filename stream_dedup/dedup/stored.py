"""Refuse stored changes that no Decider has made, before the first of them is applied.

A block's checksum says that it is as it was written, not who wrote it. What is applied must keep the memory consistent
and every sum of times within 64 bits; what it says is believed.
"""

import numpy as np

from stream_dedup.dedup.batch import Delta
from stream_dedup.dedup.clocks import FAR_FUTURE, START
from stream_dedup.errors import CorruptBlock
from stream_dedup.fingerprint.scheme import Scheme


def check_delta(delta: Delta, scheme: Scheme) -> None:
    """Raise CorruptBlock for columns that do not fit each other, and for impossible times and clocks. O(n)."""
    n, arrivals, clocks = len(delta), delta.arrivals, delta.clocks
    if (columns := delta.keys.shape[1]) != scheme.key_columns or len(arrivals) != n:
        raise CorruptBlock(
            f"a block of {n} rows has {columns} keys a row and {len(arrivals)} arrivals; its scheme has "
            f"{scheme.key_columns} keys, and each row arrives once"
        )
    if {len(delta.signatures), len(delta.keys)} != {n}:
        raise CorruptBlock(
            f"a block of {n} ids has {len(delta.signatures)} signatures and {len(delta.keys)} rows of keys"
        )
    if (bodies := len(delta.bodies)) != n * scheme.has_bodies:
        kind = "one a row" if scheme.has_bodies else "none"
        raise CorruptBlock(f"a block of {n} rows has {bodies} bodies; its scheme has {kind}")
    if delta.signatures.dtype != scheme.signature_dtype or len(delta.stories) not in (0, n):
        raise CorruptBlock(f"the columns of a block of {n} rows are not those of its scheme")
    if len(delta.forgotten) and (before := int(delta.forgotten["before"].max())) > n:
        raise CorruptBlock(f"a block of {n} rows deletes what {before} of its rows come after")
    spans = {
        "time": delta.signatures["time"][arrivals["doubted"] == 0],  # the others are never added up
        "watermark": np.append(arrivals["watermark"], delta.watermark),
        "elapsed time": np.append(arrivals["elapsed"], delta.elapsed),
        "time of a clock": clocks["times"].ravel(),
    }
    for name, values in spans.items():
        if len(wrong := values[(values < START) | (values > FAR_FUTURE)]):
            raise CorruptBlock(f"a block has the {name} {wrong[0]} ms, which no item can have")
    if len(clocks) and (clocks["count"].min() < 0 or clocks["count"].max() > FAR_FUTURE or clocks["weight"].min() < 0):
        raise CorruptBlock("a block has a clock of fewer than no items")
