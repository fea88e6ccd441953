"""The wheels and the source archive are reproducible, and a wheel works in an empty environment."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.core.compilers import needs_compiler, needs_ziglang
from tests.deploy.files import DEPLOY, ROOT

VERDICT = """
from stream_dedup import Deduplicator, Item

with Deduplicator() as dedup:
    [verdict] = dedup.judge([Item("1", "Elm bridge opens", "It opened on Monday.", "post.example", 0)]).verdicts
print(verdict.kind, dedup.__module__)
"""
_BRIDGES = [{"id": n, "title": "Elm bridge opens", "text": f"It opened on Monday {n // 2}."} for n in range(8)]
ROWS = "".join(json.dumps(row) + "\n" for row in _BRIDGES)


def copy_of_the_sources(folder: Path) -> Path:
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(
        ROOT / "stream_dedup", folder / "stream_dedup", ignore=shutil.ignore_patterns("__pycache__", "_core.*"),
        copy_function=shutil.copyfile,
    )  # fmt: skip
    return folder


def build(source: Path, platform: str = "") -> tuple[Path, Path]:
    """Build the wheel of a platform of build.py, or this one's, and the archive."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", source / "dist"]
    variables = os.environ | {"WHEEL_PLATFORM": platform}
    done = subprocess.run(command, cwd=source, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,), (archive,) = (source / "dist").glob(f"*{platform}.whl"), (source / "dist").glob("*.tar.gz")
    return wheel, archive


@needs_compiler
def test_wheel_and_archive_are_the_same_bytes_wherever_they_are_built(tmp_path: Path) -> None:
    first, second = (build(copy_of_the_sources(tmp_path / name)) for name in ("here", "there"))
    assert [path.name for path in first] == [path.name for path in second]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert "-py3-none-" in first[0].name, "one library for all versions of Python"
    assert not first[0].name.endswith("-any.whl")
    names = zipfile.ZipFile(first[0]).namelist()
    assert {"stream_dedup/py.typed", "stream_dedup/core/_core.so"} <= set(names)
    assert "stream_dedup/tools/page/templates/status.html" in names
    assert not any(name.endswith((".c", ".h")) for name in names)
    assert all(name.startswith(("stream_dedup/", "stream_dedup-")) for name in names)
    with tarfile.open(first[1]) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"CHANGELOG.md", "stream_dedup/core/core.h", "stream_dedup/core/memory.c"} <= set(names)
    assert "stream_dedup/core/_core.so" not in names


@pytest.mark.operate
@needs_ziglang
@pytest.mark.parametrize(
    ("platform", "begins"),
    [
        ("manylinux_2_17_x86_64", b"\x7fELF\x02\x01"),
        ("manylinux_2_17_aarch64", b"\x7fELF\x02\x01"),
        ("macosx_11_0_arm64", b"\xcf\xfa\xed\xfe"),
    ],
)
def test_the_wheels_of_a_release_are_the_same_bytes_too(platform: str, begins: bytes, tmp_path: Path) -> None:
    (first, _), (second, _) = (build(copy_of_the_sources(tmp_path / name), platform) for name in ("here", "there"))
    assert first.read_bytes() == second.read_bytes()
    assert zipfile.ZipFile(first).read("stream_dedup/core/_core.so").startswith(begins)


@pytest.mark.operate
@needs_compiler
@pytest.mark.timeout(1200)
def test_the_wheel_filters_in_an_empty_environment(tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    wheel, _ = build(copy_of_the_sources(tmp_path / "source"))
    venv.create(tmp_path / "env", with_pip=True)
    shutil.move(tmp_path / "source", tmp_path / "moved")

    def run(program: str, *arguments: str | Path) -> str:
        command = [tmp_path / "env" / "bin" / program, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    moved = tmp_path / "moved" / "dist" / wheel.name
    run("pip", "install", "--quiet", "--constraint", DEPLOY / "constraints.txt", moved)
    assert run("stream-dedup", "--version").strip().endswith(wheel.name.split("-")[1])
    (tmp_path / "in.jsonl").write_text(ROWS)
    run("stream-dedup", "filter", "in.jsonl", "--output", "out.jsonl")
    assert 0 < len((tmp_path / "out.jsonl").read_text().splitlines()) < 8
    assert run("python", "-c", VERDICT) == "unique stream_dedup.script\n"
