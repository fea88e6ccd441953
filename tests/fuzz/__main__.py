"""Fuzz some decoders from the command line: python -m tests.fuzz [TARGET] [SEED] [INPUTS]."""

import sys
import time

from tests.fuzz.loop import run
from tests.fuzz.targets import targets

name, seed, inputs = [*sys.argv[1:], *("", "1", "1000")[len(sys.argv) - 1 :]]
for target in targets():
    if name in target.name:
        start = time.perf_counter()
        try:
            found = run(target, int(seed), max(1, round(int(inputs) * target.share)))
        except AssertionError as error:
            print(f"{target.name:16} FAILED {str(error)[:600]}")
            continue
        each = (time.perf_counter() - start) / found.inputs
        counts = f"{found.inputs:8} inputs, {found.accepted:8} accepted"
        print(f"{target.name:16} {counts}, slowest {found.slowest:.4f} s, {each * 1e6:.1f} µs each")
