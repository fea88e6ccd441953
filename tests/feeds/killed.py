"""A run of `feeds` in a process of its own, which a test kills: python -m tests.feeds.killed FOLDER PORT STEP COUNT.

It polls once, then ends. COUNT: at the how-manieth announcement of STEP it kills itself; STEP 0: never.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from stream_dedup.batch.outputs import target
from stream_dedup.feeds.fetch import Fetcher
from stream_dedup.feeds.outputs import Delivery, FileDelivery
from stream_dedup.feeds.poller import FeedStep, Poller
from stream_dedup.feeds.state import State

FEEDS = 6


async def poll_once(state: State, output: Delivery, urls: list[str], announce: Callable[[FeedStep], None]) -> None:
    async with Fetcher(4) as fetcher:
        feeds = {url: feed._replace(due=0.0) for url, feed in state.feeds(urls, 0.0).items()}
        await Poller(feeds, state, output, fetcher, every=1.0, once=True, announce=announce).run(asyncio.Event())


def stopper(step: int, at: int) -> Callable[[FeedStep], None]:
    numbers = count(1)

    def announce(announced: FeedStep) -> None:
        if announced == step and next(numbers) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return announce


def main() -> None:
    folder, port, step, at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    to = target(folder / "out.jsonl.gz")
    state = State(folder / "state.db", str(to))
    output = FileDelivery(to, state.length)
    print("ready", flush=True)
    asyncio.run(poll_once(state, output, [f"http://127.0.0.1:{port}/{i}" for i in range(FEEDS)], stopper(step, at)))


if __name__ == "__main__":
    main()
