"""The Deduplicator of scripts: any iterable, one-line errors, everything in one call."""

import asyncio
import pydoc
import re
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, redirect_stdout
from datetime import UTC, date, datetime, timedelta, timezone
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stream_dedup
from stream_dedup import Decoder, Deduplicator, Item, Settings, StreamDedupWarning, Tombstone, UsageError
from stream_dedup.errors import BadItem, ConfigError
from tests.tools.batch.feed import prose

ROOT = Path(__file__).parents[1]

START = 1_772_323_200_000  # 2026-03-01
TEXT = "The bridge over the Elm opened on Monday after two years of work, the mayor said."


def an_item(name: str, title: str = "Elm bridge opens after two years", **more: Any) -> Item:
    return Item(**{"id": name, "title": title, "text": TEXT, "source": "a.example", "time": START} | more)


ASTEROID = "Astronomers measured how fast a small rock turns around itself, and found it the fastest of its size."


@pytest.fixture
def dedup() -> Iterator[Deduplicator]:
    with Deduplicator() as instance:
        yield instance


def kinds(dedup: Deduplicator, items: Any) -> list[str]:
    return [str(verdict.kind) for verdict in dedup.judge(items).verdicts]


# -- judge ----------------------------------------------------------------------------------------------------


def test_judge_takes_any_iterable(dedup: Deduplicator) -> None:
    items = [an_item("1"), an_item("2")]
    for given in (items, tuple(items), iter(items), (item for item in items), dict.fromkeys("12", 0).keys() and items):
        assert kinds(dedup, given) == ["unique", "duplicate"]
    assert len(dedup.prepare(item for item in items)) == 2


