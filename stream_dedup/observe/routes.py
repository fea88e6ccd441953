"""Answer requests for /metrics, /healthz, /livez and the status page, as an ASGI application.

Only GET and HEAD are served, and responses echo nothing from the request; the page does, and escapes it. With [observe]
token everything but health requires the token. Health stays open because container runtimes probe it, and their
manifests are no place for a secret; without the token it tells only the status.

Without a token the status page, which has texts, is served only under names that no stranger can point here
(`knows_host`). Otherwise any website in a reader's browser could read it (DNS rebinding). Metrics and health have
no texts, and scrapers and probes ask by names of any kind.
"""

import base64
import hmac
import ipaddress
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_dedup.observe.health import HealthState
from stream_dedup.observe.page import Response
from stream_dedup.settings import ObserveSettings

log = logging.getLogger(__name__)

_TEXT = "text/plain; charset=utf-8"
# The challenge for browsers, which then ask for user and password.
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="stream-dedup", charset="UTF-8"'}
_WRONG_NAME = b"the status page is not served under this name: add it to [observe] allowed_hosts, or set a token\n"
# A browser must not guess another type, and no cache keep a response that is out of date in a second. One request for
# each connection: its time limit is then that of the request.
_ALWAYS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Connection": "close"}
Pages = Callable[[str, str], Response | None]
"""Path and query -> response; None: no such path."""


class Answer(NamedTuple):
    """A response without the headers that all have."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


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
            return Answer(HTTPStatus.UNAUTHORIZED, _TEXT, body, _CHALLENGE)
        try:
            if path == "/metrics":
                encode, content_type = choose_encoder(_header(scope, b"accept"))
                return Answer(HTTPStatus.OK, content_type, encode(self._registry))
            if self._settings.secret("token") is None and not knows_host(_header(scope, b"host"), self._settings):
                return Answer(HTTPStatus.MISDIRECTED_REQUEST, _TEXT, _WRONG_NAME)
            page = self._pages(path, scope["query_string"].decode("latin-1"))
        except Exception:
            log.exception("answering a request for %s failed", "/metrics" if path == "/metrics" else "the status page")
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, b"this failed; the log says why\n")
        if page is None:
            return _not_found("/, /metrics, /healthz and /livez")
        return Answer(HTTPStatus.OK, page.content_type, page.body, page.headers)

    def _health(self, scope: Mapping[str, Any]) -> Answer | None:
        if scope["path"] not in ("/healthz", "/livez"):
            return None
        state = self._state()
        is_good = state.healthy if scope["path"] == "/healthz" else state.alive
        fields = state.as_json()
        if not self._is_authorized(scope):
            fields.pop("reason", None)  # it may name brokers and topics
        status = HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer(status, "application/json", json.dumps(fields).encode() + b"\n")

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
    known = {"localhost", settings.host.lower()} | {one.strip().lower() for one in settings.allowed_hosts.split(",")}
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
    return Answer(HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"only GET and HEAD\n", {"Allow": "GET, HEAD"})


def _not_found(paths: str) -> Answer:
    return Answer(HTTPStatus.NOT_FOUND, _TEXT, f"not found; there are {paths}\n".encode())


def _header(scope: Mapping[str, Any], name: bytes) -> str:
    """The first value of a request header; empty if there is none."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


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


async def _send(send: Callable[..., Awaitable[None]], answer: Answer) -> None:
    fields = {"Content-Type": answer.content_type, "Content-Length": str(len(answer.body)), **answer.headers, **_ALWAYS}
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": int(answer.status), "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
