"""How the items of a script come: in batches, and one batch at a time, from whichever thread or task.

`Turn` is the lock around a batch, from its judgement until it is remembered. Without it two threads would both let
through copies of one article.
"""

import asyncio
import inspect
import os
import threading
import warnings
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import Any, Self, TypeVar

from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import StreamDedupWarning, UsageError
from stream_dedup.news.item import DECODED, NO_POSITION
from stream_dedup.phrases import counted

Given = TypeVar("Given")
# A batch is judged in some ms; a turn that lasts longer belongs to a slow consumer, or to one that has stopped.
_PATIENCE = 30.0
# How often a task asks for its turn: short beside a batch, and 200 questions a second cost nothing.
_ASK_AGAIN = 0.005


class Turn:
    """A lock that may be given back in another thread, where a generator ends, and that refuses to wait for itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: tuple[int, object] | None = None

    def __enter__(self) -> Self:
        self._refuse_if(self._holder is not None and self._holder[0] == threading.get_ident())
        if not self._lock.acquire(timeout=_PATIENCE):
            warn(
                f"has waited {_PATIENCE:.0f} s for another thread, which has not consumed its batch of `filter`; "
                "consume it or close it. For a slow consumer, batch=1 gives the turn back after each item"
            )
            self._lock.acquire()
        self._holder = (threading.get_ident(), None)
        return self

    async def __aenter__(self) -> Self:
        me = (threading.get_ident(), asyncio.current_task())
        self._refuse_if(self._holder == me)
        while not self._lock.acquire(blocking=False):
            await asyncio.sleep(_ASK_AGAIN)
        self._holder = me
        return self

    def __exit__(self, *_: object) -> None:
        self._holder = None
        self._lock.release()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    @staticmethod
    def _refuse_if(is_own: bool) -> None:
        if is_own:
            raise UsageError(
                "a `filter`, `decide` or `afilter` of this thread has not ended, and what it has yielded is not "
                "remembered yet: consume it, or close it (contextlib.closing, aclosing), before the next call"
            )


def iterable(items: Iterable[Any]) -> Iterator[Any]:
    if isinstance(items, (str, bytes, os.PathLike)):
        raise UsageError(
            f"a {type(items).__name__} is not a list of items; to make an item of a line of a file use {DECODED}, to "
            "filter whole files use filter_files"
        )
    if isinstance(items, Mapping):
        raise UsageError("a dict is not a list of items; for a single item write [item]")
    try:
        return iter(items)
    except TypeError:
        raise UsageError(f"{type(items).__name__} is not a list of items; for a single item write [item]") from None


def batches(items: Iterator[Given], size: int) -> Iterator[list[Given]]:
    """Yield the items in lists of this size. If the source fails, yield the items before that, then raise its error."""
    _check(size)
    while True:
        batch: list[Given] = []
        failure = None
        try:
            batch.extend(islice(items, size))  # keeps the items before a failure
        except Exception as error:  # noqa: BLE001 - raised below
            failure = error
        if batch:
            yield batch
        if failure is not None:
            raise failure
        if len(batch) < size:
            return


async def async_batches(items: AsyncIterable[Given], size: int) -> AsyncGenerator[list[Given], None]:
    """Do what `batches` does, for an asynchronous source."""
    _check(size)
    if not isinstance(items, AsyncIterable):
        raise UsageError(f"{type(items).__name__} is no asynchronous iterable; for any other use `filter`")
    batch: list[Given] = []
    try:
        async for item in items:
            batch.append(item)
            if len(batch) == size:
                yield batch
                batch = []
    except Exception:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _check(size: int) -> None:
    if size < 1:
        raise UsageError(f"batch must be at least 1, not {size}")


def let_through(
    decided: Generator[tuple[Given, Verdict], None, None], bad: Counter[str]
) -> Generator[Given, None, None]:
    """Yield the items to let through. Count the bad ones, and warn of the first."""
    with closing(decided):
        for item, verdict in decided:
            if verdict.kind is Kind.BAD:
                if not bad:
                    name = "an item without an id" if verdict.id == NO_POSITION else f"item {verdict.id!r}"
                    warn(f"{name} is left out, it cannot be judged: {verdict.reason}")
                bad["items"] += 1
            if verdict.forward:
                yield item


def sum_up(bad: Counter[str]) -> None:
    if bad.total() > 1:
        warn(f"{counted(bad.total(), 'item')} left out, which cannot be judged")


def warn(text: str) -> None:
    """Warn at the calling line of the script."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("stream_dedup."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, StreamDedupWarning, stacklevel=level + 1)
