"""A small HTTP server for /metrics, /healthz and the status page, made with the standard library alone.

It answers GET and HEAD on these paths only. Responses echo nothing from the request; the page does, and escapes it. The
server runs on threads of its own, so that a slow reader and the worker never wait for each other. `close` ends them at
once: it cuts open connections and leaves no thread or socket behind.
"""

import contextlib
import json
import logging
import socket
import socketserver
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
        try:
            self._server = _Server(settings.host, settings.port, registry, state, pages)
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
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

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
        self, host: str, port: int, registry: CollectorRegistry, state: Callable[[], HealthState], pages: Pages
    ) -> None:
        self.registry, self.state, self.pages = registry, state, pages
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

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
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a connection broke", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SOCKET_TIMEOUT

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/metrics":
            self._metrics()
        elif path == "/healthz":
            self._health()
        else:
            self._page(path, query)

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
        self._respond(status, "application/json", json.dumps(state.as_json()).encode() + b"\n")

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
