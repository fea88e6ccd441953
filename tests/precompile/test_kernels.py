"""Precompilation reaches every kernel, so that nothing is compiled while items wait."""

import json
import os
import subprocess
import sys
from itertools import cycle, islice
from pathlib import Path

import pytest

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind
from stream_dedup.demo.sample import sample_feed
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.precompile import kernels
from stream_dedup.precompile.compilations import count_compilations
from stream_dedup.precompile.kernels import compile_all, compile_for, judge_synthetic
from stream_dedup.settings import load_settings

# Run in a process with an empty cache, this prints the cacheable kernels that the cache lacks after `compile_all`. A
# kernel that the second process compiles as a part of another one is in the cache, but not loaded by itself.
_PRINT_MISSING = """
import importlib, os, pkgutil
from pathlib import Path
from numba.core.dispatcher import Dispatcher
import stream_dedup
from stream_dedup.precompile.kernels import compile_all

assert compile_all() > 0
cached = {path.name.partition("-")[0] for path in Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.nbi")}
for part in ("fingerprint", "index", "dedup"):
    package = importlib.import_module(f"stream_dedup.{part}")
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            own = isinstance(value, Dispatcher) and value.py_func.__module__ == info.name
            if own and value.targetoptions.get("inline") != "always" and not value.signatures:
                if f"{info.name.rpartition('.')[2]}.{name}" in cached:
                    continue
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


def test_synthetic_fingerprints_are_compared_with_each_other() -> None:
    """Without candidates, judging them would compile hardly any kernel."""
    kinds = judge_synthetic()
    assert kinds[Kind.UNIQUE] > 10
    assert kinds[Kind.DUPLICATE] + kinds[Kind.UPDATE] > 10


class SecondProcess:
    """A second process that has compiled seven kernels, or failed."""

    def __init__(self, returncode: int) -> None:
        self.returncode = returncode

    def communicate(self) -> tuple[str, str]:
        return ("7\n", "") if self.returncode == 0 else ("", "Traceback\nMemoryError: no memory\n")

    def kill(self) -> None: ...


def patch_compilation(monkeypatch: pytest.MonkeyPatch, returncode: int = 0) -> list[SecondProcess]:
    """Make each batch of fingerprints compile one kernel; return the list of second processes as they start."""
    started: list[SecondProcess] = []
    prepare = Deduplicator.prepare

    def slowly(self: Deduplicator, items: list[Item]) -> object:
        from numba import njit

        njit(lambda n: n + 1)(1)
        return prepare(self, items)

    monkeypatch.setattr(Deduplicator, "prepare", slowly)
    monkeypatch.setattr(
        kernels, "_start_second_process", lambda: started.append(SecondProcess(returncode)) or started[-1]
    )
    monkeypatch.setattr(kernels.os, "cpu_count", lambda: 2)
    return started


@pytest.mark.slow
def test_a_second_process_starts_with_the_first_compilation_where_it_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_for(load_settings())
    monkeypatch.setattr(kernels, "_start_second_process", None)
    assert compile_for(load_settings()) == 0, "all kernels are compiled"
    started, reported = patch_compilation(monkeypatch), list[int]()
    compiled = compile_for(load_settings(), reported.append)
    assert len(started) == 1
    assert compiled == len(reported) + 7
    assert reported == list(range(1, len(reported) + 1))
    compile_for(load_settings(fingerprint={"family": "simhash", "bits": 64}))
    monkeypatch.setattr(kernels.os, "cpu_count", lambda: 1)
    compile_for(load_settings())
    assert len(started) == 1


@pytest.mark.slow
def test_a_second_process_that_fails_costs_only_time_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compile_for(load_settings())
    started = patch_compilation(monkeypatch, returncode=1)
    assert compile_for(load_settings()) > 0
    assert len(started) == 1
    assert "MemoryError: no memory" in caplog.text


def run_with_empty_cache(code: str, cache: Path) -> str:
    """Run code in a process of its own; return what it prints."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.operate
@pytest.mark.timeout(600)
def test_the_second_process_compiles_most_kernels_behind_the_fingerprints(tmp_path: Path) -> None:
    """With an empty cache, only a fraction of the kernels remains for the first process after the fingerprints."""
    code = """
from stream_dedup.precompile.compilations import count_compilations
from stream_dedup.precompile.kernels import compile_for
from stream_dedup.precompile.kernels import judge_synthetic
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
with count_compilations() as second:
    judge_synthetic()
Fingerprinter(Scheme(load_settings().fingerprint))([Item("1", "A headline", "A text.", "", 0)])
print(len(second), compile_for(load_settings()))
"""
    compiled, left = map(int, run_with_empty_cache(code, tmp_path).split())
    assert left < compiled / 3


@pytest.mark.operate
@pytest.mark.timeout(600)
def test_precompilation_caches_every_cacheable_kernel(tmp_path: Path) -> None:
    assert run_with_empty_cache(_PRINT_MISSING, tmp_path) == ""
