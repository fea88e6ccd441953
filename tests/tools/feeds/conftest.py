"""A world for the tests of feeds: a server, a virtual clock, and pollers that share a state."""

import logging
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.settings import FeedsSettings
from stream_dedup.tools.feeds.database import Line, State
from stream_dedup.tools.feeds.pages import Pages
from stream_dedup.tools.feeds.poller import MOST_POLLS, Poller
from stream_dedup.tools.feeds.web import Fetcher
from tests.tools.feeds.server import START, Server, VirtualClock, objects


class Collected:
    """An output that keeps the lines."""

    largest = 20_000

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def deliver(self, sequence: int, lines: Sequence[Line]) -> int:
        self.lines += lines
        return len(self.lines)

    def close(self) -> None:
        pass


class World:
    """`every`: seconds between two polls of a feed."""

    every = 600.0

    def __init__(self, server: Server, clock: VirtualClock, path: Path | None = None) -> None:
        self.server, self.clock = server, clock
        self.output = Collected()
        self.state = State(path, "-")

    async def poll(self, urls: Sequence[str], seconds: float = 0.0, **options: Any) -> Poller:
        """Poll for so many virtual seconds, or once."""
        stop = threading.Event()
        self.clock.end, self.clock.on_end = self.clock.time + seconds, stop.set
        settings = FeedsSettings(internal=options.pop("internal", "127.0.0.0/8"))
        fetcher = Fetcher(MOST_POLLS, settings, seconds=options.pop("limit", 30.0))
        if options.pop("pages", False):
            options["pages"] = Pages(fetcher, self.output.largest, pause=0.0, now=self.clock.now)
        poller = Poller(
            self.state.feeds(urls), self.state, self.output, fetcher, every=self.every, once=not seconds,
            now=self.clock.now, wait=self.clock.wait, **options,
        )  # fmt: skip
        await poller.run(stop)
        return poller

    def times(self, path: str) -> list[float]:
        """When it was requested, in seconds since the start."""
        return [request.time - START for request in self.server.requests if request.path == path]

    def outcome(self, path: str) -> tuple[str, int]:
        """What the state says of a feed: the outcome of its last poll, and its failures in a row."""
        [feed] = self.state.feeds([self.server.url(path)]).values()
        return feed.outcome, feed.failures

    @property
    def entries(self) -> list[dict[str, Any]]:
        return objects(line for _, line in self.output.lines)


@pytest.fixture
def anyio_backend() -> str:
    """Tests that are coroutines run on asyncio (the plugin of anyio, which httpx brings along)."""
    return "asyncio"


@pytest.fixture
async def world(anyio_backend: str) -> AsyncIterator[World]:
    clock = VirtualClock()
    async with Server(clock.now) as server:
        world = World(server, clock)
        yield world
        world.state.close()


@pytest.fixture(autouse=True)
def _shown(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.INFO, "stream_dedup")
    monkeypatch.setattr("stream_dedup.tools.feeds.poller.random.random", lambda: 0.0)
