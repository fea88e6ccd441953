"""Serve the worker's pages, metrics and health over HTTP, on two listeners that no flood takes from others.

One listener serves the status page and /metrics (and health), the other one, `[observe] health_port`, health alone.
Each has a thread and an event loop of its own, so that a probe is answered while the page is flooded, and neither waits
for the worker or lets it wait. With [observe] tls_certfile both speak HTTPS.

`Routes` answers a request. Only GET and HEAD are served, and responses echo nothing from the request; the page does,
and escapes it. With [observe] token everything but health requires the token. Health stays open because container
runtimes probe it, and their manifests are no place for a secret; without the token it tells only the status. Without a
token the status page, which has texts, is served only under names that no stranger can point here (`knows_host`).
Otherwise any website in a reader's browser could read it (DNS rebinding). Metrics and health have no texts, and
scrapers and probes ask by names of any kind.

`_Listener` bounds connections in number and time, from before the TLS handshake until the response is read: one more
than `most` ends the oldest of the address that has the most, and each ends after `SECONDS`. A reader is done in
milliseconds, so both hit only those who send or read slowly, and a reader that comes in the middle of a flood is
served. No server does this: with 256 descriptors and 300 sockets that send a byte a second, uvicorn
(`limit_concurrency`) and tornado ran out of descriptors, and waitress (`connection_limit`) answered no request.

Nothing that happens here reaches the worker: a listener that cannot start or that breaks is logged, and the worker goes
on. Only an address that cannot be listened on ends it, at its start. `close` ends everything at once: it cuts open
connections and leaves no thread or socket behind.
"""

import asyncio
import base64
import errno
import hmac
import ipaddress
import json
import logging
import resource
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import h11
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_dedup.errors import ConfigError
from stream_dedup.observe.health import HealthState
from stream_dedup.settings import ObserveSettings

log = logging.getLogger(__name__)

_TEXT = "text/plain; charset=utf-8"
# A browser must not guess another type, and no cache keep a response that is out of date in a second. One request for
# each connection: its time limit is then that of the request. The server's name is without versions.
_ALWAYS = {
    "Server": "stream-dedup", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Connection": "close",
}  # fmt: skip


class Answer(NamedTuple):
    """A response without the headers that all have."""

    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}
    status: HTTPStatus = HTTPStatus.OK


Pages = Callable[[str, str], Answer | None]
"""Path and query -> response; None: no such path."""
_INVALID = Answer(_TEXT, b"this is no valid request\n", status=HTTPStatus.BAD_REQUEST)
_WRONG_METHOD = Answer(_TEXT, b"only GET and HEAD\n", {"Allow": "GET, HEAD"}, HTTPStatus.METHOD_NOT_ALLOWED)
_NO_TOKEN = Answer(
    _TEXT,
    b"this needs the token of [observe] token: Authorization: Bearer TOKEN\n",
    # The challenge for browsers, which then ask for user and password.
    {"WWW-Authenticate": 'Basic realm="stream-dedup", charset="UTF-8"'},
    HTTPStatus.UNAUTHORIZED,
)
_WRONG_NAME = Answer(
    _TEXT,
    b"the status page is not served under this name: add it to [observe] allowed_hosts, or set a token\n",
    status=HTTPStatus.MISDIRECTED_REQUEST,
)
_FAILED = Answer(_TEXT, b"this failed; the log says why\n", status=HTTPStatus.INTERNAL_SERVER_ERROR)


class Routes:
    """Answers requests. `state`: the worker's health; `pages`: the status page and its files."""

    def __init__(
        self, settings: ObserveSettings, registry: CollectorRegistry, state: Callable[[], HealthState], pages: Pages
    ) -> None:
        self._settings, self._registry, self._state, self._pages = settings, registry, state, pages

    def everything(self, request: h11.Request) -> Answer:
        """Answer a request for the page, metrics or health."""
        path, query = _path_of(request)
        if (health := self._health(request)) is not None:
            return health
        if not self._is_authorized(request):
            return _NO_TOKEN
        try:
            if path == "/metrics":
                encode, content_type = choose_encoder(_header(request, b"accept"))
                return Answer(content_type, encode(self._registry))
            if self._settings.secret("token") is None and not knows_host(_header(request, b"host"), self._settings):
                return _WRONG_NAME
            return self._pages(path, query) or _not_found("/, /metrics, /healthz and /livez")
        except Exception:
            log.exception("answering a request for %s failed", "/metrics" if path == "/metrics" else "the status page")
            return _FAILED

    def health_alone(self, request: h11.Request) -> Answer:
        """Answer a request on the listener that is there for probes."""
        return self._health(request) or _not_found("/healthz and /livez")

    def _health(self, request: h11.Request) -> Answer | None:
        if request.method not in (b"GET", b"HEAD"):
            return _WRONG_METHOD
        path, _ = _path_of(request)
        if path not in ("/healthz", "/livez"):
            return None
        state = self._state()
        is_good = state.healthy if path == "/healthz" else state.alive
        fields = state.as_json()
        if not self._is_authorized(request):
            fields.pop("reason", None)  # it may name brokers and topics
        status = HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer("application/json", json.dumps(fields).encode() + b"\n", status=status)

    def _is_authorized(self, request: h11.Request) -> bool:
        token = self._settings.secret("token")
        return token is None or hmac.compare_digest(_given_token(_header(request, b"authorization")), token.encode())


