"""Explain why no broker answers at the configured addresses.

In: the addresses that were tried. Out: what a TCP connection finds there, in words, with the cure. The client reports
a misspelled host, a closed port and a listener with another protocol alike: it could not bootstrap. This check runs
only after the client has given up.
"""

import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

# On top of the client's five seconds, and within the ten seconds of a stop. A slow name server is not waited for.
_SECONDS = 1.0
_PORT = 9092  # the client's default
_CURE = "check [kafka] bootstrap_servers (--config FILE, or STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS)"


def diagnose_addresses(servers: Sequence[str], options: Mapping[str, Any]) -> str:
    """The likely cause that no broker answered at these addresses, with the cure. `options`: the client's.

    >>> diagnose_addresses(["127.0.0.1:1"], {"security_protocol": "PLAINTEXT"}).partition(";")[0]
    'nothing listens at 127.0.0.1:1'
    """
    seen = _connections(servers)
    listening = [server for server in servers if server in seen and seen[server] is None]
    if not listening:
        return (
            f"{', '.join(_problem(server, seen.get(server)) for server in servers)}; {_CURE}, and that the brokers run"
        )
    return (
        f"{', '.join(listening)} can be reached, but no broker there answers over "
        f"security_protocol = {options['security_protocol']}; check [kafka] "
        "security_protocol, the port, and that the broker has started"
    )


def _connections(servers: Sequence[str]) -> dict[str, Exception | None]:
    """The error of a connection to each server, tried side by side; one that does not answer in time is missing."""
    errors: dict[str, Exception | None] = {}

    def take(server: str) -> None:
        errors[server] = _try_to_connect(server)

    threads = [threading.Thread(target=take, args=(server,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * _SECONDS)
    return dict(errors)  # a late thread may still write


def _try_to_connect(server: str) -> Exception | None:
    try:
        socket.create_connection(_host_and_port(server), timeout=_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:  # the last two: not a port
        return error
    return None


def _host_and_port(server: str) -> tuple[str, int]:
    """
    >>> _host_and_port("kafka"), _host_and_port("kafka:9093"), _host_and_port("[::1]:9093")
    (('kafka', 9092), ('kafka', 9093), ('::1', 9093))
    """
    host, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):
        host, port = server, str(_PORT)
    return host.strip("[]"), int(port)


def _problem(server: str, error: Exception | None) -> str:
    if isinstance(error, socket.gaierror | UnicodeError):
        return f"the host name in {server} is not known"
    if isinstance(error, ConnectionRefusedError):
        _, port = _host_and_port(server)
        return f"nothing listens at {server}" + ("" if server.endswith(f":{port}") else f" (no port is given: {port})")
    if isinstance(error, ValueError | OverflowError):
        return f"{server} is no HOST:PORT"
    if error is None or isinstance(error, TimeoutError):
        return f"{server} does not answer"
    return f"{server} cannot be reached ({getattr(error, 'strerror', None) or error})"
