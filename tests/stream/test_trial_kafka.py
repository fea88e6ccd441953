"""`trial` on a real Kafka: the verdicts are a worker's, nothing is left behind, and each way it can fail is said."""

import gc
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient
from typer.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.dedup.verdict import Kind
from stream_dedup.demo.embedded import EmbeddedKafka, free_ports
from stream_dedup.errors import InputError, StreamDedupError, StreamError, TopicError, UsageError
from stream_dedup.settings import Settings, load_settings
from stream_dedup.stream.live_reader import LiveReader
from stream_dedup.stream.trial import Ended, Trial, run_trial
from tests.stream.support import (
    article,
    feed,
    from_scratch,
    made_up,
    make_settings,
    outcome,
    read_all,
    ready,
    run_until,
)

pytestmark = pytest.mark.kafka
LONG_AGO = ("--from", "2023-01-01")  # the test feed is dated 2023
TEXT = "The bridge over the Elm opened on Monday after two years of work, the mayor of the town said at noon."


@pytest.fixture
def settings(kafka: EmbeddedKafka, topic_name: Callable[[str], str]) -> Settings:
    return ready(make_settings(kafka.bootstrap, topic_name))


@pytest.fixture(autouse=True)
def signals() -> Any:
    """The command takes SIGINT and SIGTERM; the tests need them back."""
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


def invoke(settings: Settings, *options: str) -> Any:
    bootstrap = settings.kafka.bootstrap_servers
    args = ["trial", "--bootstrap", bootstrap, "--input", settings.topics.input, *options]
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, args)


def failed(settings: Settings, kind: type[StreamDedupError], *options: str) -> str:
    """The message of the error that it ends with."""
    error = invoke(settings, *options).exception
    assert isinstance(error, kind), repr(error)
    return str(error)


def traces(settings: Settings) -> dict[str, Any]:
    """All that a program could leave on the brokers: groups, topics, and records in them."""
    bootstrap = settings.kafka.bootstrap_servers
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        own = sorted(topic for topic in admin.list_topics() if topic in settings.topics.model_dump().values())
        places = [TopicPartition(topic, one) for topic in own for one in consumer.partitions_for_topic(topic)]
        return {
            "groups": sorted(str(group["group_id"]) for group in admin.list_groups()),
            "topics": sorted(admin.list_topics()),
            "ends": consumer.end_offsets(places),
        }
    finally:
        consumer.close()
        admin.close()


def test_its_verdicts_are_a_worker_s_and_it_leaves_no_trace(settings: Settings) -> None:
    sent = feed(settings, made_up(600))
    before = traces(settings)
    with LiveReader(settings, settings.topics.input) as reading, Trial(settings, settings.topics.input) as trial:
        reading.begin(0)
        verdicts = {}
        while not reading.caught_up:
            records = reading.poll()
            verdicts |= {r.key: v for r, v in zip(records, trial.take(records), strict=True)}
    result = invoke(settings, *LONG_AGO, "--json")
    assert result.exit_code == 0, result.output
    assert traces(settings) == before, "no group, no topic, no record"

    run_until(settings, len(sent))
    came = outcome(settings)
    theirs = came.verdicts()
    for key, verdict in verdicts.items():
        original = verdict.original.id if verdict.original and not verdict.forward else None
        # An update that is let through names its original too.
        if verdict.kind is Kind.UPDATE and verdict.original:
            original = verdict.original.id
        assert theirs[key] == (str(verdict.kind), original)
    assert len(verdicts) == len(sent)
    told = json.loads(result.stdout)
    assert told["items"] == len(sent)
    assert told["held_back"] == len(came.duplicates) > 100
    assert sum(told["stages"].values()) == told["held_back"]
    assert len(told["examples"]) == 10
    held = {record.key.decode() for record in came.duplicates}
    assert {one["held_back"]["id"] for one in told["examples"]} <= held
    assert told["summary"]["filled"]["title"] == len(sent)
    assert told["ended"] == "caught up"


def test_several_partitions_in_the_order_of_time(kafka: EmbeddedKafka, topic_name: Callable[[str], str]) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name), partitions=3)
    feed(settings, made_up(600), partition=None)
    in_time = sorted(read_all(settings, settings.topics.input), key=lambda record: record.timestamp)
    expected = from_scratch(settings, in_time)
    with LiveReader(settings, settings.topics.input) as reading, Trial(settings, settings.topics.input) as trial:
        reading.begin(0)
        verdicts = {}
        while not reading.caught_up:
            records = reading.poll()
            verdicts |= {r.key: v for r, v in zip(records, trial.take(records), strict=True)}
    assert {key: str(verdict.kind) for key, verdict in verdicts.items()} == {
        key: kind for key, (kind, _) in expected.items()
    }


