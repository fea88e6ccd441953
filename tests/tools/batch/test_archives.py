"""A tar archive is read like a directory of its files, packed or not, and however it is made it fills no memory."""

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest
import zstandard

from stream_dedup.errors import InputError
from stream_dedup.tools.inputs.lines import LineReader

FILES = {
    "news/a.jsonl": b'{"title": "a"}\n{"title": "b"}\n',
    "news/b.csv.gz": gzip.compress(b"id,title\n1,c\n"),
    "news/.hidden": b"no news",
    "news/c.xml": b"<rss><item><title>d</title></item></rss>",
    "news/" + 120 * "long" + ".jsonl": b'{"title": "e"}\n',
}
TITLES = ["a", "b", "c", "d", "e"]


def archive(files: dict[str, bytes], headers: dict[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers=headers) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_its_files_are_read_one_after_another(tmp_path: Path, pack: type[bytes]) -> None:
    (tmp_path / "news").write_bytes(pack(archive(FILES)))
    reader = LineReader([str(tmp_path / "news")])
    assert [json.loads(line.value)["title"] for line in reader] == TITLES
    assert "is a tar archive" in reader.notes[0]


def test_a_file_that_cannot_be_read_costs_only_itself(tmp_path: Path) -> None:
    files = {"a.zip": b"PK\x03\x04" + bytes(400_000), "b.parquet": b"PAR1", **FILES}
    (tmp_path / "news.tar").write_bytes(archive(files))
    lines = list(LineReader([str(tmp_path / "news.tar")]))
    assert [line.fault.reason if line.fault else "" for line in lines] == ["input", "input", "", "", "", "", ""]


def test_a_broken_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "news.tar").write_bytes(archive(FILES)[:700])
    with pytest.raises(InputError, match="as a tar archive: unexpected end of data"):
        list(LineReader([str(tmp_path / "news.tar")]))


def test_a_header_that_unpacks_to_much_is_refused_before_it_does(tmp_path: Path) -> None:
    (tmp_path / "news.tar.gz").write_bytes(gzip.compress(archive(FILES, {"comment": "x" * 2**23})))
    with pytest.raises(InputError, match="a header of this tar archive has more than 1,048,576 bytes"):
        list(LineReader([str(tmp_path / "news.tar.gz")]))
