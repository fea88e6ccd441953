"""Play a captured stream through a local server: python -m tests.feeds.trial CORPUS.jsonl.gz.

CORPUS: rows with `cluster` (an entry), `source` (its feed), `captured`, `title`, `text`, `url`, `published`, sorted.
Each feed lists its 100 newest entries as they were at the virtual time. Prints figures; fails if an entry is
missing or a version comes twice, or if a feed is asked too often.
"""

import asyncio
import gzip
import json
import resource
import sys
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.feeds.conftest import World
from tests.feeds.server import Reply, Request, Server, VirtualClock, rss

LISTED = 200  # at most 138 entries of a feed come at once
CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32)])


class Feed:
    """The versions of a feed's entries; a document for each moment."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows
        self._times = [moment(row) for row in rows]

    def answer(self, request: Request) -> Reply:
        seen = bisect_right(self._times, request.time)
        if request.headers.get("if-none-match") == f'"{seen}"':
            return Reply(304)
        newest = {row["cluster"]: row for row in self._rows[:seen]}
        shown = sorted(newest.values(), key=lambda row: row["captured"])[-LISTED:]
        return Reply(200, {"ETag": f'"{seen}"'}, (rss(*map(item, shown)),))


def moment(row: dict[str, Any]) -> float:
    return datetime.fromisoformat(row["captured"]).timestamp()


def item(row: dict[str, Any]) -> dict[str, str]:
    names = {"title": "title", "description": "text", "link": "url", "pubDate": "published", "guid": "cluster"}
    return {name: str(row[field]).translate(CONTROLS) for name, field in names.items() if row[field]}


def visible(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(" ".join(str(row[name] or "").split()) for name in ("title", "text", "url", "published"))


async def play(rows: list[dict[str, Any]]) -> None:
    feeds: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        feeds[row["source"]].append(row)
    clock = VirtualClock(moment(rows[0]) - 1)
    started, memory = time.monotonic(), []
    async with Server(clock) as server:
        for number, each in enumerate(feeds.values()):
            server.pages[f"/{number}"] = Feed(each).answer
        urls = [server.url(f"/{number}") for number in range(len(feeds))]
        world = World(server, clock)
        world.output.largest = 10 * 2**20
        hours = int((moment(rows[-1]) - clock.time) / 3600) + 2
        for _ in range(hours // 6 + 1):  # six hours a time, so that memory is seen to grow or not
            await world.poll(urls, seconds=6 * 3600)
            memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
        world.state.close()
        gaps = [
            later.time - one.time
            for url in range(len(feeds))
            for one, later in pairwise([each for each in server.requests if each.path == f"/{url}"])
        ]
        report(rows, world, gaps, hours, memory, time.monotonic() - started)


def report(
    rows: list[dict[str, Any]], world: World, gaps: list[float], hours: int, memory: list[int], seconds: float
) -> None:
    versions: defaultdict[str, list[tuple[float, tuple[str, ...]]]] = defaultdict(list)
    for row in rows:
        versions[row["cluster"]].append((moment(row), visible(row)))
    # What a poller can see: versions that differ to a reader, the last one of those captured between two polls.
    changes = sum(
        1 for each in versions.values() for one, other in zip([None, *each], each, strict=False)
        if one is None or one[1] != other[1]
    )  # fmt: skip
    emitted = Counter(one["id"] for one in world.entries)
    repeats = sum(a == b for each in by_id(world.entries).values() for a, b in pairwise(each))
    print(f"{len(rows):,} rows, {len(versions):,} entries, {changes:,} visible versions, {hours} virtual hours")
    print(f"{len(world.server.requests):,} requests, least gap {min(gaps):.0f} s, {seconds:.0f} s of real time")
    print(f"{len(world.entries):,} emitted of {len(emitted):,} entries; {repeats} emitted again unchanged")
    print(f"peak MiB after each six hours: {memory}")
    assert not repeats
    assert len(emitted) == len(versions), "an entry is missing"
    assert min(gaps) >= world.every


def by_id(entries: list[dict[str, Any]]) -> dict[str, list[tuple[str, ...]]]:
    found: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for one in entries:
        shown = (one.get(name, "") for name in ("title", "description", "link", "pubDate"))
        found[one["id"]].append(tuple(" ".join(text.split()) for text in shown))
    return found


if __name__ == "__main__":
    with gzip.open(Path(sys.argv[1]), "rt", encoding="utf-8") as file:
        asyncio.run(play([json.loads(line) for line in file]))
