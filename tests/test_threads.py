"""A Deduplicator belongs to one thread at a time; a second one is refused before it can do harm."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stream_dedup import Deduplicator, Item
from stream_dedup.errors import UsageError
from tests.batch.feed import prose

THREADS, BATCHES = 4, 12


def items_of(thread: int, batch: int) -> list[Item]:
    return [Item(f"{thread}-{batch}-{n}", prose(-n, 8), prose(n + 7 * batch), "a.example", n) for n in range(30)]


def test_judging_and_applying_from_several_threads_is_refused_and_breaks_nothing() -> None:
    start, refused, applied = threading.Barrier(THREADS), [], []
    with Deduplicator() as dedup:

        def work(thread: int) -> None:
            start.wait()
            for batch in range(BATCHES):
                try:
                    judged = dedup.judge(items_of(thread, batch))
                    dedup.apply(judged)
                    applied.append(len(judged.delta))
                except UsageError as error:
                    refused.append(str(error))

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))
        assert len(applied) + len(refused) == THREADS * BATCHES
        assert all("another thread" in text or "another batch was applied" in text for text in refused)
        assert len(dedup) == sum(applied)
        again = dedup.judge(items_of(0, 0))
        assert len(again.verdicts) == 30


@pytest.mark.parametrize("call", ["judge", "apply", "confirm", "rollback", "catch_up", "restore", "save"])
def test_a_call_beside_that_of_another_thread_is_refused_at_once(call: str, tmp_path: Path) -> None:
    with Deduplicator() as dedup, ThreadPoolExecutor(1) as other:
        batch = dedup.judge(items_of(0, 0))
        arguments = {
            "judge": [items_of(0, 1)], "apply": [batch], "restore": [batch.delta], "save": [tmp_path / "seen"],
        }.get(call, [])  # fmt: skip
        with dedup._alone(), pytest.raises(UsageError, match="Hold a lock from `judge` to `apply`"):
            other.submit(getattr(dedup, call), *arguments).result(10)
        dedup.apply(batch)  # this thread goes on


def test_preparing_and_reading_sizes_is_free() -> None:
    with Deduplicator() as dedup, ThreadPoolExecutor(1) as other, dedup._alone():
        assert len(other.submit(dedup.prepare, items_of(0, 0)).result(30)) == 30
        assert other.submit(len, dedup).result(10) == 0
        assert other.submit(lambda: dedup.index.stats().bytes + sum(dedup.rows.parts())).result(10) >= 0


def test_a_lock_makes_asyncio_tasks_take_turns() -> None:
    async def run() -> tuple[int, int]:
        lock = asyncio.Lock()
        with Deduplicator() as dedup:

            async def task(thread: int) -> int:
                passed = 0
                for batch in range(4):
                    async with lock:
                        passed += len(await asyncio.to_thread(lambda b=batch: list(dedup.filter(items_of(thread, b)))))
                return passed

            return sum(await asyncio.gather(*map(task, range(3)))), len(dedup)

    passed, remembered = asyncio.run(run())
    assert 0 < passed <= remembered
