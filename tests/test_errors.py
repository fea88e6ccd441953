"""Every error class is raised through a public entry, and its message names the place and the cure.

`ENTRIES` has one way to meet each class. docs/errors.md has a table of all classes: what the worker does about each,
and the exit code of a command that it ends.
"""

import gzip
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kafka import errors as kafka_errors

from stream_dedup import Deduplicator, Item, errors, load_settings
from stream_dedup.cli.main import exit_code
from stream_dedup.index import runs
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.kafka.errors import not_reached, translate
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import ItemSettings, RegistrySettings
from stream_dedup.tools.batch.filter import filter_files
from stream_dedup.tools.topics.migration import Migration
from stream_dedup.worker import task, worker
from stream_dedup.worker.resume import resume_offsets
from stream_dedup.worker.state_store import StateStore
from tests.deploy.files import DEPLOY
from tests.worker.support import context
from tests.worker.test_resume import committed, facts
from tests.worker.test_task import FakePipeline, FakeStore, Task
from tests.worker.test_transaction import FakeClient, run

PAGE = DEPLOY.parent / "docs" / "errors.md"
SETTINGS = load_settings(kafka={"bootstrap_servers": "broker:9092", "group_id": "group"})


def every_class() -> list[type[errors.StreamDedupError]]:
    """Return all error classes in the order of the module, without the base class."""
    classes = [
        cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, errors.StreamDedupError)
    ]
    return [cls for cls in classes if cls is not errors.StreamDedupError]


# -- entries -------------------------------------------------------------------------------------------------


def damaged_state(directory: Path) -> None:
    dedup = Deduplicator()
    file = directory / "saved"
    dedup.save(file)
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    Deduplicator.load(file)


def state_of_another_scheme(directory: Path) -> None:
    dedup, file = Deduplicator(), directory / "saved"
    dedup.apply(dedup.judge([Item("1", "A headline", "A text of some words.", "", 1_700_000_000_000)]))
    dedup.save(file)
    Deduplicator.load(file, load_settings(fingerprint={"verify": "exact"}))


def merge_without_memory(_: Path) -> None:
    def no_room(*_: Any) -> Any:
        raise MemoryError("no room")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "_AT_ONCE", 10)
        patch.setattr(runs, "merge_runs", no_room)
        index = HybridIndex([0])
        for i in range(0, 100, 20):
            index.add(np.full((20, 1), 7, np.uint32), np.arange(i, i + 20))
        index.close()


def no_right(_: Path) -> None:
    raise translate(kafka_errors.TopicAuthorizationFailedError("news.raw"), "polling news.raw")


def refused_login(_: Path) -> None:
    raise translate(kafka_errors.SaslAuthenticationFailedError("wrong password"), "logging in")


def with_client(bound: float = 5.0, **state: Any) -> Callable[[Path], None]:
    """Commit with a client whose attributes are these."""

    def call(_: Path) -> None:
        client = FakeClient()
        vars(client).update(state)
        try:
            run(client, bound)
        finally:
            client.hold.set()

    return call


def registry_away(_: Path) -> None:
    Decoder(ItemSettings(), RegistrySettings(url="http://127.0.0.1:9"))(b"\0\0\0\0\7Avro", None, 0)


def stopped_opening(_: Path) -> None:
    """The worker is stopped while a task opens; the error ends only the opening's thread."""

    def until_stopped(check: Callable[[], None]) -> None:
        while True:
            check()

    with pytest.MonkeyPatch.context() as patch:
        FakeStore.made = []
        patch.setattr(task, "StateStore", FakeStore)
        patch.setattr(task, "open_pipeline", FakePipeline.open)
        is_stopping = threading.Event()
        opened = Task("global", 0, context(SETTINGS), is_stopping)
        patch.setattr(FakePipeline, "how", staticmethod(until_stopped), raising=False)
        opened.assign(frozenset({0}), "")
        opened.advance(None)  # type: ignore[arg-type]
        is_stopping.set()
        assert opened._opening is not None
        opened._opening.result(30)


EXPIRED = kafka_errors.KafkaTimeoutError("Expiring 1 record(s)")
OTHER_INPUT = facts({0: committed(5, input_id="an-older-one"), 1: committed(5)})
CUT_INPUT = facts({0: committed(5), 1: committed(5)}, beginnings={0: 9, 1: 0})

