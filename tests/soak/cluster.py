"""Kafka for the soak: one node or three, each behind a proxy.

Workers connect through the proxies, which the brokers advertise on a listener of their own; the feeder and the checker
connect directly. One node is the embedded Kafka; three are a KRaft cluster in which each is broker and controller and
every topic has three replicas, of which two must have a record.
"""

import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Self

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from stream_dedup.demo.embedded import PROPERTIES, end, free_ports
from stream_dedup.demo.jars import Runtime, ready_runtime
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


class Node:
    """One of three nodes, with what the soak needs of `EmbeddedKafka`. `wait`: until all three are in the cluster."""

    def __init__(self, home: Path, runtime: Runtime, wait: Callable[[], None]) -> None:
        self._properties, self.log, self._wait = home / "server.properties", home / "kafka.log", wait
        self._runtime = runtime
        self._process: subprocess.Popen[bytes] | None = None

    def format(self, cluster: str, properties: str) -> None:
        self._properties.parent.mkdir()
        self._properties.write_text(properties, encoding="utf-8")
        command = self._runtime.command("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties))
        process = launch(command, self.log)
        try:
            assert process.wait(_START_SECONDS) == 0, self.log.read_text("utf-8", "replace")
        finally:
            end(process)

    def start(self) -> None:
        self._process = launch(self._runtime.command("kafka.Kafka", str(self._properties)), self.log)

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.log} is of a node that is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            end(process)

    def restart(self) -> None:
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):  # a kill does no harm then
                self._process.wait(STOP_SECONDS)
            self.kill()
        self.start()
        self._wait()


class Cluster:
    """One node or three, each behind a proxy, for the duration of a `with` block. `direct`: bootstrap addresses for the
    feeder and the checker.
    """

    direct: str

    def __init__(self, count: int) -> None:
        self._count = count
        self.nodes: list[Any] = []  # EmbeddedKafka or Node
        self.disks: list[Disk] = []  # of each node
        self.proxies: list[Proxy] = []

    @property
    def proxied(self) -> str:
        """Bootstrap addresses for workers."""
        return ",".join(f"{HOST}:{one.port}" for one in self.proxies)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            name = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="stream-dedup-soak-", ignore_cleanup_errors=True)
            )
            disks = (Disk(Path(name) / f"data-{node + 1}") for node in range(self._count))
            self.disks = [stack.enter_context(one) for one in disks]
            if self._count == 1:
                self._start_one(stack)
            else:
                self._start_all(stack, Path(name))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start_one(self, stack: ExitStack) -> None:
        prepare()
        [outer] = free_ports(1)
        listeners = {_PROXIED: Listener(advertised_port=outer)}
        kafka = stack.enter_context(EmbeddedKafka(listeners=listeners, data=self.disks[0].path))
        self.nodes, self.direct = [kafka], kafka.bootstrap
        self.proxies = [stack.enter_context(Proxy(outer, int(kafka.addresses[_PROXIED].rpartition(":")[2])))]

    def _start_all(self, stack: ExitStack, directory: Path) -> None:
        """Start a KRaft cluster with as many replicas as nodes."""
        runtime, cluster, ports = ready_runtime(None, lambda _: None), str(uuid.uuid4()), free_ports(4 * self._count)
        self._ports = [ports[4 * node : 4 * node + 4] for node in range(self._count)]
        self.direct = ",".join(f"{HOST}:{one[0]}" for one in self._ports)
        voters = ",".join(f"{node + 1}@{HOST}:{one[1]}" for node, one in enumerate(self._ports))
        for number, (port, controller, inner, outer) in enumerate(self._ports, 1):
            node = Node(directory / str(number), runtime, self._wait)
            listeners = {"PLAINTEXT": (port, Listener()), _PROXIED: (inner, Listener(advertised_port=outer))}
            text = _PROPERTIES.format(
                node=number, voters=voters, data=self.disks[number - 1].path, port=port, controller_port=controller
            )
            node.format(cluster, text + listener_properties(controller, listeners))
            stack.callback(node.kill)
            self.nodes.append(node)
            self.proxies.append(stack.enter_context(Proxy(outer, inner)))
        for node in self.nodes:
            node.start()
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while self._alive() < self._count:
            for node in self.nodes:
                assert node.is_running, f"a node has ended: {node.log.read_text('utf-8', 'replace')[-2000:]}"
            assert time.monotonic() < deadline, f"{self._alive()} of {self._count} nodes after {_START_SECONDS} s"
            time.sleep(0.2)

    def _alive(self) -> int:
        """Brokers that accept connections and are in the cluster."""
        try:
            for port, *_ in self._ports:
                socket.create_connection((HOST, port), timeout=1).close()
            with closing(KafkaAdminClient(bootstrap_servers=self.direct, bootstrap_timeout_ms=5_000)) as admin:
                return len(admin.describe_cluster()["brokers"])
        except (OSError, KafkaError):
            return 0
