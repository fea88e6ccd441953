"""Every way in gives the same lines; a table gives its rows; and what is neither is named, never guessed."""

import bz2
import datetime as dt
import gzip
import io
import json
import lzma
import os
import threading
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from stream_dedup.errors import InputError
from stream_dedup.tools.inputs.file_format import FileFormat
from stream_dedup.tools.inputs.lines import LineReader, read_lines
from stream_dedup.tools.inputs.packing import CsvRow, files_of

LINES = [b'{"id": 1}', b'{"id": 2, "text": "\xc3\xa4\r"}', b"3" * 3_000_000, b"\xff", b"5\r"]
WHOLE = b"\n".join(LINES) + b"\n"
CSV = b'id,title,text\n1,"Fair, and ""large""","two\nlines"\n2,,\xc3\xa4\n'
ROWS = [{"id": "1", "title": 'Fair, and "large"', "text": "two\nlines"}, {"id": "2", "text": "ä"}]
RUSSIAN = "Мост открыт для движения"
PACKERS = {".gz": gzip.compress, ".zst": zstandard.compress, "": bytes}


def read(path: Path, data: bytes, file_format: FileFormat | None = None) -> list[bytes]:
    path.write_bytes(data)
    return list(read_lines(path, file_format))


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("name", ["a.jsonl", "pipe"])
def test_lines_come_as_they_are_however_they_are_packed_and_joined(
    tmp_path: Path, name: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = PACKERS[suffix]
    for data in (pack(WHOLE), pack(WHOLE[:100]) + pack(b"") + pack(WHOLE[100:])):
        assert read(tmp_path / name, data) == LINES, "recognised under any name"
        stdin = io.TextIOWrapper(io.BytesIO(data))
        monkeypatch.setattr("sys.stdin", stdin)
        assert list(read_lines("-")) == LINES
        assert not stdin.buffer.closed
    assert read(tmp_path / f"{name}{suffix}", data) == LINES


def test_blank_lines_are_no_items_and_the_last_needs_no_line_feed(tmp_path: Path) -> None:
    assert read(tmp_path / "a", b"\n1\n \t\r\n\n2") == [b"1", b"2"]


def test_the_digest_is_of_the_lines_so_far_however_they_are_packed(tmp_path: Path) -> None:
    digests = []
    for name, pack in (("a", bytes), ("a.gz", gzip.compress)):
        (tmp_path / name).write_bytes(pack(b"1\n\n2\n3"))
        reader = LineReader([str(tmp_path / name)])
        digests.append([(line.value, reader.position) for line in reader])
    assert digests[0] == digests[1]
    assert [place.line for _, place in digests[0]] == [1, 3, 4]
    assert len({place.digest for _, place in digests[0]}) == 3


def test_what_is_packed_in_a_pipe_is_recognised_however_slowly_it_comes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    def write() -> None:
        with (tmp_path / "pipe").open("wb", buffering=0) as pipe:
            for byte in gzip.compress(b"1\n2\n", mtime=0):
                pipe.write(bytes([byte]))

    writer = threading.Thread(target=write)
    writer.start()
    assert list(read_lines(tmp_path / "pipe")) == [b"1", b"2"]
    writer.join()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", CSV),
        ("a.CSV", CSV),
        ("a.csv.gz", gzip.compress(CSV, mtime=0)),
        ("a.csv", b"\xef\xbb\xbf" + CSV),
        ("a.csv", CSV.replace(b"\n", b"\r\n").replace(b"two\r", b"two")),
        ("a.csv", b'id;title;text\n1;"Fair, and ""large""";"two\nlines"\n2;;\xc3\xa4'),
        ("a.tsv", b'id\ttitle\ttext\n1\t"Fair, and ""large"""\t"two\nlines"\n\n2\t\t\xc3\xa4'),
        ("a.csv", b"\nid, title ,text\n" + CSV.split(b"\n", 1)[1] + b",,\n"),
        ("a.csv", b"sep=|\n" + b'id|title|text\n1|"Fair, and ""large"""|"two\nlines"\n2||\xc3\xa4\n'),
        ("a.csv", b'id\ttitle\ttext\n1\t"Fair, and ""large"""\t"two\nlines"\n2\t\t\xc3\xa4\n'),
        ("a.csv", b'id, title, text\n1, "Fair, and ""large""", "two\nlines"\n2, , \xc3\xa4\n'),
        ("a.csv", b'id,title,text\n1,"Fair, and \\"large\\"","two\nlines"\n2,,\xc3\xa4\n'),
        *(("a.csv", CSV.decode().encode(name)) for name in ("utf-16", "utf-16-le", "utf-32", "utf-32-be", "cp1252")),
    ],
)
def test_what_spreadsheets_write_is_read_as_objects_of_filled_cells(tmp_path: Path, name: str, data: bytes) -> None:
    assert list(map(json.loads, read(tmp_path / name, data))) == ROWS