def knows_host(header: str, settings: ObserveSettings) -> bool:
    """Return whether the header Host names an address, localhost, or a name of the settings.

    >>> settings = ObserveSettings(allowed_hosts="dedup.example, other.example")
    >>> [knows_host(host, settings) for host in ("10.0.0.7:9464", "[::1]:80", "localhost", "Dedup.example:443", "")]
    [True, True, True, True, True]
    >>> [knows_host(host, settings) for host in ("evil.example", "localhost.example", "[", "127.0.0.1.example")]
    [False, False, False, False]
    """
    if not header:  # of a program: browsers always send it
        return True
    try:
        name = urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    known = {"localhost", settings.host.lower()} | {one.strip().lower() for one in settings.allowed_hosts.split(",")}
    if name and name in known:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _not_found(paths: str) -> Answer:
    return Answer(_TEXT, f"not found; there are {paths}\n".encode(), status=HTTPStatus.NOT_FOUND)


def _path_of(request: h11.Request) -> tuple[str, str]:
    """The path, and the query behind it."""
    path, _, query = request.target.decode("latin-1").partition("?")
    return unquote(path), query


def _header(request: h11.Request, name: bytes) -> str:
    """The first value of a request header; empty if there is none."""
    return next((value.decode("latin-1") for key, value in request.headers if key == name), "")


def _given_token(header: str) -> bytes:
    """The token in a header Authorization: a bearer token, or the password of any user; empty if there is none.

    >>> _given_token("Bearer abc"), _given_token("Basic YW5uOmFiYw=="), _given_token("Basic ?"), _given_token("")
    (b'abc', b'abc', b'', b'')
    """
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("utf-8", "surrogateescape")
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(value, validate=True).partition(b":")[2]
    except ValueError:  # binascii.Error, or a letter that is not ASCII
        return b""


SECONDS = 10.0
"""A connection ends after this time, whatever it does. A scrape takes milliseconds, a page on a slow line a second."""
# Connections that the kernel holds until they are accepted; they take no descriptor. With 128 there was no room for a
# reader while 1,500 clients came at once, and its kernel tried again after a second.
_BACKLOG = 1024
# Of the process's descriptors, for each of the two listeners.
_SHARE = 1 / 8
# Until descriptors are free again: the event loop would ask a thousand times a second.
_PAUSE_SECONDS = 0.05
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# A request line with its headers, bytes: an id has 4 kB at most, three times as many if it is percent-encoded.
_MAX_HEADERS = 16_384


