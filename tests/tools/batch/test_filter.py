"""The content of the two files in every format, and the arguments that are refused before anything is written."""

import base64
import gzip
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import InputError, UsageError
from stream_dedup.settings import load_settings
from stream_dedup.tools.batch.filter import FilterProgress, FilterStep, filter_files
from tests.tools.batch.conftest import Run, stop
from tests.tools.batch.feed import feed, line, prose, rows, story, write

HEADER = b"id,title,text,published\n"
TEXT = "The old ferry between the two banks of the Elm was taken out of service on Monday morning."
FIRST = f'1,"Ferry, old\nand slow",{TEXT},2024-05-01\n'.encode()
COPY = f'2,"Ferry, old\nand slow",{TEXT},2024-05-02\n'.encode()
OTHER = b'3,"Nobody ""heard"" of it",Forty thousand people came to the harbour fair this weekend.,2024-05-02\r\n'


def unpack(path: Path) -> bytes:
    """As the tools do: members and frames that were joined are one."""
    if path.suffix == ".zst":
        with zstandard.ZstdDecompressor().stream_reader(path.open("rb"), read_across_frames=True) as reader:
            return reader.read()
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def test_each_item_stands_in_one_of_the_two_files(run: Run, tmp_path: Path) -> None:
    lines = feed(200)
    done = run(write(tmp_path / "in", lines))
    held = {(row["file"], row["line"]) for row in done.rows}
    assert len(held) == len(done.rows)
    assert done.lines == [one for n, one in enumerate(lines, 1) if (str(tmp_path / "in"), n) not in held]
    r = done.result
    assert (r.items, r.resumed) == (200, 0)
    assert r.items == r.unique + r.duplicate + r.update + r.bad
    assert r.forwarded == len(done.lines) == r.unique + r.update
    assert min(r.unique, r.duplicate, r.update, r.bad) > 0


def test_the_verdicts_have_a_row_for_every_item_and_the_duplicates_are_some_of_them(run: Run, tmp_path: Path) -> None:
    path, verdicts = write(tmp_path / "in", feed(200)), tmp_path / "verdicts.jsonl"
    done = run(path, verdicts=verdicts)
    found = rows(verdicts)
    assert [row["line"] for row in found] == list(range(1, 201))
    counts = {kind: getattr(done.result, kind) for kind in ("unique", "duplicate", "update", "bad")}
    assert Counter(row["verdict"] for row in found) == counts
    assert [row for row in found if row["verdict"] in ("duplicate", "bad")] == done.rows
    originals = {row["line"]: row["id"] for row in found if row["verdict"] == "unique"}
    updates = [row["original"] for row in found if row["verdict"] == "update"]
    assert any(originals.get(one["offset"]) == one["id"] and one["file"] == str(path) for one in updates)


class Page:
    """A report that is the list of what it has seen."""

    def __init__(self, path: Path) -> None:
        self.path, self.seen = path, list[str]()

    def add(self, items: Sequence[Any], verdicts: Sequence[Verdict], place: Callable[[int, int], str]) -> None:
        assert len(items) == len(verdicts)
        self.seen += [place(0, n) for n, _ in enumerate(items)]

    def html(self, done_before: int = 0) -> str:
        return f"{len(self.seen)} seen, {done_before} before, {self.seen[1]}, \udc80"


def test_a_report_sees_every_item_and_is_whole_or_not_there(run: Run, tmp_path: Path) -> None:
    path, page, state = write(tmp_path / "in", feed(40)), tmp_path / "report.html.gz", tmp_path / "state"
    stop(run, path, report=Page(page), state=state)
    assert not page.exists()
    run(path, report=Page(page), state=state)
    assert unpack(page).decode() == f"30 seen, 10 before, {path}:1, ?"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in", "out", "report.html.gz", "state"]
    for bad in (path, tmp_path / "out" / "unique.jsonl", tmp_path):
        with pytest.raises((InputError, UsageError), match=r"is an input|are both|is a directory"):
            run(path, report=Page(bad), state=tmp_path / "state2")


