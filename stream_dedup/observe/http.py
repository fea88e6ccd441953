"""Serve the worker's pages, metrics and health over HTTP: uvicorn, on two bounded listeners.

One listener serves the status page and /metrics (and health), the other one, `[observe] health_port`, health alone.
Each has a thread and an event loop of its own, so that a probe is answered while the page is flooded, and neither waits
for the worker or lets it wait. listener.py bounds connections, routes.py has what each path answers. With [observe]
tls_certfile both speak HTTPS.

Nothing that happens here reaches the worker: a listener that cannot start or that breaks is logged, and the worker goes
on. Only an address that cannot be listened on ends it, at its start. `close` ends everything at once: it cuts open
connections and leaves no thread or socket behind.
"""

import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry

from stream_dedup.errors import ConfigError
from stream_dedup.observe.certificate import Certificate
from stream_dedup.observe.health import HealthState
from stream_dedup.observe.listener import BACKLOG, Listener, most_connections
from stream_dedup.observe.routes import Pages, Routes
from stream_dedup.settings import ObserveSettings

log = logging.getLogger(__name__)

# Of the process's descriptors, for each of the two listeners.
_SHARE = 1 / 8
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
        certificate = Certificate(settings) if settings.tls_certfile is not None else None
        routes = Routes(settings, registry, state, pages)
        self._scheme = "http" if certificate is None else "https"
        page = _listen(settings.host, settings.port, "port")
        try:
            health = _listen(settings.host, settings.probed_port, "health_port")
        except ConfigError:
            page.close()
            raise
        self.url, self.health_url = self._url_of(page), self._url_of(health)
        """The URLs of the page and of the listener for health, without a path."""
        self._loops = [
            _Loop("observe-http", page, routes, certificate),
            _Loop("observe-health", health, routes.health, certificate),
        ]
        log.info("status page on %s/, metrics on %s/metrics, health on %s/healthz", self.url, self.url, self.health_url)

    def _url_of(self, listener: socket.socket) -> str:
        host, port = listener.getsockname()[:2]
        return f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def port(self) -> int:
        """The port of the page; the one it got if the setting was 0."""
        return int(self.url.rpartition(":")[2])

    def close(self) -> None:
        """End every thread and close every socket. May be called twice."""
        for loop in self._loops:
            loop.should_exit = True
        for loop in self._loops:
            loop.join()

    def __enter__(self) -> "ObserveServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _listen(host: str, port: int, setting: str) -> Listener:
    try:
        return Listener(host, port, most_connections(_SHARE))
    except OSError as error:
        raise ConfigError(
            f"[observe] host, {setting}: cannot listen on {host}:{port} ({error}); "
            f"name another, {setting} = 0 for any free one, or enabled = false"
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
                # What peers do wrong is not for the log; what fails here is (level error).
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
