"""Compiling the core: which compiler, what is said without one, and equal bytes of equal sources."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stream_dedup.core import build
from tests.core.compilers import COMPILER, needs_compiler


def copy_of_the_core(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for path in build.FOLDER.iterdir():
        if path.suffix in {".c", ".h"} or path.name in ("__init__.py", "build.py"):
            shutil.copy(path, folder)
    return folder


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run build.py of a folder with these variables only, and without packages, so without ziglang."""
    command = [sys.executable, "-S", folder / "build.py", *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("variables", "reason"),
    [({"PATH": "/nowhere"}, "there is no compiler here"), ({"CC": "nocc -O2"}, "CC names nocc, which is not here")],
    ids=["none", "CC"],
)
def test_without_a_compiler_one_sentence_says_what_to_do(
    variables: dict[str, str], reason: str, tmp_path: Path
) -> None:
    done = run(copy_of_the_core(tmp_path / "core"), **variables)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert reason in line
    assert "apt-get install gcc" in line
    assert "xcode-select --install" in line
    assert "pip install ziglang" in line
    assert not (tmp_path / "core" / build.LIBRARY.name).exists()


@needs_compiler
def test_the_compiler_is_that_of_cc(tmp_path: Path) -> None:
    log, own = tmp_path / "log", tmp_path / "own cc"
    own.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\nexec {" ".join(COMPILER)} "$@"\n')
    own.chmod(0o755)
    done = run(copy_of_the_core(tmp_path / "core"), CC=f"'{own}' -DOWN_COMPILER", PATH=os.environ["PATH"])
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    assert len(lines) == len(list(build.FOLDER.glob("*.c"))) + 1, "each file, and the library"
    assert all(line.startswith("-DOWN_COMPILER ") for line in lines)


@needs_compiler
def test_the_words_of_the_compiler_are_shown(tmp_path: Path) -> None:
    core = copy_of_the_core(tmp_path / "core")
    (core / "core.h").write_text("#error no such luck\n")
    done = run(core, PATH=os.environ["PATH"])
    assert done.returncode == 1
    assert "no such luck" in done.stderr
    assert "compiling stream_dedup's core failed" in done.stderr
    assert [path.name for path in core.iterdir() if path.name.startswith("_core")] == [], "nothing is left behind"


@needs_compiler
def test_equal_sources_give_equal_bytes_wherever_they_are(tmp_path: Path) -> None:
    libraries = []
    for name in ("here", "a/longer/path/there"):
        core = copy_of_the_core(tmp_path / name)
        assert run(core, PATH=os.environ["PATH"]).returncode == 0
        libraries.append((core / build.LIBRARY.name).read_bytes())
    assert libraries[0] == libraries[1]
    assert os.fsencode(tmp_path) not in libraries[0]


@needs_compiler
def test_make_compiles_what_has_changed_and_nothing_else(tmp_path: Path) -> None:
    core = copy_of_the_core(tmp_path / "core")
    library, variables = core / build.LIBRARY.name, {"PATH": os.environ["PATH"]}
    assert run(core, "--changed", **variables).returncode == 0
    before = library.stat()
    assert run(core, "--changed", PATH="/nowhere").returncode == 0, "nothing to do"
    assert library.stat().st_ino == before.st_ino
    for name in ("core.h", "memory.c", "build.py"):
        os.utime(core / name, ns=(0, library.stat().st_mtime_ns + 10**9))
        assert run(core, "--changed", PATH="/nowhere").returncode == 1, "it needs a compiler"
        assert run(core, "--changed", **variables).returncode == 0
        assert library.stat().st_ino != before.st_ino
        os.utime(core / name, ns=(0, 0))
        before = library.stat()


def test_ziglang_is_required_where_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = build.get_build_hook()

    def required() -> list[str]:
        return [text.partition(">")[0] for text in hook.__new__(hook).dependencies()]

    monkeypatch.delenv("WHEEL_PLATFORM", raising=False)
    monkeypatch.setattr(build, "compiler", lambda: ["cc"])
    assert required() == []
    monkeypatch.setenv("WHEEL_PLATFORM", "manylinux_2_17_x86_64")
    assert required() == ["ziglang"]
    monkeypatch.delenv("WHEEL_PLATFORM")
    monkeypatch.setattr(build, "compiler", list)
    assert required() == ["ziglang"]


@needs_compiler
def test_an_editable_installation_has_the_library_beside_its_sources(tmp_path: Path) -> None:
    core = copy_of_the_core(tmp_path / "core")
    hook = runpy.run_path(str(core / "build.py"))["get_build_hook"]()
    data: dict[str, object] = {}
    hook.__new__(hook).initialize("editable", data)
    assert (core / build.LIBRARY.name).exists()
    assert data["pure_python"] is False
