"""Play a captured stream through a local server: python -m tests.feeds.trial CORPUS.jsonl.gz [HOURS].

CORPUS: rows with `cluster` (an entry), `source` (its feed), `captured`, `title`, `text`, `url`, `published`, sorted.
Each feed lists its 400 newest entries as they were at the virtual time; one answer in 25 is a failure. A process of its
own polls them, with a state and an output as files, and tells its clock and its memory. Prints figures; fails if an
entry is missing or a version comes twice, or if a feed is asked too often.
"""

import asyncio
import gzip
import json
import random
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from stream_dedup.batch.output_files import target
from stream_dedup.feeds.fetch import Answer, Fetcher
from stream_dedup.feeds.outputs import FileDelivery
from stream_dedup.feeds.poller import MOST_POLLS, Poller
from stream_dedup.feeds.state import State
from stream_dedup.settings import FeedsSettings
from tests.feeds.server import Reply, Request, Server, VirtualClock, objects, rss

EVERY = 600.0
LISTED = 400  # at most 138 entries of a feed come at once, and failures make pauses longer
FAILURES = (
    Reply(429, {"Retry-After": "1800"}), Reply(500), Reply(503, {"Retry-After": "soon"}), Reply(404),
    Reply(200, {}, (b"<rss><channel><item>",)), Reply(200, {}, (b"<rss>",), length=10**6),
    Reply(200, {}, (b"<rss>" + b" " * 11 * 2**20,)), Reply(200, {}, (b"<html>Down</html>",)),
)  # fmt: skip
TIMEOUT = Reply(200, {}, (b"<rss>", b"</rss>"), 30.0)
CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32)])


class Feed:
    """The versions of a feed's entries; a document for each moment."""

    def __init__(self, rows: list[dict[str, Any]], chance: random.Random) -> None:
        self._rows, self._chance = rows, chance
        self._times = [moment(row) for row in rows]
        self.failures = 0

    def answer(self, request: Request) -> Reply:
        if self._chance.random() < 0.04:
            self.failures += 1
            return TIMEOUT if self._chance.random() < 0.03 else self._chance.choice(FAILURES)
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


class TimedFetcher(Fetcher):
    """Tells the server the virtual time."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(MOST_POLLS, FeedsSettings(), seconds=10.0)
        self._clock = clock

    async def get(self, address: str, headers: Mapping[str, str], *rest: Any, **more: Any) -> Answer:
        return await super().get(address, {**headers, "X-Now": str(self._clock.time)}, *rest, **more)


async def poll(folder: Path, begin: float, seconds: float, urls: list[str]) -> None:
    """The process that polls."""
    clock = VirtualClock(begin)
    to = target(folder / "out.jsonl")
    state = State(folder / "state.db", str(to))
    output = FileDelivery(to, 0)
    for quarter in range(1, 5):
        stop = threading.Event()
        clock.end, clock.on_end = begin + seconds * quarter / 4, stop.set
        feeds = state.feeds(urls)
        poller = Poller(
            feeds, state, output, TimedFetcher(clock), every=EVERY, now=clock.now, wait=clock.wait
        )  # fmt: skip
        await poller.run(stop)
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        resident, size = int(status["VmRSS"].split()[0]) / 1024, (folder / "state.db").stat().st_size
        print(f"{quarter * 25} %: {resident:.0f} MiB resident, {size / 2**20:.2f} MiB of state", flush=True)


async def play(rows: list[dict[str, Any]], folder: Path) -> None:
    feeds: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        feeds[row["source"]].append(row)
    begin, started = moment(rows[0]) - 1, time.monotonic()
    hours = int((moment(rows[-1]) - begin) / 3600) + 2
    chance = random.Random(27)
    played = [Feed(each, chance) for each in feeds.values()]
    async with Server() as server:
        for number, feed in enumerate(played):
            server.pages[f"/{number}"] = feed.answer
        urls = [server.url(f"/{number}") for number in range(len(feeds))]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.feeds.trial", str(folder), str(begin), str(hours * 3600), *urls
        )
        assert await process.wait() == 0
        gaps = [
            later.time - one.time
            for url in range(len(feeds))
            for one, later in pairwise([each for each in server.requests if each.path == f"/{url}"])
        ]
    print(f"{len(feeds)} feeds, {len(server.requests):,} requests, least gap {min(gaps):.0f} s, {hours} virtual hours")
    print(f"{sum(feed.failures for feed in played):,} answers were failures")
    print(f"{time.monotonic() - started:.0f} s of real time")
    report(rows, objects((folder / "out.jsonl").read_bytes().splitlines()))
    assert min(gaps) >= EVERY


def report(rows: list[dict[str, Any]], entries: list[dict[str, Any]]) -> None:
    versions: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for row in rows:
        versions[row["cluster"]].append(visible(row))
    # What a poller can see: versions that differ to a reader, the last one of those captured between two polls.
    changes = sum(
        1 for each in versions.values() for one, other in zip([None, *each], each, strict=False) if one != other
    )
    emitted = Counter(one["id"] for one in entries)
    repeats = sum(a == b for each in by_id(entries).values() for a, b in pairwise(each))
    print(f"{len(rows):,} rows, {len(versions):,} entries, {changes:,} visible versions")
    print(f"{len(entries):,} emitted of {len(emitted):,} entries; {repeats} emitted again unchanged")
    assert not repeats
    assert len(emitted) == len(versions), "an entry is missing"


def by_id(entries: list[dict[str, Any]]) -> dict[str, list[tuple[str, ...]]]:
    found: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for one in entries:
        shown = (one.get(name, "") for name in ("title", "description", "link", "pubDate"))
        found[one["id"]].append(tuple(" ".join(text.split()) for text in shown))
    return found


if __name__ == "__main__":
    if len(sys.argv) > 3:
        asyncio.run(poll(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
    else:
        with gzip.open(Path(sys.argv[1]), "rt", encoding="utf-8") as file, tempfile.TemporaryDirectory() as folder:
            rows = [json.loads(line) for line in file]
            end = moment(rows[0]) + 3600 * float(sys.argv[2] if len(sys.argv) > 2 else "inf")
            asyncio.run(play([row for row in rows if moment(row) < end], Path(folder)))
