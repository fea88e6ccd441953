"""Files that unpack to far more than they have: a bad item or a refusal, in bounded memory, and the rest is judged.

Each case is a process of its own, whose highest memory the kernel tells. A line of a gigabyte took 5.4 GB, and under a
limit the process died in the JSON decoder.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

MIB = 2**20
MOST = 450  # MiB; an empty run takes 170
SIZE = 200  # MB of a bomb: twenty times what a record may have here
MEMORY = {"STREAM_DEDUP_WORKER__MEMORY": "2G"}  # records of 8 MiB
pytestmark = pytest.mark.slow  # each case is a process that reads a gigabyte
_RUN = """
import re, sys
from pathlib import Path
from stream_dedup.cli.main import main
try:
    main()
finally:
    peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
    print("peak", peak, file=sys.stderr)
"""


def filtered(source: Path, *options: str) -> tuple[int, list[dict[str, str]], list[dict[str, str]], str]:
    """The exit code, the items let through, the rows of the duplicates, and what was printed; checks the memory."""
    output, duplicates = source.with_name("unique.jsonl"), source.with_name("duplicates.jsonl")
    done = subprocess.run(
        [sys.executable, "-c", _RUN, "filter", source, "--output", output, "--duplicates", duplicates, *options],
        capture_output=True, text=True, check=False, env=os.environ | MEMORY, timeout=300,
    )  # fmt: skip
    peak = re.search(r"peak (\d+)", done.stderr)
    assert peak, done.stderr
    assert int(peak[1]) / 1024 < MOST, done.stderr
    rows = [
        [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        for path in (output, duplicates)
    ]
    return done.returncode, rows[0], rows[1], " ".join(done.stderr.split())


def packed(path: Path, parts: Iterator[bytes]) -> Path:
    with path.open("wb") as file, zstandard.ZstdCompressor(level=3).stream_writer(file) as writer:
        for part in parts:
            writer.write(part)
    assert path.stat().st_size < 100_000
    return path


def article(number: int) -> dict[str, str]:
    words = " ".join(f"{number}word{position}" for position in range(20))
    return {"id": f"{number}", "title": f"{number}head {number}line", "text": words}


def json_line(number: int) -> bytes:
    return json.dumps(article(number)).encode() + b"\n"


def lines(end: bytes = b'"}\n') -> Iterator[bytes]:
    yield json_line(1) + b'{"id": "large", "title": "A bomb", "text": "'
    yield from [b"a " * 500_000] * SIZE
    yield end + json_line(3)


def test_a_line_that_is_too_large_is_a_bad_item_with_its_place(tmp_path: Path) -> None:
    source = packed(tmp_path / "bomb.jsonl.zst", lines())
    code, passed, [bad], _ = filtered(source)
    assert (code, [one["id"] for one in passed]) == (0, ["1", "3"])
    assert (bad["verdict"], bad["file"], bad["line"]) == ("bad", str(source), 2)
    assert bad["reason"] == "too-large: it has 200000046 bytes, more than [worker] max_record_bytes; it was not read"


def test_a_whole_document_is_refused_and_a_last_line_without_an_end_is_a_bad_item(tmp_path: Path) -> None:
    document = (part for part in [b'[{"id": "1", "text": "', *[b"a " * 500_000] * SIZE])
    code, _, _, said = filtered(packed(tmp_path / "document.jsonl.zst", document))
    assert (code, "looks like one JSON document" in said) == (1, True)
    cut = (part for part in [json_line(1), *[b" " * MIB] * SIZE])
    assert filtered(packed(tmp_path / "spaces.jsonl.zst", cut))[2][0]["line"] == 2


def cells(quote: bytes, text: bytes) -> Iterator[bytes]:
    yield b"id,title,text\n1,Headline one,Some words\n2,Headline two," + quote
    yield from [text * 500_000] * SIZE
    yield quote + b"\n3,Headline three,Other words\n"


@pytest.mark.parametrize("quote", [b"", b'"'])
def test_a_row_of_csv_that_is_too_large_is_a_bad_item(tmp_path: Path, quote: bytes) -> None:
    code, passed, [bad], _ = filtered(packed(tmp_path / "bomb.csv.zst", cells(quote, b"a ")), "--format", "csv")
    assert (code, [one["id"] for one in passed], bad["line"]) == (0, ["1", "3"], 3)
    assert bad["reason"].startswith("too-large: it has 20000001")


def test_a_cell_of_many_lines_that_is_too_large_is_refused_with_its_place(tmp_path: Path) -> None:
    """Where it ends is known only at its end, and a quote that stays open has none."""
    code, _, _, said = filtered(packed(tmp_path / "bomb.csv.zst", cells(b'"', b"a\n")), "--format", "csv")
    assert code == 1
    assert "bomb.csv.zst:3: the row that begins here is not valid CSV (it has more than 8388608 bytes" in said


def test_a_header_that_is_too_large_is_refused(tmp_path: Path) -> None:
    parts = (part for part in [b"id,title,", *[b"a " * 500_000] * SIZE, b"\n1,Headline one,Some words\n"])
    code, _, _, said = filtered(packed(tmp_path / "bomb.csv.zst", parts), "--format", "csv")
    assert (code, "bomb.csv.zst:1: the header has 200,000,009 bytes" in said) == (1, True)


def table(path: Path, texts: list[object], *, dictionary: bool) -> Path:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"id": [str(number) for number in range(len(texts))], "text": texts}
    parquet.write_table(arrow.table(columns), path, compression="zstd", use_dictionary=dictionary)
    assert path.stat().st_size < 100_000
    return path


def test_cells_that_a_dictionary_repeats_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    """60 rows of one text of 9 MB: with 200 of them a file of two kilobytes took 3.8 GB."""
    source = table(tmp_path / "bomb.parquet", [*["a " * 4_500_000] * 60, "Some words"], dictionary=True)
    code, passed, bad, _ = filtered(source)
    assert (code, [one["id"] for one in passed], len(bad)) == (0, ["60"], 60)
    assert all(re.match(r"too-large: it has 90000\d\d bytes", row["reason"]) for row in bad)


@pytest.mark.parametrize(
    ("texts", "column"),
    [(["a " * 100_000_000, "b"], "text"), ([["a " * 4_000_000] * 40], "text.list.element")],
    ids=["a cell", "a list"],
)
def test_a_column_that_cannot_be_read_in_parts_is_refused_with_its_place(
    tmp_path: Path, texts: list[object], column: str
) -> None:
    code, _, _, said = filtered(table(tmp_path / "bomb.parquet", texts, dictionary=column != "text"))
    assert code == 1
    assert f"bomb.parquet: row group 0, column {column}: " in said
    assert "raise [worker] max_record_bytes" in said


@pytest.mark.parametrize("kind", ["numbers", "empty lists", "many columns"])
def test_what_a_column_repeats_without_a_text_is_bounded_too(tmp_path: Path, kind: str) -> None:
    """A list of 50 million equal numbers in a kilobyte took 1.8 GB."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    large = "a " * 4_500_000
    columns = {
        "numbers": {"n": arrow.array([[7] * 20_000_000], arrow.list_(arrow.int64()))},
        "empty lists": {"n": arrow.array([[[]] * 10_000_000], arrow.list_(arrow.list_(arrow.int8())))},
        "many columns": {f"n{number}": [large] for number in range(20)},
    }[kind]
    source = tmp_path / "bomb.parquet"
    parquet.write_table(arrow.table(columns), source, compression="zstd")
    code, _, _, said = filtered(source)
    assert code == 1
    assert "bomb.parquet: row group 0" in said
    assert "raise [worker] max_record_bytes" in said


def test_values_of_a_fixed_size_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    source, raw = tmp_path / "bomb.parquet", arrow.array([b"x" * 4_000_000] * 60, arrow.binary(4_000_000))
    parquet.write_table(arrow.table({"title": ["Some words"] * 60, "n": raw}), source, compression="zstd")
    code, passed, duplicates, _ = filtered(source)
    assert (code, len(passed) + len(duplicates)) == (0, 60)
