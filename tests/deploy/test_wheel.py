"""The wheel and the source archive are reproducible, and the wheel works in an empty environment without compiling."""

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

from stream_dedup import compiled
from tests.deploy.files import DEPLOY, ROOT

COUNT = """
from stream_dedup import Deduplicator, Item
from stream_dedup.precompile.compilations import count_compilations

with count_compilations() as names, Deduplicator() as dedup:
    dedup.apply(dedup.judge([Item("1", "Elm bridge opens", "It opened on Monday.", "post.example", 0)]))
print(names, dedup.__module__)
"""
_BRIDGES = [{"id": n, "title": "Elm bridge opens", "text": f"It opened on Monday {n // 2}."} for n in range(8)]
ROWS = "".join(json.dumps(row) + "\n" for row in _BRIDGES)


def copy_of_the_sources(folder: Path) -> Path:
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(
        ROOT / "stream_dedup", folder / "stream_dedup", ignore=shutil.ignore_patterns("__pycache__", "machine_code"),
        copy_function=shutil.copyfile,
    )  # fmt: skip
    return folder


def build(source: Path) -> tuple[Path, Path]:
    command = [sys.executable, "-m", "hatchling", "build", "--directory", source / "dist"]
    subprocess.run(command, cwd=source, capture_output=True, check=True)
    (wheel,), (archive,) = (source / "dist").glob("*.whl"), (source / "dist").glob("*.tar.gz")
    return wheel, archive


def test_wheel_and_archive_are_the_same_bytes_wherever_they_are_built(tmp_path: Path) -> None:
    first, second = (build(copy_of_the_sources(tmp_path / name)) for name in ("here", "there"))
    assert [path.name for path in first] == [path.name for path in second]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].name.endswith("-py3-none-any.whl"), "without machine code it works everywhere, too"
    names = zipfile.ZipFile(first[0]).namelist()
    assert "stream_dedup/py.typed" in names
    assert "stream_dedup/observe/templates/status.html" in names
    assert all(name.startswith(("stream_dedup/", "stream_dedup-")) for name in names)
    with tarfile.open(first[1]) as archive:
        assert any(name.endswith("/CHANGELOG.md") for name in archive.getnames())


def test_machine_code_enters_the_wheel_though_git_ignores_it(tmp_path: Path) -> None:
    source = copy_of_the_sources(tmp_path / "source")
    (source / "stream_dedup" / "machine_code" / compiled.ABI).mkdir(parents=True)
    (source / "stream_dedup" / "machine_code" / compiled.ABI / compiled.MADE_FOR).write_bytes(b"code")
    wheel, archive = build(source)
    assert f"stream_dedup/machine_code/{compiled.ABI}/{compiled.MADE_FOR}" in zipfile.ZipFile(wheel).namelist()
    with tarfile.open(archive) as sources:
        assert not any("machine_code" in name for name in sources.getnames())


@pytest.mark.operate
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not compiled.runs_level(), reason=f"this processor is below {compiled.LEVEL}")
def test_the_wheel_filters_in_an_empty_environment_and_compiles_nothing(tmp_path: Path) -> None:
    source = copy_of_the_sources(tmp_path / "source")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON"))}
    variables = clean | {"PYTHONPATH": str(source), "PYTHONHASHSEED": "0"}
    subprocess.run([sys.executable, "-m", "stream_dedup.precompile"], cwd=tmp_path, env=variables, check=True)
    wheel, _ = build(source)
    venv.create(tmp_path / "env", with_pip=True)
    shutil.move(source, tmp_path / "moved")

    def run(program: str, *arguments: str | Path) -> str:
        command = [tmp_path / "env" / "bin" / program, *arguments]
        cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(command, cwd=tmp_path, env=clean | cache, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    moved = tmp_path / "moved" / "dist" / wheel.name
    run("pip", "install", "--quiet", "--constraint", DEPLOY / "constraints.txt", moved)
    assert run("stream-dedup", "--version").strip().endswith(wheel.name.split("-")[1])
    (tmp_path / "in.jsonl").write_text(ROWS)
    run("stream-dedup", "filter", "in.jsonl", "--output", "out.jsonl")
    assert 0 < len((tmp_path / "out.jsonl").read_text().splitlines()) < 8
    assert run("python", "-c", COUNT) == "[] stream_dedup.script\n"
    assert list((tmp_path / "cache").rglob("*.nbc")) == []
