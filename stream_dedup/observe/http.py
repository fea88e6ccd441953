"""A small HTTP server for /metrics, /healthz and the status page, made with the standard library alone.

With [observe] tls_certfile it speaks HTTPS. With [observe] token everything but /healthz requires the token. /healthz
stays open because container runtimes probe it, and their manifests are no place for a secret; without the token it
tells only the status.

It answers GET and HEAD on these paths only. Responses echo nothing from the request; the page does, and escapes it. The
server runs on threads of its own, so that a slow reader and the worker never wait for each other. `close` ends them at
once: it cuts open connections and leaves no thread or socket behind.
"""

import base64
import contextlib
import hmac
import json
import logging
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_dedup.errors import ConfigError
from stream_dedup.observe.health import HealthState
from stream_dedup.observe.page import Response
from stream_dedup.settings import ObserveSettings

log = logging.getLogger(__name__)

# Seconds after which a silent peer is cut off; a scrape takes milliseconds.
_SOCKET_TIMEOUT = 5.0
# Seconds within which the accepting thread notices `close`.
_SHUTDOWN_POLL = 0.05
_TEXT = "text/plain; charset=utf-8"
Pages = Callable[[str, str], Response | None]
"""Path and query -> response; None: no such path."""


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
        tls = _Certificate(settings) if settings.tls_certfile is not None else None
        try:
            self._server = _Server(settings, tls, registry, state, pages)
        except OSError as error:
            raise ConfigError(
                f"[observe] host, port: cannot listen on {settings.host}:{settings.port} ({error}); "
                "name another, port = 0 for any free one, or enabled = false"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_SHUTDOWN_POLL,), name="observe-http", daemon=True
        )
        self._thread.start()
        log.info("status page on %s/, metrics on %s/metrics, health on %s/healthz", self.url, self.url, self.url)

    @property
    def port(self) -> int:
        """The port that it listens on; the one it got if the setting was 0."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The URL without a path."""
        host = str(self._server.server_address[0])
        scheme = "http" if self._server.tls is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def close(self) -> None:
        """End every thread and close every socket. May be called twice."""
        self._server.shutdown()
        self._thread.join()
        self._server.cut_connections()
        self._server.server_close()

    def __enter__(self) -> "ObserveServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A threaded TCPServer; HTTPServer would look up its own host name, which may take seconds."""

    allow_reuse_address = True  # a restart need not wait for the last connections' TIME_WAIT
    daemon_threads = False  # server_close waits for them: after the cut they end at once

    def __init__(
        self,
        settings: ObserveSettings,
        tls: "_Certificate | None",
        registry: CollectorRegistry,
        state: Callable[[], HealthState],
        pages: Pages,
    ) -> None:
        self.registry, self.state, self.pages = registry, state, pages
        self.tls, self._settings = tls, settings
        host = settings.host
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, settings.port), _Handler)

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection. The handshake is left to the connection's own thread, since the peer may be slow."""
        connection, address = super().get_request()
        if self.tls is None:
            return connection, address
        return self.tls.context().wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def is_authorized(self, header: str) -> bool:
        """Return whether no token is required, or the value of the header Authorization has it."""
        token = self._settings.secret("token")
        return token is None or hmac.compare_digest(_given_token(header), token.encode())

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def cut_connections(self) -> None:
        """Shut down open connections, so that threads that read or write get an end of file."""
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):  # the peer has closed it
                    # Not the method of ssl.SSLSocket, which also drops the state that the other thread is using.
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a connection broke", exc_info=True)


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


class _Certificate:
    """The server's TLS context, made anew when the files change: certificates are renewed while a worker runs."""

    def __init__(self, settings: ObserveSettings) -> None:
        if settings.tls_certfile is None:
            raise ValueError("[observe] tls_certfile is not set")
        self._certfile, self._keyfile = settings.tls_certfile, settings.tls_keyfile
        try:
            self._context, self._version = self._load(), self._current_version()
        except (OSError, ValueError) as error:
            key = self._keyfile or "the key in it"
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            raise ConfigError(
                f"[observe] tls_certfile, tls_keyfile: {self._certfile} and {key} cannot be used ({reason}): both must "
                "be readable PEM files, the key without a password, and belong to each other"
            ) from None

    def context(self) -> ssl.SSLContext:
        try:
            version = self._current_version()
            if version != self._version:
                self._context, self._version = self._load(), version
                log.info("uses the renewed certificate %s", self._certfile)
        except (OSError, ValueError) as error:  # one of the two files is replaced after the other
            log.warning("the certificate %s was replaced and cannot be used (%s); the former one is", self._certfile,
                        getattr(error, "reason", None) or error)  # fmt: skip
        return self._context

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._certfile, self._keyfile, password="")  # or OpenSSL asks for one # nosec B106
        return context

    def _current_version(self) -> tuple[int, ...]:
        return tuple(path.stat().st_mtime_ns for path in (self._certfile, self._keyfile) if path is not None)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SOCKET_TIMEOUT

    def setup(self) -> None:
        super().setup()  # sets the time limit
        if isinstance(self.connection, ssl.SSLSocket):
            self.connection.do_handshake()

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/healthz":
            self._health()
        elif not self._is_authorized():
            # The challenge for browsers, which then ask for user and password.
            body = b"this needs the token of [observe] token: Authorization: Bearer TOKEN\n"
            challenge = {"WWW-Authenticate": 'Basic realm="stream-dedup", charset="UTF-8"'}
            self._respond(HTTPStatus.UNAUTHORIZED, _TEXT, body, challenge)
        elif path == "/metrics":
            self._metrics()
        else:
            self._page(path, query)

    def _is_authorized(self) -> bool:
        return self.server.is_authorized(self.headers.get("Authorization", ""))

    def do_HEAD(self) -> None:
        self.do_GET()

    def _refuse(self) -> None:
        self._respond(HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"only GET and HEAD\n", {"Allow": "GET, HEAD"})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse  # noqa: N815 - names of the base class

    def _metrics(self) -> None:
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        try:
            body = encode(self.server.registry)
        except Exception:
            log.exception("collecting the metrics failed")
            self._respond(HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, b"collecting failed; the log says why\n")
            return
        self._respond(HTTPStatus.OK, content_type, body)

    def _health(self) -> None:
        state = self.server.state()
        status = HTTPStatus.OK if state.healthy else HTTPStatus.SERVICE_UNAVAILABLE
        fields = state.as_json()
        if not self._is_authorized():
            fields.pop("reason", None)  # it may name brokers and topics
        self._respond(status, "application/json", json.dumps(fields).encode() + b"\n")

    def _page(self, path: str, query: str) -> None:
        try:
            response = self.server.pages(path, query)
        except Exception:
            log.exception("making the status page failed")
            self._respond(HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, b"making the page failed; the log says why\n")
            return
        if response is None:
            self._respond(HTTPStatus.NOT_FOUND, _TEXT, b"not found; there are /, /metrics and /healthz\n")
        else:
            self._respond(HTTPStatus.OK, response.content_type, response.body, response.headers)

    def _respond(
        self, status: HTTPStatus, content_type: str, body: bytes, extra: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        headers = {"Content-Type": content_type, "Content-Length": str(len(body)), **(extra or {})}
        # A browser must not guess another type, and no cache keep a response that is out of date in a second.
        headers |= {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Respond to what the base class rejects (malformed request line, long headers), without echoing it."""
        self.close_connection = True
        self._respond(HTTPStatus(code), _TEXT, HTTPStatus(code).phrase.encode() + b"\n")

    def version_string(self) -> str:
        return "stream-dedup"  # without versions

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)
