"""The embedded Kafka is a real broker, keeps its data after a kill, and never outlives the process that started it."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from stream_dedup.demo import jars
from stream_dedup.demo.jars import default_cache_dir, locked, ready_runtime
from stream_dedup.errors import StreamError
from tests.broker import EmbeddedKafka
from tests.harness.check import read_all
from tests.harness.feed import feed
from tests.harness.topics import make_settings, ready


def on_kafka(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.kafka(pytest.mark.usefixtures("kafka_prepared")(test))


def is_alive(pid: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_dead(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_alive(pid)


@on_kafka
@pytest.mark.slow
def test_kill_and_restart_keep_the_data_and_the_end_of_the_context_removes_it() -> None:
    messages: list[str] = []
    with EmbeddedKafka(say=messages.append) as kafka:
        first, address = kafka.pid, kafka.bootstrap
        settings = ready(make_settings(address, lambda role: role))
        feed(settings, [(None, b"before the kill")])
        kafka.kill()
        assert not is_alive(first)
        with pytest.raises(StreamError, match="not running"):
            _ = kafka.pid

        kafka.restart()
        assert kafka.bootstrap == address
        feed(settings, [(None, b"after the kill")])
        kafka.stop()
        kafka.restart()
        feed(settings, [(None, b"after the stop")])
        values = [record.value for record in read_all(settings, settings.topics.input)]
        assert values == [b"before the kill", b"after the kill", b"after the stop"]

        last, directory = kafka.pid, kafka.directory
        assert "Kafka Server started" in kafka.log.read_text()
    assert not is_alive(last)
    assert not directory.exists()
    assert any(address in line for line in messages)


CHILD = """
import sys
from pathlib import Path
from tests.broker import EmbeddedKafka
kafka = EmbeddedKafka(cache_dir=Path(sys.argv[1])).__enter__()
print(kafka.pid, kafka.directory, flush=True)
{then}
"""


def start_child(then: str, home: Path) -> tuple[subprocess.Popen[str], int, Path]:
    """Start a Python process with a broker, without java in its PATH; return it and the broker's pid and directory."""
    inherited = {k: v for k, v in os.environ.items() if k not in {"PATH", "JAVA_HOME", "M2_REPO"}}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(then=then), str(default_cache_dir())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**inherited, "PATH": "/nonexistent", "HOME": str(home)},
    )
    assert child.stdout is not None
    pid, directory = child.stdout.readline().split(" ", 1)
    return child, int(pid), Path(directory.strip())


@on_kafka
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a child when its parent dies")
def test_the_broker_dies_with_its_killed_parent(tmp_path: Path) -> None:
    child, pid, directory = start_child("sys.stdin.read()", tmp_path)
    with child:
        assert is_alive(pid)
        child.send_signal(signal.SIGKILL)
    assert wait_until_dead(pid)
    # The killed process could not clean up.
    subprocess.run(["rm", "-r", directory], check=True)


@on_kafka
def test_an_exit_without_a_stop_ends_the_broker(tmp_path: Path) -> None:
    child, pid, directory = start_child("sys.exit(3)", tmp_path)
    with child:
        assert child.wait(30) == 3
    assert wait_until_dead(pid)
    assert not directory.exists()


@on_kafka
def test_a_wrong_setting_is_reported_with_the_brokers_message() -> None:
    with (
        pytest.raises(StreamError, match=r"(?s)exit code 1.*Invalid value abc .*retention.*--bootstrap"),
        EmbeddedKafka(settings={"log.retention.bytes": "abc"}),
    ):
        pass


@on_kafka
@pytest.mark.slow
def test_a_transaction_that_the_broker_accepted_before_its_kill_is_committed() -> None:
    with EmbeddedKafka() as kafka:
        settings = {"bootstrap_servers": kafka.bootstrap}
        with contextlib.closing(KafkaAdminClient(**settings)) as admin:
            admin.create_topics({"topic": {"num_partitions": 100, "replication_factor": 1}}, wait_for_metadata=True)
        for _ in range(3):
            producer = KafkaProducer(**settings, transactional_id="tests", retry_backoff_ms=20)
            producer.init_transactions()
            producer.begin_transaction()
            futures = [producer.send("topic", b"value", partition=i) for i in range(100)]
            producer.flush(30)
            for future in futures:
                future.get(0)
            producer.commit_transaction()
            # Freeze the broker once it has accepted the commit, and kill it after the client has closed, since the
            # client would search for it. Markers in many partitions take longer to write.
            os.kill(kafka.pid, signal.SIGSTOP)
            producer.close()
            kafka.kill()
            kafka.restart()
        topic_partitions = [TopicPartition("topic", i) for i in range(100)]
        with (
            contextlib.closing(KafkaConsumer(**settings, isolation_level="read_committed")) as committed_only,
            contextlib.closing(KafkaConsumer(**settings, isolation_level="read_uncommitted")) as read_uncommitted,
        ):
            deadline = time.monotonic() + 10
            while committed_only.end_offsets(topic_partitions) != read_uncommitted.end_offsets(topic_partitions):
                assert time.monotonic() < deadline, "a transaction is still open"
                time.sleep(0.1)
            # Three values, each with a marker, which may be written twice.
            assert min(committed_only.end_offsets(topic_partitions).values()) >= 6


def test_only_one_process_prepares_at_a_time(tmp_path: Path) -> None:
    messages: list[str] = []
    order: list[str] = []
    waiting = threading.Event()

    def say(line: str) -> None:
        messages.append(line)
        waiting.set()

    def second() -> None:
        with locked(tmp_path, say):
            order.append("second")

    thread = threading.Thread(target=second)
    with locked(tmp_path, say):
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    assert "waiting" in messages[0]


@on_kafka
@pytest.mark.parametrize("name", ["kafka-clients-4.3.1.jar", "another.jar"])
def test_a_jar_that_is_not_kafka_s_is_refused_from_a_mirror_and_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def resolve(repository: Path):  # type: ignore[no-untyped-def]
        shutil.copytree(default_cache_dir() / f"kafka-{jars.KAFKA_VERSION}", repository)
        with (repository / name).open("ab") as file:
            file.write(b"half of it, or somebody else's")
        yield from repository.glob("*.jar")

    monkeypatch.setattr(jars, "_resolve", resolve)
    messages: list[str] = []
    with pytest.raises(StreamError, match=f"not Kafka's: {name}\n.*HTTPS_PROXY"):
        ready_runtime(tmp_path, messages.append)
    assert [p.name for p in tmp_path.iterdir()] == ["lock"]
    assert "44 MB" in messages[0]

    folder = tmp_path / f"kafka-{jars.KAFKA_VERSION}"
    [*resolve(folder)]
    with pytest.raises(StreamError, match=rf"kafka-4.3.1 has other files than Apache Kafka 4.3.1: {name}; delete this"):
        ready_runtime(tmp_path, messages.append)
    monkeypatch.undo()
    shutil.rmtree(folder)
    shutil.copytree(default_cache_dir() / folder.name, folder)
    assert ready_runtime(tmp_path, messages.append).jars == folder


def test_a_missing_package_is_reported_with_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jgo", None)
    with pytest.raises(StreamError, match=r"needs the package jgo.*pip install .*\[embedded\]"):
        ready_runtime(tmp_path, print)