def test_what_it_shows_on_80_columns(settings: Settings) -> None:
    records: list[tuple[bytes | None, bytes | None]] = [
        (b"1", article("1", TEXT, "Elm bridge opens", "post.example")),
        (b"2", article("2", TEXT, f"Elm bridge opens \x1b[31m{' at last' * 9}", "b.example")),
        (b"3", b"no JSON"),
    ]  # fmt: skip
    feed(settings, records)
    result = invoke(settings, *LONG_AGO)
    assert result.exit_code == 0, result.output
    shown = result.stdout
    assert max(map(len, shown.splitlines())) <= 80, shown
    assert "Nothing was written." in shown
    assert "\x1b" not in shown, "what the news say is no command to the terminal"
    for row in ("unique 1", "duplicate 1 33.3 %", "bad 1", "all 3"):
        assert row in " ".join(shown.replace("│", " ").split()), shown
    assert "original   post.example: Elm bridge opens" in shown
    assert "held back  b.example: Elm bridge opens" in shown
    assert "no new words, under a second later" in " ".join(shown.split())
    assert "0/2: json: " in shown
    assert "`stream-dedup sample" in " ".join(shown.split())
    assert "[policy]\n  shadow = true" in shown


def test_from_a_moment_on_and_so_many(settings: Settings) -> None:
    feed(settings, made_up(100))
    told = json.loads(invoke(settings, *LONG_AGO, "--items", "30", "--json").stdout)
    assert (told["items"], told["ended"]) == (30, "items")
    told = json.loads(invoke(settings, "--since", "36500d", "--json").stdout)
    assert told["items"] == 100


def test_it_waits_for_new_items_until_the_time_is_over_or_a_stop(settings: Settings) -> None:
    feed(settings, made_up(10))
    stop = threading.Event()
    with LiveReader(settings, settings.topics.input) as reading, Trial(settings, settings.topics.input) as trial:
        reading.begin(0)

        def tell() -> None:
            if trial.items == 10:
                feed(settings, [(b"new", article("new", "A new text of its own."))])
            elif trial.items == 11:
                stop.set()

        assert run_trial(reading, trial, items=100, seconds=60, stop=stop.is_set, tell=tell) == (Ended.STOPPED, None)
        assert trial.items == 11
        ended = run_trial(reading, trial, items=100, seconds=1, stop=lambda: False)
        assert ended == (Ended.MINUTES, None)


def test_a_stop_by_the_keyboard_shows_what_was_found(settings: Settings) -> None:
    feed(settings, made_up(10))
    timer = threading.Timer(8, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    try:
        told = json.loads(invoke(settings, *LONG_AGO, "--minutes", "5", "--json").stdout)
    finally:
        timer.cancel()
    assert (told["items"], told["ended"]) == (10, "stopped")
    assert time.monotonic() - began < 200


def test_all_bad(settings: Settings) -> None:
    feed(settings, [(None, b"<rss>1</rss>"), (None, b"<rss>2</rss>")])
    result = invoke(settings, *LONG_AGO)
    assert isinstance(result.exception, InputError)
    assert "none of the 2 items" in str(result.exception)
    assert "bad: " in result.stdout
    assert "/0/0: json: " in result.stdout


def test_nothing_there(settings: Settings) -> None:
    assert "is empty; to wait for new items, add --minutes 10" in failed(settings, InputError)
    feed(settings, made_up(3))
    assert "has had no records since" in failed(settings, InputError, "--since", "2h")


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # kafka-python's, of connections that are refused
def test_no_topic_and_no_broker(settings: Settings) -> None:
    wrong = settings.model_copy(update={"topics": settings.topics.model_copy(update={"input": "never-made"})})
    assert "there is no topic never-made" in failed(wrong, TopicError)
    [port] = free_ports(1)
    kafka = settings.kafka.model_copy(update={"bootstrap_servers": f"127.0.0.1:{port}"})
    assert "no broker answers at" in failed(settings.model_copy(update={"kafka": kafka}), StreamError)
    gc.collect()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--since", "2h", "--from", "2024-01-01"), "--since and --from exclude each other"),
        (("--since", "2 fortnights"), "write a number and a unit"),
        (("--from", "yesterday"), "is not a date"),
    ],
)
def test_what_is_asked_wrongly(options: tuple[str, ...], said: str) -> None:
    assert said in failed(load_settings(), UsageError, *options)


def test_a_failure_shows_what_was_found_before(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(settings, made_up(20))
    poll = LiveReader.poll

    def failing(reading: LiveReader) -> Any:
        if reading.caught_up:
            raise StreamError("the brokers no longer answer")
        return poll(reading)

    monkeypatch.setattr(LiveReader, "poll", failing)
    result = invoke(settings, *LONG_AGO, "--minutes", "5", "--json")
    assert "no longer answer" in str(result.exception)
    told = json.loads(result.stdout)
    assert (told["items"], told["ended"]) == (20, "failed")
