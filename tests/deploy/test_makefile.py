"""The commands that `make run` and `make test` would run on a fresh clone, by a dry run."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.deploy.files import ROOT


def commands(target: str, directory: Path) -> str:
    command = ["make", "--dry-run", "--no-print-directory", target, f"VENV={directory / 'none'}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def extras(output: str) -> list[set[str]]:
    """Return the extras of the project that each installation names."""
    return [set(names.split(",")) for names in re.findall(r"pip install .*--editable '\.\[([\w,]+)\]'", output)]


def test_make_run_installs_what_running_needs_and_leaves_compiling_to_the_demo(tmp_path: Path) -> None:
    output = commands("run", tmp_path)
    assert extras(output) == [{"embedded"}]
    assert "stream-dedup warm" not in output
    assert output.rstrip().endswith("bin/stream-dedup demo")


def test_make_test_installs_everything_in_one_go(tmp_path: Path) -> None:
    output = commands("test", tmp_path)
    assert extras(output) == [{"embedded", "pages", "report", "parquet", "registry", "chinese", "spark", "dev"}]
    assert output.index("stream-dedup warm") < output.index("bin/pytest -m")
    assert "make test" in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.parametrize("target", ["run", "test"])
def test_every_installation_keeps_to_the_pinned_versions(target: str, tmp_path: Path) -> None:
    for line in re.findall(r".*pip install .*", commands(target, tmp_path)):
        assert "--constraint deploy/constraints.txt" in line
