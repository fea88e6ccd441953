"""A web server on 127.0.0.1 that plays feeds, and a clock that runs as fast as the work allows."""

import asyncio
import gzip
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self
from xml.sax.saxutils import escape

START = 1_700_000_000.0


class VirtualClock:
    """The clock of a Poller. Time passes only while nothing else is to do. `end`: at which `on_end` is called."""

    def __init__(self, start: float = START) -> None:
        self.time = self.end = start
        self.on_end: Callable[[], None] = lambda: None

    def now(self) -> float:
        return self.time

    async def wait(self, tasks: Sequence["asyncio.Task[object]"], timeout: float | None) -> None:
        if len(tasks) > 1 or timeout is None:  # besides the wait for a stop
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return
        self.time += max(timeout, 0.001)
        if self.time >= self.end:
            self.time = self.end
            self.on_end()
        await asyncio.sleep(0)


class Request(NamedTuple):
    path: str
    headers: Mapping[str, str]
    time: float


class Reply(NamedTuple):
    """`parts`: of the body as it is sent, with a pause before each but the first. `length`: as it is declared."""

    status: int = 200
    headers: Mapping[str, str] = {}
    parts: tuple[bytes, ...] = (b"",)
    pause: float = 0.0
    length: int | None = None


Page = Callable[[Request], Reply]


class Server:
    """`pages`: what answers at each path. `requests`: all so far. `most_at_once`: that were open at a time."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.pages: dict[str, Page | Reply] = {}
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._open = 0
        self._now = now
        self._connections: set[asyncio.Task[None]] = set()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._answer(reader, writer):
                    pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        request = Request(head[0].split()[1], headers, self._now())
        self.requests.append(request)
        self._open += 1
        self.most_at_once = max(self.most_at_once, self._open)
        try:
            await asyncio.sleep(0.005)  # so that requests that may overlap do
            page = self.pages.get(request.path, Reply(404))
            reply = page if isinstance(page, Reply) else page(request)
            length = sum(map(len, reply.parts)) if reply.length is None else reply.length
            lines = [f"HTTP/1.1 {reply.status} Reason", f"Content-Length: {length}"]
            lines += [f"{name}: {value}" for name, value in reply.headers.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
            for number, part in enumerate(reply.parts):
                await asyncio.sleep(reply.pause if number else 0)
                writer.write(part)
                await writer.drain()
        finally:
            self._open -= 1
        return length == sum(map(len, reply.parts))


def entry(number: int, title: str = "", text: str = "The ferry stops.", **more: str) -> dict[str, str]:
    """An item of RSS, without the elements that are empty."""
    link = f"https://news.example/{number}"
    own = {"title": title or f"Story {number}", "description": text, "link": link, "guid": str(number), **more}
    return {name: value for name, value in own.items() if value}


def rss(*entries: Mapping[str, str], channel: str = "") -> bytes:
    items = "".join(
        "<item>" + "".join(f"<{name}>{escape(text)}</{name}>" for name, text in each.items()) + "</item>"
        for each in entries
    )
    return f'<?xml version="1.0"?><rss version="2.0"><channel>{channel}{items}</channel></rss>'.encode()


def reply(body: bytes, *, packed: bool = False, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if packed:
        body, named["Content-Encoding"] = gzip.compress(body), "gzip"
    return Reply(200, named, (body,))


def conditional(body: bytes, etag: str) -> Page:
    """Answers 304 to who has it."""
    return lambda request: (
        Reply(304, {"ETag": etag}) if request.headers.get("if-none-match") == etag else reply(body, ETag=etag)
    )


def objects(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]
