"""Run mutants through a decoder; count them, and stop at the first that it does not handle.

A mutant that takes long is a hang in the making, so the slowest time is counted too. To repeat a failure:
`python -m tests.fuzz TARGET SEED`; the failure names both, and the bytes.
"""

import time
import zlib
from typing import NamedTuple

from tests.fuzz.mutate import Mutator
from tests.fuzz.target import Target


class Run(NamedTuple):
    """A run of one target: inputs, those it took without an error, and the slowest one (processor seconds)."""

    inputs: int
    accepted: int
    slowest: float


def run(target: Target, seed: int, inputs: int) -> Run:
    """Put `inputs` mutants in. Raises AssertionError at the first that raises anything but the documented errors."""
    mutant = Mutator(seed ^ zlib.crc32(target.name.encode()), target.seeds, target.tokens)
    accepted, slowest = 0, 0.0
    call, errors, clock = target.call, target.errors, time.process_time
    for seed_input in target.seeds:
        try:
            call(seed_input)  # what is valid is accepted
        except Exception as error:
            raise AssertionError(f"{target.name}: {type(error).__name__} for a seed: {error!s:.200}") from error
    for number in range(inputs):
        data = mutant()
        start = clock()
        try:
            call(data)
            accepted += 1
        except errors:
            pass
        except Exception as error:
            raise AssertionError(
                f"{target.name}, seed {seed}, input {number}: {type(error).__name__}: {error!s:.200}\n{data[:2000]!r}"
            ) from error
        slowest = max(slowest, clock() - start)
    return Run(inputs, accepted, slowest)
