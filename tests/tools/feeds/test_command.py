"""The command: into a pipe, a file and a state; what it refuses; how it ends."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stream_dedup.errors import InputError
from stream_dedup.tools.feeds.database import State
from tests.tools.feeds.server import entry, rss


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path.startswith("/rss")
        body = rss(entry(1), entry(2)) if found else b""
        self.send_response(200 if found else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


COMMAND = [sys.executable, "-m", "stream_dedup", "feeds"]


def feeds(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_list_of_feeds_becomes_lines_on_standard_output(site: str, tmp_path: Path) -> None:
    (tmp_path / "feeds.txt").write_text(f"{site}/rss\n")
    done = feeds(tmp_path / "feeds.txt", "--once")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["title"] for line in done.stdout.splitlines()] == ["Story 2", "Story 1"]
    assert "1 feed: 1 ok; 1 request, 2 new or changed entries; problems: none" in done.stderr


def test_a_state_continues_a_file(site: str, tmp_path: Path) -> None:
    output, state = tmp_path / "out.jsonl", tmp_path / "state.db"
    arguments = ("--once", "--output", output, "--state", state, "--every", "1s")
    assert feeds(f"{site}/rss", *arguments).returncode == 0
    once = output.read_bytes()
    assert state.stat().st_mode & 0o077 == 0
    with output.open("ab") as file:
        file.write(b'{"torn": ')  # of a process that was killed
    done = feeds(f"{site}/rss", f"{site}/rss?2", *arguments)
    assert done.returncode == 0, done.stderr
    assert output.read_bytes().startswith(once)
    assert len(output.read_text().splitlines()) == 4
    output.write_bytes(b"")
    assert "it was changed since" in feeds(f"{site}/rss", *arguments).stderr


def test_a_feed_that_is_not_due_is_left_alone(site: str, tmp_path: Path) -> None:
    arguments = (f"{site}/rss", "--once", "--state", tmp_path / "state.db")
    assert len(feeds(*arguments).stdout.splitlines()) == 2
    done = feeds(*arguments)
    assert (done.returncode, done.stdout) == (0, "")
    assert "0 requests" in done.stderr
    assert "no feed is due; the next one is at 2" in done.stderr


def test_the_exit_code_is_1_if_no_feed_could_be_read(site: str) -> None:
    assert feeds(f"{site}/away", "--once").returncode == 1
    assert feeds(f"{site}/away", f"{site}/rss", "--once").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kafka", "--output", "x.jsonl"), "two outputs"),
        (("--force",), "--force is for --output FILE"),
        (("--every", "10"), "write a duration"),
        (("--every", "0s"), "at least 1s"),
        (("--output", "x.csv"), "cannot be written"),
    ],
)
def test_wrong_usage_is_refused(arguments: tuple[str, ...], message: str) -> None:
    done = feeds("http://127.0.0.1:1/", "--once", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_an_output_that_exists_is_replaced_by_force_only(site: str, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    output.write_text("mine\n")
    assert feeds(f"{site}/rss", "--once", "--output", output).returncode == 2
    assert output.read_text() == "mine\n"
    assert feeds(f"{site}/rss", "--once", "--output", output, "--force").returncode == 0
    assert len(output.read_text().splitlines()) == 2


def test_sigterm_ends_a_run_cleanly(site: str) -> None:
    with subprocess.Popen(
        [*COMMAND, f"{site}/rss"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert "Story 2" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "1 feed: 1 ok" in errors


def test_a_reader_that_leaves_ends_a_run_like_any_tool(site: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMAND, f"{site}/rss"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=30)
    os.close(writer)
    assert done.returncode == 141, done.stderr


def test_a_state_is_for_one_process_and_one_output(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(State(path, "-")), pytest.raises(InputError, match="another process uses it"):
        State(path, "-")
    with pytest.raises(InputError, match="belongs to the output -"):
        State(path, "other")
    path.write_bytes(b"no database" * 100)
    with pytest.raises(InputError, match="is damaged"):
        State(path, "-")