def test_rows_are_numbered_as_a_spreadsheet_does_and_keep_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV)
    lines = list(LineReader([str(tmp_path / "a.csv")]))
    assert [line.number for line in lines] == [2, 3]
    rows = [line.source_row for line in lines if isinstance(line.source_row, CsvRow)]
    assert b"\n".join([rows[0].header, *(row.raw for row in rows), b""]) == CSV


@pytest.mark.parametrize(
    ("name", "data", "rows", "note"),
    [
        ("a.tsv", b'id\ttitle\n1\t"Open," he says\n', [["1", '"Open," he says']], ""),
        ("a.csv", b'id;"title, short"\n1;"Open, at last"\n', [["1", "Open, at last"]], ""),
        ("a.csv", b"id,title\r1,Open\r2,Shut\r", [["1", "Open"], ["2", "Shut"]], ""),
        ("a.csv", b"id,title\n1,Op\0en\n", [["1", "Op\0en"]], ""),
        ("a.csv", b'"3","Bridge opens"\n"1","Ferry stops"\n', [["3", "Bridge opens"], ["1", "Ferry stops"]], "column2"),
        ("a.tsv", b"N1\tThe story\thttps://elm.example/1\n", [["N1", "The story", "https://elm.example/1"]], "n3"),
        ("a.csv", b"id;title\n1;'Open; yes'\n2;'Shut; it; is'\n", [["1", "Open; yes"], ["2", "Shut; it; is"]], ""),
        ("a.csv", b"id,text,text\n1,Open,Shut\n", [["1", "Open", "Shut"]], "text_2"),
        ("a.csv", b"# of the wire\n#\nid,title\n1,Open\n", [["1", "Open"]], "begins with 2 lines"),
        (
            "a.csv",
            b'News of 2024\nMade: now\n\nid;title;text\n1;Open;"a; b"\n',
            [["1", "Open", "a; b"]],
            "News of 2024",
        ),
        ("a.csv", b"News of 2024,,\n,,\nid,title,text\n1,Open,x\n", [["1", "Open", "x"]], "begins with 2 lines"),
        ("a.csv", b"#id,title\n1,Open\n", [["1", "Open"]], ""),
        ("a.csv", b"id,title,source\n1,Open,nan\n2,NULL,\\N\n", [["1", "Open"], ["2"]], ""),
        ("a.csv", f"id;title\n1;{RUSSIAN}\n".encode("cp1251"), [["1", RUSSIAN]], "1251"),
    ],
)
def test_how_a_table_is_written_is_found_out_and_said(
    tmp_path: Path, name: str, data: bytes, rows: list[list[str]], note: str
) -> None:
    (tmp_path / name).write_bytes(data)
    reader = LineReader([str(tmp_path / name)])
    assert [list(json.loads(line.value).values()) for line in reader] == rows
    assert note in "".join(reader.notes)
    assert bool(note) == bool(reader.notes)


def test_a_header_within_a_table_is_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV + CSV)
    faults = [line.fault for line in LineReader([str(tmp_path / "a.csv")])]
    assert [fault.detail if fault else "" for fault in faults] == [
        "",
        "",
        "the header again, as of files that were joined",
        "",
        "",
    ]


def test_one_bad_file_does_not_end_the_run_over_a_directory(tmp_path: Path) -> None:
    files = {"a.jsonl": LINES[0], "b.jsonl.gz": gzip.compress(WHOLE, mtime=0)[:-1], "c.parquet": b"x", "d": b"2"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    reader = LineReader(files_of([tmp_path]))
    faults = [line.fault.reason for line in reader if line.fault is not None]
    assert faults == ["input", "input"]
    assert [line.value for line in reader][-1] == b"2"
    assert ["cut short" in note or "Parquet" in note for note in reader.notes] == [True, True]


def test_a_quoted_cell_is_not_cut_to_fit_the_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"id,title,text,source\n" + b'1,Open,"On Monday, at last"\n' * 3)
    faults = [line.fault and line.fault.detail for line in LineReader([str(tmp_path / "a.csv")])]
    assert faults == ["a row of 3 cells under a header of 4"] * 3


def test_a_row_that_does_not_fit_is_a_fault_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"id,title,text\n1,b\n1,b,c,d\n1,\xc3\xa9,c\n1,\xff,c\n2,b,c\n")
    faults = [line.fault and line.fault.detail for line in LineReader([str(tmp_path / "a.csv")])]
    cells = [f"a row of {count} cells under a header of 3" for count in (2, 4)]
    assert faults == [*cells, None, "not UTF-8", None]


@pytest.mark.parametrize(
    "first",
    [b"Date, place and source of the report on the harbour fair are unknown, said the mayor", b"{", b"[1]", b"x,y"],
)
def test_a_broken_line_costs_only_itself(tmp_path: Path, first: bytes) -> None:
    lines = [b'{"id": 0}', first] if first == b"{" else [first, b'{"id": 0}']
    assert read(tmp_path / "a", b"\n".join(lines)) == lines


