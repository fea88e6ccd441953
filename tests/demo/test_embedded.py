"""The embedded Kafka is a real broker, survives a kill with its data, and never outlives who started it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_dedup.demo import jars
from stream_dedup.demo.embedded import EmbeddedKafka, prepare
from stream_dedup.demo.jars import default_cache_dir, locked
from stream_dedup.errors import StreamError


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie, which only waits to be noticed, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(pid: int, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


def create(kafka: EmbeddedKafka, topic: str, partitions: int = 1) -> None:
    from kafka.admin import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}}, wait_for_metadata=True)
    admin.close()


def commit(
    kafka: EmbeddedKafka,
    topic: str,
    *values: bytes,
    spread: bool = False,
    afterwards: Callable[[], object] = lambda: None,
) -> None:
    """Send the values in one transaction, all to one partition or each to the next, and call `afterwards` once Kafka
    has promised to commit it.
    """
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=kafka.bootstrap,
        transactional_id=f"tests-{topic}",
        retry_backoff_ms=20,
        max_request_size=32 << 20,
    )
    producer.init_transactions()
    producer.begin_transaction()
    futures = [producer.send(topic, value, partition=i if spread else 0) for i, value in enumerate(values)]
    producer.flush(30)
    for future in futures:
        future.get(0)
    producer.commit_transaction()
    afterwards()
    producer.close()


def committed(kafka: EmbeddedKafka, topic: str, count: int) -> list[bytes]:
    """The first `count` committed values of the topic, or fewer after 30 s."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=32 << 20,
    )
    consumer.assign([TopicPartition(topic, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + 30
    while len(values) < count and time.monotonic() < deadline:
        values += [r.value for records in consumer.poll(500).values() for r in records]
    consumer.close()
    return values


@pytest.mark.kafka
def test_a_transaction_passes_through(kafka: EmbeddedKafka, topic_name: Callable[[str], str]) -> None:
    topic = topic_name("input")
    create(kafka, topic)
    commit(kafka, topic, b"one", b"two")
    assert committed(kafka, topic, 2) == [b"one", b"two"]


@pytest.mark.kafka
def test_articles_of_20_mb_pass(kafka: EmbeddedKafka, topic_name: Callable[[str], str]) -> None:
    topic = topic_name("large")
    create(kafka, topic)
    article = os.urandom(20_000_000)
    for _ in range(4):  # more than a heap that is too small could hold
        commit(kafka, topic, article)
    assert committed(kafka, topic, 4) == [article] * 4


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_prepared")
def test_kill_and_restart_keep_the_data_and_the_end_of_the_block_leaves_nothing() -> None:
    said: list[str] = []
    with EmbeddedKafka(say=said.append) as kafka:
        first, address = kafka.pid, kafka.bootstrap
        create(kafka, "topic")
        commit(kafka, "topic", b"before the kill")
        kafka.kill()
        assert not alive(first)
        with pytest.raises(StreamError, match="not running"):
            _ = kafka.pid

        kafka.restart()
        assert kafka.bootstrap == address
        commit(kafka, "topic", b"after the kill")
        kafka.stop()
        kafka.restart()
        commit(kafka, "topic", b"after the stop")
        assert committed(kafka, "topic", 3) == [b"before the kill", b"after the kill", b"after the stop"]

        last, directory = kafka.pid, kafka.directory
        assert "Kafka Server started" in kafka.log.read_text()
    assert not alive(last)
    assert not directory.exists()
    assert any(address in line for line in said)


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_prepared")
def test_the_broker_outlives_the_thread_that_restarted_it() -> None:
    # The kernel ties a child to the thread that started it; fault tests restart from helper threads.
    with EmbeddedKafka() as kafka:
        helper = threading.Thread(target=kafka.restart)
        helper.start()
        helper.join()
        time.sleep(0.3)
        assert alive(kafka.pid)


CHILD = """
import sys
from pathlib import Path
from stream_dedup.demo.embedded import EmbeddedKafka
kafka = EmbeddedKafka(cache_dir=Path(sys.argv[1])).__enter__()
print(kafka.pid, kafka.directory, flush=True)
{then}
"""


def start_child(then: str, home: Path) -> tuple[subprocess.Popen[str], int, Path]:
    """A Python process with a broker, on a machine where PATH leads to no java and no mvn."""
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


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_prepared")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_a_killed_parent_takes_the_broker_along(tmp_path: Path) -> None:
    child, pid, directory = start_child("sys.stdin.read()", tmp_path)
    with child:
        assert alive(pid)
        child.send_signal(signal.SIGKILL)
    assert ends(pid)
    # Nobody was left to clean up.
    subprocess.run(["rm", "-r", directory], check=True)


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_prepared")
def test_an_exit_that_forgets_the_broker_ends_it(tmp_path: Path) -> None:
    child, pid, directory = start_child("sys.exit(3)", tmp_path)
    with child:
        assert child.wait(30) == 3
    assert ends(pid)
    assert not directory.exists()


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_prepared")
def test_a_wrong_setting_is_told_in_the_brokers_words() -> None:
    with (
        pytest.raises(StreamError, match=r"(?s)exit code 1.*Invalid value abc .*retention.*--bootstrap"),
        EmbeddedKafka(settings={"log.retention.bytes": "abc"}),
    ):
        pass


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_prepared")
def test_a_transaction_that_the_killed_broker_had_promised_to_commit_is_committed() -> None:
    from kafka import KafkaConsumer, TopicPartition

    def freeze() -> None:
        os.kill(kafka.pid, signal.SIGSTOP)

    with EmbeddedKafka() as kafka:
        create(kafka, "topic", partitions=100)
        for _ in range(3):
            # Frozen when the promise is given, and killed when the client is gone, which else would look for it. The
            # markers in so many partitions take longer.
            commit(kafka, "topic", *[b"value"] * 100, spread=True, afterwards=freeze)
            kafka.kill()
            kafka.restart()
        places = [TopicPartition("topic", i) for i in range(100)]
        settings = {"bootstrap_servers": kafka.bootstrap}
        with (
            contextlib.closing(KafkaConsumer(**settings, isolation_level="read_committed")) as committed_only,
            contextlib.closing(KafkaConsumer(**settings, isolation_level="read_uncommitted")) as everything,
        ):
            deadline = time.monotonic() + 10
            while committed_only.end_offsets(places) != everything.end_offsets(places) and time.monotonic() < deadline:
                time.sleep(0.1)
            assert committed_only.end_offsets(places) == everything.end_offsets(places)
            # Three values, each with its marker, perhaps written once more.
            assert min(committed_only.end_offsets(places).values()) >= 6


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_prepared")
def test_a_port_that_was_taken_meanwhile_is_told() -> None:
    with EmbeddedKafka() as kafka:
        kafka.stop()
        host, port = kafka.bootstrap.split(":")
        with socket.socket() as other:
            other.bind((host, int(port)))  # taken, but nobody answers
            with pytest.raises(StreamError, match=r"(?s)ended at its start.*Address already in use"):
                kafka.restart()


def test_only_one_process_prepares_at_a_time(tmp_path: Path) -> None:
    said: list[str] = []
    order: list[str] = []
    waiting = threading.Event()

    def say(line: str) -> None:
        said.append(line)
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
    assert "waiting" in said[0]


def test_a_broken_download_leaves_nothing_that_looks_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(repository: Path):  # type: ignore[no-untyped-def]
        repository.mkdir()
        jar = repository / "half.jar"
        jar.write_bytes(b"PK\x03\x04 and then the line went dead")
        yield jar

    monkeypatch.setattr(jars, "_resolve", resolve)
    said: list[str] = []
    with pytest.raises(StreamError, match="HTTPS_PROXY"):
        prepare(tmp_path, said.append)
    assert [p.name for p in tmp_path.iterdir()] == ["lock"]
    assert "44 MB" in said[0]


def test_a_missing_package_is_named_with_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jgo", None)
    with pytest.raises(StreamError, match=r"pip install 'stream-dedup\[embedded\]'"):
        prepare(tmp_path)
