"""Shipped machine code is found wherever it is installed, and is never run where it does not fit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stream_dedup import compiled

KERNEL = """
from stream_dedup.compiled import njit

@njit(cache=True)
def twice(x):
    return 2 * x
"""
SHIP = """
import sys
from pathlib import Path
import numba
from stream_dedup import compiled

compiled.SHIPPED = Path(sys.argv[1])
from stream_dedup.precompile.__main__ import write

numba.config.CPU_NAME, numba.config.CPU_FEATURES = compiled.LEVEL, ""
import doubling
doubling.twice(2)
write()
"""
USE = """
import sys
from pathlib import Path
import numba
from stream_dedup import compiled
from stream_dedup.precompile.compilations import count_compilations

compiled.SHIPPED = Path(sys.argv[1])
exec(sys.argv[2])
import doubling
assert not numba.config.CACHE_LOCATOR_CLASSES, "other code has its own"
with count_compilations() as names:
    assert doubling.twice(21) == 42
print(len(names), compiled.shipped()[1])
"""


def run(script: str, module: Path, cache: Path, *arguments: str | Path) -> str:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    variables |= {"PYTHONPATH": f"{module}{os.pathsep}{compiled.PACKAGE.parent}", "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def kernel_in(folder: Path) -> Path:
    folder.mkdir()
    (folder / "doubling.py").write_text(KERNEL)
    return folder


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shipped")
    run(SHIP, kernel_in(folder / "built-in"), folder / "none", folder / "code")
    return folder / "code"


needs_level = pytest.mark.skipif(compiled.LEVEL == "generic", reason="all processors run generic code")


@pytest.mark.skipif(not compiled.runs_level(), reason=f"this processor is below {compiled.LEVEL}")
@pytest.mark.parametrize(
    ("change", "count", "reason"),
    [
        pytest.param("", 0, "lacks some kernels", id="as built"),
        pytest.param("compiled._FEATURES = {'amx'}", 1, "a processor of level", marks=needs_level, id="old processor"),
        pytest.param("numba.config.CPU_NAME = 'generic'", 1, "NUMBA_CPU_NAME unset", id="named processor"),
        # It may have other private names, so that none may be used.
        pytest.param("numba.__version__ = '0.1'; compiled._prefer = None", 1, "not 0.1", id="other numba"),
        pytest.param("compiled.source_stamp = lambda: ''", 1, "another source", id="other source"),
        pytest.param("compiled.SHIPPED = Path('nowhere')", 1, "no machine code for cpython", id="pure wheel"),
    ],
)
def test_shipped_code_is_loaded_where_it_fits(
    shipped: Path, tmp_path: Path, change: str, count: int, reason: str
) -> None:
    module, cache = kernel_in(tmp_path / "elsewhere"), tmp_path / "cache"
    compilations, _, why = run(USE, module, cache, shipped, change).partition(" ")
    assert (int(compilations), reason in why) == (count, True), why
    assert len(list(cache.rglob("*.nbc"))) == count, "only what was compiled here is kept here"
    if count:
        assert run(USE, module, cache, shipped, change).startswith("0 "), "numba's own cache still serves"


def test_what_is_kept_names_no_folder_of_the_builder(shipped: Path) -> None:
    files = list(shipped.iterdir())
    assert files
    assert not [file for file in files if str(shipped.parent).encode() in file.read_bytes()]


def test_a_change_of_any_module_with_kernels_compiles_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """numba looks at one file alone; a kernel with another's function then named a module that was gone."""
    found = {path for pattern in compiled._SOURCES for path in compiled.PACKAGE.glob(pattern)}
    kernels = {path for path in compiled.PACKAGE.rglob("*.py") if "@njit(" in path.read_text("utf-8")}
    assert kernels - {Path(compiled.__file__)} <= found
    monkeypatch.setattr(compiled, "PACKAGE", tmp_path)
    (tmp_path / "index").mkdir()
    stamps = set()
    for content in ("a", "b"):
        (tmp_path / "index" / "runs.py").write_text(content)
        stamps.add(compiled.source_stamp.__wrapped__())
    (tmp_path / "index" / "runs.py").rename(tmp_path / "index" / "run.py")
    stamps.add(compiled.source_stamp.__wrapped__())
    assert len(stamps) == 3
