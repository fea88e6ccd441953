"""The warm-up meets every kernel, so that nothing is compiled while items wait."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind
from stream_dedup.demo import warm as module
from stream_dedup.demo.beside import judge_made_up
from stream_dedup.demo.sample import sample_feed
from stream_dedup.demo.warm import counted, make_ready, warm
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings

# In a process of its own, whose cache is empty: which kernels that ask for a cache did not get into it. What the second
# process compiles as a part of another kernel is in the cache, and never loaded by itself.
_UNMET = """
import importlib, os, pkgutil
from pathlib import Path
from numba.core.dispatcher import Dispatcher
import stream_dedup
from stream_dedup.demo.warm import warm

assert warm() > 0
cached = {path.name.partition("-")[0] for path in Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.nbi")}
for part in ("fingerprint", "index", "dedup"):
    package = importlib.import_module(f"stream_dedup.{part}")
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        module = importlib.import_module(found.name)
        for name, one in vars(module).items():
            own = isinstance(one, Dispatcher) and one.py_func.__module__ == found.name
            if own and one.targetoptions.get("inline") != "always" and not one.signatures:
                if f"{found.name.rpartition('.')[2]}.{name}" in cached:
                    continue
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


def test_after_a_warm_up_a_trickle_compiles_nothing() -> None:
    """One row of a table is another type to numba than two rows, as it is contiguous."""
    warm()
    decode = Decoder(load_settings().item)
    decoded = [decode(json.dumps(item).encode(), None, None) for item in sample_feed(120, seed=3)]
    with counted() as names, Deduplicator() as dedup:
        for one in decoded:
            if isinstance(one, Item):
                dedup.apply(dedup.judge([one]))
    assert names == []


def test_made_up_fingerprints_meet_each_other() -> None:
    """Else hardly a kernel would be compiled on them."""
    found = judge_made_up()
    assert found[Kind.UNIQUE] > 10
    assert found[Kind.DUPLICATE] + found[Kind.UPDATE] > 10


class Beside:
    """A second process that has compiled seven kernels, or failed."""

    def __init__(self, returncode: int) -> None:
        self.returncode = returncode

    def communicate(self) -> tuple[str, str]:
        return ("7\n", "") if self.returncode == 0 else ("", "Traceback\nMemoryError: no memory\n")

    def kill(self) -> None: ...

    def wait(self) -> None: ...


def compiling(monkeypatch: pytest.MonkeyPatch, returncode: int = 0) -> list[Beside]:
    """From here on one kernel must be compiled for each batch of fingerprints; which processes are started."""
    started: list[Beside] = []
    prepare = Deduplicator.prepare

    def slowly(self: Deduplicator, items: list[Item]) -> object:
        from numba import njit

        njit(lambda n: n + 1)(1)
        return prepare(self, items)

    monkeypatch.setattr(Deduplicator, "prepare", slowly)
    monkeypatch.setattr(module, "_start_beside", lambda: started.append(Beside(returncode)) or started[-1])
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    return started


def test_what_is_compiled_already_starts_no_second_process(monkeypatch: pytest.MonkeyPatch) -> None:
    make_ready(load_settings())
    monkeypatch.setattr(module, "_start_beside", None)
    assert make_ready(load_settings()) == 0


def test_the_first_compilation_starts_a_second_process_and_each_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    make_ready(load_settings())
    started, told = compiling(monkeypatch), list[int]()
    compiled = make_ready(load_settings(), told.append)
    assert len(started) == 1
    assert compiled == len(told) + 7
    assert told == list(range(1, len(told) + 1))


def test_one_processor_or_another_family_needs_no_second_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started = compiling(monkeypatch)
    make_ready(load_settings(fingerprint={"family": "simhash", "bits": 64}))
    monkeypatch.setattr(module.os, "cpu_count", lambda: 1)
    make_ready(load_settings())
    assert started == []


def test_a_second_process_that_fails_costs_time_alone_and_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make_ready(load_settings())
    started = compiling(monkeypatch, returncode=1)
    assert make_ready(load_settings()) > 0
    assert len(started) == 1
    assert "MemoryError: no memory" in caplog.text


@pytest.mark.operate
@pytest.mark.timeout(600)
def test_the_second_process_compiles_most_of_what_follows_the_fingerprints(tmp_path: Path) -> None:
    """In an empty cache: what is left then beside the fingerprints is a fraction of it."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    code = """
from stream_dedup.demo.beside import judge_made_up
from stream_dedup.demo.warm import counted, make_ready
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
with counted() as beside:
    judge_made_up()
Fingerprinter(Scheme(load_settings().fingerprint))([Item("1", "A headline", "A text.", "", 0)])
print(len(beside), make_ready(load_settings()))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    compiled, left = map(int, said.stdout.split())
    assert left < compiled / 3


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
