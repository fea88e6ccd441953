"""Several files are read in the order of their dates, a killed run takes up its own, and it is said."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stream_dedup.batch.filter import FilterStep
from stream_dedup.batch.input_order import order_by_time
from stream_dedup.cli.main import app
from stream_dedup.settings import load_settings
from tests.batch.conftest import Outcome
from tests.batch.feed import line, story, write
from tests.batch.test_filter_state import stop

Run = Callable[..., Outcome]
YEAR = -365 * 24  # hours before START


@pytest.fixture
def years(tmp_path: Path) -> tuple[Path, Path]:
    """The later year's file and the earlier one's."""
    later = write(tmp_path / "a.jsonl", [story(n, n / 60) for n in range(60)])
    earlier = write(tmp_path / "b.jsonl", [story(n, YEAR + n / 60) for n in range(100, 160)])
    return later, earlier


def ordered(*paths: Path | str) -> list[str]:
    return order_by_time([str(path) for path in paths], load_settings())


def test_files_of_several_years_are_read_in_the_order_of_their_dates(run: Run, years: tuple[Path, Path]) -> None:
    later, earlier = years
    turned, right = run(later, earlier, to="turned"), run(earlier, later, to="right")
    assert turned.bytes == right.bytes
    assert (list(turned.result.order), list(right.result.order)) == ([str(earlier), str(later)], [])
    assert turned.result.odd_times["late"] == 0


def test_within_a_window_the_order_given_holds(tmp_path: Path) -> None:
    monday = write(tmp_path / "monday", [story(1, 0)])
    tuesday = write(tmp_path / "tuesday", [story(2, 24)])
    assert ordered(tuesday, monday) == [str(tuesday), str(monday)]


def test_a_dozen_wrong_dates_at_the_beginning_move_no_file(years: tuple[Path, Path], tmp_path: Path) -> None:
    later, earlier = years
    wrong = [line(f"w{n}", "T", "x", published="1975-01-01") for n in range(12)]
    mixed = write(tmp_path / "mixed", [*wrong, *later.read_bytes().splitlines()])
    assert ordered(earlier, mixed) == [str(earlier), str(mixed)]
    assert ordered(mixed, earlier) == [str(earlier), str(mixed)]


def test_packed_files_are_ordered_too(years: tuple[Path, Path], tmp_path: Path) -> None:
    later, earlier = years
    packed = tmp_path / "c.jsonl.gz"
    packed.write_bytes(gzip.compress(later.read_bytes()))
    assert ordered(packed, earlier) == [str(earlier), str(packed)]


def test_what_has_no_dates_or_cannot_be_read_twice_keeps_its_place(years: tuple[Path, Path], tmp_path: Path) -> None:
    later, earlier = years
    undated = write(tmp_path / "undated", [story(1, None), b"{broken"])
    for one in ("-", undated, "/dev/null"):
        assert ordered(later, one, earlier) == [str(later), str(one), str(earlier)]
    assert ordered(later) == [str(later)]


def test_a_killed_run_goes_on_in_its_own_order(run: Run, years: tuple[Path, Path], tmp_path: Path) -> None:
    later, earlier = years
    expected = run(later, earlier, to="expected").bytes
    stop(run, later, earlier, step=FilterStep.COMMIT, time=4, state=tmp_path / "state", to="killed")
    # The file that it has not come to says by now that it is the older one.
    oldest = [story(n, 3 * YEAR) for n in range(200, 240)]
    content, modified = later.read_bytes(), later.stat().st_mtime_ns
    write(later, [*oldest, *content.splitlines()])
    stop(run, later, earlier, step=FilterStep.COMMIT, time=2, state=tmp_path / "state", to="killed")
    later.write_bytes(content)
    os.utime(later, ns=(modified, modified))
    outcome = run(later, earlier, state=tmp_path / "state", to="killed")
    assert outcome.bytes == expected
    assert list(outcome.result.order) == [str(earlier), str(later)]
    again = run(later, earlier, state=tmp_path / "state", to="killed")
    assert (again.bytes, again.result.resumed) == (expected, 120)


def test_it_is_said_in_which_order_they_were_read(years: tuple[Path, Path], tmp_path: Path) -> None:
    names = [str(one) for one in years]
    outputs = ["--output", str(tmp_path / "out"), "--duplicates", str(tmp_path / "held")]
    printed = CliRunner().invoke(app, ["filter", *names, *outputs])
    assert f"read in the order of their dates, not as given: {names[1]}, {names[0]}" in printed.output
    row = json.loads(CliRunner().invoke(app, ["filter", *names, *outputs, "--json", "--force"]).stdout)
    assert row["order"] == [names[1], names[0]]


def test_the_window_decides_how_far_back_is_too_far(years: tuple[Path, Path]) -> None:
    settings = load_settings(window={"length": "400d"})
    given = [str(one) for one in years]
    assert order_by_time(given, settings) == given
