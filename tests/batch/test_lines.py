"""Every way in gives the same lines; what is cut short is an error, never a shorter file."""

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
from pathlib import Path

import pytest
import zstandard

from stream_dedup.batch.lines import InputLines, read_lines
from stream_dedup.errors import InputError

LINES = [b'{"id": 1}', b'{"id": 2, "text": "\xc3\xa4\r"}', b"3" * 3_000_000, b"\xff", b"5\r"]
WHOLE = b"\n".join(LINES) + b"\n"


def pack(name: str, data: bytes) -> bytes:
    if name.endswith(".gz"):
        return gzip.compress(data)
    return zstandard.ZstdCompressor().compress(data) if name.endswith(".zst") else data


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
def test_lines_come_as_they_are(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(pack(name, WHOLE))
    assert list(read_lines(path)) == LINES


@pytest.mark.parametrize("name", ["a.gz", "a.zst"])
def test_packed_files_that_were_joined_are_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(pack(name, WHOLE[:100]) + pack(name, b"") + pack(name, WHOLE[100:]))
    assert list(read_lines(path)) == LINES


@pytest.mark.parametrize("name", ["a.gz", "a.zst"])
@pytest.mark.parametrize("missing", [1, 20])
def test_a_packed_file_cut_short_is_an_error(tmp_path: Path, name: str, missing: int) -> None:
    path = tmp_path / name
    path.write_bytes(pack(name, WHOLE)[:-missing])
    with pytest.raises(InputError, match="cut short"):
        list(read_lines(path))


def test_blank_lines_are_no_items_and_the_last_needs_no_line_feed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\n1\n \t\r\n\n2")
    assert list(read_lines(path)) == [b"1", b"2"]


def test_standard_input_is_read_too_and_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"1\n2\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert list(read_lines("-")) == [b"1", b"2"]
    assert not stdin.buffer.closed


def test_the_digest_is_of_the_lines_so_far_however_they_are_packed(tmp_path: Path) -> None:
    digests = []
    for name in ("a", "a.gz"):
        (tmp_path / name).write_bytes(pack(name, b"1\n\n2\n3"))
        with InputLines(tmp_path / name) as lines:
            digests.append([(value, lines.number, lines.digest()) for value in lines])
    assert digests[0] == digests[1]
    assert [number for _, number, _ in digests[0]] == [1, 2, 3, 4]
    assert len({digest for *_, digest in digests[0]}) == 4


@pytest.mark.parametrize("name", ["a.gz", "a.zst"])
def test_what_is_packed_is_recognised_under_any_name(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(pack(name, WHOLE))
    assert list(read_lines(path)) == LINES
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(name, WHOLE))))
    assert list(read_lines("-")) == LINES


def test_what_is_packed_in_a_pipe_is_recognised_however_slowly_it_comes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    def write() -> None:
        with (tmp_path / "pipe").open("wb", buffering=0) as pipe:
            for byte in gzip.compress(b"1\n2\n"):
                pipe.write(bytes([byte]))

    writer = threading.Thread(target=write)
    writer.start()
    assert list(read_lines(tmp_path / "pipe")) == [b"1", b"2"]
    writer.join()


@pytest.mark.parametrize(
    ("data", "command"),
    [
        (bz2.compress(WHOLE), "bzip2 -dc"),
        (lzma.compress(WHOLE), "xz -dc"),
        (b"PK\x03\x04" + WHOLE, "unzip -p .* or save it as CSV"),
    ],
)
def test_what_nothing_here_unpacks_is_refused_with_the_command_that_does(
    tmp_path: Path, data: bytes, command: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    with pytest.raises(InputError, match=command):
        list(read_lines(path))