@pytest.mark.parametrize(
    ("name", "data", "match"),
    [
        ("a.gz", gzip.compress(WHOLE, mtime=0)[:-1], "cut short"),
        ("a.gz", gzip.compress(WHOLE, mtime=0)[:-20], "cut short"),
        ("a.zst", zstandard.compress(WHOLE)[:-1], "cut short"),
        ("a.zst", zstandard.compress(WHOLE)[:-20], "cut short"),
        ("a.gz", WHOLE, "is not packed as its name says"),
        ("a.jsonl", bz2.compress(WHOLE), "bzip2 -dc"),
        ("a.jsonl", lzma.compress(WHOLE), "xz -dc"),
        ("a.jsonl", b"PK\x03\x04" + WHOLE, "unzip -p .* or save it as CSV"),
        ("a.warc", b"WARC/1.0\r\n", "a WARC file, .* pip install warcio"),
        ("a.warc.gz", gzip.compress(b"WARC/1.0\r\n", mtime=0), "a WARC file, "),
        (
            "a.jsonl",
            b"From news@elm.example Mon Jan  1 12:00:00 2024\nSubject: T\n\nBody\n",
            "a mailbox .* mailbox.mbox",
        ),
        ("a.jsonl", b"SQLite format 3\0" + WHOLE, "a database of SQLite, .* FILE TABLE > OTHER"),
        ("a.jsonl", b"ARROW1\0\0" + WHOLE, "Feather or Arrow .*parquet.write_table"),
        ("a.jsonl", b"ORC" + WHOLE, "an ORC file, .*parquet.write_table"),
        ("a.csv", CSV + b'3,"open,x\n4,b,c\n', r"a\.csv:5: the row that begins here is not valid CSV"),
        ("a.csv", CSV + b'3,"a"b,c\n', r"a\.csv:5: .*doubled"),
        ("a.csv", b'{"id": 1, "title": "x"}\n', "holds JSON, not CSV"),
        ("a.csv", b",,\n1,2,3\n", "there is no header"),
        ("a.txt", CSV, r"looks like CSV: its first line is 'id,title,text'; give it the suffix \.csv"),
        ("a.txt", b'"GUID";"Headline"\n1;x\n', "looks like CSV"),
        ("a.txt", b'{\n  "id": 1,\n', "one JSON document"),
        ("a.parquet", b'{"id": 1}\n', "does not hold what its name or --format says"),
        ("a.parquet", b"PAR1 and nothing more", r"cannot read .*a\.parquet as Parquet"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place_and_the_cure(
    tmp_path: Path, name: str, data: bytes, match: str
) -> None:
    with pytest.raises(InputError, match=match):
        read(tmp_path / name, data)


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_a_row_of_parquet_is_an_object_of_what_is_not_null(tmp_path: Path, name: str) -> None:
    moment = dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC)
    columns = {
        "id": pa.array([1, 2]),
        "title": pa.array([b"One", None]),
        "hash": [b"\xff", None],
        "thread": [{"site": "a.example"}, None],
        "more": pa.array([[("text", "Two"), ("lang", "en")], None], pa.map_(pa.string(), pa.string())),
    }
    dates = pa.array([moment, moment], pa.timestamp("ns", "UTC"))
    parquet.write_table(pa.table(columns | {"published": dates}), tmp_path / name)
    reader = LineReader([str(tmp_path / name)])
    at = "2024-05-01T10:00:00Z"
    first = {"id": 1, "title": "One", "hash": "/w==", "published": at, "thread": {"site": "a.example"}}
    first["more"] = {"text": "Two", "lang": "en"}
    assert [json.loads(line.value) for line in reader] == [first, {"id": 2, "published": at}]
    assert reader.bytes_read == (tmp_path / name).stat().st_size
    with pytest.raises(InputError, match="does not hold what its name or --format says"):
        list(read_lines(tmp_path / name, FileFormat.CSV))


def test_a_directory_stands_for_its_files_in_the_order_of_their_paths(tmp_path: Path) -> None:
    top, empty = tmp_path / "in", tmp_path / "empty"
    for name in ("2/b.xml", "2/a.xml", "1/c.xml", ".git/d", "1/.e.part"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(b"x")
    empty.mkdir()
    inside = [str(top / name) for name in ("1/c.xml", "2/a.xml", "2/b.xml")]
    assert files_of([top, "-", tmp_path / "gone"]) == [*inside, "-", str(tmp_path / "gone")]
    with pytest.raises(InputError, match="empty is a directory without files"):
        files_of([empty])


@pytest.mark.parametrize(
    "cell", [b"\n" * 10**6, b"a\n" * 500_000, b'","' * 300_000], ids=["lines", "short lines", "cells"]
)
def test_a_row_of_many_lines_or_cells_takes_a_small_multiple_of_its_bytes(tmp_path: Path, cell: bytes) -> None:
    """The lines of a cell of 12 MB were kept one by one: it took 1.1 GB."""
    (tmp_path / "a.csv").write_bytes(b'id,title,text\n1,T,"' + cell + b'"\n')
    tracemalloc.start()
    try:
        assert len(list(LineReader([str(tmp_path / "a.csv")]))) == 1
        assert tracemalloc.get_traced_memory()[1] < 25 * len(cell)
    finally:
        tracemalloc.stop()