def test_in_shadow_mode_the_output_is_the_input_and_the_duplicates_are_as_without(tmp_path: Path) -> None:
    lines = feed(200)
    source, out, held = write(tmp_path / "in", lines), tmp_path / "out", tmp_path / "held"
    outcomes = []
    for shadow in (False, True):
        settings = load_settings(policy={"shadow": shadow})
        result = filter_files([source], out, held, settings=settings, clock=lambda: 1.7e9)
        outcomes.append((replace(result, seconds=0), held.read_bytes()))
    assert out.read_bytes().splitlines() == lines
    assert outcomes[0] == outcomes[1]


def test_lines_go_out_byte_for_byte(run: Run, tmp_path: Path) -> None:
    lines = [b' {"id" : 1,\t"title":"\\u00e4\xc3\xa4", "x": [1.50]}  \r', line("2", "Other", "words")]
    (tmp_path / "in").write_bytes(b"\n".join(lines))
    assert run(tmp_path / "in").output.read_bytes() == b"\n".join(lines) + b"\n"


def test_a_row_names_the_original_and_where_it_stands(run: Run, tmp_path: Path) -> None:
    first = write(tmp_path / "first", [b"", story(1)])
    second = write(tmp_path / "second", [story(2), b"  ", story(1, 1, "copy")])
    (row,) = run(first, second).rows
    assert (row["id"], row["verdict"], row["file"], row["line"]) == ("copy", "duplicate", str(second), 3)
    assert row["original"].items() >= {"id": "s1", "partition": 0, "offset": 2, "file": str(first)}.items()
    assert row["stage"] == "exact"
    assert row["similarity"] == row["containment"] == row["evidence"]["body"] == 1.0


def test_a_bad_line_is_kept_with_its_bytes_and_stops_nothing(run: Run, tmp_path: Path) -> None:
    bad = [b'{"id": "cut', b"\xff\x00\xfe", b"[" * 100_000, b"7", b'{"id": 3, "title": ["n", "o"]}', b'{"id": "empty"}']
    done = run(write(tmp_path / "in", [story(1), *bad, story(2)]))
    assert done.lines == [story(1), story(2)]
    assert [base64.b64decode(row["raw"]) for row in done.rows] == bad
    assert [(row["verdict"], row["line"], bool(row["reason"])) for row in done.rows] == [
        ("bad", n, True) for n in range(2, 8)
    ]


def test_progress_is_reported_up_to_the_end(run: Run, tmp_path: Path) -> None:
    reports: list[FilterProgress] = []
    paths = [write(tmp_path / "1", feed(40)), write(tmp_path / "2", feed(40, 2))]
    run(*paths, progress=reports.append)
    total = sum(path.stat().st_size for path in paths)
    assert [one.items for one in reports] == list(range(5, 81, 5))
    assert {one.bytes_total for one in reports} == {total}
    assert [one.bytes_read for one in reports] == sorted(one.bytes_read for one in reports)
    assert reports[-1].bytes_read == total


# -- without a state directory: all or nothing ---------------------------------------------------------------


def test_nothing_shows_before_the_end(run: Run, tmp_path: Path) -> None:
    path, out = write(tmp_path / "in", feed(30)), tmp_path / "out"
    out.mkdir()
    write(out / "unique.jsonl", [b"former"])

    def look(step: FilterStep) -> None:
        assert (out / "unique.jsonl").read_bytes() == b"former\n"
        assert not (out / "duplicates.jsonl").exists()

    done = run(path, announce=look)
    assert sorted(one.name for one in out.iterdir()) == ["duplicates.jsonl", "unique.jsonl"]
    assert done.result.items == 30


def test_a_link_stays_a_link(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "unique.jsonl").symlink_to(tmp_path / "real.jsonl")
    run(write(tmp_path / "in", feed(5)))
    assert (tmp_path / "out" / "unique.jsonl").is_symlink()
    assert (tmp_path / "real.jsonl").stat().st_size > 0


