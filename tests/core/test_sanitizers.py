"""The core under gcc's address and undefined-behaviour sanitizers: its tests once more, and an hour of mutants."""

import os
import sys
import time

import pytest

from tests.core.compilers import CheckedPackage, missing_sanitizers
from tests.lab.measured import record

pytestmark = pytest.mark.skipif(bool(missing_sanitizers()), reason=missing_sanitizers() or "none")
# Those of processes, of memory and of pages say nothing more of the core.
TESTS = ("tests/core/test_door.py", "tests/fingerprint", "tests/index", "tests/dedup",
         "tests/tools/evaluate/test_exact.py", "tests/changelog", "tests/fuzz/test_core.py", "tests/fuzz/test_cases.py",
         "tests/fuzz/test_fuzz.py")  # fmt: skip
# Reads behind an array of numpy or a text of Python, and adds beyond 64 bits.
_FAULTS = """
import ctypes, sys
import numpy as np
from stream_dedup.core import arena, call
text = "The bridge over the Elm is open"
at = ctypes.c_void_p(id(text) + sys.getsizeof(text) - 1 - len(text))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> CheckedPackage:
    return CheckedPackage(tmp_path_factory.mktemp("checked"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("call('element', np.zeros(8, np.uint8), 8)", "heap-buffer-overflow"),
        ("call('element', at, len(text) + 1)", "heap-buffer-overflow"),
        ("call('next', 2**63 - 1)", "signed integer overflow"),
        ("call('next_array', arena(), 8)", "heap-buffer-overflow"),
    ],
    ids=["behind an array", "behind a text", "beyond 64 bits", "behind an array of scratch memory"],
)
def test_faults_are_found(call: str, said: str, package: CheckedPackage) -> None:
    command = [sys.executable, "-c", f"{_FAULTS}\n{call}"]
    with pytest.raises(AssertionError, match=said):
        package.run(command)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_tests_of_the_core_pass_with_a_core_that_checks_itself(package: CheckedPackage) -> None:
    chosen = ("-m", "not slow and not kafka and not soak and not operate")
    options = ("-q", "-p", "no:cacheprovider", "--timeout", "1200")
    print(package.run([sys.executable, "-m", "pytest", *options, *chosen, *TESTS]))


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_an_hour_of_mutants_in_a_core_that_checks_itself(package: CheckedPackage) -> None:
    """FUZZ_SECONDS and FUZZ_SEED choose others; the counts are in tests/lab/results/fuzz.json."""
    seconds = float(os.environ.get("FUZZ_SECONDS", "3600"))
    seed, inputs, start = int(os.environ.get("FUZZ_SEED", time.time_ns() % 10**6)), 0, time.perf_counter()
    first = seed
    while time.perf_counter() - start < seconds:
        print(f"seed {seed}", flush=True)
        inputs += int(
            package.run([sys.executable, "-c", f"from tests.fuzz.core import mutants; print(mutants({seed}))"])
        )
        seed += 1
    minutes = round((time.perf_counter() - start) / 60, 1)
    record("fuzz", {"core": {"seed": first, "inputs": inputs, "crashes": 0, "minutes": minutes}})
