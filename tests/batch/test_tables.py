"""Tables as inputs: each row is an item with the columns' names, and what is no row is named, never guessed."""

import datetime as dt
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from stream_dedup.batch.lines import InputLines, read_lines
from stream_dedup.batch.tables import CsvRow, FileFormat
from stream_dedup.errors import InputError

CSV = b'id,title,text\n1,"Fair, and ""large""","two\nlines"\n2,,\xc3\xa4\n'
ROWS = [{"id": "1", "title": 'Fair, and "large"', "text": "two\nlines"}, {"id": "2", "text": "ä"}]


def read(path: Path, data: bytes, file_format: FileFormat | None = None) -> list[dict[str, Any]]:
    path.write_bytes(data)
    return [json.loads(line) for line in read_lines(path, file_format)]


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.csv.gz"])
def test_a_row_is_an_object_of_its_filled_cells(tmp_path: Path, name: str) -> None:
    assert read(tmp_path / name, gzip.compress(CSV) if name.endswith(".gz") else CSV) == ROWS


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b"\xef\xbb\xbf" + CSV),
        ("a.csv", CSV.replace(b"\n", b"\r\n").replace(b"two\r", b"two")),
        ("a.csv", b'id;title;text\n1;"Fair, and ""large""";"two\nlines"\n2;;\xc3\xa4'),
        ("a.tsv", b'id\ttitle\ttext\n1\t"Fair, and ""large"""\t"two\nlines"\n\n2\t\t\xc3\xa4'),
        ("a.csv", b"\nid, title ,text\n" + CSV.split(b"\n", 1)[1] + b",,\n"),
    ],
    ids=["with a byte order mark", "CRLF", "semicolons", "tabs", "blank rows"],
)
def test_what_spreadsheets_write_is_read(tmp_path: Path, name: str, data: bytes) -> None:
    assert read(tmp_path / name, data) == ROWS


def test_rows_are_numbered_as_a_spreadsheet_does_and_keep_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV)
    with InputLines(tmp_path / "a.csv") as lines:
        found = [(line.number, line.source_row) for value in lines if value for line in [lines.line(value, 0)]]
    assert [number for number, _ in found] == [2, 3]
    csv_rows = [row for _, row in found if isinstance(row, CsvRow)]
    assert csv_rows[0].header == b"id,title,text"
    assert b"\n".join([csv_rows[0].header, *(row.raw for row in csv_rows), b""]) == CSV


@pytest.mark.parametrize(
    ("row", "fault"),
    [(b"1,b", "2 cells under a header of 3"), (b"1,b,c,d", "4 cells under"), (b"1,\xff,c", "not UTF-8")],
)
def test_a_row_that_does_not_fit_is_a_fault_of_its_own(tmp_path: Path, row: bytes, fault: str) -> None:
    (tmp_path / "a.csv").write_bytes(b"id,title,text\n" + row + b"\n2,b,c\n")
    with InputLines(tmp_path / "a.csv") as lines:
        faults = [str(lines.line(value, 0).fault or "") for value in lines if value]
    assert fault in faults[0]
    assert faults[1:] == [""]


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (CSV + b'3,"open,x\n4,b,c\n', r"a\.csv:5: the row that begins here is not valid CSV"),
        (CSV + b'3,"a"b,c\n', r"a\.csv:5: .*doubled"),
        (b"id,title,id\n1,2,3\n", r"a\.csv:1: two columns have the name 'id'"),
        (b'{"id": 1, "title": "x"}\n', "holds JSON, not CSV"),
        (b",,\n1,2,3\n", "there is no header"),
        ("id,title\n1,x\n".encode("utf-16"), "iconv -f UTF-16"),
    ],
)
def test_invalid_csv_is_refused_with_its_place(tmp_path: Path, data: bytes, match: str) -> None:
    with pytest.raises(InputError, match=match):
        read(tmp_path / "a.csv", data)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (CSV, r"looks like CSV: its first line is 'id,title,text'; give it the suffix \.csv"),
        (b'"GUID";"Headline"\n1;x\n', "looks like CSV"),
        (
            '{"id": 1, "title": "x"}\n'.encode("utf-16"),
            "is UTF-16, not UTF-8, which cannot be read; convert it",
        ),
        (b'[\n  {"id": 1}\n]\n', "one JSON document"),
        (b'[{"id": 1}, {"id": 2}]', "one JSON document"),
        (b'{\n  "id": 1\n}\n', "one JSON document"),
    ],
)
def test_what_is_no_json_lines_from_its_first_line_on_is_refused_with_the_cure(
    tmp_path: Path, data: bytes, match: str
) -> None:
    with pytest.raises(InputError, match=match):
        read(tmp_path / "a.txt", data)


@pytest.mark.parametrize(
    "first",
    [b"Date, place and source of the report on the harbour fair are unknown, said the mayor", b"{", b"[1]", b"x,y"],
)
def test_a_broken_line_costs_only_itself(tmp_path: Path, first: bytes) -> None:
    (tmp_path / "a").write_bytes(b'{"id": 0}\n' + first if first == b"{" else first + b'\n{"id": 0}')
    assert sorted(read_lines(tmp_path / "a")) == sorted([first, b'{"id": 0}'])


# -- Parquet -------------------------------------------------------------------------------------------------

MOMENT = dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC)


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_a_row_of_parquet_is_an_object_of_what_is_not_null(tmp_path: Path, name: str) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2]),
            "title": ["One", None],
            "published": pa.array([MOMENT, MOMENT], pa.timestamp("ns", "UTC")),
            "thread": [{"site": "a.example"}, None],
        }
    )
    parquet.write_table(table, tmp_path / name)
    with InputLines(tmp_path / name) as lines:
        found = [json.loads(line) for line in lines]
    at = "2024-05-01T10:00:00Z"
    assert found == [
        {"id": 1, "title": "One", "published": at, "thread": {"site": "a.example"}},
        {"id": 2, "published": at},
    ]
    assert lines.bytes_read == (tmp_path / name).stat().st_size


def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not hold what its name or --format says"):
        read(tmp_path / "a.parquet", b'{"id": 1}\n')
    with pytest.raises(InputError, match=r"cannot read .*a\.parquet as Parquet"):
        read(tmp_path / "a.parquet", b"PAR1 and nothing more")


def test_a_parquet_file_is_not_read_as_another_format(tmp_path: Path) -> None:
    """--format was once ignored for it."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"PAR1 and nothing more")
    with (
        InputLines(path, FileFormat.CSV) as lines,
        pytest.raises(InputError, match="does not hold what its name or --format says"),
    ):
        list(lines)