# -- refused -------------------------------------------------------------------------------------------------


def test_what_cannot_be_an_input_or_output_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path, out, state = write(tmp_path / "in", feed(5)), tmp_path / "out", tmp_path / "state"
    out.mkdir()
    os.link(path, tmp_path / "hard")
    (tmp_path / "soft").symlink_to(path)
    empty = write(tmp_path / "empty", [])
    (tmp_path / "link").symlink_to(empty)
    u, d = out / "u", out / "d"
    same = (path, tmp_path / "hard", tmp_path / "soft", tmp_path / "x" / ".." / "in")
    cases: list[tuple[str, list[Any], Any, Any, Path | None]] = [
        *(("is an input", [path], one, d, None) for one in same),
        *(("is an input", [path], u, one, state) for one in same),
        ("are both", [path], u, u, None),
        ("are both standard output", [path], "-", "-", None),
        ("are both standard output", [path], "-", "/dev/stdout", None),
        ("are both", [path], empty, tmp_path / "link", None),
        ("null cannot be cut after a kill", [path], u, os.devnull, state),
        ("standard output cannot", [path], "-", d, state),
        ("parquet cannot be cut after a kill", [path], out / "u.parquet", None, state),
        ("is a directory", [path], tmp_path, d, None),
        ("no directory", [path], tmp_path / "none" / "u", d, None),
        ("no file .*nowhere", [path, tmp_path / "nowhere"], u, d, None),
        ("only once", ["-", "-"], u, d, None),
        ("packed twice", [path], out / "u.parquet.gz", d, None),
        (r"cannot be written as .*xz; name it \.jsonl .*\(\.gz, \.zst\)", [path], out / "u.jsonl.xz", d, None),
        (r"--duplicates cannot be written as .*d\.csv; name it \.jsonl", [path], u, out / "d.csv", None),
        (r"--duplicates cannot be written as .*d\.parquet; name", [path], u, out / "d.parquet", None),
    ]
    for match, inputs, output, duplicates, directory in cases:
        with pytest.raises((InputError, UsageError), match=match):
            filter_files(inputs, output, duplicates, settings=load_settings(), state=directory)
    assert path.read_bytes().splitlines() == feed(5)
    assert not state.exists()
    assert list(out.iterdir()) == []


# -- packed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [None, "state"])
def test_a_packed_output_without_lines_is_one_that_the_tools_open(run: Run, tmp_path: Path, state: str | None) -> None:
    path = write(tmp_path / "in", [])
    for _ in range(2):  # with a state the second is the finished run that is asked for again
        done = run(path, names=("u.gz", "d.zst"), state=state and tmp_path / state)
        assert min(done.output.stat().st_size, done.second.stat().st_size) > 0
        assert unpack(done.output) == unpack(done.second) == b""


