"""Serve the worker's pages, metrics and health over HTTP: uvicorn, on two bounded listeners.

One listener serves the status page, /metrics and health; the other one, on the next port, serves health alone. Each has
its own thread and event loop. So a probe is answered while the page is flooded, and neither listener waits for the
worker or makes it wait. listener.py bounds the connections. With [observe] tls_certfile both speak HTTPS.

`Routes` is the ASGI application. It serves only GET and HEAD, and its responses echo nothing from the request, except
for the page, which escapes it. With [observe] token everything but health requires the token. Health stays open because
container runtimes probe it, and their manifests are no place for a secret; without the token it tells only the status.
Without a token the status page, which has texts, is served only under names that no stranger can point here
(`knows_host`). Otherwise any website in a reader's browser could read it (DNS rebinding). Metrics and health have no
texts, and are served under every name.

Nothing that happens here reaches the worker: a listener that cannot start, or that breaks, is logged, and the worker
goes on. Only an address that cannot be bound ends the worker, at its start. `close` ends everything at once: it cuts
open connections and leaves no thread or socket behind.
"""

import base64
import hmac
import ipaddress
import json
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_dedup.errors import ConfigError
from stream_dedup.observe.health import HealthState
from stream_dedup.observe.listener import BACKLOG, Certificate, Listener, most_connections
from stream_dedup.settings import ObserveSettings

log = logging.getLogger(__name__)

TEXT = "text/plain; charset=utf-8"
# The challenge for browsers, which then ask for user and password.
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="stream-dedup", charset="UTF-8"'}
_WRONG_NAME = b"the status page is not served under this name: add it to [observe] allowed_hosts, or set a token\n"
# A browser must not guess another type, and no cache may keep a response, which is out of date in a second. A
# connection takes one request, so its time limit is that of the request.
_ALWAYS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Connection": "close"}
Pages = Callable[[str, str], "Answer | None"]
"""Path and query -> response; None: no such path."""


class Answer(NamedTuple):
    """A response without the headers that all responses have."""

    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}
    status: HTTPStatus = HTTPStatus.OK


class Routes:
    """Answers requests. `state`: the worker's health; `pages`: the status page and its files."""

    def __init__(
        self, settings: ObserveSettings, registry: CollectorRegistry, state: Callable[[], HealthState], pages: Pages
    ) -> None:
        self._settings, self._registry, self._state, self._pages = settings, registry, state, pages

    async def __call__(self, scope: Mapping[str, Any], _receive: object, send: Callable[..., Awaitable[None]]) -> None:
        """Answer a request of ASGI, the interface between Python's servers and applications."""
        await _send(send, self._answer(scope))

    async def health(self, scope: Mapping[str, Any], _receive: object, send: Callable[..., Awaitable[None]]) -> None:
        """Answer requests for health alone: the application of the listener that is there for probes."""
        answer = _wrong_method(scope) or self._health(scope)
        await _send(send, answer or _not_found("/healthz and /livez"))

    def _answer(self, scope: Mapping[str, Any]) -> Answer:
        health = _wrong_method(scope) or self._health(scope)
        if health is not None:
            return health
        path = scope["path"]
        if not self._is_authorized(scope):
            body = b"this needs the token of [observe] token: Authorization: Bearer TOKEN\n"
            return Answer(TEXT, body, _CHALLENGE, HTTPStatus.UNAUTHORIZED)
        try:
            if path == "/metrics":
                encode, content_type = choose_encoder(_header(scope, b"accept"))
                return Answer(content_type, encode(self._registry))
            if self._settings.secret("token") is None and not knows_host(_header(scope, b"host"), self._settings):
                return Answer(TEXT, _WRONG_NAME, status=HTTPStatus.MISDIRECTED_REQUEST)
            page = self._pages(path, scope["query_string"].decode("latin-1"))
            return page or _not_found("/, /metrics, /healthz and /livez")
        except Exception:
            log.exception("answering a request for %s failed", "/metrics" if path == "/metrics" else "the status page")
            return Answer(TEXT, b"this failed; the log says why\n", status=HTTPStatus.INTERNAL_SERVER_ERROR)

    def _health(self, scope: Mapping[str, Any]) -> Answer | None:
        if scope["path"] not in ("/healthz", "/livez"):
            return None
        state = self._state()
        is_good = state.healthy if scope["path"] == "/healthz" else state.alive
        fields = state.as_json()
        if not self._is_authorized(scope):
            fields.pop("reason", None)  # it may name brokers and topics
        status = HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer("application/json", json.dumps(fields).encode() + b"\n", status=status)

    def _is_authorized(self, scope: Mapping[str, Any]) -> bool:
        token = self._settings.secret("token")
        return token is None or hmac.compare_digest(_given_token(_header(scope, b"authorization")), token.encode())


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
    known = {"localhost", settings.host.lower()} | {host.strip().lower() for host in settings.allowed_hosts.split(",")}
    if name and name in known:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _wrong_method(scope: Mapping[str, Any]) -> Answer | None:
    if scope["method"] in ("GET", "HEAD"):
        return None
    return Answer(TEXT, b"only GET and HEAD\n", {"Allow": "GET, HEAD"}, HTTPStatus.METHOD_NOT_ALLOWED)


