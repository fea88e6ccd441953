"""`filter` and `pairs` in a pipe, as a shell starts them: what goes where, and how it ends when nobody reads."""

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.tools.batch.feed import story, write

ROOT = Path(__file__).parents[3]
ITEMS = [story(1), story(1, 1, "copy"), story(2, 2)]
LINES = b"".join(one + b"\n" for one in ITEMS)
LET_THROUGH = ITEMS[0] + b"\n" + ITEMS[2] + b"\n"


def shell(command: str, directory: Path, input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """`$SD` is the command; the exit code is the pipe's, as `set -o pipefail` has it."""
    environment = os.environ | {
        "SD": f"{sys.executable} -m stream_dedup",
        "PYTHONPATH": str(ROOT),
        "STREAM_DEDUP_WORKER__BATCH_ITEMS": "2",
        "COLUMNS": "200",
    }
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=directory, input=input, env=environment, capture_output=True,
        check=False,
    )  # fmt: skip


def test_a_dash_is_standard_output_and_nothing_else_is_on_it(tmp_path: Path) -> None:
    done = shell("$SD filter - --output - --duplicates d.jsonl", tmp_path, LINES)
    assert done.returncode == 0, done.stderr
    assert done.stdout == LET_THROUGH
    assert b"2 in standard output" in done.stderr
    assert json.loads((tmp_path / "d.jsonl").read_bytes())["id"] == "copy"
    assert [one.name for one in tmp_path.iterdir()] == ["d.jsonl"]
    done = shell("$SD filter - --output u.jsonl --duplicates - --json", tmp_path, LINES)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["copy"]
    assert json.loads(done.stderr)["forwarded"] == 2


@pytest.mark.parametrize("command", ["filter in --output -", "filter in --output /dev/stdout --duplicates /dev/null"])
def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path, command: str) -> None:
    write(tmp_path / "in", [story(number, number) for number in range(2000)])
    done = shell(f"$SD {command} | head -n 1", tmp_path)
    assert done.stdout == story(0, 0) + b"\n"
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_a_file_that_the_shell_opened_is_added_to_and_not_replaced(tmp_path: Path) -> None:
    for output in ("-", "/dev/stdout"):
        (tmp_path / "all").write_bytes(b"before\n")
        assert shell(f"$SD filter - --output {output} >> all", tmp_path, LINES).returncode == 0
        assert (tmp_path / "all").read_bytes() == b"before\n" + LET_THROUGH


def test_named_pipes_are_read_and_written(tmp_path: Path) -> None:
    for name in ("in", "out.gz"):
        os.mkfifo(tmp_path / name)
    read: list[bytes] = []
    writer = threading.Thread(target=lambda: (tmp_path / "in").write_bytes(LINES))
    reader = threading.Thread(target=lambda: read.append((tmp_path / "out.gz").read_bytes()))
    writer.start()
    reader.start()
    done = shell("$SD filter in --output out.gz --duplicates /dev/stderr --json", tmp_path)
    assert done.returncode == 0, done.stderr
    writer.join()
    reader.join()
    assert gzip.decompress(read[0]) == LET_THROUGH
    assert json.loads(done.stderr.splitlines()[0])["id"] == "copy"
    assert json.loads(done.stdout)["items"] == 3


def test_pairs_go_to_standard_output_and_leave_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    done = shell("TMPDIR=$PWD/tmp $SD pairs - --output -", tmp_path, gzip.compress(LINES))
    assert done.returncode == 0, done.stderr
    assert [(row["a"], row["b"]) for row in map(json.loads, done.stdout.splitlines())] == [("s1", "copy")]
    assert b"1 in standard output" in done.stderr
    assert [one.name for one in tmp_path.rglob("*")] == ["tmp"]
