"""The changelog of the index: the format of its blocks and entries, their order, and the changelog in a file."""

PARTITIONS = 2
"""Per index: one of blocks, one of merged blocks."""
# Topics take records of 1 MiB by default. Counted before compression, which hardly shrinks sketches.
ENTRY_BYTES = 900_000
MOST_BYTES = 2**26
"""No worker writes a larger record: an entry has `ENTRY_BYTES`, or one row. A larger one is another program's, and a
gigabyte may come in 33 kB, so it is not read. A constant: less memory here must not make a changelog lack a block."""
