"""Dicts, frames and asynchronous sources of a script are read as the commands read files, and give themselves back."""

import asyncio
import copy
import json
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest

from stream_dedup import Deduplicator, Item, StreamDedupWarning, UsageError, filter_files, load_settings
from stream_dedup.script_rows import RowReader, chosen, rows_of
from stream_dedup.settings import ItemSettings
from tests.test_script import START, TEXT, asynchronous

ROOT = Path(__file__).parents[1]
ROWS: list[dict[str, Any]] = [
    {"id": 1, "title": "Elm bridge opens", "text": TEXT, "published": "2026-03-01"},
    {"id": 2, "title": "Elm bridge opens", "text": TEXT, "published": "2026-03-02"},
    {"id": 3, "title": "Council votes on tram", "text": "The line to the harbour was voted down.", "published": None},
]

LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.fixture
def dedup() -> Iterator[Deduplicator]:
    with Deduplicator() as made:
        yield made


# -- dicts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        {"guid": "urn:1", "title": "T", "description": "<p>It &amp; more.", "pubDate": "Sun, 01 Mar 2026 00:00:00 GMT"},
        {"@id": "urn:1", "headline": "T", "articleBody": "It &amp; more.", "datePublished": datetime(2026, 3, 1)},
        {"id": "urn:1", "title": "T", "text": "It & more.", "published": datetime(2026, 3, 1, tzinfo=UTC)},
        {"id": "urn:1", "title": "T", "text": "It & more.", "time": 1_772_323_200_000, "published": "1999-01-01"},
        {"id": "urn:1", "title": "T", "text": "It & more.", "time": "2026-03-01T00:00Z", "other": object()},
        {"id": "urn:1", "title": "T", "text": "It & more.", "time": datetime(2026, 3, 1)},
        {"id": "urn:1", "title": "T", "text": "It & more.", "published": np.int64(1_772_323_200), "x": float("nan")},
    ],
)
def test_a_row_is_read_by_the_names_of_any_preset(row: dict[str, Any]) -> None:
    assert RowReader(ItemSettings())(row) == Item("urn:1", "T", "It & more.", "", 1_772_323_200_000)


def test_a_script_and_the_command_let_the_same_rows_through(tmp_path: Path, dedup: Deduplicator) -> None:
    lines = [json.dumps(row) + "\n" for row in ROWS]
    (tmp_path / "in.jsonl").write_text("".join(lines))
    filter_files([tmp_path / "in.jsonl"], tmp_path / "out.jsonl", None, settings=load_settings())
    assert [json.dumps(row) + "\n" for row in dedup.filter(ROWS)] == [lines[0], lines[2]]
    assert (tmp_path / "out.jsonl").read_text() == lines[0] + lines[2]


def test_the_settings_name_the_fields_of_a_row() -> None:
    settings = load_settings(item={"preset": "text", "fields": {"title": "kop", "text": "tekst"}})
    with Deduplicator(settings) as dedup:
        assert len(list(dedup.filter([{"id": "1", "kop": "Brug open", "tekst": "De brug is open."}]))) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "1", "title": "T", "time": START // 1000}, "looks like seconds"),
        ({"id": "1", "title": "T", "loop": LOOP}, "cannot be written as JSON"),
    ],
)
def test_a_row_that_cannot_be_meant_is_refused(dedup: Deduplicator, row: dict[Any, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        list(dedup.filter([row]))


def test_a_row_that_is_left_out_is_named(dedup: Deduplicator) -> None:
    with pytest.warns(StreamDedupWarning, match="an item without an id is left out, .* title must be a string, not 7"):
        assert list(dedup.filter([{"title": 7}])) == []


# -- frames --------------------------------------------------------------------------------------------------


def test_a_pandas_frame_keeps_its_index_and_columns(dedup: Deduplicator) -> None:
    frame = pandas.DataFrame(ROWS, index=["a", "b", "c"])
    frame["published"] = pandas.to_datetime(frame["published"])
    kept = dedup.filter_frame(frame)
    pandas.testing.assert_frame_equal(kept, frame.loc[["a", "c"]])


def test_a_polars_frame_keeps_its_columns(dedup: Deduplicator) -> None:
    frame = polars.DataFrame(ROWS)
    assert dedup.filter_frame(frame).equals(frame[[0, 2]])


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame])
def test_a_frame_gets_its_verdicts_as_columns(dedup: Deduplicator, make: Any) -> None:
    names = {"id": "article_id", "title": "headline", "text": "body"}
    frame = make([{names.get(name, name): value for name, value in row.items()} for row in ROWS])
    judged = dedup.filter_frame(frame, verdicts=True)
    assert list(judged["verdict"]) == ["unique", "duplicate", "unique"]
    assert list(judged["original"]) == [None, "1", None]
    assert list(judged.columns) == [*frame.columns, "verdict", "original", "story", "novelty"]
    with pytest.raises(UsageError, match="has a column 'verdict' already"):
        dedup.filter_frame(judged, verdicts=True)


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame])
def test_a_frame_of_unknown_columns_is_refused_and_the_cure_works(make: Any) -> None:
    frame = make([{"nr": f"a{n}", "kop": f"Brug {n} open", "tekst": TEXT} for n in range(2)])
    with Deduplicator() as dedup, pytest.raises(UsageError, match="columns are nr, kop, tekst: rename"):
        dedup.filter_frame(frame)
    with Deduplicator(load_settings(item={"fields": {"title": "kop", "text": "tekst", "id": "nr"}})) as dedup:
        assert len(dedup.filter_frame(frame)) == 1


