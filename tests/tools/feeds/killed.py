"""A run of `feeds` in its own process, which a test kills: python -m tests.tools.feeds.killed FOLDER PORT STEP COUNT.

It polls once, then ends. COUNT: before the how-manieth STEP it kills itself; STEP "": never.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from stream_dedup.settings import FeedsSettings
from stream_dedup.tools.batch.output_files import target
from stream_dedup.tools.feeds.database import State
from stream_dedup.tools.feeds.delivery import Delivery, FileDelivery, KafkaDelivery
from stream_dedup.tools.feeds.poller import Poller
from stream_dedup.tools.feeds.web import Fetcher

FEEDS = 6
STEPS: dict[str, list[tuple[type, str]]] = {
    "FETCH": [(Fetcher, "get")],
    "STORE": [(State, "store")],
    "DELIVER": [(FileDelivery, "deliver"), (KafkaDelivery, "deliver")],
    "CONFIRM": [(State, "confirm")],
}


def before(step: str, act: Callable[[], None], put: Callable[[type, str, Any], None] = setattr) -> None:
    """Do something before each step of this name."""

    def acting(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *values, **named: (act(), call(*values, **named))[1]

    for owner, name in STEPS[step]:
        put(owner, name, acting(getattr(owner, name)))


async def poll_once(state: State, output: Delivery, urls: list[str]) -> None:
    feeds = {url: feed._replace(due=0.0) for url, feed in state.feeds(urls).items()}
    await Poller(feeds, state, output, Fetcher(4, FeedsSettings()), every=1.0, once=True).run(threading.Event())


def main() -> None:
    folder, port, step, at = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    numbers = count(1)
    if step:
        before(step, lambda: os.kill(os.getpid(), signal.SIGKILL) if next(numbers) == at else None)
    to = target(folder / "out.jsonl.gz")
    state = State(folder / "state.db", str(to))
    output = FileDelivery(to, state.length)
    print("ready", flush=True)
    asyncio.run(poll_once(state, output, [f"http://127.0.0.1:{port}/{i}" for i in range(FEEDS)]))


if __name__ == "__main__":
    main()
