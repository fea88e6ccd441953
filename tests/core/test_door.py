"""The door to the core: what it passes, what it raises, and whose scratch memory is whose."""

import ctypes
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from stream_dedup import Deduplicator, Item, core
from stream_dedup.core import DOUBLE, INT64, POINTER, Struct
from stream_dedup.errors import ConfigError, InputError
from tests.core.compilers import compiled, needs_compiler

SOURCE = """
#include <stddef.h>
#include <stdint.h>
typedef struct { const int64_t *numbers; int64_t count; double factor; } sum_of;
int64_t core_version(void) { return 77; }
void *arena_new(uint64_t secret) { (void)secret; return NULL; }
void arena_free(void *scratch) { (void)scratch; }
int64_t fails(int64_t code) { return code; }
int64_t is_null(const void *pointer) { return pointer == NULL; }
int64_t half(double number) { return (int64_t)(number / 2); }
int64_t upper_bit(uint64_t number) { return (int64_t)(number >> 63); }
int64_t total(const sum_of *sum) {
    int64_t result = 0;
    for (int64_t i = 0; i < sum->count; i++) result += sum->numbers[i];
    return (int64_t)((double)result * sum->factor);
}
"""


class Sum(Struct, name="sum_of"):
    _fields_ = (("numbers", POINTER), ("count", INT64), ("factor", DOUBLE))


del Struct.known["sum_of"]  # core.h does not know it


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("door"), SOURCE, "-shared", "-fPIC")


@pytest.fixture
def other(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls go to the library of `SOURCE`."""
    loaded = ctypes.CDLL(str(library))
    loaded.arena_new.restype = ctypes.c_void_p
    monkeypatch.setattr(core, "_LIBRARY", loaded)


def test_a_missing_library_is_said_with_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "LIBRARY", tmp_path / "_core.so")
    with pytest.raises(ConfigError, match=r"cannot be loaded: .*_core\.so.*core/build\.py"):
        core._load()


@needs_compiler
def test_a_library_of_other_sources_is_not_called(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "LIBRARY", library)
    with pytest.raises(ConfigError, match=r"another version of the sources.*core/build\.py"):
        core._load()
    monkeypatch.setattr(core, "VERSION", 77)
    assert core._load().core_version() == 77


@needs_compiler
@pytest.mark.usefixtures("other")
def test_a_negative_code_is_raised() -> None:
    assert core.call("fails", 0) == 0
    assert core.call("fails", 2**62) == 2**62, "a count of any size"
    with pytest.raises(MemoryError, match="fails: no memory left"):
        core.call("fails", -1)
    for code in (-2, -3, -(2**62)):
        with pytest.raises(InputError, match="stored state is damaged"):
            core.call("fails", code)
    with pytest.raises(AttributeError):
        core.call("no_such_function")


@needs_compiler
@pytest.mark.usefixtures("other")
def test_arguments_arrive_as_what_they_are() -> None:
    assert core.call("is_null", None) == 1
    assert core.call("is_null", np.zeros(3)) == 0
    assert core.call("half", 9.0) == 4
    assert core.call("upper_bit", 2**64 - 1) == 1
    assert core.call("upper_bit", -1) == 1
    numbers = np.arange(5)
    assert core.call("total", Sum(numbers=numbers, count=5, factor=1.5)) == 15
    assert core.call("total", Sum(numbers=None, count=0, factor=1.5)) == 0


@needs_compiler
@pytest.mark.usefixtures("other")
def test_a_struct_keeps_its_arrays_alive() -> None:
    sums = [Sum(numbers=np.full(1000, n), count=1000, factor=1.0) for n in range(200)]
    assert [core.call("total", one) for one in sums] == [1000 * n for n in range(200)]


@pytest.mark.parametrize(
    "array", [np.arange(10)[::2], np.zeros((3, 4)).T, np.zeros((4, 4))[:, 1:]], ids=["steps", "turned", "columns"]
)
def test_an_array_with_gaps_is_refused(array: np.ndarray) -> None:
    with pytest.raises(ValueError, match="not contiguous"):
        core.call("core_version", array)
    with pytest.raises(ValueError, match="not contiguous"):
        Sum(numbers=array)


def test_read_only_and_empty_arrays_pass() -> None:
    fixed = np.arange(3)
    fixed.flags.writeable = False
    assert core.call("core_version", fixed, np.empty(0)) == core.VERSION


def test_each_thread_has_scratch_memory_of_its_own() -> None:
    both = threading.Barrier(2)

    def pointers(_: int) -> tuple[int | None, int | None]:
        first = core.arena().value
        both.wait()
        return first, core.arena().value

    with ThreadPoolExecutor(2) as pool:
        (a, again_a), (b, again_b) = pool.map(pointers, range(2))
    assert a == again_a
    assert b == again_b
    assert len({a, b, core.arena().value}) == 3
    assert None not in {a, b}


def test_scratch_memory_ends_with_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[int | None] = []
    fake = SimpleNamespace(arena_new=lambda secret: 64, arena_free=lambda pointer: freed.append(pointer.value))
    monkeypatch.setattr(core, "_LIBRARY", fake)
    thread = threading.Thread(target=core.arena)
    thread.start()
    thread.join()
    assert freed == [64]


def test_a_process_ends_while_a_daemon_thread_is_in_the_core() -> None:
    code = """
import threading, time
from stream_dedup import Deduplicator, Item
dedup, text = Deduplicator(), " ".join(f"word{n}" for n in range(300_000))
entered = threading.Event()
def prepare():
    while True:
        entered.set()
        dedup.prepare([Item("1", "Bridge opens", text, "a.example", 0)] * 3)
for _ in range(4):
    threading.Thread(target=prepare, daemon=True).start()
entered.wait()
time.sleep(0.5)
"""
    done = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=False) for _ in range(3)]
    assert [one.returncode for one in done] == [0, 0, 0], done[-1].stderr.decode()


@needs_compiler
@pytest.mark.usefixtures("other")
def test_no_memory_for_scratch_memory_is_raised() -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(MemoryError):
        pool.submit(core.arena).result()


def test_two_threads_judge_side_by_side_as_one_does() -> None:
    """A call releases the interpreter lock, so both are in the core at once."""

    def judge(thread: int) -> list[str]:
        shown = []
        with Deduplicator() as dedup:
            for batch in range(12):
                texts = [f"The bridge {n % 7} over the Elm opened on day {n % 3}. " * (n % 5) for n in range(40)]
                items = [
                    Item(f"{batch}-{n}", f"Bridge {thread} {n % 7} opens", text, "a.example", n * 60_000)
                    for n, text in enumerate(texts)
                ]
                judged = dedup.judge(items)
                dedup.apply(judged)
                shown += [f"{verdict.kind} {verdict.original and verdict.original.id}" for verdict in judged.verdicts]
        return shown

    alone = [judge(thread) for thread in range(2)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(judge, range(2))) == alone
    assert {"duplicate", "unique"} <= {line.split()[0] for line in alone[0]}
