"""A world for the tests of feeds: a server, a virtual clock, and pollers that share a state."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.feeds.fetch import Fetcher
from stream_dedup.feeds.poller import MOST_POLLS, Poller
from stream_dedup.feeds.state import Line, State
from tests.feeds.server import START, Server, VirtualClock, objects


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
        stop = asyncio.Event()
        self.clock.end, self.clock.on_end = self.clock.time + seconds, stop.set
        feeds = self.state.feeds(urls, self.clock.now())
        async with Fetcher(MOST_POLLS, seconds=options.pop("limit", 5.0)) as fetcher:
            poller = Poller(
                feeds, self.state, self.output, fetcher, every=self.every, once=not seconds, clock=self.clock,
                jitter=lambda: 0.0, **options,
            )  # fmt: skip
            async with asyncio.timeout(60):
                await poller.run(stop)
            return poller

    def times(self, path: str) -> list[float]:
        """When it was requested, in seconds since the start."""
        return [request.time - START for request in self.server.requests if request.path == path]

    @property
    def entries(self) -> list[dict[str, Any]]:
        return objects(line for _, line in self.output.lines)


Act = Callable[[World], Awaitable[None]]


@pytest.fixture
def play() -> Callable[[Act], None]:
    """Run a scene in a new world."""

    def played(act: Act) -> None:
        async def scene() -> None:
            clock = VirtualClock()
            async with Server(clock) as server:
                world = World(server, clock)
                await act(world)
                world.state.close()

        asyncio.run(scene())

    return played


@pytest.fixture(autouse=True)
def _shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stream_dedup")
