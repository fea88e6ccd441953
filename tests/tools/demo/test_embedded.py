"""The embedded Kafka never outlives the process that started it, and runs no jars but Kafka's."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Queue

import pytest

from stream_dedup.errors import ConfigError, StreamError
from stream_dedup.tools.demo import jars
from stream_dedup.tools.demo.jars import default_cache_dir, locked, ready_runtime
from tests.broker import EmbeddedKafka
from tests.harness.wait import wait_until


def on_kafka(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.kafka(pytest.mark.usefixtures("kafka_prepared")(test))


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


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
        cwd=Path(__file__).parents[3],
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
    wait_until(lambda: not is_alive(pid), "the broker is dead", 10)
    # The killed process could not clean up.
    subprocess.run(["rm", "-r", directory], check=True)


@on_kafka
def test_an_exit_without_a_stop_ends_the_broker(tmp_path: Path) -> None:
    child, pid, directory = start_child("sys.exit(3)", tmp_path)
    with child:
        assert child.wait(30) == 3
    wait_until(lambda: not is_alive(pid), "the broker is dead", 10)
    assert not directory.exists()


@on_kafka
def test_a_wrong_setting_is_reported_with_the_brokers_message() -> None:
    with (
        pytest.raises(StreamError, match=r"(?s)exit code 1.*Invalid value abc .*retention.*--bootstrap"),
        EmbeddedKafka(settings={"log.retention.bytes": "abc"}),
    ):
        pass


def test_only_one_process_prepares_at_a_time(tmp_path: Path) -> None:
    said: Queue[str] = Queue()
    order: list[str] = []

    def second() -> None:
        with locked(tmp_path, said.put):
            order.append("second")

    thread = threading.Thread(target=second)
    with locked(tmp_path, said.put):
        thread.start()
        assert "waiting" in said.get(timeout=10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


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
    with pytest.raises(ConfigError, match=r"needs jgo: .*pip install .*\[embedded\]"):
        ready_runtime(tmp_path, print)
