"""A real Kafka broker of one node for the duration of a `with` block.

`EmbeddedKafka` starts the broker and has its address. It is a real broker, not an imitation, because transactions and
fencing happen in the broker. It serves `make run` without a cluster; the tests have one of their own (tests/broker.py),
which can be killed and restarted. jars.py downloads what it needs.

The data is in a temporary directory, which is deleted after the block. The broker never outlives this process: it ends
at the interpreter's exit, and on Linux also if this process is killed. A broker that stayed would hold 300 MB and two
ports.
"""

import atexit
import base64
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from stream_dedup.errors import StreamError
from stream_dedup.kafka.client import KafkaAdminClient
from stream_dedup.kafka.errors import KafkaError
from stream_dedup.tools.demo.jars import Say, ready_runtime

# A start takes 3 s on two idle cores, and took 12 s on busy ones. Five times that is a failure.
START_SECONDS = 60.0
LOG_LINES_SHOWN = 20

PROPERTIES = Path(__file__).with_name("server.properties").read_text("utf-8")
"""Settings of the broker. Later lines override them; the clusters of the tests use that."""


def is_free(port: int) -> bool:
    """Return whether nothing listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections do not count, as for Java
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Find free ports of 127.0.0.1 below the range of outgoing connections (Linux: from 32768).

    Within that range, a client that connects while the broker is down could get the broker's port as its own, and
    connect to itself. Then a restart would find the port in use.
    """
    ports: list[int] = []
    for port in random.Random().sample(range(20_000, 32_000), 200):  # a generator of its own: tests seed the global one
        if is_free(port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise StreamError("No free port between 20000 and 32000 on 127.0.0.1; end a program that listens there.")


class EmbeddedKafka:
    """A broker on 127.0.0.1 for the duration of a `with` block. It reports slow steps to `say`.

    `port`: None means a free one. Raises StreamError if the broker does not start.
    """

    bootstrap: str
    directory: Path

    def __init__(self, *, cache_dir: Path | None = None, say: Say = lambda _: None, port: int | None = None) -> None:
        self._cache_dir, self._say, self._wanted_port = cache_dir, say, port
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if self._wanted_port and not is_free(self._wanted_port):
            raise StreamError(
                f"Port {self._wanted_port} of 127.0.0.1 is in use: end what listens there, or take another one with "
                f"--port {free_ports(1)[0]}."
            )
        self._runtime = ready_runtime(self._cache_dir, self._say)
        self._say("Starting Kafka ...")
        began = time.monotonic()
        # A killed process leaves its directory behind; the prefix shows whose it was.
        self._temporary = tempfile.TemporaryDirectory(prefix="stream-dedup-kafka-", ignore_cleanup_errors=True)
        try:
            self.directory = Path(self._temporary.name)
            self._controller_port, free = free_ports(2)
            self._port = self._wanted_port or free
            self.bootstrap = f"127.0.0.1:{self._port}"
            self._properties.write_text(self._server_properties(), encoding="utf-8")
            self._format()
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self._say(f"Kafka answers on {self.bootstrap} after {time.monotonic() - began:.1f} s.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()  # the data is deleted too, so a clean stop is not needed
        self._temporary.cleanup()

    def check(self) -> None:
        """Raise StreamError if the broker has ended by itself."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise self._failure("ended", code)

    @property
    def log(self) -> Path:
        """The broker's output, all starts in one file."""
        return self.directory / "kafka.log"

    def kill(self) -> None:
        """Kill the broker (SIGKILL), like a power cut."""
        if self._process is not None:
            end(self._process)
            self._process = None

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def _server_properties(self) -> str:
        return PROPERTIES.format(port=self._port, controller_port=self._controller_port, data=self.directory / "data")

    def _command(self, main_class: str, *arguments: str) -> list[str]:
        return self._runtime.command(main_class, *arguments)

    def _format(self) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")  # as Kafka writes ids
        command = self._command(
            "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(self._properties)
        )
        self._process = launch(command, self.log)
        try:
            code = self._process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        self.kill()
        if code != 0:
            raise self._failure("could not format its data directory", code)

    def _start(self) -> None:
        self._launch(self._command("kafka.Kafka", str(self._properties)), self._answers, "answer")

    def _launch(self, command: list[str], is_ready: Callable[[], bool], goal: str) -> None:
        """Start a process and wait until it is ready. Raises StreamError if it ends, or misses its `goal` in time."""
        self._process = launch(command, self.log)
        deadline = time.monotonic() + START_SECONDS
        while not is_ready():
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline:
                self.kill()
                reason = "ended at its start" if code is not None else f"did not {goal} in {START_SECONDS:.0f} s"
                raise self._failure(reason, code)
            time.sleep(0.02)

    def _answers(self) -> bool:
        """Return whether the broker is usable: the port accepts connections, and it lists itself as alive."""
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        try:
            # As to a Kafka 2.7: kafka-python 3.0.12 fails on the answer of brokers from 2.8 to 3.6 (DescribeCluster).
            admin = KafkaAdminClient(bootstrap_servers=self.bootstrap, bootstrap_timeout_ms=5_000, api_version=(2, 7))
            try:
                return bool(admin.describe_cluster()["brokers"])
            finally:
                admin.close()
        except KafkaError:
            return False

    def _failure(self, problem: str, code: int | None) -> StreamError:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        # Leave out the reports of the shutdown and the stack frames, which hide the cause.
        relevant = [line for line in lines if " INFO " not in line and not line.startswith("\tat ")]
        lines = (relevant or lines)[-LOG_LINES_SHOWN:]
        ending = "" if code is None else f" (exit code {code})"
        return StreamError(
            f"The embedded Kafka {problem}{ending}. Its last lines:\n\n"
            + "\n".join(f"    {line}" for line in lines or ["(it printed nothing)"])
            + "\n\nIt needs 300 MB of memory, some disk in the temporary directory and two free ports of "
            f"127.0.0.1 (here {self._port} and its controller's). Correct what the lines name and start again, or "
            "use a cluster of yours with --bootstrap HOST:PORT."
        )


# -- child processes that never outlive this process --------------------------------------------------------

# PR_SET_PDEATHSIG = 1: the kernel kills a process when its parent dies. A small process requests this and then becomes
# the command; a `preexec_fn` would be unsafe in a process with threads.
LAUNCHER = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent ended before the start")
os.execv(sys.argv[2], sys.argv[2:])
"""


_running: set[subprocess.Popen[bytes]] = set()
os.register_at_fork(after_in_child=_running.clear)  # a forked process must not end its parent's brokers


@atexit.register
def _kill_all() -> None:
    for process in list(_running):
        end(process)


def launch(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start `command`, which ends with this process, and append its output to `log`.

    For the kernel the calling thread is the parent, so the command ends with that thread, too.
    """
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid()), *command]

    # Without variables that pass flags to Java: a second garbage collector is an error.
    environment = {k: v for k, v in os.environ.items() if k not in {"JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"}}
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command line # nosec B603
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C must reach only this process, which needs its broker to end cleanly
        )
    _running.add(process)
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and wait for its end."""
    process.kill()
    process.wait()
    _running.discard(process)
