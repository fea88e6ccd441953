"""Targets for what people and programs around the worker give: settings, arguments, labels, requests over HTTP."""

import http.client
import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

import click
import h11
import msgspec
from prometheus_client import CollectorRegistry

from stream_dedup.errors import ConfigError, InputError, UsageError
from stream_dedup.kafka.record_batch import Record
from stream_dedup.observe.health import HealthState, Status
from stream_dedup.observe.http import Routes
from stream_dedup.observe.probe import probe
from stream_dedup.settings import PREFIX, load_settings
from stream_dedup.tools.cli.shared import begin_ms, parse_count, parse_size
from stream_dedup.tools.evaluate.labels import read_labels
from stream_dedup.tools.evaluate.rates import agreement
from stream_dedup.tools.evaluate.sampling import Sample, Strata, _decision, _row
from stream_dedup.tools.page.page import _requested_id
from stream_dedup.tools.reference import effective
from stream_dedup.worker.outgoing import EVIDENCE
from tests.fuzz.loop import JSON, Target, scratch, scratch_file
from tests.fuzz.records import NOW


def _toml(data: bytes) -> None:
    load_settings(scratch_file("settings.toml", data))


def _environment(data: bytes) -> None:
    """Each line is a variable without its prefix."""
    pairs = [line.partition(b"=")[::2] for line in data.replace(b"\0", b"").split(b"\n")]
    set_here = {PREFIX + os.fsdecode(name): os.fsdecode(value) for name, value in pairs if name}
    with patch.dict(os.environ, set_here):
        effective(load_settings(), None, os.environ)


def _argument(data: bytes) -> None:
    text = data[1:].decode("utf-8", "surrogateescape")
    kinds: list[Callable[[], int]] = [lambda: parse_count(text), lambda: parse_size(text), lambda: begin_ms(text)]
    assert 0 <= kinds[data[0] % len(kinds) if data else 0]() < 2**62


# -- labels and samples --------------------------------------------------------------------------------


def _labels(data: bytes) -> None:
    read_labels(scratch_file("labels", data))


_PAIR: dict[str, Any] = {
    "earlier": {"id": "1", "title": "T", "text": "x", "source": "a", "time": NOW},
    "later": {"id": "2", "title": "T", "text": "x", "source": "b", "time": NOW},
    "decision": {"verdict": "duplicate", "stage": "body", "evidence": {"novelty": 0.3}},
    "forward": False,
    "stratum": "body, near",
    "weight": 1.0,
}


def _sample(data: bytes) -> None:
    directory = scratch() / "sample"
    directory.mkdir(exist_ok=True)
    pairs, _, labels = data.partition(b"\0")
    (directory / "pairs.jsonl").write_bytes(pairs)
    (directory / "labels.jsonl").write_bytes(labels)
    agreement(Sample(directory).judged())


def _evidence(data: bytes) -> None:
    decision = _decision(Record("dup", 0, 1, NOW, b"k", b"v", [(EVIDENCE, data)]))
    if decision is not None and decision["original"]:
        assert decision["original"]["offset"] < 2**63
        strata = Strata[int](9, 1, load_settings())
        strata.add(decision, 1)
        strata.draw()


def _file_row(data: bytes) -> None:
    row = _row(data)
    if row["original"]:
        Strata[int](9, 1, load_settings()).add(row, row["original"]["offset"] + row.get("line", 0))
        assert isinstance(row.get("file", "") + row["original"].get("file", ""), str)


# -- HTTP ----------------------------------------------------------------------------------------------


_TOKEN = "abcabcabcabcabcabc"  # noqa: S105


def _pages(path: str, query: str) -> None:
    wanted = _requested_id(query)
    assert wanted is None or wanted == wanted.strip()


def _routes(token: str | None) -> Routes:
    settings = load_settings(observe={"token": token}).observe
    return Routes(settings, CollectorRegistry(), lambda: HealthState(Status.OK, NOW / 1000), _pages)


_ROUTES = [_routes(None), _routes(_TOKEN)]


