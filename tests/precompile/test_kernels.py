"""Precompilation reaches every kernel, so that nothing is compiled while items wait."""

import json
import os
import subprocess
import sys
from itertools import cycle, islice
from pathlib import Path

import pytest

from stream_dedup.compiled import LEVEL
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.demo.sample import sample_feed
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.precompile.compilations import count_compilations
from stream_dedup.precompile.kernels import compile_all, compile_for
from stream_dedup.settings import load_settings

# Run in a process with an empty cache, this prints the cacheable kernels that `compile_all` leaves uncompiled.
_PRINT_MISSING = """
import importlib, pkgutil
from numba.core.dispatcher import Dispatcher
import stream_dedup
from stream_dedup.precompile.kernels import compile_all

assert compile_all() > 0
for part in ("fingerprint", "index", "dedup", "batch"):
    package = importlib.import_module(f"stream_dedup.{part}")
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            own = isinstance(value, Dispatcher) and value.py_func.__module__ == info.name
            if own and value.targetoptions.get("inline") != "always" and not value.signatures:
                print(info.name, name)
assert compile_all() == 0
"""


@pytest.mark.slow
def test_after_precompilation_the_decision_compiles_nothing() -> None:
    compile_all()
    assert compile_all() == 0
    with count_compilations() as names:
        dedup = Deduplicator()
        for start in range(0, 60, 20):
            numbers = range(start, start + 20)
            items = [Item(str(n), f"Title {n}", f"Some text of number {n // 2}", "a.example", n) for n in numbers]
            dedup.apply(dedup.judge(items))
        dedup.close()
    assert names == []


@pytest.mark.parametrize("sizes", [(1,), (1, 5, 2), (3, 1, 1, 8)])
def test_after_precompilation_a_trickle_compiles_nothing(sizes: tuple[int, ...]) -> None:
    """To numba, a table of one row has another type than a table of two, since it is contiguous."""
    compile_for(load_settings())
    decode = Decoder(load_settings().item)
    decoded = [decode(json.dumps(item).encode(), None, None) for item in sample_feed(400, seed=3)]
    items = iter([item for item in decoded if isinstance(item, Item)])
    with count_compilations() as names, Deduplicator() as dedup:
        for size in cycle(sizes):
            batch = list(islice(items, size))
            if not batch:
                break
            dedup.apply(dedup.judge(batch))
    assert names == []


@pytest.mark.operate
@pytest.mark.timeout(600)
def test_precompilation_caches_every_cacheable_kernel(tmp_path: Path) -> None:
    # With the name of a processor no shipped machine code is used.
    variables = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_CPU_NAME": LEVEL}
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_MISSING],
        capture_output=True, text=True, check=False, env=variables,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
