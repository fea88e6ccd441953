"""Kafka for the soak: one node or three, each behind a proxy.

Workers connect through the proxies, which the brokers advertise on a listener of their own; the feeder and the checker
connect directly. One node is the embedded Kafka; three are a KRaft cluster in which each is broker and controller and
every topic has three replicas, of which two must have a record.
"""

import os
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from stream_dedup.demo.embedded import PROPERTIES, end, free_ports
from stream_dedup.demo.jars import ready_runtime
from tests.broker import STOP_SECONDS, EmbeddedKafka, Listener, launch, listener_properties, prepare
from tests.soak.disk import Disk
from tests.soak.proxy import HOST, Proxy

# Three virtual machines start at once, on machines that are busy.
_START_SECONDS = 120.0
_PROXIED = "PROXIED"  # the listener behind the proxy

_PROPERTIES = (
    PROPERTIES
    + """
node.id={node}
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
controller.quorum.voters={voters}
default.replication.factor=3
min.insync.replicas=2

# A killed broker loses its leaderships after this time, and a replica that lags behind its place in sync.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
replica.lag.time.max.ms=4000
"""
)


class Cluster(ABC):
    """Brokers with numbers from 0 on, each behind a proxy, for the duration of a `with` block."""

    nodes: int
    proxies: list[Proxy]
    direct: str  # bootstrap addresses for the feeder and the checker

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._disks: list[Disk] = []  # of each node

    def _directory(self) -> Path:
        """Make the directory that the disks are in, and enter each before the brokers start."""
        name = self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix="stream-dedup-soak-", ignore_cleanup_errors=True)
        )
        disks = (Disk(Path(name) / f"data-{node + 1}") for node in range(self.nodes))
        self._disks = [self._stack.enter_context(one) for one in disks]
        return Path(name)

    @property
    def proxied(self) -> str:
        """Bootstrap addresses for workers."""
        return ",".join(f"{HOST}:{one.port}" for one in self.proxies)

    @abstractmethod
    def pid(self, node: int) -> int:
        """The process of a node."""

    @abstractmethod
    def kill(self, node: int) -> None:
        """Send SIGKILL."""

    @abstractmethod
    def restart(self, node: int) -> None:
        """Start a node that was killed, or stop one cleanly and start it again."""

    @abstractmethod
    def is_running(self, node: int) -> bool:
        """Whether the node's process is there."""

    def fill_disk(self, node: int) -> None:
        """Let the node's disk be full."""
        self._disks[node].fill(self.pid(node))

    def make_room(self, node: int) -> None:
        self._disks[node].make_room()

    def freeze(self, node: int) -> None:
        os.kill(self.pid(node), signal.SIGSTOP)

    def thaw(self, node: int) -> None:
        os.kill(self.pid(node), signal.SIGCONT)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    @abstractmethod
    def _start(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class SingleNode(Cluster):
    """The embedded Kafka."""

    nodes = 1

    def _start(self) -> None:
        prepare()
        self._directory()
        [outer] = free_ports(1)
        self._kafka = self._stack.enter_context(
            EmbeddedKafka(listeners={_PROXIED: Listener(advertised_port=outer)}, data=self._disks[0].path)
        )
        self.direct = self._kafka.bootstrap
        inner = int(self._kafka.addresses[_PROXIED].rpartition(":")[2])
        self.proxies = [self._stack.enter_context(Proxy(outer, inner))]

    def pid(self, node: int) -> int:
        return self._kafka.pid

    def is_running(self, node: int) -> bool:
        return self._kafka.is_running

    def kill(self, node: int) -> None:
        self._kafka.kill()

    def restart(self, node: int) -> None:
        self._kafka.restart()


class ThreeNodes(Cluster):
    """A KRaft cluster with three replicas."""

    nodes = 3

    def _start(self) -> None:
        self._runtime = ready_runtime(None, lambda _: None)
        directory = self._directory()
        ports = free_ports(4 * self.nodes)
        self._ports = [ports[4 * node : 4 * node + 4] for node in range(self.nodes)]
        voters = ",".join(f"{node + 1}@{HOST}:{one[1]}" for node, one in enumerate(self._ports))
        self._homes = [directory / str(node + 1) for node in range(self.nodes)]
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * self.nodes
        cluster = str(uuid.uuid4())
        for node, home in enumerate(self._homes):
            home.mkdir()
            port, controller, inner, outer = self._ports[node]
            text = _PROPERTIES.format(
                node=node + 1, voters=voters, data=self._disks[node].path, port=port, controller_port=controller
            )
            text += listener_properties(
                controller, {"PLAINTEXT": (port, Listener()), _PROXIED: (inner, Listener(advertised_port=outer))}
            )
            (home / "server.properties").write_text(text, encoding="utf-8")
            command = self._runtime.command(
                "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(home / "server.properties")
            )
            process = launch(command, home / "kafka.log")
            try:
                assert process.wait(_START_SECONDS) == 0, (home / "kafka.log").read_text("utf-8", "replace")
            finally:
                end(process)
        for node in range(self.nodes):
            self._stack.callback(self.kill, node)
        self.direct = ",".join(f"{HOST}:{one[0]}" for one in self._ports)
        self.proxies = [self._stack.enter_context(Proxy(outer, inner)) for _, _, inner, outer in self._ports]
        for node in range(self.nodes):
            self._launch(node)
        self._wait_for(self.nodes)

    def pid(self, node: int) -> int:
        process = self._processes[node]
        assert process is not None, f"node {node} is not running"
        return process.pid

    def is_running(self, node: int) -> bool:
        process = self._processes[node]
        return process is not None and process.poll() is None

    def kill(self, node: int) -> None:
        process, self._processes[node] = self._processes[node], None
        if process is not None:
            end(process)

    def restart(self, node: int) -> None:
        process = self._processes[node]
        if process is not None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):  # a kill does no harm then
                process.wait(STOP_SECONDS)
            self.kill(node)
        self._launch(node)
        self._wait_for(self.nodes)

    def _launch(self, node: int) -> None:
        home = self._homes[node]
        command = self._runtime.command("kafka.Kafka", str(home / "server.properties"))
        self._processes[node] = launch(command, home / "kafka.log")

    def _wait_for(self, count: int) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while self._alive() < count:
            for node, process in enumerate(self._processes):
                if process is not None and process.poll() is not None:
                    log = (self._homes[node] / "kafka.log").read_text("utf-8", "replace")
                    raise AssertionError(f"node {node} has ended: {log[-2000:]}")
            assert time.monotonic() < deadline, f"{self._alive()} of {count} nodes after {_START_SECONDS} s"
            time.sleep(0.2)

    def _alive(self) -> int:
        """Brokers that accept connections and are in the cluster."""
        for port, *_ in self._ports:
            try:
                socket.create_connection((HOST, port), timeout=1).close()
            except OSError:
                return 0
        try:
            admin = KafkaAdminClient(bootstrap_servers=self.direct, bootstrap_timeout_ms=5_000)
            try:
                return len(admin.describe_cluster()["brokers"])
            finally:
                admin.close()
        except KafkaError:
            return 0
