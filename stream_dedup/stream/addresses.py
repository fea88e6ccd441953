"""Why does no broker answer? The addresses that were tried -> what is found there, for a person.

The client says of a misspelled host, a closed port and a listener of another protocol the same: that it could not
bootstrap. A connection of our own tells them apart. It is asked only after the client has given up, so that it costs
nothing while all is well.
"""

import socket
import threading
from collections.abc import Sequence

# Beside the client's five seconds, and within a stop's ten. A name server may take longer; it is not waited for.
_SECONDS = 1.0
_PORT = 9092  # the client's own where an address has none
_CURE = "check [kafka] bootstrap_servers (--config FILE, or STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS)"


def what_is_there(servers: Sequence[str], protocol: str) -> str:
    """What a person must know of addresses at which no broker answered `protocol`, with the cure. Takes a second.

    >>> what_is_there(["127.0.0.1:1"], "PLAINTEXT").partition(";")[0]
    'nothing listens at 127.0.0.1:1'
    """
    found: dict[str, Exception | None] = {}

    def try_one(server: str) -> None:
        try:
            socket.create_connection(_host_and_port(server), timeout=_SECONDS).close()
            found[server] = None
        except (OSError, ValueError, OverflowError) as error:  # the last two: what cannot be a port
            found[server] = error

    asked = [threading.Thread(target=try_one, args=(one,), daemon=True) for one in servers]
    for thread in asked:
        thread.start()
    for thread in asked:
        thread.join(_SECONDS)
    seen = dict(found)
    listening = [one for one in servers if one in seen and seen[one] is None]
    if listening:
        return (
            f"{', '.join(listening)} can be reached, but no broker there answers over security_protocol = {protocol}; "
            "check [kafka] security_protocol, the port, and that the broker has started"
        )
    return f"{', '.join(_trouble(one, seen.get(one)) for one in servers)}; {_CURE}, and that the brokers run"


def _host_and_port(server: str) -> tuple[str, int]:
    """
    >>> _host_and_port("kafka"), _host_and_port("kafka:9093"), _host_and_port("[::1]:9093")
    (('kafka', 9092), ('kafka', 9093), ('::1', 9093))
    """
    host, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):
        host, port = server, str(_PORT)
    return host.strip("[]"), int(port)


def _trouble(server: str, error: Exception | None) -> str:
    if isinstance(error, socket.gaierror | UnicodeError):
        return f"the host name in {server} is not known"
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {server}"
    if isinstance(error, ValueError | OverflowError):
        return f"{server} is no HOST:PORT"
    if error is None or isinstance(error, TimeoutError):
        return f"{server} does not answer"
    return f"{server} cannot be reached ({getattr(error, 'strerror', None) or error})"
