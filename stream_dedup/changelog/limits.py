"""What a changelog topic must be made for: its partitions, and how large a record is. Numbers alone.

Whoever makes or checks the topics needs no more of the changelog, and does not wait for the compiled kernels.
"""

PARTITIONS = 2
"""Of an index: blocks and folds."""
# A topic takes records of 1 MiB by default. Counted before compression, which sketches hardly yield to.
ENTRY_BYTES = 900_000
