"""Limits of the changelog that concern the topic: partitions for each index, and the size of a record.

They stand apart so that creating and checking topics does not import the compiled kernels.
"""

PARTITIONS = 2
"""Per index: one of blocks, one of merged blocks."""
# Topics take records of 1 MiB by default. Counted before compression, which hardly shrinks sketches.
ENTRY_BYTES = 900_000
