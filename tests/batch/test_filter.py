"""The content of the two files, and the arguments that are refused before anything is written."""

import base64
import gzip
import io
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from stream_dedup.batch.filter import FilterProgress, FilterStep, filter_files
from stream_dedup.errors import InputError, UsageError
from stream_dedup.settings import load_settings
from tests.batch.conftest import Outcome
from tests.batch.feed import feed, line, story, write

Run = Callable[..., Outcome]


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


def test_in_shadow_mode_the_output_is_the_input_and_the_duplicates_are_as_without(tmp_path: Path) -> None:
    lines = feed(200)
    source, out, held = write(tmp_path / "in", lines), tmp_path / "out", tmp_path / "held"
    results, rows = {}, {}
    for shadow in (False, True):
        settings = load_settings(policy={"shadow": shadow})
        results[shadow] = filter_files([source], out, held, settings=settings, clock=lambda: 1.7e9)
        rows[shadow] = held.read_bytes()
    assert out.read_bytes().splitlines() == lines
    assert rows[True] == rows[False]
    assert replace(results[True], seconds=0) == replace(results[False], seconds=0)


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


def test_a_copy_is_found_across_inputs_however_they_are_packed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = feed(90)
    plain = run(write(tmp_path / "in", lines))
    packed = [tmp_path / "1.gz", tmp_path / "2.zst"]
    packed[0].write_bytes(gzip.compress(b"\n".join(lines[:30])))
    packed[1].write_bytes(zstandard.compress(b"\n".join(lines[30:60])))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n".join(lines[60:]))))
    mixed = run(*packed, "-", to="mixed")
    assert mixed.lines == plain.lines
    assert [row["id"] for row in mixed.rows] == [row["id"] for row in plain.rows]
    assert {row["file"] for row in mixed.rows} == {*map(str, packed), "-"}


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


def test_a_failed_run_leaves_nothing_behind(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"\n".join(feed(30)))[:-9])
    with pytest.raises(InputError, match="cut short"):
        run(tmp_path / "in.gz")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_link_stays_a_link(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "unique.jsonl").symlink_to(tmp_path / "real.jsonl")
    run(write(tmp_path / "in", feed(5)))
    assert (tmp_path / "out" / "unique.jsonl").is_symlink()
    assert (tmp_path / "real.jsonl").stat().st_size > 0


# -- refused -------------------------------------------------------------------------------------------------


def refuse(match: str, *inputs: Path | str, output: Path, duplicates: Path | None, state: Path | None = None) -> None:
    with pytest.raises((InputError, UsageError), match=match):
        filter_files(list(inputs), output, duplicates, settings=load_settings(), state=state)


def test_an_output_never_overwrites_an_input(tmp_path: Path) -> None:
    path = write(tmp_path / "in", feed(5))
    os.link(path, tmp_path / "hard")
    (tmp_path / "soft").symlink_to(path)
    for same in (path, tmp_path / "hard", tmp_path / "soft", tmp_path / "x" / ".." / "in"):
        refuse("is an input", path, output=same, duplicates=tmp_path / "d")
        refuse("is an input", path, output=tmp_path / "u", duplicates=same, state=tmp_path / "state")
    assert path.read_bytes().splitlines() == feed(5)


def test_the_two_outputs_are_two_files(tmp_path: Path) -> None:
    """`refuse` asserts the error and its message."""
    path = write(tmp_path / "in", feed(5))
    refuse("are both", path, output=tmp_path / "u", duplicates=tmp_path / "u")
    write(tmp_path / "u", [])
    (tmp_path / "link").symlink_to(tmp_path / "u")
    refuse("are both", path, output=tmp_path / "u", duplicates=tmp_path / "link")


def test_what_cannot_be_cut_is_no_output_of_a_run_with_a_state(tmp_path: Path) -> None:
    path, state = write(tmp_path / "in", feed(5)), tmp_path / "state"
    refuse("null cannot be cut after a kill", path, output=tmp_path / "u", duplicates=Path(os.devnull), state=state)
    refuse("standard output cannot", path, output=Path("-"), duplicates=tmp_path / "d", state=state)
    refuse("parquet cannot be cut after a kill", path, output=tmp_path / "u.parquet", duplicates=None, state=state)
    assert not state.exists()


def test_a_directory_is_no_output(tmp_path: Path) -> None:
    """`refuse` asserts the error and its message."""
    path = write(tmp_path / "in", feed(5))
    refuse("is a directory", path, output=tmp_path, duplicates=tmp_path / "d")
    refuse("no directory", path, output=tmp_path / "none" / "u", duplicates=tmp_path / "d")


def test_outputs_stay_out_of_the_state_directory(tmp_path: Path) -> None:
    """`refuse` asserts the error and its message."""
    path, state = write(tmp_path / "in", feed(5)), tmp_path / "state"
    state.mkdir()
    refuse("state directory", path, output=state / "journal", duplicates=tmp_path / "d", state=state)


def test_inputs_that_cannot_be_read_are_named_before_anything_is_written(tmp_path: Path) -> None:
    path, out = write(tmp_path / "in", feed(5)), tmp_path / "out"
    out.mkdir()
    refuse("no file .*nowhere", path, tmp_path / "nowhere", output=out / "u", duplicates=out / "d")
    refuse("is a directory", path, tmp_path, output=out / "u", duplicates=out / "d")
    refuse("only once", "-", "-", output=out / "u", duplicates=out / "d")
    assert list(out.iterdir()) == []


def test_two_runs_at_once_do_not_write_one_file(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "in", feed(10))

    def start_another(step: FilterStep) -> None:
        if step is FilterStep.WRITE:
            with pytest.raises(InputError, match="another process"):
                run(path)

    assert run(path, announce=start_another).result.items == 10
