"""A process that is killed, at each step or at any moment, and started again has each revision once in its file."""

import asyncio
import gzip
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.tools.feeds.killed import FEEDS, STEPS
from tests.tools.feeds.server import Request, Server, entry, objects, reply, rss

pytestmark = pytest.mark.anyio


class Newsroom:
    """Feeds that change between rounds: each drops its first entry, gets a new one, and corrects some."""

    def __init__(self, server: Server) -> None:
        self.round = 0
        for number in range(FEEDS):
            server.pages[f"/{number}"] = self.page

    def page(self, request: Request) -> object:
        feed = int(request.path[1:])
        return reply(rss(*(entry(feed * 1000 + i, text=self.text(i)) for i in range(self.round, self.round + 5))))

    def text(self, number: int) -> str:
        """Every third entry changes once."""
        return f"Text {number}" + (" corrected" if number % 3 == 0 and self.round > number - 3 else "")

    def expected(self, rounds: int) -> Counter[tuple[str, str]]:
        seen: set[tuple[str, str]] = set()
        for self.round in range(rounds):
            for feed in range(FEEDS):
                for i in range(self.round, self.round + 5):
                    seen.add((str(feed * 1000 + i), self.text(i)))
        return Counter(dict.fromkeys(seen, 1))


async def run(folder: Path, port: int, step: str = "", at: int = 1, after: float | None = None) -> bool:
    """Whether the process ended by itself. `after`: seconds from its first request until it is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.tools.feeds.killed", str(folder), str(port), step, str(at),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout
    assert await process.stdout.readline() == b"ready\n"
    if after is not None:
        await asyncio.sleep(after)
        if process.returncode is None:
            process.kill()
    code = await process.wait()
    assert code in (0, -signal.SIGKILL)
    return code == 0


def written(folder: Path) -> Counter[tuple[str, str]]:
    lines = gzip.decompress((folder / "out.jsonl.gz").read_bytes()).splitlines()
    return Counter((one["guid"].rpartition("#")[2], one["description"]) for one in objects(lines))


async def check(folder: Path, kills: list[tuple[str, int, float | None]]) -> None:
    async with Server() as server:
        newsroom = Newsroom(server)
        expected = newsroom.expected(len(kills))
        for newsroom.round, (step, at, after) in enumerate(kills):
            ended = await run(folder, server.port, step, at, after)
            assert not (step and ended), "it was not killed"
            assert await run(folder, server.port)
    assert written(folder) == expected


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
async def test_killed_at_a_step(tmp_path: Path, step: str) -> None:
    await check(tmp_path, [(step, at, None) for at in (1, 2, 3)])


@pytest.mark.slow
async def test_killed_twenty_times_at_random_moments(tmp_path: Path) -> None:
    chance = random.Random(7)
    await check(tmp_path, [("", 1, chance.uniform(0, 0.12)) for _ in range(20)])


async def test_killed_once_between_delivery_and_state(tmp_path: Path) -> None:
    await check(tmp_path, [("CONFIRM", 1, None)])
