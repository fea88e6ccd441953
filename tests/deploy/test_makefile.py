"""What `make run` and `make test` would do on a fresh clone, without doing it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.files import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def commands(target: str, nowhere: Path) -> str:
    made = ["make", "--dry-run", "--no-print-directory", target, f"VENV={nowhere / 'none'}"]
    return subprocess.run(made, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def extras(said: str) -> list[set[str]]:
    """Of each installation, which extras of the project it brings."""
    return [set(found.split(",")) for found in re.findall(r"pip install .*--editable '\.\[([\w,]+)\]'", said)]


def test_make_run_installs_what_running_needs_and_leaves_compiling_to_the_demo(tmp_path: Path) -> None:
    said = commands("run", tmp_path)
    assert extras(said) == [{"embedded"}]
    assert "stream-dedup warm" not in said
    assert said.rstrip().endswith("bin/stream-dedup demo")


def test_make_test_installs_everything_in_one_go(tmp_path: Path) -> None:
    said = commands("test", tmp_path)
    assert extras(said) == [{"embedded", "pages", "report", "parquet", "dev"}]
    assert said.index("stream-dedup warm") < said.index("bin/pytest -m")
    assert "make test" in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.parametrize("target", ["run", "test"])
def test_every_installation_keeps_to_the_pinned_versions(target: str, tmp_path: Path) -> None:
    for line in re.findall(r".*pip install .*", commands(target, tmp_path)):
        assert "--constraint deploy/constraints.txt" in line