WRONG = [
    (None, "item 0 of those given: None is no item"),
    ({"id": "1", "title": "x"}, "a dict is no item; Item.of"),
    ("text", "str 'text' is no item; Item.of"),
    (7, "int 7 is no item"),
    (an_item(None), "id must be a string, not None"),  # type: ignore[arg-type]
    (an_item(7), "id must be a string, not int 7; give str(...) of it"),  # type: ignore[arg-type]
    (an_item("1", None), "item '1': title must be a string, not None; give str(...) of it, or ''"),  # type: ignore[arg-type]
    (an_item("1", text=None), "text must be a string, not None"),
    (an_item("1", text=b"x"), "text must be a string, not bytes"),
    (an_item("1", source=None), "source must be a string"),
    (an_item("1", time=None, partition="0"), "partition must be a whole number below"),
    (an_item("1", time=date(2026, 3, 1)), "time must be milliseconds since 1970 or a datetime"),
    (an_item("1", time="2026-03-01"), "datetime.fromisoformat"),
    (an_item("1", time=True), "time must be milliseconds"),
    (an_item("1", time=float("nan")), "time must be milliseconds"),
    (an_item("1", time=2**62), "time must be milliseconds"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_item_is_refused_in_one_line(given: Any, message: str, dedup: Deduplicator) -> None:
    with pytest.raises(UsageError) as caught:
        dedup.judge([given])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [(given, "for a single item write") for given in (None, 7, {"id": "1"}, an_item("1"))]
    + [(given, "to make an item of a line of a file use Decoder") for given in ("news.jsonl", Path("news.jsonl"))],
)
def test_values_other_than_lists_of_items_are_refused(given: Any, message: str, dedup: Deduplicator) -> None:
    with pytest.raises(UsageError, match=f"is not a list of items; {message}"):
        next(dedup.filter(given))


def test_the_error_for_a_file_s_record_names_the_decoder() -> None:
    record = {"id": "1", "title": "Elm bridge", "text": "It opened.", "published": "2026-03-01"}
    with pytest.raises(UsageError, match=r"no field 'published'.* Decoder\(load_settings\(\).item\)\(line, None"):
        Item.of(record)


def test_items_with_neither_id_nor_position_are_refused(dedup: Deduplicator) -> None:
    """They would all count as versions of one item."""
    decode = Decoder(Settings().item)
    line = b'{"title": "Elm bridge", "text": "It opened."}'
    with pytest.raises(UsageError, match="an item without an id, and all such items would count"):
        dedup.judge([decode(line, None, None)])
    assert dedup.judge([decode(line, None, None, 0, 7)]).verdicts[0].id == "0:7"


def test_settings_of_a_wrong_type_are_refused() -> None:
    with pytest.raises(UsageError, match=r"must come from load_settings\(FILE\), not be 'news.toml'"):
        Deduplicator("news.toml")  # type: ignore[arg-type]


def test_the_wrong_one_among_many_is_named(dedup: Deduplicator) -> None:
    with pytest.raises(UsageError, match="item 2 of those given: None"):
        dedup.judge([an_item("1"), BadItem("json", "cut"), None])  # type: ignore[list-item]


def test_datetimes_and_numpy_s_numbers_are_times(dedup: Deduplicator) -> None:
    moment = datetime(2026, 3, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    naive = datetime(2026, 3, 1)  # counts as UTC, as it does in a record
    items = [an_item("1", time=time) for time in (moment, naive, np.int64(START), float(START), START)]
    for item in items:
        batch = dedup.judge([item])
        assert batch.delta.signatures["time"].tolist() == [START]


@pytest.mark.filterwarnings("always")
def test_a_time_in_seconds_is_warned_of_once(dedup: Deduplicator) -> None:
    items = [an_item("1", time=START // 1000), an_item("2", time=START // 1000)]
    with pytest.warns(
        StreamDedupWarning, match=r"item '1': time 1772323200 looks like seconds: .*2026-03-01"
    ) as warned:
        dedup.judge(items)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dedup.judge(items)


# -- Item.of --------------------------------------------------------------------------------------------------


def test_item_of_takes_the_values_that_scripts_have() -> None:
    moment = datetime(2026, 3, 1, 0, 0, 0, 7000, tzinfo=UTC)
    row = {"id": 7, "title": "T", "text": None, "source": "https://www.Post.example/a"}
    item = Item.of(row, time=moment)
    assert item == Item("7", "T", "", "post.example", START + 7)
    assert Item.of(id="1").time == -1
    assert Item.of(id="1", time=datetime(1965, 1, 1, tzinfo=UTC)).time < 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"title": "x"}, "an item needs an id"),
        ({"id": "1", "headline": "x", "body": "y"}, "has no field 'body', 'headline'; it has id, title, text"),
        ({"id": "1", "title": 7}, "title must be a string, not int 7"),
        ({"id": "1", "time": START // 1000}, "looks like seconds"),
        ({"id": "1", "time": START * 1000}, "looks like microseconds"),
        ({"id": "1", "time": START * 10**6}, "looks like nanoseconds"),
        ({"id": True}, "id must be a string"),
    ],
)
def test_item_of_refuses_other_values(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Item.of(fields)
    assert message in str(caught.value)


def test_an_aware_datetime_of_1970_is_accepted() -> None:
    assert Item.of(id="1", time=datetime(1970, 1, 20, tzinfo=UTC)).time == 19 * 86_400_000


# -- apply ----------------------------------------------------------------------------------------------------


def test_a_batch_is_applied_once_and_in_order(dedup: Deduplicator) -> None:
    first, second = dedup.judge([an_item("1")]), dedup.judge([an_item("2")])
    dedup.apply(first)
    with pytest.raises(UsageError, match="applied before"):
        dedup.apply(first)
    with pytest.raises(UsageError, match="another batch was applied after this one was judged"):
        dedup.apply(second)
    assert len(dedup) == 1
    dedup.apply(dedup.judge([an_item("2")]))
    with Deduplicator() as other, pytest.raises(UsageError, match="another Deduplicator"):
        dedup.apply(other.judge([an_item("3")]))
    with pytest.raises(UsageError, match="takes the batch that judge returned, not list"):
        dedup.apply([an_item("1")])  # type: ignore[arg-type]


# -- filter ---------------------------------------------------------------------------------------------------


def other(name: str) -> Item:
    return an_item(name, ASTEROID[:40], text=ASTEROID)


def source(items: Iterable[Any], failure: Exception | None = None) -> Iterator[Any]:
    yield from items
    if failure is not None:
        raise failure


async def asynchronous(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        await asyncio.sleep(0)
        yield item


Filter = Callable[..., list[Any]]


@pytest.fixture(params=["filter", "afilter"])
def kept(request: pytest.FixtureRequest, dedup: Deduplicator) -> Filter:
    """What `filter` and `afilter` let through of these items; `stop`: how many are consumed."""

    def by_filter(items: Iterable[Any], stop: int = 99, **options: Any) -> list[Any]:
        return list(islice(dedup.filter(items, **options), stop))

    async def by_afilter(items: Iterable[Any], stop: int = 99, **options: Any) -> list[Any]:
        found: list[Any] = []
        async with aclosing(dedup.afilter(asynchronous(items), **options)) as filtered:  # type: ignore[type-var]
            async for item in filtered:
                found.append(item)
                if len(found) == stop:
                    break
        return found

    return by_filter if request.param == "filter" else lambda *items, **more: asyncio.run(by_afilter(*items, **more))


@pytest.mark.parametrize("batch", [1, 2, 256])
def test_filter_lets_through_in_order_and_remembers(kept: Filter, batch: int) -> None:
    items = [an_item("1"), other("2"), an_item("3"), other("4")]
    assert [item.id for item in kept(iter(items), batch=batch)] == ["1", "2"]
    assert kept(items, batch=batch) == []


def test_filter_gives_dicts_back_as_they_came(kept: Filter) -> None:
    rows = [{"id": n, "title": "Elm bridge opens", "text": TEXT} for n in (1, 2)]
    (row,) = kept(rows)
    assert row is rows[0]
    with pytest.warns(StreamDedupWarning, match="name them in"):
        assert kept([{"id": 3, "kop": "x"}]) == []
    with pytest.raises(UsageError, match="batch must be at least 1"):
        kept([], batch=0)


def test_items_after_an_early_stop_are_not_remembered(kept: Filter) -> None:
    items = [an_item("1"), other("2"), an_item("3")]
    assert [item.id for item in kept(items, 1)] == ["1"]
    assert [item.id for item in kept(items)] == ["2"]


def test_items_before_a_failure_of_their_source_are_remembered(kept: Filter, dedup: Deduplicator) -> None:
    with pytest.raises(ConnectionError):
        kept(source([an_item("1")], ConnectionError("gone")))
    assert kinds(dedup, [an_item("2")]) == ["duplicate"]


def test_a_call_amid_a_filter_of_the_same_thread_is_refused(dedup: Deduplicator, tmp_path: Path) -> None:
    first = dedup.filter([an_item("1"), other("2")])
    next(first)
    calls: list[Callable[[], Any]] = [
        lambda: dedup.check(an_item("3")), lambda: list(dedup.filter([other("3")])), lambda: dedup.save(tmp_path / "s"),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(UsageError, match="what it has yielded is not remembered yet: consume it, or close it"):
            call()
    assert [item.id for item in first] == ["2"]


# -- check ----------------------------------------------------------------------------------------------------


def test_check_judges_and_remembers_one_item(dedup: Deduplicator) -> None:
    verdicts = [dedup.check(item) for item in ({"id": 1, "title": "Elm bridge opens", "text": TEXT}, an_item("2"))]
    assert [(str(each.kind), each.forward) for each in verdicts] == [("unique", True), ("duplicate", False)]
    assert verdicts[1].original is not None
    assert dedup.check(Item("3", "", "", "", START)).reason.startswith("empty")
    assert dedup.check(Tombstone("1", START)).forward
    assert dedup.check(an_item("4")).forward, "its original was withdrawn"


def test_the_settings_that_most_need_are_arguments() -> None:
    with Deduplicator(novelty="cautious", window="30d", sources={"prefer": ["wire.example"]}) as dedup:
        assert dedup.settings.decision.threshold == 0.25
        assert dedup.settings.window.length.days == 30
        assert dedup.settings.sources.prefer == ("wire.example",)
        assert dedup.check(an_item("1")).forward
        assert str(dedup.check(an_item("2", source="wire.example")).kind) == "update"
    with pytest.raises(ConfigError, match="novelty: write cautious, balanced, eager or a number"):
        Deduplicator(novelty="careful")
    with pytest.raises(UsageError, match=r"one place: load_settings\(FILE, \*\*\{'window': \{'length': '1d'"):
        Deduplicator(Settings(), window="1d")


def test_help_begins_with_what_users_call() -> None:
    text = pydoc.plain(pydoc.render_doc(Deduplicator))
    firsts = re.findall(r"^ \|  (\w+)\(", text[text.index("Methods defined here") :], re.M)
    assert firsts[:4] == ["check", "filter", "decide", "save"]
    assert text.index("check(item)") < text.index("load(file)") < text.index("Methods defined here")
    assert "inherited" not in text
    assert "pending" not in text


# -- what has no id, what has expired ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("always")
def test_an_item_without_an_id_gets_its_link_or_position(dedup: Deduplicator, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"title": "Elm bridge opens", "text": TEXT, "url": "https://post.example/1"},
        {"title": ASTEROID[:40], "text": ASTEROID},
        {"title": "Council votes", "text": "The line to the harbour was voted down on Friday."},
    ]
    with pytest.warns(StreamDedupWarning, match="its link, or else its position") as warned:
        assert [verdict.id for _, verdict in dedup.decide(rows)] == ["https://post.example/1", "row 1", "row 2"]
    assert len(warned) == 1
    dedup.save(tmp_path / "seen")
    more = {"title": "Frost in the valley", "text": "The harbour froze over in the night, for the first time."}
    with Deduplicator.load(tmp_path / "seen") as loaded:
        with pytest.warns(StreamDedupWarning):
            verdict = loaded.check(more)
        assert verdict.id == "row 3", "no earlier item has this id"


@pytest.mark.filterwarnings("always")
def test_save_and_load_say_what_has_expired(dedup: Deduplicator, tmp_path: Path) -> None:
    day = 86_400_000
    rows = [Item(str(n), prose(n, 8), prose(-n), "a.example", START + n * day) for n in range(50)]
    assert len(list(dedup.filter(rows))) == 50
    said = "38 originals that passed have expired: they are older than the window, 7 days back to 2026-04-"
    with pytest.warns(StreamDedupWarning, match=said) as warned:
        dedup.save(tmp_path / "seen")
    assert len(warned) == 1
    with pytest.warns(StreamDedupWarning, match=said):
        Deduplicator.load(tmp_path / "seen").close()
    with Deduplicator(window="60d") as longer, warnings.catch_warnings():
        warnings.simplefilter("error")
        list(longer.filter(rows))
        longer.save(tmp_path / "seen")
    with Deduplicator.load(tmp_path / "seen", novelty="eager") as loaded:
        assert (loaded.settings.window.length.days, loaded.settings.decision.threshold) == (60, 0.5)
        assert list(loaded.filter(rows)) == []


# -- warnings -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("always")
def test_filter_warns_of_items_that_it_leaves_out(kept: Filter) -> None:
    empty = [Item(str(n), "", "", "", START) for n in range(3)]
    with pytest.warns(StreamDedupWarning) as warned:
        assert [item.id for item in kept([an_item("1"), *empty], batch=2)] == ["1"]
    assert "item '0' is left out, it cannot be judged: empty: neither headline nor text" in str(warned[0].message)
    assert "3 items left out" in str(warned[-1].message)
    assert len(warned) == 2


def test_any_public_path_may_be_a_string(tmp_path: Any) -> None:
    from stream_dedup import filter_files, load_settings
    from stream_dedup.tools.batch.pairs import find_pairs

    folder = str(tmp_path)
    (tmp_path / "in.jsonl").write_text('{"id": "1", "title": "Elm bridge opens", "text": "On Monday."}\n')
    (tmp_path / "settings.toml").write_text('[window]\nlength = "3d"\n')
    settings = load_settings(folder + "/settings.toml")
    assert settings.window.length.days == 3
    done = filter_files(
        [folder + "/in.jsonl"], folder + "/out", folder + "/held", settings=settings, state=folder + "/state"
    )
    assert done.unique == 1
    found = find_pairs([folder + "/in.jsonl"], folder + "/pairs", folder + "/clusters", settings=settings)
    assert found.items == 1


def printed(example: str, names: dict[str, Any]) -> str:
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(example, "docs/python.md", "exec"), names)  # noqa: S102 - our own page
    return out.getvalue()


def test_the_examples_of_the_page_print_their_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    blocks = r"```(?:python)?\n(.*?)```"
    first, _, second, output = re.findall(blocks, page, re.S)[:4]
    names: dict[str, Any] = {}
    runs = [printed(example, names) for example in (first, second, second)]  # the third has seen its items
    assert runs[1:] == [output, ""]
    later = re.findall(blocks, page.split("A data frame of pandas")[1], re.S)
    for example, output in (later[:2], later[2:4]):  # frames and asynchronous sources, and the Decoder
        assert printed(example, names) == output


def test_all_public_names_exist_and_completion_offers_them() -> None:
    assert all(hasattr(stream_dedup, name) for name in stream_dedup.__all__)
    assert set(stream_dedup.__all__) <= set(dir(stream_dedup))
