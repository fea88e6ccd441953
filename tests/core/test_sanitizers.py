"""The core under gcc's address and undefined-behaviour sanitizers: its tests once more, and millions of mutants."""

import os
import sys
import time

import pytest

from tests.core.compilers import CheckedPackage, missing_sanitizers
from tests.measured import record

pytestmark = pytest.mark.skipif(bool(missing_sanitizers()), reason=missing_sanitizers() or "none")
# Those of processes, of memory and of pages say nothing more of the core.
TESTS = ("tests/core/test_door.py", "tests/fingerprint", "tests/index", "tests/dedup", "tests/evaluate/test_exact.py",
         "tests/fuzz/test_core.py")  # fmt: skip
# Reads behind an array of numpy or a text of Python, and adds beyond 64 bits.
_FAULTS = """
import ctypes, sys
import numpy as np
from stream_dedup.core import call
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
    ],
    ids=["behind an array", "behind a text", "beyond 64 bits"],
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
def test_ten_million_mutants_in_a_core_that_checks_itself(package: CheckedPackage) -> None:
    """FUZZ_INPUTS and FUZZ_SEED choose others; the counts are in tests/results/fuzz.json."""
    total, seed = os.environ.get("FUZZ_INPUTS", "10000000"), os.environ.get("FUZZ_SEED", str(time.time_ns() % 10**6))
    print(f"seed {seed}")
    start = time.perf_counter()
    code = f"from tests.fuzz.core import mutants; print(mutants({seed}, {total}))"
    inputs = int(package.run([sys.executable, "-c", code]))
    assert inputs >= int(total)
    minutes = round((time.perf_counter() - start) / 60, 1)
    record("fuzz", {"core": {"seed": int(seed), "inputs": inputs, "crashes": 0, "minutes": minutes}})
