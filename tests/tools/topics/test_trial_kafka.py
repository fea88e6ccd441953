"""`trial` on a real Kafka: its verdicts are a worker's, it leaves no trace, and it reports each failure."""

import gc
import json
import signal
import threading
from contextlib import closing
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer, TopicPartition

from stream_dedup.cli.main import app
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import InputError, StreamDedupError, StreamError, TopicError, UsageError
from stream_dedup.settings import Settings
from stream_dedup.tools.demo.embedded import free_ports
from stream_dedup.tools.topics.live_reader import LiveReader
from stream_dedup.tools.topics.trial import Ended, Trial, run_trial
from tests.harness.check import in_headers, outcome
from tests.harness.feed import article, feed, made_up
from tests.harness.topics import administrator
from tests.worker.support import run_until

pytestmark = pytest.mark.kafka
LONG_AGO = ("--since", "9999d")  # the test feed is dated 2023
TEXT = "The bridge over the Elm opened on Monday after two years of work, the mayor of the town said at noon."


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
    """The message of the error that the command ends with."""
    error = invoke(settings, *options).exception
    assert isinstance(error, kind), repr(error)
    return str(error)


def trial_verdicts(settings: Settings) -> dict[bytes | None, Verdict]:
    """By key, the verdicts of a trial that reads all of the input."""
    verdicts: dict[bytes | None, Verdict] = {}
    with LiveReader(settings, settings.topics.input) as reader, Trial(settings, settings.topics.input) as trial:
        reader.begin(0)
        while not reader.caught_up:
            records = reader.poll()
            verdicts |= {r.key: v for r, v in zip(records, trial.judge(records), strict=True)}
    return verdicts


