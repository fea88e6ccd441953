"""A Deduplicator serves any number of threads and tasks: no two of them let through copies of one article."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from stream_dedup import Deduplicator, Item, StreamDedupWarning, script_batches
from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import UsageError
from tests.tools.batch.feed import prose

THREADS, BATCHES = 4, 12


def items_of(thread: int, batch: int) -> list[Item]:
    return [Item(f"{thread}-{batch}-{n}", prose(-n, 8), prose(n + 7 * batch), "a.example", n) for n in range(30)]


def articles(thread: int) -> list[Item]:
    """The same articles for each thread, under ids of its own."""
    return [Item(f"{thread}-{n}", prose(-n, 8), prose(n), "a.example", n) for n in range(60)]


@pytest.mark.parametrize("how", ["check", "filter", "filter by ones"])
def test_threads_let_each_article_through_once(how: str) -> None:
    start = threading.Barrier(THREADS)
    with Deduplicator() as dedup, ThreadPoolExecutor(THREADS) as pool:

        def work(thread: int) -> list[Item]:
            start.wait()
            if how == "check":
                return [item for item in articles(thread) if dedup.check(item).forward]
            return list(dedup.filter(articles(thread), batch=1 if how == "filter by ones" else 16))

        passed = [item for items in pool.map(work, range(THREADS)) for item in items]
        with Deduplicator() as alone:
            expected = len(list(alone.filter(articles(0))))
        assert len(passed) == len(dedup) == expected


def test_tasks_let_each_article_through_once() -> None:
    async def feed(thread: int) -> object:
        for item in articles(thread):
            await asyncio.sleep(0)
            yield item

    async def run() -> tuple[int, int]:
        with Deduplicator() as dedup:

            async def task(thread: int) -> int:
                return len([item async for item in dedup.afilter(feed(thread), batch=8)])  # type: ignore[type-var]

            return sum(await asyncio.gather(*map(task, range(3)))), len(dedup)

    passed, remembered = asyncio.run(run())
    assert passed == remembered


def test_a_task_that_is_cancelled_while_it_waits_leaves_the_turn_to_others() -> None:
    async def run() -> bool:
        turn = script_batches.Turn()

        async def wait() -> None:
            async with turn:
                pass

        async with turn:
            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0.02)
            waiting.cancel()
        async with turn:
            return True

    assert asyncio.run(run())


def test_a_long_wait_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_batches, "_PATIENCE", 0.05)
    with Deduplicator() as dedup, ThreadPoolExecutor(1) as other:
        kept = dedup.filter(articles(0))
        next(kept)
        threading.Timer(0.3, list, [kept]).start()
        with pytest.warns(StreamDedupWarning, match="which has not consumed its batch"):
            verdict = other.submit(dedup.check, articles(1)[0]).result(20)
        assert not verdict.forward


def test_judging_and_applying_by_hand_from_several_threads_breaks_nothing() -> None:
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
        assert all("another batch was applied" in text for text in refused)
        assert len(dedup) == sum(applied)


@pytest.mark.parametrize("call", ["judge", "apply", "confirm", "rollback", "catch_up", "restore"])
def test_the_worker_s_refuses_a_call_beside_that_of_another_thread(call: str) -> None:
    with Decider() as dedup, ThreadPoolExecutor(1) as other:
        batch = dedup.judge(items_of(0, 0))
        arguments = {"judge": [items_of(0, 1)], "apply": [batch], "restore": [batch.delta]}.get(call, [])
        with dedup._alone(), pytest.raises(UsageError, match="another thread is using this Decider"):
            other.submit(getattr(dedup, call), *arguments).result(10)
        dedup.apply(batch)  # this thread goes on


def test_preparing_and_reading_sizes_is_free() -> None:
    with Decider() as dedup, ThreadPoolExecutor(1) as other, dedup._alone():
        assert len(other.submit(dedup.prepare, items_of(0, 0)).result(30)) == 30
        assert other.submit(len, dedup).result(10) == 0
        assert other.submit(lambda: dedup.index.stats().bytes + sum(dedup.rows.parts())).result(10) >= 0
