"""The modes of every command, and for each option what it does there: the table of test_no_option_is_ignored.py.

A **mode** is a use of a command in which other options apply: `plan` for MinHash and for SimHash, `check` of a file and
of a topic. It has the arguments that bring it about, and `boundary`: where the command would leave the process (Kafka,
Spark, a terminal), a stand-in that records what arrives there.
"""

import json
import re
import shlex
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from stream_dedup.kafka.topics import Topic
from stream_dedup.tools.batch import pairs

REACHED = "reached.txt"
"""The file to which stand-ins write what arrives at them."""


Boundary = Callable[[pytest.MonkeyPatch], None]


class Case(NamedTuple):
    """What an option does in a mode. more: the option and its value; beside: arguments that it needs.

    message: why it is refused, as a pattern; empty: it has an effect, so the outcome differs from that without `more`.
    """

    more: tuple[str, ...]
    beside: tuple[str, ...]
    message: str


@dataclass(frozen=True)
class Mode:
    """A use of a command. `does`: every option of the command, and what it does here, separated by semicolons.

    `--items 3` has an effect, `--force + --report FILE` has one beside the other arguments, `--items 3 ! MESSAGE` is
    refused. before: commands that run first.
    """

    arguments: str
    does: str
    boundary: Boundary = lambda _: None
    before: tuple[str, ...] = ()

    @property
    def cases(self) -> list[Case]:
        found = []
        for text in self.does.split("; "):
            what, _, message = text.partition(" ! ")
            more, _, beside = what.partition(" + ")
            found.append(Case(tuple(shlex.split(more)), tuple(shlex.split(beside)), message))
        return found


# -- files ----------------------------------------------------------------------------------------------------

_TEXT = "The old ferry was taken out of service on Monday morning after engineers had found cracks in its hull."
_ITEMS = (
    ("a", "Ferry stopped", _TEXT, "a.example", 1),
    ("b", "Ferry stopped today", _TEXT + " It will be back in spring, said the port.", "b.example", 2),
    ("c", "Asteroid turns fast", "Astronomers measured a small rock that turns in a minute.", "c.example", 3),
    ("d", "Ferry stopped today", _TEXT + " It will be back in spring, said the port.", "d.example", 4),
)


def _lines(*, suffix: str = "") -> str:
    return "".join(
        json.dumps(
            {"id": name, "title": title, "text": text + suffix, "source": source, "fingerprint": f"{number:016x}"}
        )
        + "\n"
        for name, title, text, source, number in _ITEMS
    )


_LABELS = (
    '{{"earlier":"a","later":"b","label":"{}","corpus":"ferries"}}\n{{"earlier":"a","later":"c","label":"different"}}\n'
)

FILES = {
    "corpus.jsonl": _lines(),
    "other.jsonl": _lines(suffix=" Ferries of the same kind go on."),
    "a.json": _lines().splitlines()[0],
    "b.json": _lines().splitlines()[1],
    "held.jsonl": "",
    "labels.jsonl": _LABELS.format("copy"),
    "strict.jsonl": _LABELS.format("different"),
    # Only equal bodies are copies.
    "strict.toml": "[decision]\njaccard = 1.0\n",
    "shadow.toml": "[policy]\nshadow = true\n",
    "fields.toml": '[item.fields]\ntext = "nothing"\n',
    "letters.toml": '[fingerprint]\nshingles = "letters"\n',
    "kafka.toml": '[kafka]\nbootstrap_servers = "127.0.0.1:7"\n[topics]\ninput = "other"\nchangelog = "other-log"\n',
    "port.toml": "[observe]\nport = 7\n",
    "token.toml": '[observe]\ntoken = "0123456789abcdef0123456789abcdef"\n',
    "exact.toml": '[fingerprint]\nverify = "exact"\n',
    "exact-letters.toml": '[fingerprint]\nverify = "exact"\nshingles = "letters"\n',
    "simhash.toml": '[fingerprint]\nfamily = "simhash"\n',
    "given.toml": '[fingerprint]\nfamily = "given"\n[item.fields]\nfingerprint = "fingerprint"\n',
    "simhash-six.toml": '[fingerprint]\nfamily = "simhash"\nhamming = 6\n',
    "given-six.toml": '[fingerprint]\nfamily = "given"\nhamming = 6\n[item.fields]\nfingerprint = "source"\n',
}

