"""A real Kafka broker of one node for the duration of a `with` block.

`EmbeddedKafka` starts it and has the address to connect to. It is the real broker, not an imitation, because
transactions and fencing happen in the broker. It serves `make run` without a cluster, and the fault tests, which call
`kill()` and `restart()`.

jars.py has the times of download and start. The data is in a temporary directory that is deleted after the block. The
broker never outlives this process (child_process.py).
"""

import base64
import contextlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from stream_dedup.demo.child_process import end, launch
from stream_dedup.demo.jars import Runtime, Say, default_cache_dir, locked, ready_runtime
from stream_dedup.errors import StreamError
from stream_dedup.kafka.client import KafkaAdminClient
from stream_dedup.kafka.errors import KafkaError

# A start takes 1 to 3 s on two idle cores and took 12 s on busy ones; five times that is a failure.
START_SECONDS = 60.0
# A clean stop takes 0.3 s. It may wait for a client that holds a request; a kill does no harm then.
STOP_SECONDS = 10.0
# The training run writes 65 MB at its exit, which takes 5 s on two idle cores.
TRAINING_STOP_SECONDS = 120.0
LOG_LINES_SHOWN = 20

# Of every broker, also of one in a cluster (tests/soak). The controller's own listener is CONTROLLER.
COMMON_PROPERTIES = """\
process.roles=broker,controller
node.id={node}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false

# One partition of each internal topic starts fastest.
offsets.topic.num.partitions=1
offsets.topic.replication.factor={replicas}
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}

# A group does not wait for further members, and tests may use short session timeouts.
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000

# Articles of 20 MB are accepted. Sample feeds have old timestamps, which must not expire while they are read.
message.max.bytes=33554432
replica.fetch.max.bytes=33554432
log.retention.ms=-1

# The default reserves 128 MB of heap for compaction, which has little to do here.
log.cleaner.dedupe.buffer.size=4194304
"""

PROPERTIES = (
    COMMON_PROPERTIES
    + """
controller.quorum.voters=1@127.0.0.1:{controller_port}

# The controller must not take the leadership from a broker that was frozen for some seconds.
broker.session.timeout.ms=15000
"""
)

# The controller alone, on the same metadata: it notices that the broker is dead, and logs the line FENCED.
CONTROLLER_PROPERTIES = """\
process.roles=controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT
log.dirs={data}
broker.session.timeout.ms=100
controller.quorum.append.linger.ms=0
"""
FENCED = b"Fencing broker 1 "
# Time from that line until the fencing is stored; without a pause, one in twenty was not. If it is not stored, the next
# start waits for the broker's session timeout.
FENCED_SECONDS = 0.3


def free_ports(count: int, taken: Collection[int | None] = ()) -> list[int]:
    """Find free ports of 127.0.0.1 below the range of outgoing connections (Linux: from 32768), and none of `taken`.

    Within that range a client that tries to connect while the broker is down could get the broker's port as its own and
    connect to itself, and `restart()` would find the port in use.
    """
    ports: list[int] = []
    for port in random.Random().sample(range(20_000, 32_000), 200):  # a generator of its own: tests seed the global one
        if port in taken:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise StreamError("No free port between 20000 and 32000 on 127.0.0.1; end a program that listens there.")


def prepare(cache_dir: Path | None = None, say: Say = lambda _: None) -> Runtime:
    """Download what the embedded Kafka needs, unless it is cached; reports every slow step to `say`."""
    cache_dir = cache_dir or default_cache_dir()
    with locked(cache_dir, say):
        runtime = ready_runtime(cache_dir, say)
        if not runtime.startup_cache.exists():
            say("Recording a start-up cache for Java: 65 MB, about 8 s, once ...")
            try:
                with EmbeddedKafka(_training=runtime) as kafka:
                    kafka.stop(TRAINING_STOP_SECONDS)
                    kafka.keep_recorded_startup_cache()
            except StreamError as e:
                say(f"It could not be recorded, so each start takes two seconds longer: {e}")
            if not runtime.has_startup_cache:
                runtime.startup_cache.write_bytes(b"")  # empty: recording fails on this machine, do not retry
    return runtime


