"""Files that unpack to far more than they have: a bad item or a refusal, in bounded memory, and the rest is judged.

Each case is a process of its own, whose highest memory the kernel tells. A line of a gigabyte took 5.4 GB, and under a
limit the process died in the JSON decoder.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from tests.tools.batch.feed import rows, story

MIB = 2**20
MOST = 450  # MiB; an empty run takes 170
SIZE = 200  # MiB of a bomb: twenty times what a record may have here
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
    items, bad = (rows(path) if path.exists() else [] for path in (output, duplicates))
    return done.returncode, items, bad, " ".join(done.stderr.split())


def packed(path: Path, parts: Iterable[bytes]) -> Path:
    with path.open("wb") as file, zstandard.ZstdCompressor(level=3).stream_writer(file) as writer:
        for part in parts:
            writer.write(part)
    assert path.stat().st_size < 100_000
    return path


def json_line(number: int) -> bytes:
    return story(number, name=f"{number}") + b"\n"


def bomb(start: bytes, end: bytes = b"", text: bytes = b"a ") -> Callable[[Path], Path]:
    """A file that is packed: between start and end there are 200 MB of the same bytes."""
    return lambda path: packed(path, chain([start], [text * (MIB // 2)] * SIZE, [end]))


def table(columns: Callable[[], dict[str, Any]], **options: Any) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        parquet.write_table(pa.table(columns()), path, compression="zstd", **options)
        assert path.stat().st_size < 100_000
        return path

    return make


def texts(values: list[Any]) -> dict[str, Any]:
    return {"id": [str(number) for number in range(len(values))], "text": values}


LARGE = json_line(1) + b'{"id": "large", "title": "A bomb", "text": "'
CSV = b"id,title,text\n1,Headline one,Some words\n2,Headline two,"
CSV_END = b"\n3,Headline three,Other words\n"
RAISE = "raise [worker] max_record_bytes"


@pytest.mark.parametrize(
    ("name", "make", "passed", "places", "reason"),
    [
        ("a.jsonl.zst", bomb(LARGE, b'"}\n' + json_line(3)), ["1", "3"], [2], r"209715246 bytes, more than"),
        ("no-end.jsonl.zst", bomb(json_line(1), text=b"  "), ["1"], [2], "209715200 bytes"),
        ("a.csv.zst", bomb(CSV, CSV_END), ["1", "3"], [3], r"2097152\d\d bytes"),
        ("quoted.csv.zst", bomb(CSV + b'"', b'"' + CSV_END), ["1", "3"], [3], r"2097152\d\d bytes"),
        # 60 rows of one text of 9 MB: with 200 of them a file of two kilobytes took 3.8 GB.
        ("a.parquet", table(lambda: texts([*["a " * 4_500_000] * 60, "Some words"])), ["60"], list(range(1, 61)),
         r"90000\d\d bytes"),
    ],
)  # fmt: skip
def test_a_line_or_row_that_is_too_large_is_a_bad_item_with_its_place(
    tmp_path: Path, name: str, make: Callable[[Path], Path], passed: list[str], places: list[int], reason: str
) -> None:
    source = make(tmp_path / name)
    code, items, bad, _ = filtered(source)
    assert (code, [one["id"] for one in items]) == (0, passed)
    assert [(one["verdict"], one["file"], one["line"]) for one in bad] == [("bad", str(source), at) for at in places]
    for one in bad:
        assert re.match(f"too-large: it has {reason}.* max_record_bytes; it was not read", one["reason"])


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("a.jsonl.zst", bomb(b'[{"id": "1", "text": "'), ["looks like one JSON document"]),
        # Where the cell ends is known only at its end, and a quote that stays open has none.
        ("a.csv.zst", bomb(CSV + b'"', b'"' + CSV_END, b"a\n"),
         ["a.csv.zst:3: the row that begins here is not valid CSV (it has more than 8388608 bytes"]),
        ("a.csv.zst", bomb(b"id,title,", CSV_END), ["a.csv.zst:1: the header has 209,715,209 bytes"]),
        ("cell.parquet", table(lambda: texts(["a " * 100_000_000, "b"]), use_dictionary=False),
         ["cell.parquet: row group 0, column text: ", RAISE]),
        ("list.parquet", table(lambda: texts([["a " * 4_000_000] * 40])),
         ["list.parquet: row group 0, column text.list.element: ", RAISE]),
        # A list of 50 million equal numbers in a kilobyte took 1.8 GB.
        ("numbers.parquet", table(lambda: {"n": pa.array([[7] * 20_000_000], pa.list_(pa.int64()))}),
         ["numbers.parquet: row group 0", RAISE]),
        ("empty.parquet", table(lambda: {"n": pa.array([[[]] * 10_000_000], pa.list_(pa.list_(pa.int8())))}),
         ["empty.parquet: row group 0", RAISE]),
        ("many.parquet", table(lambda: {f"n{number}": ["a " * 4_500_000] for number in range(20)}),
         ["many.parquet: row group 0", RAISE]),
    ],
)  # fmt: skip
def test_what_cannot_be_read_in_parts_is_refused_with_its_place(
    tmp_path: Path, name: str, make: Callable[[Path], Path], said: list[str]
) -> None:
    code, _, _, printed = filtered(make(tmp_path / name))
    assert code == 1
    assert all(one in printed for one in said)


def test_values_of_a_fixed_size_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    raw = pa.array([b"x" * 4_000_000] * 60, pa.binary(4_000_000))
    code, passed, bad, _ = filtered(table(lambda: {"title": ["Some words"] * 60, "n": raw})(tmp_path / "a.parquet"))
    assert (code, len(passed) + len(bad)) == (0, 60)
