"""Explain why no broker answers at the configured addresses.

In: the addresses that were tried. Out: what a TCP connection, and over it a TLS handshake, finds there, in words, with
the cure. The client reports a misspelled host, a closed port, a listener with another protocol and a certificate that
is not trusted alike: it could not bootstrap. This check runs only after the client has given up.
"""

import socket
import ssl
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from stream_dedup.stream.tls import certificate_problem, make_context

# On top of the client's five seconds, and within the ten seconds of a stop. A slow name server is not waited for.
_SECONDS = 1.0
_PORT = 9092  # the client's default
_LOGIN = " and the login (sasl_mechanism, user, password or token)"
_CURE = "check [kafka] bootstrap_servers (--config FILE, or STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS)"


def diagnose_addresses(servers: Sequence[str], protocol: str) -> str:
    """The likely cause that no broker answered `protocol` at these addresses, with the cure. Takes a second.

    >>> diagnose_addresses(["127.0.0.1:1"], "PLAINTEXT").partition(";")[0]
    'nothing listens at 127.0.0.1:1'
    """
    results: dict[str, Exception | None] = {}

    def connect(server: str) -> None:
        try:
            socket.create_connection(_host_and_port(server), timeout=_SECONDS).close()
            results[server] = None
        except (OSError, ValueError, OverflowError) as error:  # the last two: not a port
            results[server] = error

    threads = [threading.Thread(target=connect, args=(server,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_SECONDS)
    seen = dict(results)  # a late thread may still write
    listening = [server for server in servers if server in seen and seen[server] is None]
    if listening:
        return (
            f"{', '.join(listening)} can be reached, but no broker there answers over security_protocol = {protocol}; "
            f"check [kafka] security_protocol{_LOGIN if protocol.startswith('SASL') else ''}, the port, and that the "
            "broker has started"
        )
    return f"{', '.join(_problem(server, seen.get(server)) for server in servers)}; {_CURE}, and that the brokers run"


def find_certificate_problem(servers: Sequence[str], options: Mapping[str, Any]) -> Exception | None:
    """Connect by TLS with the client's options; the problem of the first server, if every one has one. Takes a second.

    Raises ConfigError if the options name files that cannot be used.
    """
    context = make_context(options)
    problems: dict[str, Exception] = {}

    def connect(server: str) -> None:
        problem = certificate_problem(_tls_error(server, context), server, options)
        if problem is not None:
            problems[server] = problem

    threads = [threading.Thread(target=connect, args=(server,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * _SECONDS)
    return problems[servers[0]] if len(problems) == len(servers) else None


def _tls_error(server: str, context: ssl.SSLContext) -> Exception | None:
    try:
        host, port = _host_and_port(server)
        with (
            socket.create_connection((host, port), timeout=_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host.rstrip(".")) as connection,
        ):
            # In TLS 1.3 a server answers to the client's certificate after the handshake. A broker that accepts it is
            # silent, since it waits for a request.
            connection.settimeout(_SECONDS / 2)
            connection.recv(1)
    except (OSError, ValueError, OverflowError) as error:
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