@dataclass(frozen=True)
class Listener:
    """A further listener of the broker. `advertised_port`: of a proxy in front of it, which clients are sent to."""

    protocol: str = "PLAINTEXT"
    advertised_port: int | None = None


def listener_properties(controller_port: int, listeners: Mapping[str, tuple[int, Listener]]) -> str:
    """Return the lines about listeners: the controller's, and each of these names with its port.

    >>> print(listener_properties(1, {"PLAINTEXT": (2, Listener()), "OUTSIDE": (3, Listener("SSL", 4))}), end="")
    listeners=CONTROLLER://127.0.0.1:1,PLAINTEXT://127.0.0.1:2,OUTSIDE://127.0.0.1:3
    advertised.listeners=PLAINTEXT://127.0.0.1:2,OUTSIDE://127.0.0.1:4
    listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,OUTSIDE:SSL
    """
    bound = "".join(f",{name}://127.0.0.1:{port}" for name, (port, _) in listeners.items())
    advertised = ",".join(
        f"{name}://127.0.0.1:{one.advertised_port or port}" for name, (port, one) in listeners.items()
    )
    protocols = "".join(f",{name}:{one.protocol}" for name, (_, one) in listeners.items())
    return (
        f"listeners=CONTROLLER://127.0.0.1:{controller_port}{bound}\n"
        f"advertised.listeners={advertised}\n"
        f"listener.security.protocol.map=CONTROLLER:PLAINTEXT{protocols}\n"
    )


# Of a JVM after SIGTERM, and as Python reports the signal.
_CLEAN_EXITS = 0, 128 + signal.SIGTERM, -signal.SIGTERM


