"""Kafka for the soak: one node or three, each behind a proxy, and with a file system that can be full.

Workers connect through the proxies, which the brokers advertise on a listener of their own; the feeder and the checker
connect directly. One node is the embedded Kafka; three are a KRaft cluster in which each is broker and controller and
every topic has three replicas, of which two must have a record.
"""

import os
import re
import resource
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from stream_dedup.tools.demo.embedded import PROPERTIES, free_ports
from tests.broker import EmbeddedKafka, Listener, launch, listener_properties, prepare
from tests.lab.soak.proxy import HOST, Proxy

# A round takes a tenth of it. A tmpfs reserves nothing.
_ROOM = 4 * 2**30
# What still fits into a full file system: less than a second of any round.
_REST = 2**16


class Disk:
    """A file system for a broker's data that can be full, mounted at `path` inside a `with` block, if possible.

    With the right to mount it is a tmpfs; when it is full, its size is cut to what it holds. Without that right the
    kernel limits the size of the broker's files instead: writes fail in the same places, with EFBIG for ENOSPC.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_mounted = False

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        self._is_mounted = _run("mount", "-t", "tmpfs", "-o", f"size={_ROOM}", "stream-dedup-soak", str(self.path))
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_mounted:
            _run("umount", "--lazy", str(self.path))

    def fill(self, process_id: int) -> None:
        """Leave no room for what the broker (with this process id) writes."""
        if self._is_mounted:
            held = os.statvfs(self.path)
            used = (held.f_blocks - held.f_bfree) * held.f_frsize
            assert _run("mount", "-o", f"remount,size={used + _REST}", str(self.path)), f"{self.path} cannot be cut"
        else:
            _, hard = resource.prlimit(process_id, resource.RLIMIT_FSIZE)
            resource.prlimit(process_id, resource.RLIMIT_FSIZE, (0, hard))

    def make_room(self) -> None:
        """Give it its size again. A process whose files were limited must be restarted."""
        if self._is_mounted:
            assert _run("mount", "-o", f"remount,size={_ROOM}", str(self.path)), f"{self.path} stays full"


def _run(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


# Three virtual machines start at once, on machines that are busy.
_START_SECONDS = 120.0
_PROXIED = "PROXIED"  # the listener behind the proxy
_CLUSTER = "c3RyZWFtLWRlZHVwLXNvYQ"  # its id: sixteen bytes, as Kafka writes them

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


class Node(EmbeddedKafka):
    """One of three nodes. `ports` of every node: for clients, its controller, behind the proxy, the proxy's own."""

    def __init__(self, number: int, ports: Sequence[Sequence[int]], data: Path, wait: Callable[[], None]) -> None:
        super().__init__(data=data)
        self._number, self._ports, self._wait = number, ports, wait

    def _server_properties(self) -> str:
        port, controller, inner, outer = self._ports[self._number]
        voters = ",".join(f"{node + 1}@{HOST}:{ports[1]}" for node, ports in enumerate(self._ports))
        listeners = {"PLAINTEXT": (port, Listener()), _PROXIED: (inner, Listener(advertised_port=outer))}
        text = _PROPERTIES.format(
            node=self._number + 1, voters=voters, data=self._data, port=port, controller_port=controller
        )
        return text + listener_properties(controller, listeners)

    def _command(self, main_class: str, *arguments: str) -> list[str]:
        one_id = (re.sub("--cluster-id=.*", f"--cluster-id={_CLUSTER}", argument) for argument in arguments)
        return super()._command(main_class, *one_id)

    def _start(self) -> None:
        """Start it; it answers when a second one is there."""
        self._process = launch(self._command("kafka.Kafka", str(self._properties)), self.log)

    def _deregister(self) -> None:
        """The other nodes do it."""

    def restart(self) -> None:
        super().restart()
        self._wait()


class Cluster:
    """One node or three, each behind a proxy, for the duration of a `with` block. `direct`: bootstrap addresses for the
    feeder and the checker.
    """

    direct: str

    def __init__(self, count: int) -> None:
        self._count = count
        self.nodes: list[EmbeddedKafka] = []
        self.disks: list[Disk] = []  # of each node
        self.proxies: list[Proxy] = []

    @property
    def proxied(self) -> str:
        """Bootstrap addresses for workers."""
        return ",".join(f"{HOST}:{proxy.port}" for proxy in self.proxies)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            name = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="stream-dedup-soak-", ignore_cleanup_errors=True)
            )
            disks = (Disk(Path(name) / f"data-{node + 1}") for node in range(self._count))
            self.disks = [stack.enter_context(disk) for disk in disks]
            prepare()
            (self._start_one if self._count == 1 else self._start_all)(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start_one(self, stack: ExitStack) -> None:
        [outer] = free_ports(1)
        listeners = {_PROXIED: Listener(advertised_port=outer)}
        kafka = stack.enter_context(EmbeddedKafka(listeners=listeners, data=self.disks[0].path))
        self.nodes, self.direct = [kafka], kafka.bootstrap
        self.proxies = [stack.enter_context(Proxy(outer, int(kafka.addresses[_PROXIED].rpartition(":")[2])))]

    def _start_all(self, stack: ExitStack) -> None:
        """Start a KRaft cluster with as many replicas as nodes."""
        ports = free_ports(4 * self._count)
        self._ports = [ports[4 * node : 4 * node + 4] for node in range(self._count)]
        self.direct = ",".join(f"{HOST}:{ports[0]}" for ports in self._ports)
        for number, (_, _, inner, outer) in enumerate(self._ports):
            node = Node(number, self._ports, self.disks[number].path, self._wait)
            self.nodes.append(stack.enter_context(node))
            self.proxies.append(stack.enter_context(Proxy(outer, inner)))
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
