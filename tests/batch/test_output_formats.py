"""The suffix of an output decides its packing and format, and the bytes of the lines stay unchanged."""

import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from stream_dedup.batch.filter import FilterResult, FilterStep, filter_files
from stream_dedup.batch.lines import read_lines
from stream_dedup.batch.pairs import find_pairs
from stream_dedup.errors import InputError, UsageError
from stream_dedup.settings import load_settings
from tests.batch.feed import feed, story, write

HEADER = b"id,title,text,published\n"
TEXT = "The old ferry between the two banks of the Elm was taken out of service on Monday morning."
FIRST = f'1,"Ferry, old\nand slow",{TEXT},2024-05-01\n'.encode()
COPY = f'2,"Ferry, old\nand slow",{TEXT},2024-05-02\n'.encode()
OTHER = b'3,"Nobody ""heard"" of it",Forty thousand people came to the harbour fair this weekend.,2024-05-02\r\n'


def run(*inputs: Path, output: Path, duplicates: Path | None = None, batch_items: int = 5, **more: Any) -> FilterResult:
    keywords = {name: more.pop(name) for name in ("state", "file_format", "announce") if name in more}
    settings = load_settings(worker={"batch_items": batch_items}, **more)
    return filter_files(list(inputs), output, duplicates, settings=settings, **keywords)


def unpack(path: Path) -> bytes:
    """With what the tools use: members and frames that were joined are one."""
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(path.read_bytes()), read_across_frames=True) as reader:
        return reader.read()


# -- packed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("with_state", [False, True])
def test_a_packed_output_without_lines_is_one_that_the_tools_open(
    tmp_path: Path, suffix: str, with_state: bool
) -> None:
    path, output = write(tmp_path / "in", []), tmp_path / f"u{suffix}"
    state = tmp_path / "state" if with_state else None
    for _ in range(2):  # with a state the second is the finished run that is asked for again
        run(path, output=output, state=state)
        assert output.stat().st_size > 0
        assert list(read_lines(output)) == []


class Stopped(Exception):  # noqa: N818 - stands in for a kill
    """Ends a run at once, wherever it is."""


def stop_at(step: FilterStep, nth: int) -> Callable[[FilterStep], None]:
    left = [nth]

    def announce(now: FilterStep) -> None:
        left[0] -= now is step
        if left[0] == 0:
            raise Stopped

    return announce