@pytest.mark.parametrize("names", [("u.jsonl.gz", "d.jsonl.zst"), ("u.jsonl.zst", "d.jsonl.gz"), ("u.csv.gz", "d")])
@pytest.mark.parametrize("step", list(FilterStep))
def test_a_killed_run_goes_on_in_packed_outputs_at_a_boundary(
    run: Run, tmp_path: Path, names: tuple[str, str], step: FilterStep
) -> None:
    path = write(tmp_path / "in.jsonl", feed(40))
    if names[0].startswith("u.csv"):
        table = [b"%d,Story %d,%s," % (i, i // 2, prose(i // 2).encode()) for i in range(40)]
        path = write(tmp_path / "in.csv", [HEADER.strip(), *table])
    whole = run(path, to="whole", names=("u" + path.suffix, "d"), verdicts=tmp_path / "v.jsonl")
    nth, state = 1 if step in (FilterStep.BEGIN, FilterStep.CUT, FilterStep.FINISH) else 3, tmp_path / "state"
    verdicts = tmp_path / f"v.jsonl{Path(names[0]).suffix}"
    stop(run, path, names=names, verdicts=verdicts, state=state, step=step, time=nth)
    output = tmp_path / "out" / names[0]
    if output.exists():  # what a kill leaves behind the last commit
        with output.open("ab") as file:
            file.write(random.Random(1).randbytes(100))
    done = run(path, names=names, verdicts=verdicts, state=state)
    assert (done.result.items, done.result.forwarded) == (whole.result.items, whole.result.forwarded)
    pairs = (done.output, whole.output), (done.second, whole.second), (verdicts, tmp_path / "v.jsonl")
    for one, other in pairs:
        assert unpack(one) == other.read_bytes()


# -- CSV and Parquet -----------------------------------------------------------------------------------------


def csv(path: Path, *lines: bytes) -> Path:
    path.write_bytes(HEADER + b"".join(lines))
    return path


def test_rows_of_csv_stay_byte_by_byte_in_a_csv(run: Run, tmp_path: Path) -> None:
    done = run(csv(tmp_path / "in.csv", FIRST, COPY, b"1,one,cell,less,more\n", OTHER), names=("u.csv", "d.jsonl"))
    assert (done.result.unique, done.result.duplicate, done.result.bad) == (2, 1, 1)
    assert done.output.read_bytes() == HEADER + FIRST + OTHER
    row, bad = done.rows
    assert (row["id"], row["line"], row["original"]["id"], row["original"]["offset"]) == ("2", 3, "1", 2)
    assert bad["reason"] == "row: a row of 5 cells under a header of 4"
    assert bad["raw"] == "MSxvbmUsY2VsbCxsZXNzLG1vcmU="


def test_a_csv_of_nothing_but_a_header_is_one_again(run: Run, tmp_path: Path) -> None:
    assert run(csv(tmp_path / "in.csv"), names=("u.csv", "d")).output.read_bytes() == HEADER


def test_rows_of_parquet_stay_under_their_schema(run: Run, tmp_path: Path) -> None:
    columns = {"id": pa.array(["1", "2", "3"], pa.large_string()), "text": [TEXT, TEXT, prose(1)]}
    columns |= {"published": pa.array([1, 2, 3], pa.timestamp("ns")), "score": pa.array([1, None, 3], pa.int8())}
    table = pa.table(columns)
    parquet.write_table(table, tmp_path / "in.parquet")
    done = run(tmp_path / "in.parquet", names=("u.parquet", "d.jsonl"))
    assert (done.result.unique, done.result.duplicate) == (2, 1)
    assert parquet.read_table(done.output) == table.take([0, 2])


@pytest.mark.parametrize(
    ("names", "output"),
    [
        (("1.jsonl",), "u.csv"), (("1.tsv",), "u.csv"), (("1.csv", "2.csv"), "u.csv"), (("1.csv", "2.jsonl"), "u.csv"),
        (("1.jsonl",), "u.parquet"), (("1.parquet", "2.jsonl"), "u.parquet"), (("1.parquet", "2.parquet"), "u.parquet"),
    ],
)  # fmt: skip
def test_rows_that_an_output_cannot_hold_are_refused_and_nothing_is_left(
    run: Run, tmp_path: Path, names: tuple[str, ...], output: str
) -> None:
    for name, title in zip(names, ("title", "titel"), strict=False):
        path = tmp_path / name
        if path.suffix == ".parquet":
            parquet.write_table(pa.table({"id": ["1"], title: ["x y z"]}), path)
        elif path.suffix == ".jsonl":
            write(path, [story(1)])
        else:
            mark = "\t" if path.suffix == ".tsv" else ","
            write(path, [f"id{mark}{title}".encode(), f"1{mark}x y z".encode()])
    with pytest.raises(InputError, match=r"only rows of .* inputs that all have the same columns; name it .jsonl"):
        run(*(tmp_path / name for name in names), names=(output, "d"))
    assert list((tmp_path / "out").iterdir()) == []