# -- stand-ins ------------------------------------------------------------------------------------------------


class ReachedError(Exception):
    """A stand-in ends the command, because nothing can be returned."""


def reach(*values: object) -> None:
    """Write down what has arrived."""
    with Path(REACHED).open("a", encoding="utf-8") as file:
        file.write("\n".join(map(_plain, values)) + "\n")


def _plain(value: object) -> str:
    from stream_dedup.settings import Settings

    if isinstance(value, Settings):
        return value.model_dump_json()
    return repr(value) if isinstance(value, str | int | float | list | tuple | Path | None) else type(value).__name__


def _answer(patch: pytest.MonkeyPatch, target: str, answer: Callable[[], object]) -> None:
    """Put a stand-in in the place of a function or class: it writes down its arguments, and returns the answer."""

    def reached(*values: object, **options: object) -> object:
        reach(*values, *(f"{name}: {_plain(value)}" for name, value in options.items()))
        return answer()

    patch.setattr(f"stream_dedup.{target}", reached)


class _Context:
    """A stand-in for a class that is used in a `with` statement."""

    def __init__(self, *values: object, **_: object) -> None:
        reach(*values)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _run(patch: pytest.MonkeyPatch) -> None:
    def end() -> None:
        raise ReachedError

    _answer(patch, "observe.watch.Watch", end)
    patch.setattr("stream_dedup.observe.logs.set_up", lambda *_, **__: None)
    patch.setattr("stream_dedup.cli.stop_on_signals", Event)


