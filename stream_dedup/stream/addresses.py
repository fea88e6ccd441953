"""Explain why no broker answers at the configured addresses.

In: the addresses that were tried. Out: what a TCP connection, over it a TLS handshake, and over it the first request of
a login finds there, in words, with the cure. The client reports a misspelled host, a closed port, a listener with
another protocol, a certificate that is not trusted and a refused login alike: it could not bootstrap. This check runs
only after the client has given up.
"""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from stream_dedup.stream.tls import certificate_problem, make_context

T = TypeVar("T")

# On top of the client's five seconds, and within the ten seconds of a stop. A slow name server is not waited for.
_SECONDS = 1.0
_PORT = 9092  # the client's default
_CLIENT_ID = b"stream-dedup-check"
# Kafka's request 17, SaslHandshake, version 1: the first one of a login, without any secret.
_HANDSHAKE = struct.Struct(">hhih")
_UNSUPPORTED_MECHANISM = 33
_LONGEST_ANSWER = 2**16  # bytes; a list of mechanisms takes some fifty
_CURE = "check [kafka] bootstrap_servers (--config FILE, or STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS)"


def diagnose_addresses(servers: Sequence[str], options: Mapping[str, Any]) -> str:
    """The likely cause that no broker answered at these addresses, with the cure. `options`: the client's. Takes two
    seconds at most.

    >>> diagnose_addresses(["127.0.0.1:1"], {"security_protocol": "PLAINTEXT"}).partition(";")[0]
    'nothing listens at 127.0.0.1:1'
    """
    protocol, mechanism = options["security_protocol"], options.get("sasl_mechanism")
    seen = _at_each(servers, _try_to_connect)
    listening = [server for server in servers if server in seen and seen[server] is None]
    if not listening:
        return (
            f"{', '.join(_problem(server, seen.get(server)) for server in servers)}; {_CURE}, and that the brokers run"
        )
    if mechanism is not None:
        context = make_context(options) if protocol == "SASL_SSL" else None
        offers = _at_each(listening, lambda server: _mechanisms(server, mechanism, context))
        for server, offered in offers.items():
            if offered is not None:
                return f"the broker at {server} can be reached, {_login_problem(mechanism, offered)}"
    return (
        f"{', '.join(listening)} can be reached, but no broker there answers over security_protocol = {protocol}; "
        "check [kafka] security_protocol, the port, and that the broker has started"
    )


def find_certificate_problem(servers: Sequence[str], options: Mapping[str, Any]) -> Exception | None:
    """Connect by TLS with the client's options; the problem of the first server, if every one has one. Takes a second.

    Raises ConfigError if the options name files that cannot be used.
    """
    context = make_context(options)

    def connect(server: str) -> Exception | None:
        return certificate_problem(_tls_error(server, context), server, options)

    problems = {server: problem for server, problem in _at_each(servers, connect).items() if problem is not None}
    return problems[servers[0]] if len(problems) == len(servers) else None


def _at_each(servers: Sequence[str], ask: Callable[[str], T]) -> dict[str, T]:
    """What `ask` returns for each server, asked side by side; one that does not answer in time is missing."""
    answers: dict[str, T] = {}

    def take(server: str) -> None:
        answers[server] = ask(server)

    threads = [threading.Thread(target=take, args=(server,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * _SECONDS)
    return dict(answers)  # a late thread may still write


def _try_to_connect(server: str) -> Exception | None:
    try:
        socket.create_connection(_host_and_port(server), timeout=_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:  # the last two: not a port
        return error
    return None


def _login_problem(mechanism: str, offered: Sequence[str]) -> str:
    if mechanism not in offered:
        return f"but offers other logins: {', '.join(offered) or 'none'}; check [kafka] sasl_mechanism"
    credentials = (
        "sasl_oauth_token: has it expired, and is it for this cluster?"
        if mechanism == "OAUTHBEARER"
        else "sasl_username and sasl_password"
    )
    return f"and takes sasl_mechanism = {mechanism}, but the login does not succeed; check [kafka] {credentials}"


def _mechanisms(server: str, mechanism: str, context: ssl.SSLContext | None) -> list[str] | None:
    """The SASL mechanisms of the broker there; None if no broker answers so. `context`: for TLS."""
    name = mechanism.encode()
    request = (
        _HANDSHAKE.pack(17, 1, 0, len(_CLIENT_ID)) + _CLIENT_ID + struct.pack(">h", len(name)) + name
    )  # fmt: skip
    try:
        host, port = _host_and_port(server)
        with socket.create_connection((host, port), timeout=_SECONDS) as plain:
            connection = plain if context is None else context.wrap_socket(plain, server_hostname=host.rstrip("."))
            with connection:
                connection.settimeout(_SECONDS)
                connection.sendall(struct.pack(">i", len(request)) + request)
                (size,) = struct.unpack(">i", _received(connection, 4))
                if not 0 < size <= _LONGEST_ANSWER:
                    return None
                return _offered(_received(connection, size))
    except (OSError, ValueError, OverflowError, struct.error, IndexError):
        return None


def _offered(answer: bytes) -> list[str]:
    """Read the answer: correlation id, error code, and the names of the mechanisms. Raises ValueError or struct.error.

    >>> _offered(bytes(4) + b"\\0\\x21" + b"\\0\\0\\0\\x01" + b"\\0\\x05PLAIN")
    ['PLAIN']
    """
    _, error, count = struct.unpack_from(">ihi", answer)
    if error not in (0, _UNSUPPORTED_MECHANISM) or count > len(answer):
        raise ValueError(f"error {error}")
    names, at = [], 10
    for _ in range(count):
        (length,) = struct.unpack_from(">h", answer, at)
        names.append(answer[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return names


def _received(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data


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