def _request(data: bytes) -> None:
    """The server's parser reads the bytes; what it takes for a request is answered with and without a token."""
    parser = h11.Connection(h11.SERVER)
    try:
        parser.receive_data(data)
        event = parser.next_event()
    except h11.RemoteProtocolError:
        return
    if not isinstance(event, h11.Request):
        return
    path, _, query = event.target.partition(b"?")
    scope = {
        "method": event.method.decode(), "path": unquote(path.decode()), "query_string": query,
        "headers": list(event.headers),
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    for routes in _ROUTES:
        sent.clear()
        with suppress(StopIteration):  # it never waits
            routes(scope, None, send).__await__().send(None)
        assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
        h11.Response(status_code=sent[0]["status"], headers=sent[0]["headers"])  # raises if it cannot be sent
        assert _TOKEN.encode() not in sent[1]["body"]


def probed(data: bytes) -> tuple[bool, str]:
    """The first line is the URL, the rest the response."""
    url, _, body = data.partition(b"\n")

    class Response:
        status = 200

        def read(self, size: int) -> bytes:
            return body[:size]

    class Connection(http.client.HTTPConnection):
        def request(self, *_: Any, **__: Any) -> None:
            pass

        def getresponse(self) -> Any:
            return Response()

    with patch.object(http.client, "HTTPConnection", Connection), patch.object(http.client, "HTTPSConnection"):
        healthy, text = probe(url.decode("utf-8", "surrogateescape"))
    assert isinstance(healthy, bool)
    assert text
    return healthy, text


def outside_targets() -> list[Target]:
    """Everything that reads settings, arguments, labels and requests."""
    toml = [b"[kafka]\nbootstrap_servers = 'h:1'\n[window]\nlength = '7d'\n[item]\nfields = {title = 'a.b'}\n"]
    environment = [
        b"KAFKA__BOOTSTRAP_SERVERS=h:1\nWINDOW__LENGTH=7d\nWORKER__BATCH_ITEMS=10",
        b"ITEM__PRESET=rss\nITEM__FIELDS__TITLE=a.b\nITEM__FIELDS__TEXT=c",
    ]
    names = [b"KAFKA", b"ITEM", b"FIELDS", b"TITLE", b"__", b"=", b"\n", b"WINDOW={", b"OBSERVE__PORT=", b"DECISION__"]
    arguments = [b"\0002,000,000", b"\0002e6", b"\0014 GiB", b"\00290m"]
    label = b'{"earlier": 1, "later": "2", "label": "copy", "weight": 2.5, "new": "no"}\n'
    decision = msgspec.json.encode(
        _PAIR["decision"] | {"id": "2", "original": {"id": "1", "time": NOW, "partition": 0, "offset": 7}}
    )
    row = msgspec.json.encode(
        _PAIR["decision"] | {"original": {"offset": 7, "file": "a.jsonl"}, "file": "b.jsonl", "line": 3}
    )
    pair = msgspec.json.encode(_PAIR)
    requests = [
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer abcabcabcabcabcabc\r\nAccept: text/plain\r\n\r\n",
        b"GET /item?id=%C3%A9&x=1 HTTP/1.0\r\nAuthorization: Basic YW5uOmFiYw==\r\n\r\n",
        b"HEAD /healthz HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n",
    ]
    healthy = json.dumps({"status": "running", "since": "2024", "reason": "x"}).encode()
    return [
        Target("settings", toml, [b"[", b"]", b"=", b"'", b"[fingerprint]\nseed = 1\n", b"[window]\n", b"{a=1}",
               b"1979-05-27", b"inf", b"9" * 40, b"9" * 4100, b"'9" + b"9" * 30 + b"d'", b"\\u0000", b"[" * 2000,
               b"{a=" * 900], _toml, (ConfigError,), 0.02),
        Target("environment", environment, [*names, *JSON, b"[" * 2000, b'{"a":' * 800], _environment, (ConfigError,),
               0.02),
        Target("arguments", arguments, [*(b"%dE%c" % (n, c) for n in (1, 99) for c in b"KT"), b"9" * 400, b"e99", b"-",
               b".", b"T", b"d", b":00", "٣".encode(), b"0001", b"9999"], _argument,
               (click.BadParameter, UsageError), 0.2),
        Target("labels", [label * 2], [*JSON, b"\n", b'"label":', b'"both"', b"[" * 2000], _labels, (InputError,), 0.1),
        Target("sample", [pair + b"\n\0" + label], [*JSON, b"\n", b"\0", b'"decision":', b'"guard"', b'"update"'],
               _sample, (InputError,), 0.05),
        Target("evidence", [decision], [*JSON, b'"original":', b'"evidence":', b'"stage":', b"[" * 2000], _evidence, (),
               0.02),
        Target("row of duplicates", [row], [*JSON, b'"original":', b'"file":', b'"stage":', b"[" * 2000], _file_row,
               (InputError,), 0.02),
        Target("request", requests, [b"\r\n", b" ", b"?", b"id=", b"&", b"%", b"%ff", b"Basic ", b"Bearer ", b"\xff",
               b"Accept: ", b"Expect: 100-continue\r\n", b"HTTP/9.9", b"HTTP/1.", b"\0"], _request, (), 0.1),
        Target("health check", [b"http://127.0.0.1:1/healthz\n" + healthy], [*JSON, b"http://", b"[", b"]", b":", b"@",
               b"%", b"\n", b":99999999", b"[" * 3000], probed, (), 0.1),
    ]  # fmt: skip