def _demo(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.tools.demo.run import DemoResult

    def run_demo(settings: Any, records: Any, *, rate: object, once: bool, **_: object) -> DemoResult:
        topic = re.sub(r"\d+", "", settings.topics.input)  # without the time in the name
        reach(settings.kafka.bootstrap_servers, topic, settings.worker, rate, once, next(iter(records)).value)
        return DemoResult(*[1] * 12)

    patch.setattr("stream_dedup.tools.demo.run.run_demo", run_demo)
    broker, page = SimpleNamespace(bootstrap="127.0.0.1:2"), SimpleNamespace(url="")
    patch.setattr("stream_dedup.tools.demo.embedded.EmbeddedKafka", lambda **_: nullcontext(broker))
    patch.setattr("stream_dedup.observe.watch.Watch", lambda *_, **__: nullcontext(page))
    patch.setattr("stream_dedup.worker.cluster_watch.BrokerWatch", lambda *_: nullcontext())
    patch.setattr("stream_dedup.cli.stop_on_signals", Event)
    # As on a terminal, where `--once` and `--json` are not implied.
    patch.setattr("stream_dedup.tools.cli.demo.sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))


def _kafka(patch: pytest.MonkeyPatch) -> None:
    def broker(port: int, **_: object) -> Any:
        reach(port)
        return nullcontext(SimpleNamespace(bootstrap=f"127.0.0.1:{port}"))

    patch.setattr("stream_dedup.tools.demo.embedded.EmbeddedKafka", broker)
    patch.setattr("stream_dedup.cli.stop_on_signals", lambda: SimpleNamespace(wait=lambda _: True))


def _feed(patch: pytest.MonkeyPatch) -> None:
    _answer(patch, "tools.topics.send.Sender", lambda: SimpleNamespace(run=lambda: None, sent=1))
    patch.setattr("stream_dedup.cli.stop_on_signals", Event)


def _send(patch: pytest.MonkeyPatch) -> None:
    def sender(settings: Any, topic: str, records: Any, *_: object, **__: object) -> Any:
        reach(settings.kafka.bootstrap_servers, topic, [(record.key, record.value) for record in records])
        return SimpleNamespace(run=lambda: None, sent=1)

    patch.setattr("stream_dedup.tools.topics.send.Sender", sender)


def _feeds(patch: pytest.MonkeyPatch) -> None:
    async def run(_: object) -> None:
        pass

    def poller(feeds: Any, state: Any, output: Any, *_: object, **options: object) -> Any:
        reach(list(feeds), state.owner and len(state.owner), type(output).__name__, *options.values())
        return SimpleNamespace(polls=0, run=run)

    def kafka(settings: Any, *_: object) -> Any:
        reach(settings.kafka.bootstrap_servers)
        return SimpleNamespace(close=lambda: None)

    patch.setattr("stream_dedup.tools.feeds.delivery.KafkaDelivery", kafka)
    patch.setattr("stream_dedup.tools.feeds.poller.Poller", poller)
    patch.setattr("stream_dedup.tools.feeds.web.Fetcher", lambda _, settings: reach(settings.internal))
    patch.setattr("stream_dedup.observe.logs.set_up", lambda *_, **__: None)


def _trial(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.kafka.record_batch import Record
    from stream_dedup.tools.topics.trial import Ended

    class Reader(_Context):
        is_empty, caught_up, topic = False, True, "t"

        def begin(self, moment: int) -> int:
            reach(round(moment / 86_400_000))  # days: --since counts from now
            return 1

    def run_trial(_: object, trial: Any, *, items: int, seconds: object, **__: object) -> tuple[Ended, None]:
        reach(items, seconds)
        trial.judge([Record("t", 0, 0, 1, None, FILES["a.json"].encode(), [])])
        return Ended.CAUGHT_UP, None

    patch.setattr("stream_dedup.tools.topics.live_reader.LiveReader", Reader)
    patch.setattr("stream_dedup.tools.topics.trial.run_trial", run_trial)
    patch.setattr("stream_dedup.cli.stop_on_signals", Event)


def _give_back(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.tools.topics.give_back import GivenBack

    def give(settings: Any, item_id: str, since: int, reason: str, *_: object) -> GivenBack:
        reach(settings.kafka.bootstrap_servers, item_id, round(since / 86_400_000), reason)
        return GivenBack(item_id, "d/0/1", "o/0/2", {})

    patch.setattr("stream_dedup.tools.topics.give_back.give_back", give)


class _NoTopic(_Context):
    """A reader of topics: what it is asked for is written down."""

    def all(self, topic: str, most: int | None = None) -> list[object]:
        reach(topic, most)
        return []


def _topic(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("stream_dedup.tools.topics.reader.TopicReader", _NoTopic)


def _changelog(patch: pytest.MonkeyPatch) -> None:
    _topic(patch)
    _answer(patch, "tools.topics.inspection.topic_blocks", list)


def _topics(patch: pytest.MonkeyPatch) -> None:
    _answer(patch, "tools.topics.setup.create_topics", lambda: ["other"])
    _answer(patch, "tools.topics.setup.fix_topics", lambda: ["other: retention.ms is 1"])
    _answer(patch, "kafka.topics.check_topics", lambda: {"news.raw": Topic(3, {}), "other": Topic(3, {})})


def _groups(patch: pytest.MonkeyPatch) -> None:
    member = SimpleNamespace(role="active", host="h", id="m", partitions=[0])
    view = SimpleNamespace(state="Stable", members=[member], offsets={0: (1, 2)})
    _answer(patch, "tools.topics.groups.show", lambda: view)
    reset = SimpleNamespace(deleted={"other": 3}, offsets={0: 5})
    _answer(patch, "tools.topics.groups.reset", lambda: reset)
    _answer(patch, "tools.topics.groups.set_offsets", lambda: {0: 5})


def _tail(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.tools.topics.tail import Line

    def tail(settings: Any, topic: str, since: int, _: object, *, follows: bool) -> list[Line]:
        reach(settings.kafka.bootstrap_servers, topic, round((time.time() * 1000 - since) / 1e6), follows)
        return [Line(0, "update", "b", "Ferry runs again", "of a")]

    patch.setattr("stream_dedup.tools.topics.tail.tail", tail)
    patch.setattr("stream_dedup.cli.stop_on_signals", Event)


def _copy(patch: pytest.MonkeyPatch) -> None:
    _answer(patch, "tools.topics.copy_changelog.copy", lambda: 3)


def _no_new_topics(patch: pytest.MonkeyPatch) -> None:
    _topics(patch)
    patch.setattr("stream_dedup.tools.topics.setup.create_topics", lambda *_, **__: [])


def _migrate(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.tools.topics.migration import MigrationProgress

    migration = SimpleNamespace(run=lambda: MigrationProgress("done", 1, 1, 1))
    _answer(patch, "tools.topics.migration.Migration", lambda: migration)


def _health(patch: pytest.MonkeyPatch) -> None:
    _answer(patch, "observe.probe.probe", lambda: (True, "ok"))


def _sample(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.tools.evaluate.sampling import Found

    patch.setattr("stream_dedup.tools.cli.measure._has_terminal", lambda: True)
    for name in ("from_files", "from_kafka"):
        _answer(patch, f"tools.evaluate.sampling.{name}", lambda: Found([], [], 1, 1))


def _drawn_sample(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.tools.evaluate.sampling import Sample

    _sample(patch)
    if not Path("drawn").exists():
        Sample.write(Path("drawn"), [], [], {"--count": 8, "--seed": 1})


def _local_pairs(patch: pytest.MonkeyPatch) -> None:
    find = pairs.find_pairs

    def find_pairs(**options: Any) -> Any:
        # They do not change the pairs of a small corpus.
        reach(options["threads"], options["memory"], options["bucket_limit"])
        return find(**options)

    patch.setattr(pairs, "find_pairs", find_pairs)


def _spark_pairs(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.tools.batch.pairs import PairsResult

    counts = dict.fromkeys(PairsResult.__dataclass_fields__, 1) | {
        "summary": None,
        "absent_sources": (),
        "largest": [],
        "doubtful": [],
    }
    _answer(patch, "tools.spark.engine.open_session", lambda: SimpleNamespace(stop=lambda: None))
    _answer(patch, "tools.spark.engine.find_pairs_on_spark", lambda: PairsResult(**counts))  # type: ignore[arg-type]


# -- the table ------------------------------------------------------------------------------------------------


def _modes(does: str, **modes: Mode) -> dict[str, Mode]:
    """Modes of one command. `does`: what its options do in each mode whose own `does` leaves them out."""
    found = {}
    for name, mode in modes.items():
        own = {text.split()[0] for text in mode.does.split("; ")}
        common = [text for text in does.split("; ") if text.split()[0] not in own]
        found[name.replace("_", " ")] = replace(mode, does="; ".join([*common, mode.does]))
    return found


_FILTERED = ("filter corpus.jsonl --output u.jsonl --state dir",)
TABLE: dict[str, dict[str, Mode]] = {
    "": {"before a command": Mode("config metrics", "--version; --verbose")},
    "run": {"Kafka": Mode("", "--config kafka.toml", _run)},
    "demo": {
        "embedded": Mode(
            "", "--bootstrap 127.0.0.1:7; --input corpus.jsonl; --rate 7; --once; --config kafka.toml; --json", _demo
        )
    },
    "kafka": {"embedded": Mode("", "--port 7", _kafka)},
    "feed": {"Kafka": Mode("", "--rate 7; --config kafka.toml", _feed)},
    "check": _modes(
        "--bootstrap 127.0.0.1:7; --items 3; --json",
        files=Mode(
            "corpus.jsonl",
            "--topic news ! a topic with --topic NAME; --bootstrap 127.0.0.1:7 ! --bootstrap goes with --topic; "
            "--items 3 ! --items goes with --topic; --format csv; --query '@'; --config fields.toml",
        ),
        topic=Mode(
            "--topic news",
            "--topic other; --query '@'; --format csv ! --format says what files hold; --config kafka.toml",
            _topic,
        ),
    ),
    "trial": {
        "Kafka": Mode(
            "--since 9999d",
            "--bootstrap 127.0.0.1:7; --input other; --since 8888d; --items 7; --minutes 7; "
            "--report report.html; --force ! --force is for --report; --force + --report strict.jsonl; "
            "--config kafka.toml; --json",
            _trial,
        )
    },
    "give-back": {"Kafka": Mode("b", "--since 8888d; --reason why; --config kafka.toml; --json", _give_back)},
    "feeds": {
        "a pipe": Mode(
            "http://127.0.0.1:1/rss",
            "--output entries.jsonl; --kafka; --state feeds.db; --every 7m; --once; --pages; --internal 10.0.0.0/8; "
            "--force ! --force is for --output FILE; --force + --output labels.jsonl; --config kafka.toml + --kafka",
            _feeds,
        )
    },
    "filter": _modes(
        "--output o.jsonl; --duplicates d.jsonl; --verdicts v.jsonl; --report report.html; --format csv; --json",
        files=Mode(
            "corpus.jsonl --output u.jsonl", "--state dir; --force + --duplicates labels.jsonl; --config shadow.toml"
        ),
        continued=Mode(
            "corpus.jsonl --output u.jsonl --state dir",
            "--state dir2; --force + --output before.jsonl; --config letters.toml",
            before=("filter other.jsonl --output before.jsonl --state dir",),
        ),
    ),
    "pairs": _modes(
        "--output q.jsonl; --clusters c.jsonl; --keep source:b.example + --clusters c.jsonl; --bucket-limit 7; "
        "--drop-new + --clusters c.jsonl; "
        "--config strict.toml; --json",
        local=Mode(
            "corpus.jsonl --output p.jsonl",
            "--keep longest ! give --clusters FILE, too; --keep source:b.example + --clusters c.jsonl; "
            "--drop-new ! give --clusters FILE, too; --memory 100M; --report report.html; "
            "--threads 1; --engine spark ! --engine spark; --master 'local[2]' ! --master is for --engine spark; "
            "--force + --output labels.jsonl; --format csv",
            _local_pairs,
        ),
        spark=Mode(
            "corpus.jsonl --output p.jsonl --engine spark --master 'local[2]'",
            "--memory 3G; --threads 3 ! --threads is for --engine local; "
            "--engine local ! --master is for --engine spark; --master 'local[3]'; --force; --format parquet; "
            "--report report.html ! --report is for --engine local",
            _spark_pairs,
        ),
    ),
    "explain": _modes(
        "--config strict.toml; --json; --bootstrap 127.0.0.1:1 ! for ids on Kafka; --since 2d ! for ids on Kafka",
        ids=Mode("a b --in corpus.jsonl", "--in none.jsonl"),
        JSON=Mode(shlex.join((FILES["a.json"], FILES["b.json"])), "--in corpus.jsonl ! both items are given as JSON"),
        files=Mode("a.json b.json", "--in corpus.jsonl"),
    ),
    "evaluate": _modes(
        "--threshold 0.99; --report report.html; --force ! --force is for --report; "
        "--force + --report strict.jsonl; --config strict.toml; --json",
        minhash=Mode("corpus.jsonl --labels labels.jsonl", "--labels strict.jsonl; --corpus ferries"),
        without_labels=Mode(
            "corpus.jsonl",
            "--labels labels.jsonl; --corpus ferries ! --corpus selects labels; --corpus '' ! --corpus selects labels",
        ),
    ),
    "sample": _modes(
        "--count 7; --seed 7",
        files=Mode(
            "dir --duplicates held.jsonl --input corpus.jsonl",
            "--format jsonl; --duplicates labels.jsonl; --input other.jsonl; --config strict.toml",
            _sample,
        ),
        Kafka=Mode(
            "dir",
            "--duplicates held.jsonl ! go with --input FILE; --format jsonl ! go with --input FILE; "
            "--input corpus.jsonl; --config kafka.toml",
            _sample,
        ),
        continued=Mode(
            "drawn",
            "--count 7 ! were drawn with .*leave other options out; --seed 7 ! were drawn with; "
            "--format jsonl ! were drawn with; --duplicates held.jsonl ! were drawn with; "
            "--input corpus.jsonl ! were drawn with; --config kafka.toml ! were drawn with",
            _drawn_sample,
        ),
    ),
    "plan": _modes(
        "--items 3M; --threshold .8; --memory 9G ! --memory goes with --per-day; "
        "--per-day 3M; --window 3d ! --window goes with --per-day; --share-held .3 ! --share-held goes with --per-day; "
        "--id-bytes 80; --body-shingles 900 ! only .fingerprint. verify = 'exact' keeps; --json",
        per_day=Mode(
            "--per-day 2M",
            "--window 3d; --share-held .3; --items 3M ! --items plans the index; "
            "--threshold .8 ! --threshold plans the index; --memory 9G; "
            "--per-day 3M; --id-bytes 80 ! --id-bytes plans the index; --body-shingles 900 ! "
            "--body-shingles plans the index; "
            "--config simhash.toml",
        ),
        minhash=Mode("", "--config letters.toml"),
        exact=Mode("--config exact.toml", "--body-shingles 900; --config exact-letters.toml"),
        simhash=Mode("--config simhash.toml", "--threshold .95; --config simhash-six.toml"),
        given=Mode(
            "--config given.toml",
            "--threshold .9 ! --threshold has no meaning for family = 'given'; --config given-six.toml",
        ),
    ),
    "migrate": {"Kafka": Mode("", "--config kafka.toml; --json", _migrate)},
    "health": {
        "settings": Mode("", "--url http://127.0.0.1:7/x; --config port.toml", _health),
        "URL": Mode("--url http://127.0.0.1:7/x", "--url ''; --config token.toml", _health),
    },
    "topics create": _modes(
        "--config kafka.toml; --replication 3",
        new=Mode("", "--partitions 3", _topics),
        nothing_to_create=Mode("", "--partitions 7", _no_new_topics),
    ),
    "topics check": {"Kafka": Mode("", "--config kafka.toml", _topics)},
    "topics fix": {"Kafka": Mode("", "--config kafka.toml", _topics)},
    "reset": {"Kafka": Mode("", "--config kafka.toml; --to latest; --confirm", _groups)},
    "send": {"files": Mode("corpus.jsonl", "--config kafka.toml; --topic other; --tombstone b", _send)},
    "tail": {"topic": Mode("", "--config kafka.toml; --since 2h; --once; --json", _tail)},
    "groups show": {"Kafka": Mode("", "--config kafka.toml", _groups)},
    "groups set-offset": {"Kafka": Mode("5", "--config kafka.toml; --partitions 1", _groups)},
    "state inspect": _modes(
        "--json",
        directory=Mode("dir", "--config letters.toml", before=_FILTERED),
        topic=Mode("", "--config kafka.toml", _changelog),
    ),
    "state verify": {
        "directory": Mode("dir", "--config letters.toml", before=_FILTERED),
        "topic": Mode("", "--config kafka.toml", _changelog),
    },
    "state copy": {"topic": Mode("kafka.toml", "--config kafka.toml", _copy)},
    "config show": {"settings": Mode("", "--config kafka.toml; --json")},
    "config reference": {},
    "config metrics": {},
}