class ObserveServer:
    """A server that listens from its construction until `close`. Raises ConfigError if it cannot listen.

    >>> from stream_dedup.observe.health import Status
    >>> settings = ObserveSettings(port=0)
    >>> with ObserveServer(settings, CollectorRegistry(), lambda: HealthState(Status.OK, 0.0)) as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self,
        settings: ObserveSettings,
        registry: CollectorRegistry,
        state: Callable[[], HealthState],
        pages: Pages = lambda path, query: None,
    ) -> None:
        tls = Certificate(settings).context if settings.tls_certfile is not None else None
        routes = Routes(settings, registry, state, pages)
        page = _listen(settings.host, settings.port, "port")
        try:
            health = _listen(settings.host, settings.probed_port, "health_port")
        except ConfigError:
            page.close()
            raise
        self._listeners = [
            _Listener("observe-http", page, routes.everything, tls),
            _Listener("observe-health", health, routes.health_alone, tls),
        ]
        self.url, self.health_url = (listener.url for listener in self._listeners)
        """The URLs of the page and of the listener for health, without a path."""
        log.info("status page on %s/, metrics on %s/metrics, health on %s/healthz", self.url, self.url, self.health_url)

    @property
    def port(self) -> int:
        """The port of the page; the one it got if the setting was 0."""
        return int(self.url.rpartition(":")[2])

    def close(self) -> None:
        """End every thread and close every socket. May be called twice."""
        for listener in self._listeners:
            listener.close()

    def __enter__(self) -> "ObserveServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _listen(host: str, port: int, setting: str) -> socket.socket:
    is_v6 = ":" in host
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if is_v6 else socket.AF_INET, backlog=_BACKLOG, dualstack_ipv6=is_v6
        )
    except OSError as error:
        raise ConfigError(
            f"[observe] host, {setting}: cannot listen on {host}:{port} ({error}); "
            f"name another, {setting} = 0 for any free one, or enabled = false"
        ) from error


def most_connections() -> int:
    """Return how many connections a listener may hold: a share of the descriptors of this process, from 8 to 128.

    The rest is for Kafka's sockets and files, of which a worker has some 50.
    """
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 128 if descriptors == resource.RLIM_INFINITY else min(max(int(descriptors * _SHARE), 8), 128)


class _Listener:
    """Answers the requests that come to one listening socket, in a thread of its own."""

    def __init__(
        self, name: str, listening: socket.socket, answer: Callable[[h11.Request], Answer], tls: ssl.SSLContext | None
    ) -> None:
        host, port = listening.getsockname()[:2]
        self.url = f"http{'s' if tls else ''}://{f'[{host}]' if ':' in host else host}:{port}"
        self._name, self._socket, self._answer, self._tls = name, listening, answer, tls
        self._most = most_connections()
        self._open: dict[asyncio.Task[None], str] = {}  # connection -> address, the oldest first
        self._over: Future[None] = Future()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no more threads
            listening.close()
            log.error("%s cannot start (%s): the worker goes on without it", name, error)

    def close(self) -> None:
        """End the thread, and with it every connection."""
        if not self._over.done():
            self._over.set_result(None)
        if self._thread.ident is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            log.exception("%s has ended: the worker goes on without it", self._name)
        finally:
            self._socket.close()

    async def _serve(self) -> None:
        accepting = asyncio.ensure_future(self._accept())
        await asyncio.wait({accepting, asyncio.wrap_future(self._over)}, return_when=asyncio.FIRST_COMPLETED)
        if accepting.done():
            accepting.result()

    async def _accept(self) -> None:
        """Accept one connection in each turn of the event loop: a request, which takes some turns, does not starve."""
        loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        while True:
            try:
                peer, (address, *_) = await loop.sock_accept(self._socket)
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                for task in self._open:
                    task.cancel()
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if len(self._open) >= self._most:
                self._make_room(address)
            task = loop.create_task(self._converse(peer))
            self._open[task] = address
            task.add_done_callback(self._open.pop)
            await asyncio.sleep(0)

    def _make_room(self, newcomer: str) -> None:
        """Cut the oldest connection of the address that has the most, the newcomer included."""
        counts = Counter([newcomer, *self._open.values()])
        busiest = max(counts, key=counts.__getitem__)
        for task, address in self._open.items():
            if address == busiest and not task.cancelling():
                task.cancel()
                return

    async def _converse(self, peer: socket.socket) -> None:
        """Read one request and answer it. An end that the peer causes is no error."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport: asyncio.Transport | None = None
        try:
            with suppress(OSError):
                async with asyncio.timeout(SECONDS):
                    transport, _ = await loop.connect_accepted_socket(lambda: protocol, peer, ssl=self._tls)
                    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
                    await self._respond(reader, writer)
                    writer.close()
                    await writer.wait_closed()
        finally:
            if transport is not None:
                transport.abort()
            peer.close()

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEADERS)
        has_body = True
        try:
            while (request := parser.next_event()) is h11.NEED_DATA:
                parser.receive_data(await reader.read(_MAX_HEADERS))
            if not isinstance(request, h11.Request):  # the peer has gone
                return
            answer, has_body = self._answer(request), request.method != b"HEAD"
        except h11.RemoteProtocolError:
            answer = _INVALID
        writer.write(parser.send(head_of(answer)) or b"")
        if has_body:
            writer.write(answer.body)
        if answer is _INVALID and writer.can_write_eof():
            # A socket that is closed with unread bytes in it takes back what was sent.
            writer.write_eof()
            while await reader.read(_MAX_HEADERS):
                pass


def head_of(answer: Answer) -> h11.Response:
    """Return the status and all headers of a response. Raises h11.LocalProtocolError if they cannot be sent."""
    fields = {
        "Date": formatdate(usegmt=True), "Content-Type": answer.content_type,
        "Content-Length": str(len(answer.body)), **answer.headers, **_ALWAYS,
    }  # fmt: skip
    return h11.Response(status_code=answer.status, reason=answer.status.phrase, headers=[*fields.items()])


class Certificate:
    """Serves the certificate of [observe] tls_certfile, also after a renewal. Raises ConfigError if it is unusable.

    `context` is the context for the listeners. At each handshake it looks whether the files have changed.
    """

    def __init__(self, settings: ObserveSettings) -> None:
        if settings.tls_certfile is None:
            raise ValueError("[observe] tls_certfile is not set")
        self._certfile, self._keyfile = settings.tls_certfile, settings.tls_keyfile
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
            log.warning("the certificate %s was replaced and cannot be used (%s); the former one is", self._certfile,
                        getattr(error, "reason", None) or error)  # fmt: skip
        connection.context = self._newest

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._certfile, self._keyfile, password="")  # or OpenSSL asks for one # nosec B106
        return context

    def _current_version(self) -> tuple[int, ...]:
        return tuple(path.stat().st_mtime_ns for path in (self._certfile, self._keyfile) if path is not None)