# Class -> what raises it, and words of its message: the place, then the cure (or what happens next).
ENTRIES: dict[type[errors.StreamDedupError], tuple[Callable[[Path], object], tuple[str, ...]]] = {
    errors.ConfigError: (
        lambda _: load_settings(window={"lenght": "3d"}), ("[window]", "did you mean [window] length"),
    ),
    errors.UsageError: (lambda _: Item.of(id="8", time=1_772_323_200), ("item '8'", "give milliseconds")),
    errors.BadItem: (
        lambda _: Decoder(ItemSettings()).read(gzip.compress(b'{"id": "a"}')),
        ("the value is gzip-compressed", "publish it plain"),
    ),
    errors.InputError: (
        lambda tmp: filter_files([tmp / "nowhere.jsonl"], tmp / "out.jsonl", None, settings=load_settings()),
        ("nowhere.jsonl", "there is no file"),
    ),
    errors.CorruptBlock: (damaged_state, ("saved, byte", "restore the file from a copy")),
    errors.SchemeMismatch: (
        state_of_another_scheme, ("verify = 'sketch' then, 'exact' now", "Load it with the settings"),
    ),
    errors.MergeFailed: (merge_without_memory, ("rows 0 to", "more memory")),
    errors.StreamError: (no_right, ("polling news.raw: TopicAuthorizationFailedError", "Topics and rights")),
    errors.TopicError: (
        lambda _: resume_offsets(SETTINGS, OTHER_INPUT),
        ("news.raw was deleted and created anew", "stream-dedup groups set-offset"),
    ),
    errors.RecordsGone: (
        lambda _: resume_offsets(SETTINGS, CUT_INPUT), ("offsets 5 to 8 of partition 0", "set-offset 9"),
    ),
    errors.TransactionFailed: (
        with_client(answers=[None, EXPIRED]), ("waiting for the acknowledgements", "Expiring"),
    ),
    errors.Refused: (
        with_client(answers=[None, None, kafka_errors.MessageSizeTooLargeError("too large")]), ("refuse", "too large"),
    ),
    errors.Stalled: (with_client(0.1, hangs={"commit"}), ("committing did not end", "bound")),
    errors.LoginRefused: (
        refused_login,
        ("logging in: SaslAuthenticationFailedError", "check [kafka] sasl_mechanism, sasl_username and sasl_password"),
    ),
    errors.Fenced: (
        with_client(raises={"commit": kafka_errors.ProducerFencedError()}),
        ("committing: ProducerFencedError", "give each its own"),
    ),
    errors.Outdated: (
        lambda _: StateStore(context(SETTINGS), "global", 0, "changelog-1").check_topic("changelog-2"),
        ("changelog", "deleted and created anew"),
    ),
    errors.MigrationError: (
        lambda _: Migration(load_settings(worker={"scope": "partition"}), lambda _: None),
        ("scope = 'global'", "changelog"),
    ),
    errors.RegistryAway: (registry_away, ("the schema registry http://127.0.0.1:9 cannot be reached", "wait for it")),
    errors.Interrupted: (stopped_opening, ("the worker was stopped", "while the task was being opened")),
}  # fmt: skip
# Raised on a real Kafka: tests/worker/test_restore.py, test_a_lost_entry_is_refused.
ON_KAFKA = {errors.ChangelogError}


def test_every_class_has_an_entry() -> None:
    assert ENTRIES.keys() ^ ON_KAFKA == set(every_class())


@pytest.mark.parametrize("error", ENTRIES, ids=lambda error: str(error.__name__))
def test_it_is_raised_with_the_place_and_the_cure(error: type[errors.StreamDedupError], tmp_path: Path) -> None:
    raises, words = ENTRIES[error]
    with pytest.raises(errors.StreamDedupError) as caught:
        raises(tmp_path)
    assert type(caught.value) is error
    for part in words:
        assert part in str(caught.value)


def test_a_broker_that_does_not_answer_ends_a_command_with_its_address() -> None:
    error = not_reached(kafka_errors.KafkaTimeoutError("nothing listens at broker:9092"), SETTINGS)
    assert type(error) is errors.StreamError
    assert str(error) == "no broker answers at broker:9092: nothing listens at broker:9092"


# -- the table -----------------------------------------------------------------------------------------------


def fate(error: type[errors.StreamDedupError]) -> str:
    """Return what the worker does about an error, by the code."""
    if issubclass(error, errors.BadItem):
        return "dead-letters"
    if issubclass(error, (*worker._RETRYABLE, errors.Interrupted)):
        return "retries"
    return "does not meet it" if error in (errors.InputError, errors.UsageError) else "ends"


def row(error: type[errors.StreamDedupError]) -> str:
    meaning = (error.__doc__ or "").partition("\n")[0].rstrip(".")
    code = "" if error in (errors.BadItem, errors.Interrupted) else str(exit_code(error))  # they end nothing
    return f"| `{error.__name__}` | {meaning} | {fate(error)} | {code} |"


def test_the_table_of_all_classes_is_that_of_the_code() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    expected = [row(error) for error in every_class()]
    assert rows == expected, "docs/errors.md needs these rows:\n" + "\n".join(expected)