class EmbeddedKafka:
    """A broker on 127.0.0.1 for the duration of a `with` block.

    `settings` override the broker's settings in PROPERTIES. `listeners` (name -> Listener) are opened besides its own
    one; `addresses` has where each of them accepts connections. `data`: an empty directory for the topics, instead of
    one in the temporary directory. Slow steps are reported to `say`.
    """

    bootstrap: str
    addresses: Mapping[str, str]
    directory: Path

    def __init__(
        self,
        *,
        cache_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        listeners: Mapping[str, Listener] | None = None,
        data: Path | None = None,
        say: Say = lambda _: None,
        _training: Runtime | None = None,
    ) -> None:
        self._cache_dir = cache_dir
        self._settings = dict(settings or {})
        self._listeners = dict(listeners or {})
        self._data = data
        self._say = say
        self._training = _training
        self._process: subprocess.Popen[bytes] | None = None
        self._still_registered = False

    def __enter__(self) -> Self:
        self._runtime = self._training or prepare(self._cache_dir, self._say)
        self._say("Starting Kafka ...")
        began = time.monotonic()
        # A killed process leaves its directory behind; the prefix shows whose it was.
        self._temporary = tempfile.TemporaryDirectory(prefix="stream-dedup-kafka-", ignore_cleanup_errors=True)
        try:
            self.directory = Path(self._temporary.name)
            advertised = {one.advertised_port for one in self._listeners.values()}
            controller_port, self._port, *further = free_ports(2 + len(self._listeners), taken=advertised)
            self.bootstrap = f"127.0.0.1:{self._port}"
            self.addresses = {name: f"127.0.0.1:{port}" for name, port in zip(self._listeners, further, strict=True)}
            values = {"controller_port": controller_port, "data": self._data or self.directory / "data"}
            listeners = {"PLAINTEXT": (self._port, Listener())}
            listeners |= dict(zip(self._listeners, zip(further, self._listeners.values(), strict=True), strict=True))
            text = PROPERTIES.format(node=1, replicas=1, in_sync=1, **values)
            text += listener_properties(controller_port, listeners)
            text += "".join(f"{name}={value}\n" for name, value in self._settings.items())
            self._properties.write_text(text, encoding="utf-8")
            self._controller_properties.write_text(CONTROLLER_PROPERTIES.format(**values), encoding="utf-8")
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

    @property
    def log(self) -> Path:
        """The broker's output, all starts in one file."""
        return self.directory / "kafka.log"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise StreamError("The embedded Kafka is not running; restart() starts it again.")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the broker's process is there; it ends by itself when it cannot write."""
        return self._process is not None and self._process.poll() is None

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stop the broker cleanly (SIGTERM), or kill it after `seconds`. The data stays for `restart()`."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                # A broker that was killed a moment ago may still be there; it ends with another code.
                self._still_registered = self._process.wait(seconds) not in _CLEAN_EXITS
            self.kill()

    def kill(self) -> None:
        """Kill the broker (SIGKILL), like a power cut. The data stays for `restart()`."""
        if self._process is not None:
            end(self._process)
            self._process = None

    def restart(self) -> None:
        """Start the same broker again, on the same ports and data; stop it cleanly first if it still runs."""
        if self.is_running:
            self.stop()
        else:
            self.kill()  # it has ended by itself, and not cleanly
        if self._still_registered:
            self._deregister()
        self._start()

    def keep_recorded_startup_cache(self) -> None:
        """Move the recording of a training run, after its stop, to where later starts look for it."""
        if self._recorded.is_file():
            part = self._runtime.startup_cache.with_suffix(".part")
            shutil.move(self._recorded, part)
            part.rename(self._runtime.startup_cache)

    @property
    def _recorded(self) -> Path:
        return self.directory / "startup.aot"

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    @property
    def _controller_properties(self) -> Path:
        return self.directory / "controller.properties"

    def _format(self) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")  # as Kafka writes ids
        command = self._runtime.command(
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

    def _deregister(self) -> None:
        """Let the controller fence the dead broker and take its leadership, as the rest of a cluster would.

        Without this the node would start as the leader that it was and begin to complete the transactions that it had
        prepared to commit. When its old registration expires, it would lose the leadership and treat the partitions as
        deleted. The transaction would count as complete but stay open in them (seen with 4.3.1, once in ten kills).
        """
        begin = self.log.stat().st_size
        command = self._runtime.command("kafka.Kafka", str(self._controller_properties))
        self._launch(command, lambda: FENCED in self.log.read_bytes()[begin:], "notice that it had been killed")
        time.sleep(FENCED_SECONDS)
        self._still_registered = False
        self.stop()

    def _start(self) -> None:
        command = self._runtime.command(
            "kafka.Kafka", str(self._properties), record=self._recorded if self._training else None
        )
        self._launch(command, self._answers, "answer")
        self._still_registered = True

    def _launch(self, command: list[str], is_ready: Callable[[], bool], what: str) -> None:
        """Start a process and wait until it is ready. Raises StreamError if it ends, or does not `what` in time."""
        self._process = launch(command, self.log)
        deadline = time.monotonic() + START_SECONDS
        while not is_ready():
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline:
                self.kill()
                reason = "ended at its start" if code is not None else f"did not {what} in {START_SECONDS:.0f} s"
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

    def _failure(self, what: str, code: int | None) -> StreamError:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        # Leave out the reports of the shutdown and the stack frames, which hide the cause.
        relevant = [line for line in lines if " INFO " not in line and not line.startswith("\tat ")]
        lines = (relevant or lines)[-LOG_LINES_SHOWN:]
        ending = "" if code is None else f" (exit code {code})"
        return StreamError(
            f"The embedded Kafka {what}{ending}. Its last lines:\n\n"
            + "\n".join(f"    {line}" for line in lines or ["(it printed nothing)"])
            + "\n\nIt needs 300 MB of memory, some disk in the temporary directory and two free ports of "
            f"127.0.0.1 (here {self._port} and its controller's). Correct what the lines name and start again, or "
            "use a cluster of yours with --bootstrap HOST:PORT."
        )
