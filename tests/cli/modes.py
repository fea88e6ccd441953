"""The modes of every command, and for each option what it does there: the table of test_no_option_is_ignored.py.

A **mode** is a use of a command in which other options apply: `plan` for MinHash and for SimHash, `check` of a file and
of a topic. It has the arguments that bring it about, and `boundary`: where the command would leave the process (Kafka,
Spark, a terminal), a stand-in that records what arrives there.
"""

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

REACHED = "reached.txt"
"""The file to which stand-ins write what arrives at them."""


@dataclass(frozen=True)
class Used:
    """The option has an effect: with these arguments more, the outcome differs from that without them.

    beside: arguments that both runs get.
    """

    more: tuple[str, ...]
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refused:
    """With these arguments more, the command ends with exit code 2, and its message matches."""

    more: tuple[str, ...]
    message: str


def used(*more: str, beside: tuple[str, ...] = ()) -> Used:
    return Used(more, beside)


def refused(message: str, *more: str) -> Refused:
    return Refused(more, message)


Boundary = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mode:
    """A use of a command. `options`: every option of the command, and what it does here.

    before: arguments of commands that run first.
    """

    arguments: tuple[str, ...]
    options: dict[str, Used | Refused | tuple[Used | Refused, ...]]
    boundary: Boundary = lambda _: None
    before: tuple[tuple[str, ...], ...] = field(default=())


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
    "strict.toml": '[decision]\nrule = "jaccard"\nbody = 1.0\n',
    "shadow.toml": "[policy]\nshadow = true\n",
    "fields.toml": '[item.fields]\ntext = "nothing"\n',
    "seed.toml": "[fingerprint]\nseed = 7\n",
    "kafka.toml": '[kafka]\nbootstrap_servers = "127.0.0.1:7"\n[topics]\ninput = "other"\nchangelog = "other-log"\n',
    "port.toml": "[observe]\nport = 7\n",
    "token.toml": '[observe]\ntoken = "0123456789abcdef0123456789abcdef"\n',
    "exact.toml": '[fingerprint]\nverify = "exact"\n',
    "exact-seven.toml": '[fingerprint]\nverify = "exact"\nbody_bands = 7\n',
    "bands.toml": "[fingerprint]\nanchors = 0\nbody_bands = 16\n",
    "simhash.toml": '[fingerprint]\nfamily = "simhash"\n',
    "given.toml": '[fingerprint]\nfamily = "given"\n[item]\nfingerprint = "fingerprint"\n',
    "batches.toml": "[worker]\nbatch_items = 7\n",
    "seven.toml": "[fingerprint]\nbody_bands = 7\n",
    "simhash-seven.toml": '[fingerprint]\nfamily = "simhash"\nlayout = "7 choose 4"\n',
    "given-seven.toml": '[fingerprint]\nfamily = "given"\nlayout = "7 choose 4"\n[item]\nfingerprint = "source"\n',
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

    return value.model_dump_json() if isinstance(value, Settings) else repr(value)


class _Context:
    """A stand-in for a class that is used in a `with` statement."""

    def __init__(self, *values: object, **_: object) -> None:
        reach(*values)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _run(patch: pytest.MonkeyPatch) -> None:
    def watch(settings: object, _version: str) -> None:
        reach(settings)
        raise ReachedError

    patch.setattr("stream_dedup.observe.watch.Watch", watch)
    patch.setattr("stream_dedup.observe.logs.set_up", lambda *_: None)
    patch.setattr("stream_dedup.cli.run.stop_on_signals", Event)