def traces(settings: Settings) -> dict[str, Any]:
    """Everything a program could leave on the brokers: groups, topics and records."""
    bootstrap = settings.kafka.bootstrap_servers
    with administrator(settings) as admin, closing(KafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
        own = sorted(topic for topic in admin.list_topics() if topic in settings.topics.model_dump().values())
        places = [TopicPartition(topic, one) for topic in own for one in consumer.partitions_for_topic(topic)]
        return {
            "groups": sorted(str(group["group_id"]) for group in admin.list_groups()),
            "topics": sorted(admin.list_topics()),
            "ends": consumer.end_offsets(places),
        }


def test_verdicts_equal_a_worker_s_and_no_trace_is_left(settings: Settings) -> None:
    sent = feed(settings, made_up(600))
    before = traces(settings)
    verdicts = trial_verdicts(settings)
    result = invoke(settings, *LONG_AGO, "--json")
    assert result.exit_code == 0, result.output
    assert traces(settings) == before, "no group, no topic, no record"

    run_until(settings, len(sent))
    came = outcome(settings)
    theirs = came.verdicts()
    for key, verdict in verdicts.items():
        assert theirs[key] == in_headers(verdict)
    assert len(verdicts) == len(sent)
    output = json.loads(result.stdout)
    assert output["items"] == len(sent)
    assert output["held_back"] == len(came.duplicates) > 100
    assert sum(output["stages"].values()) == output["held_back"]
    assert len(output["examples"]) == 10
    held = {record.key.decode() for record in came.duplicates}
    assert {example["held_back"]["id"] for example in output["examples"]} <= held
    assert output["summary"]["filled"]["title"] == len(sent)
    assert output["ended"] == "caught up"


def test_output_fits_80_columns(settings: Settings) -> None:
    records: list[tuple[bytes | None, bytes | None]] = [
        (b"1", article("1", TEXT, "Elm bridge opens", "post.example")),
        (b"2", article("2", TEXT, f"Elm bridge opens \x1b[31m{' at last' * 9}", "b.example")),
        (b"3", b"no JSON"),
    ]  # fmt: skip
    feed(settings, records)
    result = invoke(settings, *LONG_AGO)
    assert result.exit_code == 0, result.output
    shown = result.stdout
    lines = shown.splitlines()
    assert max(len(line) for line in lines if not line.startswith("warning: ")) <= 80, shown
    assert "Nothing was written." in shown
    assert "\x1b" not in shown, "no escape sequences from the news"
    for row in ("unique 1", "duplicate 1 33.3 %", "bad 1", "all 3"):
        assert row in " ".join(shown.replace("│", " ").split()), shown
    assert "original   post.example: Elm bridge opens" in shown
    assert "held back  b.example: Elm bridge opens" in shown
    assert "no new words, under a second later" in " ".join(shown.split())
    assert "0/2: json: " in shown
    assert "`stream-dedup sample" in " ".join(shown.split())
    assert "[policy]\n  shadow = true" in shown


def test_begins_at_a_time_and_ends_after_items(settings: Settings) -> None:
    feed(settings, made_up(100))
    output = json.loads(invoke(settings, *LONG_AGO, "--items", "30", "--json").stdout)
    assert (output["items"], output["ended"]) == (30, "items")
    output = json.loads(invoke(settings, "--since", "36500d", "--json").stdout)
    assert output["items"] == 100


def test_waits_for_new_items_until_a_stop_or_the_end_of_the_time(settings: Settings) -> None:
    feed(settings, made_up(10))
    stop = threading.Event()
    with LiveReader(settings, settings.topics.input) as reader, Trial(settings, settings.topics.input) as trial:
        reader.begin(0)

        def on_progress() -> None:
            if trial.items == 10:
                feed(settings, [(b"new", article("new", "A new text of its own."))])
            elif trial.items == 11:
                stop.set()

        assert run_trial(reader, trial, items=100, seconds=60, stop=stop.is_set, on_progress=on_progress) == (
            Ended.STOPPED,
            None,
        )
        assert trial.items == 11
        ended = run_trial(reader, trial, items=100, seconds=1, stop=lambda: False)
        assert ended == (Ended.MINUTES, None)


def test_all_bad(settings: Settings) -> None:
    feed(settings, [(None, b"<rss>1</rss>"), (None, b"<rss>2</rss>")])
    result = invoke(settings, *LONG_AGO)
    assert isinstance(result.exception, InputError)
    assert "none of the 2 items" in str(result.exception)
    assert "bad: " in result.stdout
    assert "/0/0: entries: " in result.stdout


def test_an_empty_topic_one_without_recent_records_and_a_wrong_duration(settings: Settings) -> None:
    assert "is empty; to wait for new items, add --minutes 10" in failed(settings, InputError)
    feed(settings, made_up(3))
    assert "has had no records since" in failed(settings, InputError, "--since", "2h")
    assert "a number and a unit" in failed(settings, UsageError, "--since", "2 fortnights")


@pytest.mark.slow
def test_no_topic_and_no_broker(settings: Settings) -> None:
    wrong = settings.model_copy(update={"topics": settings.topics.model_copy(update={"input": "never-made"})})
    assert "there is no topic never-made" in failed(wrong, TopicError)
    [port] = free_ports(1)
    kafka = settings.kafka.model_copy(update={"bootstrap_servers": f"127.0.0.1:{port}"})
    assert "no broker answers at" in failed(settings.model_copy(update={"kafka": kafka}), StreamError)
    gc.collect()


def test_a_failure_shows_the_results_so_far(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(settings, made_up(20))
    poll = LiveReader.poll

    def failing(reader: LiveReader) -> Any:
        if reader.caught_up:
            raise StreamError("the brokers no longer answer")
        return poll(reader)

    monkeypatch.setattr(LiveReader, "poll", failing)
    result = invoke(settings, *LONG_AGO, "--minutes", "5", "--json")
    assert "no longer answer" in str(result.exception)
    output = json.loads(result.stdout)
    assert (output["items"], output["ended"]) == (20, "failed")