def test_updates_are_told(dedup: Deduplicator) -> None:
    more = " The council voted on Friday to close the old ferry at the end of June, 212 days earlier than planned."
    rows = [{"id": "1", "title": "Elm bridge opens", "text": text} for text in (TEXT, TEXT + more)]
    assert [str(verdict.kind) for _, verdict in dedup.decide(rows)] == ["unique", "update"]
    assert list(dedup.filter(rows)) == [], "decide remembers as filter does"


def test_warnings_point_at_the_line_of_the_caller(dedup: Deduplicator) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        list(dedup.filter([{"id": "1", "title": ""}, {"id": "2", "title": ""}]))
        dedup.judge([Item("3", "Elm bridge opens", TEXT, "", START // 1000)])
    assert {Path(each.filename).name for each in warned} == {Path(__file__).name}
    assert len(warned) == 3


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame])
def test_the_rows_of_a_frame_are_python_values(make: Any) -> None:
    (row,) = rows_of(make([{"id": 1, "title": None, "n": 2.5}]))
    assert row == {"id": 1, "title": None, "n": 2.5}
    assert len(chosen(make([{"id": 1}]), [])) == 0


def test_what_is_no_frame_is_refused_and_no_library_imported(dedup: Deduplicator) -> None:
    with pytest.raises(UsageError, match="list is no data frame"):
        dedup.filter_frame(ROWS)
    code = "import sys, stream_dedup.script; print({'pandas', 'polars'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


# -- asynchronous sources --------------------------------------------------------------------------------------


def test_the_loop_runs_while_a_batch_is_judged(dedup: Deduplicator, monkeypatch: pytest.MonkeyPatch) -> None:
    ticked, judge = threading.Event(), dedup.judge

    def slow(*arguments: Any) -> Any:
        ticked.clear()
        assert ticked.wait(20), "the loop stood still"
        return judge(*arguments)

    async def tick() -> None:
        while True:
            ticked.set()
            await asyncio.sleep(0.001)

    async def run() -> int:
        ticking = asyncio.create_task(tick())
        found = [row async for row in dedup.afilter(asynchronous(ROWS))]
        ticking.cancel()
        return len(found)

    monkeypatch.setattr(dedup, "judge", slow)
    assert asyncio.run(run()) == 2


def test_a_plain_list_is_no_asynchronous_source(dedup: Deduplicator) -> None:
    async def run(items: Any) -> None:
        async for _ in dedup.afilter(items):
            pass

    with pytest.raises(UsageError, match="for any other use `filter`"):
        asyncio.run(run(ROWS))


# -- types and pickles -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [pickle.dumps, copy.copy, copy.deepcopy])
def test_pickling_names_the_other_way(dedup: Deduplicator, how: Any) -> None:
    with pytest.raises(TypeError, match="`save` writes its state"):
        how(dedup)


SCRIPT = """
import asyncio
from collections.abc import AsyncIterator
from stream_dedup import Batch, Deduplicator, Item, Verdict, find_pairs, load_settings

settings = load_settings()
with Deduplicator(settings) as dedup:
    batch: Batch = dedup.judge([Item.of(id="1", title="T")])
    verdicts: list[Verdict] = list(batch.verdicts)
    dedup.apply(batch)
    titles: list[str] = [row["title"] for row in dedup.filter([{"id": "2", "title": "U"}])]
    items: list[Item] = list(dedup.filter([Item("3", "V", "", "", 0)]))

async def feed() -> AsyncIterator[dict[str, str]]:
    yield {"id": "4"}

async def run(dedup: Deduplicator) -> list[dict[str, str]]:
    return [row async for row in dedup.afilter(feed())]

reveal_type(find_pairs)
wrong: int = dedup.filter(items)
"""


def test_a_users_script_is_checked_strictly(tmp_path: Path) -> None:
    """The package is typed (PEP 561): mypy finds the one mistake, and nothing else to complain of."""
    assert (ROOT / "stream_dedup" / "py.typed").exists()
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "script.py"]
    command.append(f"--cache-dir={ROOT / '.mypy_cache' / 'script'}")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, done.stdout
    assert 'variable has type "int"' in errors[0]
    assert "note: Revealed type is" in done.stdout
    assert "def (" in done.stdout, "find_pairs has a signature"
