"""Servers to ask, and a well-behaved client that asks them."""

import http.client
import ssl
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from stream_dedup.observe.health import HealthState, Status
from stream_dedup.observe.http import Answer, ObserveServer
from stream_dedup.settings import load_settings

SINCE = 1_700_000_000.0
OK = HealthState(Status.OK, SINCE)


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


def ask(
    url: str, path: str = "/", method: str = "GET", headers: dict[str, str] | None = None, ca: Path | None = None
) -> Reply:
    """Send one request, by HTTPS if `ca`, the certificate to trust, is given."""
    place = urlsplit(url).netloc
    connection = http.client.HTTPConnection(place, timeout=30)
    if ca is not None:
        context = ssl.create_default_context(cafile=ca)
        connection = http.client.HTTPSConnection(place, timeout=30, context=context)
    with closing(connection):
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return Reply(answer.status, answer.headers, answer.read())


class Served(ObserveServer):
    """A server on a free port with the one page `/`. Tests set `state`, and add metrics to `registry`."""

    def __init__(self, state: HealthState = OK, body: bytes = b"items", **settings: object) -> None:
        self.state, self.registry = state, CollectorRegistry()
        page = Answer("text/plain", body)
        super().__init__(
            load_settings(observe={"port": 0, **settings}).observe, self.registry, lambda: self.state,
            lambda path, query: page if path == "/" else None,
        )  # fmt: skip
        self.port = int(self.url.rpartition(":")[2])

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