def _demo(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.demo.run import DemoResult

    def run_demo(settings: Any, records: Any, *, rate: object, once: bool, **_: object) -> DemoResult:
        topic = re.sub(r"\d+", "", settings.topics.input)  # without the time in the name
        reach(settings.kafka.bootstrap_servers, topic, settings.worker, rate, once, next(iter(records)).value)
        return DemoResult(*[1] * 12)

    class Kafka(_Context):
        bootstrap = "127.0.0.1:2"

    class Page(_Context):
        url = ""

        def __init__(self, *_: object, **__: object) -> None:
            pass

    patch.setattr("stream_dedup.demo.run.run_demo", run_demo)
    patch.setattr("stream_dedup.demo.embedded.EmbeddedKafka", lambda **_: Kafka())
    patch.setattr("stream_dedup.observe.watch.Watch", Page)
    patch.setattr("stream_dedup.worker.broker_watch.BrokerWatch", lambda *_: nullcontext())
    patch.setattr("stream_dedup.precompile.kernels.compile_for", lambda *_: 0)
    patch.setattr("stream_dedup.cli.demo.stop_on_signals", Event)
    # As on a terminal, where `--once` and `--json` are not implied.
    patch.setattr("stream_dedup.cli.demo.sys", _OnATerminal)


def _feed(patch: pytest.MonkeyPatch) -> None:
    finished = Event()
    finished.set()

    def feed(settings: object, _records: object, rate: float, _stop: Event) -> SimpleNamespace:
        reach(settings, rate)
        return SimpleNamespace(finished=finished, join=lambda: None, error=None, sent=1)

    patch.setattr("stream_dedup.demo.run.Feed", feed)
    patch.setattr("stream_dedup.cli.demo.stop_on_signals", Event)


def _trial(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.kafka.record_batch import Record
    from stream_dedup.worker.trial import Ended

    class Reader(_Context):
        is_empty, caught_up, topic = False, True, "t"

        def begin(self, moment: int) -> int:
            reach(round(moment / 86_400_000))  # days: --since counts from now
            return 1

    def run_trial(_: object, trial: Any, *, items: int, seconds: object, **__: object) -> tuple[Ended, None]:
        reach(items, seconds)
        trial.judge([Record("t", 0, 0, 1, None, FILES["a.json"].encode(), [])])
        return Ended.CAUGHT_UP, None

    patch.setattr("stream_dedup.kafka.reader.LiveReader", Reader)
    patch.setattr("stream_dedup.worker.trial.run_trial", run_trial)
    patch.setattr("stream_dedup.cli.run.stop_on_signals", Event)


class _Terminal:
    @staticmethod
    def isatty() -> bool:
        return True


class _OnATerminal:
    """A stand-in for `sys` whose standard output is a terminal."""

    stdout = _Terminal


class _NoTopic(_Context):
    """A reader of topics: what it is asked for is written down."""

    def last(self, topic: str, count: int) -> list[object]:
        reach(topic, count)
        return []

    def all(self, topic: str) -> list[object]:
        reach(topic)
        return []


def _topic(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("stream_dedup.kafka.reader.TopicReader", _NoTopic)


def _changelog(patch: pytest.MonkeyPatch) -> None:
    _topic(patch)

    def entries(_reader: object, topic: str, *_: object) -> list[object]:
        reach(topic)
        return []

    patch.setattr("stream_dedup.worker.changelog_listing.changelog_entries", entries)


def _topics(patch: pytest.MonkeyPatch) -> None:
    def create(*values: object) -> list[str]:
        reach(*values)
        return ["other"]

    def check(*values: object) -> SimpleNamespace:
        reach(*values)
        return SimpleNamespace(partitions={"news.raw": 3, "other": 3})

    patch.setattr("stream_dedup.kafka.topics.create_topics", create)
    patch.setattr("stream_dedup.kafka.topics.check_topics", check)


def _no_new_topics(patch: pytest.MonkeyPatch) -> None:
    _topics(patch)
    patch.setattr("stream_dedup.kafka.topics.create_topics", lambda *_, **__: [])


def _migrate(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.worker.migration import MigrationProgress

    def migration(settings: object, _report: object) -> SimpleNamespace:
        reach(settings)
        return SimpleNamespace(run=lambda: MigrationProgress("done", 1, 1, 1))

    patch.setattr("stream_dedup.worker.migration.Migration", migration)


def _health(patch: pytest.MonkeyPatch) -> None:
    def probe(url: str, **values: object) -> tuple[bool, str]:
        reach(url, sorted(values.items()))
        return True, "ok"

    patch.setattr("stream_dedup.cli.health.probe", probe)


def _sample(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.evaluate.frame import Found

    def draw(*values: object) -> Found:
        reach(*values[:-1])
        return Found([], [], 1, 1)

    patch.setattr("stream_dedup.cli.sample._has_terminal", lambda: True)
    patch.setattr("stream_dedup.evaluate.frame.from_files", draw)
    patch.setattr("stream_dedup.evaluate.frame.from_kafka", draw)


def _drawn_sample(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.evaluate.sample import Sample

    _sample(patch)
    if not Path("drawn").exists():
        Sample.write(Path("drawn"), [], [], {"--count": 8, "--seed": 1})


def _local_pairs(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.batch import pairs

    find = pairs.find_pairs

    def find_pairs(**options: Any) -> Any:
        # They do not change the pairs of a small corpus.
        reach(options["threads"], options["memory"], options["bucket_limit"])
        return find(**options)

    patch.setattr(pairs, "find_pairs", find_pairs)


def _spark_pairs(patch: pytest.MonkeyPatch) -> None:
    from stream_dedup.batch.pairs import PairsResult

    def session(master: object, **heap: object) -> SimpleNamespace:
        reach(master, heap["spark.driver.memory"])
        return SimpleNamespace(stop=lambda: None)

    def find(_spark: object, *, bad_line: object, **options: object) -> PairsResult:
        del bad_line
        reach(*options.values())
        counts = dict.fromkeys(PairsResult.__dataclass_fields__, 1) | {"summary": None, "absent_sources": ()}
        return PairsResult(**counts)  # type: ignore[arg-type]

    patch.setattr("stream_dedup.spark.session.open_session", session)
    patch.setattr("stream_dedup.spark.files.find_pairs_on_spark", find)


# -- the table ------------------------------------------------------------------------------------------------

_JSON = {"--json": used("--json")}


_FORCED = (
    refused("--force is for --plots and --report", "--force"),
    used("--force", beside=("--report", "strict.jsonl")),
)


def _evaluate(settings: str | None, other: str) -> Mode:
    config = ("--config", settings) if settings else ()
    return Mode(
        ("corpus.jsonl", "--labels", "labels.jsonl", *config),
        {
            "--labels": used("--labels", "strict.jsonl"),
            "--corpus": used("--corpus", "ferries"),
            "--threshold": used("--threshold", "0.99"),
            "--sweep": used("--sweep"),
            "--plots": used("--plots", "figures"),
            "--report": used("--report", "report.html"),
            "--force": _FORCED,
            "--config": used("--config", other),
            **_JSON,
        },
    )


_EXPLAIN = {"--config": used("--config", "strict.toml"), **_JSON}

_NOT_EXACT = refused("only .fingerprint. verify = 'exact' keeps", "--body-shingles", "900")
_EXACT = used("--body-shingles", "900")


def _plan(arguments: tuple[str, ...], other: str, **options: Used | Refused) -> Mode:
    """A mode of `plan`; options: those that differ between families."""
    return Mode(
        arguments,
        {
            "--items": used("--items", "3M"),
            "--recall": options["recall"],
            "--threshold": options["threshold"],
            "--hamming": options["hamming"],
            "--memory": used("--memory", "9G"),
            "--id-bytes": used("--id-bytes", "80"),
            "--body-shingles": options["shingles"],
            "--config": used("--config", other),
            **_JSON,
        },
    )


def _state(more: dict[str, Used | Refused | tuple[Used | Refused, ...]]) -> dict[str, Mode]:
    filtered = ("filter", "corpus.jsonl", "--output", "u.jsonl", "--state", "dir")
    other = ("filter", "other.jsonl", "--output", "v.jsonl", "--state", "other-dir", "--config", "strict.toml")
    return {
        "directory": Mode(
            ("dir",),
            {"--state": refused("are two directories: name one", "--state", "other-dir"),
             "--config": used("--config", "seed.toml"), **more},
            before=(filtered, other),
        ),
        "--state": Mode(
            ("--state", "dir"),
            {"--state": used("--state", "other-dir"), "--config": used("--config", "seed.toml"), **more},
            before=(filtered, other),
        ),
        "topic": Mode(
            (),
            {"--state": used("--state", "dir"), "--config": used("--config", "kafka.toml"), **more},
            _changelog,
            before=(filtered,),
        ),
    }  # fmt: skip


TABLE: dict[str, dict[str, Mode]] = {
    "": {
        "before a command": Mode(
            ("config", "metrics"),
            # Options of the program come before the command.
            {"--version": used("--version"), "--verbose": used("--verbose")},
        )
    },
    "run": {
        "Kafka": Mode((), {"--config": used("--config", "kafka.toml")}, _run)
    },
    "demo": {
        "embedded": Mode(
            (),
            {
                "--bootstrap": used("--bootstrap", "127.0.0.1:7"),
                "--input": used("--input", "corpus.jsonl"),
                "--rate": used("--rate", "7"),
                "--once": used("--once"),
                "--config": used("--config", "kafka.toml"),
                **_JSON,
            },
            _demo,
        ),
        "a cluster and a file": Mode(
            ("--bootstrap", "127.0.0.1:7", "--input", "corpus.jsonl"),
            {
                "--bootstrap": used("--bootstrap", "127.0.0.1:9"),
                "--input": used("--input", "other.jsonl"),
                "--rate": used("--rate", "7"),
                "--once": used("--once"),
                "--config": used("--config", "batches.toml"),
                **_JSON,
            },
            _demo,
        ),
    },
    "feed": {"Kafka": Mode((), {"--rate": used("--rate", "7"), "--config": used("--config", "kafka.toml")}, _feed)},
    "check": {
        "files": Mode(
            ("corpus.jsonl",),
            {
                "--topic": refused("a topic with --topic NAME", "--topic", "news"),
                "--bootstrap": refused("--bootstrap goes with --topic", "--bootstrap", "127.0.0.1:7"),
                "--items": refused("--items goes with --topic", "--items", "3"),
                "--format": used("--format", "csv"),
                "--config": used("--config", "fields.toml"),
                **_JSON,
            },
        ),
        "topic": Mode(
            ("--topic", "news"),
            {
                "--topic": used("--topic", "other"),
                "--bootstrap": used("--bootstrap", "127.0.0.1:7"),
                "--items": used("--items", "3"),
                "--format": refused("--format says what files hold", "--format", "csv"),
                "--config": used("--config", "kafka.toml"),
                **_JSON,
            },
            _topic,
        ),
    },
    "trial": {
        "Kafka": Mode(
            ("--from", "2026-01-01"),
            {
                "--bootstrap": used("--bootstrap", "127.0.0.1:7"),
                "--input": used("--input", "other"),
                "--since": refused("--since and --from exclude each other", "--since", "7h"),
                "--from": used("--from", "2026-02-01"),
                "--items": used("--items", "7"),
                "--minutes": used("--minutes", "7"),
                "--config": used("--config", "kafka.toml"),
                **_JSON,
            },
            _trial,
        ),
        "from a while ago": Mode(
            ("--since", "9999d"),
            {
                "--bootstrap": used("--bootstrap", "127.0.0.1:7"),
                "--input": used("--input", "other"),
                "--since": used("--since", "8888d"),
                "--from": refused("--since and --from exclude each other", "--from", "2026-02-01"),
                "--items": used("--items", "7"),
                "--minutes": used("--minutes", "7"),
                "--config": used("--config", "kafka.toml"),
                **_JSON,
            },
            _trial,
        ),
    },
    "filter": {
        "files": Mode(
            ("corpus.jsonl", "--output", "u.jsonl"),
            {
                "--output": used("--output", "v.jsonl"),
                "--duplicates": used("--duplicates", "d.jsonl"),
                "--state": used("--state", "dir"),
                "--force": used("--force", beside=("--duplicates", "labels.jsonl")),
                "--format": used("--format", "csv"),
                "--config": used("--config", "shadow.toml"),
                **_JSON,
            },
        ),
        "continued": Mode(
            ("corpus.jsonl", "--output", "u.jsonl", "--state", "dir"),
            {
                "--output": used("--output", "v.jsonl"),
                "--duplicates": used("--duplicates", "d.jsonl"),
                "--state": used("--state", "dir2"),
                "--force": used("--force", beside=("--output", "before.jsonl")),
                "--format": used("--format", "csv"),
                "--config": used("--config", "seed.toml"),
                **_JSON,
            },
            before=(("filter", "other.jsonl", "--output", "before.jsonl", "--state", "dir"),),
        ),
    },
    "pairs": {
        "local": Mode(
            ("corpus.jsonl", "--output", "p.jsonl"),
            {
                "--output": used("--output", "q.jsonl"),
                "--clusters": used("--clusters", "c.jsonl"),
                "--keep": (
                    refused("give --clusters FILE, too", "--keep", "longest"),
                    used("--keep", "longest", beside=("--clusters", "c.jsonl")),
                ),
                "--memory": used("--memory", "100M"),
                "--threads": used("--threads", "1"),
                "--bucket-limit": used("--bucket-limit", "7"),
                "--engine": refused("--engine spark", "--engine", "spark"),
                "--master": refused("--master is for --engine spark", "--master", "local[2]"),
                "--force": used("--force", beside=("--output", "labels.jsonl")),
                "--format": used("--format", "csv"),
                "--config": used("--config", "strict.toml"),
                **_JSON,
            },
            _local_pairs,
        ),
        "spark": Mode(
            ("corpus.jsonl", "--output", "p.jsonl", "--engine", "spark", "--master", "local[2]"),
            {
                "--output": used("--output", "q.jsonl"),
                "--clusters": used("--clusters", "c.jsonl"),
                "--keep": used("--keep", "longest", beside=("--clusters", "c.jsonl")),
                "--memory": used("--memory", "3G"),
                "--threads": refused("--threads is for --engine local", "--threads", "3"),
                "--bucket-limit": used("--bucket-limit", "7"),
                "--engine": refused("--master is for --engine spark", "--engine", "local"),
                "--master": used("--master", "local[3]"),
                "--force": used("--force"),
                "--format": used("--format", "parquet"),
                "--config": used("--config", "strict.toml"),
                **_JSON,
            },
            _spark_pairs,
        ),
    },
    "explain": {
        "ids": Mode(("a", "b", "--in", "corpus.jsonl"), {"--in": used("--in", "other.jsonl"), **_EXPLAIN}),
        "JSON": Mode(
            (FILES["a.json"], FILES["b.json"]),
            {"--in": refused("both items are given as JSON", "--in", "corpus.jsonl"), **_EXPLAIN},
        ),
        "files": Mode(("a.json", "b.json"), {"--in": used("--in", "corpus.jsonl"), **_EXPLAIN}),
    },
    "evaluate": {
        "minhash": _evaluate(None, "strict.toml"),
        "simhash": _evaluate("simhash.toml", "strict.toml"),
        "given": _evaluate("given.toml", "given-seven.toml"),
        "without labels": Mode(
            ("corpus.jsonl",),
            {
                "--labels": used("--labels", "labels.jsonl"),
                "--corpus": (
                    refused("--corpus selects labels", "--corpus", "ferries"),
                    refused("--corpus selects labels", "--corpus", ""),
                ),
                "--threshold": used("--threshold", "0.99"),
                "--sweep": used("--sweep"),
                "--plots": used("--plots", "figures"),
                "--report": used("--report", "report.html"),
                "--force": _FORCED,
                "--config": used("--config", "strict.toml"),
                **_JSON,
            },
        ),
    },
    "sample": {
        "files": Mode(
            ("dir", "--duplicates", "held.jsonl", "--input", "corpus.jsonl"),
            {
                "--count": used("--count", "7"),
                "--seed": used("--seed", "7"),
                "--duplicates": used("--duplicates", "labels.jsonl"),
                "--input": used("--input", "other.jsonl"),
                "--config": used("--config", "strict.toml"),
            },
            _sample,
        ),
        "Kafka": Mode(
            ("dir",),
            {
                "--count": used("--count", "7"),
                "--seed": used("--seed", "7"),
                "--duplicates": refused("go together", "--duplicates", "held.jsonl"),
                "--input": refused("go together", "--input", "corpus.jsonl"),
                "--config": used("--config", "kafka.toml"),
            },
            _sample,
        ),
        "continued": Mode(
            ("drawn",),
            {
                "--count": refused("were drawn with --count 8.*leave --count 7 out", "--count", "7"),
                "--seed": refused("were drawn with --seed 1", "--seed", "7"),
                "--duplicates": refused("were drawn without --duplicates", "--duplicates", "held.jsonl"),
                "--input": refused("were drawn without --input", "--input", "corpus.jsonl"),
                "--config": refused("were drawn without --config", "--config", "kafka.toml"),
            },
            _drawn_sample,
        ),
    },
    "plan": {
        "minhash": _plan(
            (), "seven.toml",
            recall=used("--recall", ".99"), threshold=used("--threshold", ".8"), shingles=_NOT_EXACT,
            hamming=refused("--hamming is for family = 'simhash'", "--hamming", "3"),
        ),
        "exact": _plan(
            ("--config", "exact.toml"), "exact-seven.toml",
            recall=used("--recall", ".99"), threshold=used("--threshold", ".8"), shingles=_EXACT,
            hamming=refused("--hamming is for family = 'simhash'", "--hamming", "3"),
        ),
        "bands": _plan(
            ("--config", "bands.toml"), "seven.toml",
            recall=used("--recall", ".99"), threshold=used("--threshold", ".8"), shingles=_NOT_EXACT,
            hamming=refused("--hamming is for family = 'simhash'", "--hamming", "3"),
        ),
        "simhash": _plan(
            ("--config", "simhash.toml"), "simhash-seven.toml",
            recall=used("--recall", ".5", beside=("--threshold", ".95")), threshold=used("--threshold", ".8"),
            shingles=_NOT_EXACT, hamming=used("--hamming", "6"),
        ),
        "given": _plan(
            ("--config", "given.toml"), "given-seven.toml",
            recall=refused("--recall has no meaning for family = 'given'", "--recall", ".9"),
            threshold=refused("--threshold has no meaning for family = 'given'", "--threshold", ".9"),
            shingles=_NOT_EXACT, hamming=used("--hamming", "6"),
        ),
    },
    "migrate": {"Kafka": Mode((), {"--config": used("--config", "kafka.toml"), **_JSON}, _migrate)},
    "health": {
        "settings": Mode(
            (), {"--url": used("--url", "http://127.0.0.1:7/x"), "--config": used("--config", "port.toml")}, _health
        ),
        "URL": Mode(
            ("--url", "http://127.0.0.1:7/x"),
            {"--url": used("--url", ""), "--config": used("--config", "token.toml")},
            _health,
        ),
    },
    "warm": {},
    "topics create": {
        "new": Mode(
            (),
            {
                "--config": used("--config", "kafka.toml"),
                "--partitions": used("--partitions", "3"),
                "--replication": used("--replication", "3"),
            },
            _topics,
        ),
        # They cannot be refused: whether the topics exist is known after creating those that do not.
        "nothing to create": Mode(
            (),
            {
                "--config": used("--config", "kafka.toml"),
                "--partitions": used("--partitions", "7"),
                "--replication": used("--replication", "3"),
            },
            _no_new_topics,
        ),
    },
    "topics check": {
        "Kafka": Mode((), {"--config": used("--config", "kafka.toml")}, _topics)
    },
    "state inspect": _state(_JSON),
    "state verify": _state({}),
    "config show": {"settings": Mode((), {"--config": used("--config", "kafka.toml"), **_JSON})},
    "config reference": {},
    "config metrics": {},
    "weights build": {
        "corpus": Mode(
            ("corpus.jsonl", "--output", "idf.bin"),
            {
                "--output": used("--output", "other-idf.bin"),
                "--force": used("--force", beside=("--output", "strict.jsonl")),
                "--config": used("--config", "seed.toml"),
            },
        )
    },
}  # fmt: skip
