"""The warm-up meets every kernel, so that nothing is compiled while items wait."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stream_dedup.demo.warm import counted, warm
from stream_dedup.news.item import Item

# In a process of its own, whose cache is empty: which kernels that ask for a cache did not get into it.
_UNMET = """
import importlib, pkgutil
from numba.core.dispatcher import Dispatcher
import stream_dedup
from stream_dedup.demo.warm import warm

assert warm() > 0
for part in ("fingerprint", "index", "dedup"):
    package = importlib.import_module(f"stream_dedup.{part}")
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        module = importlib.import_module(found.name)
        for name, one in vars(module).items():
            own = isinstance(one, Dispatcher) and one.py_func.__module__ == found.name
            if own and one.targetoptions.get("inline") != "always" and not one.signatures:
                print(found.name, name)
assert warm() == 0
"""


def test_what_is_compiled_is_counted() -> None:
    from numba import njit

    @njit
    def twice(n):  # type: ignore[no-untyped-def]
        return n + n

    with counted() as names:
        assert twice(2) == 4
        assert twice(3) == 6
    assert [name.rpartition(".")[2] for name in names] == ["twice"]


def test_after_a_warm_up_the_decision_compiles_nothing() -> None:
    from stream_dedup.dedup.deduplicator import Deduplicator

    warm()
    assert warm() == 0
    with counted() as names:
        dedup = Deduplicator()
        for start in range(0, 60, 20):
            numbers = range(start, start + 20)
            items = [Item(str(n), f"Title {n}", f"Some text of number {n // 2}", "a.example", n) for n in numbers]
            dedup.apply(dedup.judge(items))
        dedup.close()
    assert names == []


@pytest.mark.operate
@pytest.mark.timeout(600)
def test_no_kernel_is_left_out(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", _UNMET],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout == ""