def _not_found(paths: str) -> Answer:
    return Answer(TEXT, f"not found; there are {paths}\n".encode(), status=HTTPStatus.NOT_FOUND)


def _header(scope: Mapping[str, Any], name: bytes) -> str:
    """Return the first value of a request header; empty if it is missing."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def _given_token(header: str) -> bytes:
    """Return the token of a header Authorization: a bearer token, or the password of any user; empty without one.

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


async def _send(send: Callable[..., Awaitable[None]], answer: Answer) -> None:
    fields = {"Content-Type": answer.content_type, "Content-Length": str(len(answer.body)), **answer.headers, **_ALWAYS}
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": int(answer.status), "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


# A request line with its headers, bytes: an id has 4 kB at most, three times as many if it is percent-encoded.
_MAX_HEADERS = 16_384


class ObserveServer:
    """A server that listens from its construction until `close`. Raises ConfigError if it cannot listen.

    >>> from stream_dedup.observe.health import Status
    >>> settings = ObserveSettings(port=0)
    >>> server = ObserveServer(settings, CollectorRegistry(), lambda: HealthState(Status.OK, 0.0))
    >>> server.url.startswith("http://127.0.0.1:")
    True
    >>> server.close()
    """

    def __init__(
        self,
        settings: ObserveSettings,
        registry: CollectorRegistry,
        state: Callable[[], HealthState],
        pages: Pages = lambda path, query: None,
    ) -> None:
        certificate = Certificate(settings.tls_certfile, settings.tls_keyfile) if settings.tls_certfile else None
        routes = Routes(settings, registry, state, pages)
        self._scheme = "http" if certificate is None else "https"
        page = _listen(settings.host, settings.port)
        try:
            health = _listen(settings.host, settings.health_port)
        except ConfigError:
            page.close()
            raise
        self.url, self.health_url = self._url_of(page), self._url_of(health)
        """The URLs of the two listeners, for the page and for health, without a path."""
        self._loops = [
            _Loop("observe-http", page, routes, certificate),
            _Loop("observe-health", health, routes.health, certificate),
        ]
        log.info("status page on %s/, metrics on %s/metrics, health on %s/healthz", self.url, self.url, self.health_url)

    def _url_of(self, listener: socket.socket) -> str:
        host, port = listener.getsockname()[:2]
        return f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def close(self) -> None:
        """End every thread and close every socket. May be called twice."""
        for loop in self._loops:
            loop.should_exit = True
        for loop in self._loops:
            loop.join()


def _listen(host: str, port: int) -> Listener:
    try:
        return Listener(host, port, most_connections())
    except OSError as error:
        raise ConfigError(
            f"[observe] host, port: cannot listen on {host}:{port} ({error}); name another, port = 0 for any free one, "
            "or host = '' to serve nothing"
        ) from error


class _Loop(uvicorn.Server):
    """uvicorn on one listener, in a thread of its own."""

    def __init__(self, name: str, listener: Listener, app: Any, certificate: Certificate | None) -> None:
        self._name, self._listener = name, listener
        tls: dict[str, Any] = {}
        if certificate is not None:
            tls["ssl_context_factory"] = lambda config, default: certificate.context
        super().__init__(
            uvicorn.Config(
                app, http="h11", ws="none", loop="asyncio", lifespan="off", interface="asgi3", backlog=BACKLOG,
                h11_max_incomplete_event_size=_MAX_HEADERS, timeout_graceful_shutdown=1, proxy_headers=False,
                server_header=False, headers=[("Server", "stream-dedup")],  # without versions
                # The log has our own failures (level error), and none of the mistakes of peers.
                log_config=None, log_level="error", access_log=False,
                **tls,
            )
        )  # fmt: skip
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no more threads
            listener.close()
            log.error("%s cannot start (%s): the worker goes on without it", name, error)

    def _work(self) -> None:
        try:
            self.run([self._listener])
        except Exception:
            log.exception("%s has ended: the worker goes on without it", self._name)
        finally:
            self._listener.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End without waiting for peers: cut open connections."""
        self._listener.cut_all()
        await super().shutdown(sockets)

    def join(self) -> None:
        """Wait for the end of the thread, after `should_exit` was set."""
        if self._thread.ident is not None:
            self._thread.join()