@pytest.mark.parametrize("names", [("u.jsonl.gz", "d.jsonl.zst"), ("u.jsonl.zst", "d.jsonl.gz"), ("u.csv.gz", "d")])
@pytest.mark.parametrize("step", list(FilterStep))
def test_a_killed_run_goes_on_in_packed_outputs_at_a_boundary(
    tmp_path: Path, names: tuple[str, str], step: FilterStep
) -> None:
    rows = [b"%d,Story %d,%s,\n" % (i, i // 2, b" ".join(story(i // 2).split())[40:-60]) for i in range(40)]
    is_csv = names[0].startswith("u.csv")
    path = tmp_path / ("in.csv" if is_csv else "in.jsonl")
    path.write_bytes(HEADER + b"".join(rows).replace(b'"', b"") if is_csv else b"\n".join(feed(40)) + b"\n")
    (tmp_path / "whole").mkdir()
    whole = run(path, output=tmp_path / "whole" / "u", duplicates=tmp_path / "whole" / "d")
    output, duplicates, state = tmp_path / names[0], tmp_path / names[1], tmp_path / "state"
    nth = 1 if step in (FilterStep.BEGIN, FilterStep.CUT, FilterStep.FINISH) else 3
    with pytest.raises(Stopped):
        run(path, output=output, duplicates=duplicates, state=state, announce=stop_at(step, nth))
    if output.exists():  # what a kill leaves behind the last commit
        with output.open("ab") as file:
            file.write(random.Random(1).randbytes(100))
    done = run(path, output=output, duplicates=duplicates, state=state)
    assert (done.items, done.forwarded) == (whole.items, whole.forwarded)
    assert list(read_lines(output, None)) == list(read_lines(tmp_path / "whole" / "u")) or is_csv
    if is_csv:
        forwarded = [json.loads(line)["id"] for line in read_lines(output)]
        assert forwarded == [json.loads(line)["id"] for line in read_lines(tmp_path / "whole" / "u")]
        assert unpack(output).startswith(HEADER)
    held_back = [json.loads(line) for line in read_lines(duplicates)]
    assert held_back == [json.loads(line) for line in read_lines(tmp_path / "whole" / "d")]


# -- CSV -----------------------------------------------------------------------------------------------------


def csv(path: Path, *rows: bytes, header: bytes = HEADER) -> Path:
    path.write_bytes(header + b"".join(rows))
    return path


def test_rows_of_csv_stay_byte_by_byte_in_a_csv(tmp_path: Path) -> None:
    result = run(
        csv(tmp_path / "in.csv", FIRST, COPY, OTHER), output=tmp_path / "u.csv", duplicates=tmp_path / "d.jsonl"
    )
    assert (result.unique, result.duplicate, result.bad) == (2, 1, 0)
    assert (tmp_path / "u.csv").read_bytes() == HEADER + FIRST + OTHER
    row = json.loads((tmp_path / "d.jsonl").read_bytes())
    assert (row["id"], row["line"], row["original"]["id"], row["original"]["offset"]) == ("2", 3, "1", 2)


def test_a_csv_of_nothing_but_a_header_is_one_again(tmp_path: Path) -> None:
    run(csv(tmp_path / "in.csv"), output=tmp_path / "u.csv")
    assert (tmp_path / "u.csv").read_bytes() == HEADER


def test_a_row_that_does_not_fit_is_a_bad_item_with_its_bytes(tmp_path: Path) -> None:
    result = run(csv(tmp_path / "in.csv", b"1,one,cell,less,more\n", OTHER), output=tmp_path / "u.csv")
    assert (result.unique, result.bad) == (1, 1)
    run(tmp_path / "in.csv", output=tmp_path / "u.csv", duplicates=tmp_path / "d.jsonl")
    row = json.loads((tmp_path / "d.jsonl").read_bytes())
    assert row["reason"] == "row: a row of 5 cells under a header of 4"
    assert row["raw"] == "MSxvbmUsY2VsbCxsZXNzLG1vcmU="


@pytest.mark.parametrize(
    ("first", "second", "output", "match"),
    [
        *(
            (*names, "only rows of .* inputs that all have the same columns; name it .jsonl")
            for names in (
                ("1.jsonl", None, "u.csv"),
                ("1.tsv", None, "u.csv"),
                ("1.csv", "2.csv", "u.csv"),
                ("1.csv", "2.jsonl", "u.csv"),
                ("1.jsonl", None, "u.parquet"),
                ("1.parquet", "2.jsonl", "u.parquet"),
                ("1.parquet", "2.parquet", "u.parquet"),
            )
        ),
        ("1.jsonl", None, "u.parquet.gz", "packed twice"),
        ("1.jsonl", None, "u.jsonl.xz", r"cannot be written as .*xz; name it \.jsonl .*\(\.gz, \.zst\)"),
    ],
)
def test_what_an_output_cannot_hold_is_refused_and_nothing_is_left(
    tmp_path: Path, first: str, second: str | None, output: str, match: str
) -> None:
    inputs = []
    for name, title in ((first, "title"), (second, "titel")):
        if name is None:
            continue
        path = tmp_path / name
        inputs.append(path)
        if path.suffix == ".parquet":
            parquet.write_table(pa.table({"id": ["1"], title: ["x y z"]}), path)
        elif path.suffix == ".jsonl":
            write(path, [story(1)])
        elif title == "titel":
            csv(path, b"1,x\n", header=b"id,titel\n")
        else:
            csv(path, FIRST.replace(b",", b"\t") if path.suffix == ".tsv" else FIRST,
                header=HEADER.replace(b",", b"\t") if path.suffix == ".tsv" else HEADER)  # fmt: skip
    (tmp_path / "out").mkdir()
    with pytest.raises((InputError, UsageError), match=match):
        run(*inputs, output=tmp_path / "out" / output)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["d.csv", "d.parquet"])
def test_the_rows_of_duplicates_are_json_lines(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=rf"--duplicates cannot be written as .*{name}; name it \.jsonl"):
        run(csv(tmp_path / "in.csv", FIRST), output=tmp_path / "u.csv", duplicates=tmp_path / name)


# -- Parquet -------------------------------------------------------------------------------------------------


def test_rows_of_parquet_stay_under_their_schema(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array(["1", "2", "3"], pa.large_string()),
            "text": [TEXT, TEXT, "Forty thousand people came to the harbour fair this weekend."],
            "published": pa.array([1, 2, 3], pa.timestamp("ns")),
            "score": pa.array([1, None, 3], pa.int8()),
        }
    )
    parquet.write_table(table, tmp_path / "in.parquet")
    result = run(tmp_path / "in.parquet", output=tmp_path / "u.parquet", duplicates=tmp_path / "d.jsonl")
    assert (result.unique, result.duplicate) == (2, 1)
    assert parquet.read_table(tmp_path / "u.parquet") == table.take([0, 2])


# -- pairs ---------------------------------------------------------------------------------------------------


def test_pairs_reads_tables_and_packs(tmp_path: Path) -> None:
    path = csv(tmp_path / "in.csv", FIRST, COPY, OTHER, b"4,too,few\n")
    bad: list[str] = []
    result = find_pairs(
        [path], tmp_path / "p.jsonl.gz", tmp_path / "c.jsonl.zst", settings=load_settings(), threads=1,
        bad_line=lambda name, line: bad.append(f"{name}:{line.number}: {line.reason}"),
    )  # fmt: skip
    assert (result.items, result.pairs, result.bad) == (3, 1, 1)
    assert bad == [f"{path}:5: row: a row of 3 cells under a header of 4"]
    assert [json.loads(line)["b"] for line in unpack(tmp_path / "p.jsonl.gz").splitlines()] == ["2"]
    assert [json.loads(line) for line in unpack(tmp_path / "c.jsonl.zst").splitlines()] == [
        {"id": "1", "cluster": "1"}, {"id": "2", "cluster": "1"}, {"id": "3", "cluster": "3"},
    ]  # fmt: skip
    with pytest.raises(UsageError, match=r"--output cannot be written as .*p\.csv"):
        find_pairs([path], tmp_path / "p.csv", None, settings=load_settings())
