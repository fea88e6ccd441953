"""A listening socket that bounds its connections in number and time, so that no flood harms the process; and its TLS.

At most `most` connections are open at a time. A further one cuts the oldest connection of the address that has most of
them, and each connection is cut after `SECONDS`. A normal client is done in milliseconds. So both rules hit only
clients that send or read slowly, and a client that comes in the middle of a flood is served. A newcomer of an address
that floods cuts a connection of the same address only fifty times a second; otherwise it is closed at once, at a tenth
of the cost.

No server does this. With 256 descriptors and 300 sockets that send a byte a second, uvicorn (`limit_concurrency`) and
tornado ran out of descriptors, and waitress (`connection_limit`) answered no request. Bounds on the socket hold for TLS
handshakes, headers, bodies and unread responses alike.
"""

import asyncio
import contextlib
import errno
import logging
import resource
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stream_dedup.errors import ConfigError

log = logging.getLogger(__name__)

ANY = "::"
SECONDS = 10.0
"""A connection ends after this time, whatever it does. A scrape takes milliseconds, a page on a slow line a second."""
BACKLOG = 1024
"""Connections that the kernel holds until they are accepted; they take no descriptor. With 128 there was no room for a
normal client while 1,500 clients came at once, and its kernel tried again after a second."""
# How often a connection is cut for a newcomer of the same address.
_CUT_SECONDS = 0.02
# Connections that are being closed; more are accepted only after them.
_SPARE = 8
# Connections accepted in one turn of the event loop, which would otherwise take up to BACKLOG. A plain request takes
# five turns, so it is answered before enough newcomers have made it the oldest connection, which is cut.
_BURST = 2
# Until descriptors are free again. The event loop would try a thousand times a second, and log each try.
_PAUSE_SECONDS = 0.05
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def most_connections() -> int:
    """Return how many connections a listener may hold: an eighth of the descriptors of this process, from 8 to 128.

    The rest is for Kafka's sockets and files, of which a worker has some 50.
    """
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return 128
    return min(max(descriptors // 8, 8), 128)


class Listener(socket.socket):
    """Listens on an address from its construction. Raises OSError if it cannot. `most`: open connections at a time.

    `::` serves IPv4, too, and IPv4 alone on a system without IPv6.
    """

    def __init__(self, host: str, port: int, most: int) -> None:
        if host == ANY and not socket.has_dualstack_ipv6():
            host = "0.0.0.0"  # noqa: S104 # nosec B104
        super().__init__(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        self._most = most
        self._open: dict[_Connection, asyncio.TimerHandle] = {}  # the oldest first
        self._counts: Counter[str] = Counter()  # address -> connections
        self._accepted = 0  # in this turn of the event loop
        self._cut_at = 0.0  # when a connection was last cut for one of the same address, monotonic seconds
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a restart need not wait for TIME_WAIT
            if host == ANY:
                self.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            self.bind((host, port))
            self.listen(BACKLOG)
            self.setblocking(False)
        except OSError:
            self.close()
            raise

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection, in an event loop. Raises BlockingIOError for "not now", which the loop expects."""
        if self._accepted == _BURST or len(self._open) >= self._most + _SPARE:
            self._accepted = 0
            raise BlockingIOError
        for _ in range(BACKLOG):
            accepted, address = self._next()
            peer = str(address[0])
            if len(self._open) < self._most or self._makes_room(peer):
                break
            accepted.close()
        else:
            raise BlockingIOError
        self._accepted += 1
        connection = _Connection(accepted.detach(), peer, self._forget)
        self._open[connection] = asyncio.get_running_loop().call_later(SECONDS, connection.cut)
        self._counts[peer] += 1
        return connection, address

    def _next(self) -> tuple[socket.socket, Any]:
        try:
            return super().accept()
        except OSError as error:
            self._accepted = 0
            if error.errno not in _EXHAUSTED:
                raise
            self.cut_all()
            time.sleep(_PAUSE_SECONDS)
            raise BlockingIOError from error

    def _makes_room(self, newcomer: str) -> bool:
        """Cut the oldest connection of the address that has the most; return whether the newcomer may stay."""
        busiest = max(self._counts, key=self._counts.__getitem__)
        if self._counts[newcomer] == self._counts[busiest]:
            now, busiest = time.monotonic(), newcomer
            if now - self._cut_at < _CUT_SECONDS:
                return False
            self._cut_at = now
        for connection in self._open:
            if connection.address == busiest and not connection.is_cut:
                connection.cut()
                break
        return True

    def cut_all(self) -> None:
        """Cut every connection; in the thread of the event loop."""
        for connection in self._open:
            connection.cut()

    def _forget(self, connection: "_Connection") -> None:
        timer = self._open.pop(connection, None)
        if timer is not None:
            timer.cancel()
            self._counts[connection.address] -= 1
            if not self._counts[connection.address]:
                del self._counts[connection.address]


class _Connection(socket.socket):
    """A connection that says when it is closed."""

    def __init__(self, descriptor: int, address: str, closed: "Callable[[_Connection], None]") -> None:
        super().__init__(fileno=descriptor)
        self.address, self.is_cut, self._when_closed = address, False, closed

    def cut(self) -> None:
        """Shut it down both ways, so that the event loop sees the end and closes it, whether it reads or writes."""
        self.is_cut = True
        with contextlib.suppress(OSError):  # the peer has gone
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._when_closed(self)
        super().close()


class Certificate:
    """Serves the certificate of [observe] tls_certfile, also after a renewal. Raises ConfigError if it is unusable.

    `context` is the TLS context of the listeners. Each handshake checks whether the files have changed.
    """

    def __init__(self, certfile: Path, keyfile: Path | None) -> None:
        self._certfile, self._keyfile = certfile, keyfile
        try:
            self.context = self._newest = self._load()
            self._version = self._current_version()
        except (OSError, ValueError) as error:
            key = self._keyfile or "the key in it"
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            raise ConfigError(
                f"[observe] tls_certfile, tls_keyfile: {self._certfile} and {key} cannot be used ({reason}): both must "
                "be readable PEM files, the key without a password, and belong to each other"
            ) from None
        self.context.sni_callback = self._renew

    def _renew(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        try:
            version = self._current_version()
            if version != self._version:
                self._newest, self._version = self._load(), version
                log.info("uses the renewed certificate %s", self._certfile)
        except (OSError, ValueError) as error:  # one of the two files is replaced after the other
            reason = getattr(error, "reason", None) or error
            text = "the certificate %s was replaced and cannot be used (%s); the former one stays in use"
            log.warning(text, self._certfile, reason)
        connection.context = self._newest

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._certfile, self._keyfile, password="")  # or OpenSSL asks for one # nosec B106
        return context

    def _current_version(self) -> tuple[int, ...]:
        return tuple(path.stat().st_mtime_ns for path in (self._certfile, self._keyfile) if path is not None)
