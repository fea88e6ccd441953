"""What the tests of the core compile: small C programs, libraries, and the package with a core that checks itself."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from stream_dedup.core import build

ROOT = Path(__file__).parents[2]
COMPILER = build.compiler()
needs_compiler = pytest.mark.skipif(not COMPILER, reason=build.CURE)
needs_ziglang = pytest.mark.skipif(find_spec("ziglang") is None, reason="pip install ziglang")


def compiled(folder: Path, source: str, *options: str | Path) -> Path:
    """Compile a C program that may include core.h; return its path."""
    (folder / "program.c").write_text(source)
    program = folder / "program"
    flags = ("-std=c11", "-Wall", "-Werror", f"-I{build.FOLDER}", "-DSOURCES_VERSION=0")
    command = [*COMPILER, *flags, folder / "program.c", *options]
    done = subprocess.run([*command, "-o", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


# What gcc's sanitizers find ends the process: reads and writes beyond a buffer, also in Python's and numpy's memory,
# use of freed memory, overflow of signed numbers, shifts too wide, misaligned pointers.
_SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g", "-O1")
_RUNTIMES = ("libasan.so", "libubsan.so")
# Part of the checked core, so that a test can see that its faults are found.
_FAULTY = """
#include "core.h"
CORE_API int64_t element(const uint8_t *bytes, int64_t i) { return bytes[i]; }
CORE_API int64_t next(int64_t number) { return number + 1; }
CORE_API int64_t next_array(arena *scratch, int64_t i) {
    arena_reset(scratch);
    uint8_t *first = arena_take(scratch, 8, 1), *second = arena_take(scratch, 64, 1);
    return first && second ? (first[i] = 1) : CORE_NO_MEMORY;
}
"""


def missing_sanitizers() -> str:
    """What this machine lacks for a checked core; empty if it lacks nothing."""
    if shutil.which("gcc") is None:
        return "needs gcc: apt-get install gcc"
    absent = [name for name in _RUNTIMES if not Path(_of_gcc(name)).is_absolute()]
    return f"needs gcc's {' and '.join(absent)}: apt-get install libgcc-12-dev" if absent else ""


def _of_gcc(name: str) -> str:
    """The path of a library of gcc; without a folder if it has none."""
    command = ["gcc", f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class CheckedPackage:
    """A copy of the package and its tests in `folder`, with a core that is compiled with gcc's sanitizers.

    In it each array of scratch memory is an allocation of its own (apart.c), so that its end is watched, too.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("stream_dedup", "tests"):
            ignore = shutil.ignore_patterns("__pycache__", "_core.*")
            shutil.copytree(ROOT / name, folder / name, ignore=ignore)
        for name in ("pyproject.toml", "config", "docs", "deploy"):
            (folder / name).symlink_to(ROOT / name)
        core = folder / "stream_dedup" / "core"
        (core / "faulty.c").write_text(_FAULTY)
        shutil.copy(Path(__file__).with_name("apart.c"), core / "memory.c")
        spec = spec_from_file_location("checked_build", core / "build.py")
        assert spec is not None
        assert spec.loader is not None
        copied = module_from_spec(spec)
        spec.loader.exec_module(copied)
        copied.build(copied.LIBRARY, *_SANITIZE, command=["gcc"])

    def run(self, command: Sequence[str | Path], variables: Mapping[str, str] | None = None) -> str:
        """Run a command that loads the checked core. Raises AssertionError with the end of what it says if it fails."""
        environment = os.environ | {
            "LD_PRELOAD": " ".join(map(_of_gcc, _RUNTIMES)),
            # Each object of Python in memory of its own, so that its end is watched, too. At exit Python frees little.
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "PYTHONPATH": str(self.folder),
            **(variables or {}),
        }  # fmt: skip
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
        return done.stdout
