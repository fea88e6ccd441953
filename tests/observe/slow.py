"""Clients that are slow on purpose: connections that send a byte a second and never end their request.

In: an address and a number. They run in a process of their own, come from an address of their own (127.0.0.2), and
connect again whenever they are cut off.
"""

import multiprocessing
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_PROCESSES = multiprocessing.get_context("forkserver")
_START_SECONDS = 60.0
OWN_ADDRESS = "127.0.0.2"
_BIND_ADDRESS_NO_PORT = 24  # Linux: the port is chosen when it connects, so that thousands of ports are enough


@contextmanager
def slow_clients(count: int, *addresses: tuple[str, int]) -> Iterator[None]:
    """Hold this many connections to each address for the duration of the block."""
    ready, over = _PROCESSES.Event(), _PROCESSES.Event()
    process = _PROCESSES.Process(target=_hold, args=(count, addresses, ready, over), daemon=True)
    process.start()
    try:
        assert ready.wait(_START_SECONDS)
        yield
    finally:
        over.set()
        process.join(_START_SECONDS)


def _hold(count: int, addresses: tuple[tuple[str, int], ...], ready: Any, over: Any) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    peers = [(address, _connect(address)) for address in addresses for _ in range(count)]
    while True:
        for number, (address, peer) in enumerate(peers):
            try:
                peer.send(b"G")
            except BlockingIOError:  # it is not connected yet
                pass
            except OSError:
                peer.close()
                peers[number] = address, _connect(address)
        ready.set()
        if over.wait(1):
            return


def _connect(address: tuple[str, int]) -> socket.socket:
    peer = socket.socket()
    peer.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
    peer.bind((OWN_ADDRESS, 0))
    peer.setblocking(False)
    with suppress(BlockingIOError):
        peer.connect(address)
    return peer
