"""The Deduplicator for Python scripts: it checks its arguments, filters in one call, and saves its state to a file.

It takes items or dicts from any iterable, or a data frame, and returns verdicts, or the items to let through.
dedup/deduplicator.py makes the decisions. The worker uses that one directly, without these checks.
"""

import asyncio
import inspect
import os
import warnings
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Generator, Iterable, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

from stream_dedup.changelog import saved
from stream_dedup.dedup import deduplicator
from stream_dedup.dedup.batch import Batch, Delta, Prepared
from stream_dedup.dedup.clocks import FAR_FUTURE
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import BadItem, StreamDedupWarning, UsageError
from stream_dedup.news.item import DECODED, NO_POSITION, SURE, Item, Tombstone, fitting, looks_like
from stream_dedup.phrases import counted
from stream_dedup.script_rows import RowReader, chosen, rows_of, widened
from stream_dedup.settings import Settings

Given = TypeVar("Given", bound=Item | Tombstone | BadItem | Mapping[str, Any])
Frame = TypeVar("Frame")
# µs an item by batch size, for a synthetic feed with 50 words an item: 1: 1,650; 16: 110; 256: 20; 4,096: 14.
_BATCH = 256


class _Generation:
    """A state of an index. `owner`: id() of the Deduplicator. `applied`: the delta that made the next generation."""

    __slots__ = ("applied", "owner")

    def __init__(self, owner: int) -> None:
        self.owner = owner
        self.applied: Delta | None = None


class Deduplicator(deduplicator.Deduplicator):
    """Decides which items are near-duplicates of earlier ones, and remembers the others.

    `filter` does it in one call. To act on the verdicts yourself: `judge` returns the verdicts of a batch and changes
    nothing; carry them out; then `apply` remembers the batch. Apply each batch once, before judging the next one.
    `save` and `load` keep the state between two runs.

    It takes some 600 bytes of memory for each original within the window. Only one thread at a time may use it: during
    another thread's call every call but `prepare` raises UsageError. Use it in a `with`.

    >>> rows = [{"id": n, "title": "Elm bridge opens", "text": "It opened on Monday."} for n in (1, 2)]
    >>> with Deduplicator() as dedup:
    ...     [row["id"] for row in dedup.filter(rows)], len(dedup)
    ([1], 1)
    """

    def __init__(self, settings: Settings | None = None) -> None:
        if settings is not None and not isinstance(settings, Settings):
            raise UsageError(f"settings must come from load_settings(FILE), not be {settings!r:.80}")
        super().__init__(settings)
        self._generation = _Generation(id(self))
        self._warned = False

    # -- judge and remember in one call --------------------------------------------------------------------

    def filter(self, items: Iterable[Given], *, batch: int = _BATCH) -> Iterator[Given]:
        """Yield the items to let through, unique ones and updates, in their order.

        Items may be dicts. The [item] settings say how their names, dates and HTML are read, as `filter_files` reads a
        row, and `time` has the meaning of `Item.time`. The same objects are yielded.

        Items are read and judged in batches. For a source that waits for each item use batch=1 (1.7 ms an item instead
        of .02). A batch is remembered once you have consumed it. If you stop earlier, only the items that you consumed
        are remembered. Do not judge or filter anything else meanwhile, in this thread or another one.

        Items that cannot be judged (without a letter or digit) are left out with a warning. `decide` shows which items
        are updates. Raises UsageError as `judge` does.
        """
        bad: Counter[str] = Counter()
        yield from _let_through(self.decide(items, batch=batch), bad)
        _sum_up(bad)

    def decide(self, items: Iterable[Given], *, batch: int = _BATCH) -> Generator[tuple[Given, Verdict], None, None]:
        """Yield every item with its verdict; items are read, judged and remembered as by `filter`.

        >>> rows = [{"id": n, "title": "Elm bridge opens", "text": "It opened on Monday."} for n in (1, 2)]
        >>> with Deduplicator() as dedup:
        ...     [(str(verdict.kind), verdict.original and verdict.original.id) for _, verdict in dedup.decide(rows)]
        [('unique', None), ('duplicate', '1')]
        """
        for given in _batches(_iterable(items), _checked_size(batch)):
            yield from self._decided(given, *self._read_and_judged(given))

    async def afilter(self, items: AsyncIterable[Given], *, batch: int = _BATCH) -> AsyncIterator[Given]:
        """Yield the items of an asynchronous source to let through, as `filter` does.

        Batches are judged in a thread, so that other tasks of the event loop run meanwhile. If the consumer is
        cancelled while a batch is judged, nothing of the batch is remembered.

        >>> async def titles(rows):
        ...     with Deduplicator() as dedup:
        ...         return [row["title"] async for row in dedup.afilter(rows)]
        >>> async def feed():
        ...     for n in range(2):
        ...         yield {"id": n, "title": "Elm bridge opens", "text": "It opened on Monday."}
        >>> asyncio.run(titles(feed()))
        ['Elm bridge opens']
        """
        bad: Counter[str] = Counter()
        async with aclosing(_async_batches(items, _checked_size(batch))) as batches:
            async for given in batches:
                read, judged = await asyncio.to_thread(self._read_and_judged, given)
                with closing(_let_through(self._decided(given, read, judged), bad)) as kept:
                    for item in kept:
                        yield item
        _sum_up(bad)

    def filter_frame(self, frame: Frame, *, verdicts: bool = False) -> Frame:
        """Return the rows of a pandas or Polars data frame to let through; they are read as `filter` reads dicts.

        `verdicts`: return all rows, with the columns `verdict`, `original` (its id), `story` and `novelty`. Takes the
        memory of a dict for each row. Raises UsageError for any other value, for a frame without a column of titles or
        texts, and as `filter` does.
        """
        rows = rows_of(frame)
        unread = [read for row in rows[:_BATCH] if isinstance(read := self._read_row(row), BadItem)]
        if rows and len(unread) == len(rows[:_BATCH]):
            columns = ", ".join(map(str, rows[0]))
            raise UsageError(
                f"no row of the frame can be judged: {unread[0].detail}. Its columns are {columns}: rename them, or "
                'give load_settings(item={"fields": {"title": "COLUMN", "text": "COLUMN"}})'
            )
        if not verdicts:
            numbers = {id(row): number for number, row in enumerate(rows)}
            return chosen(frame, [numbers[id(row)] for row in self.filter(rows)])  # type: ignore[no-any-return]
        decided = [verdict for _, verdict in self.decide(rows)]
        columns_of: dict[str, list[Any]] = {
            "verdict": [str(each.kind) for each in decided],
            "original": [each.original.id if each.original else None for each in decided],
            "story": [each.story or None for each in decided],
            "novelty": [each.evidence.novelty if each.evidence else None for each in decided],
        }
        return widened(frame, columns_of)  # type: ignore[no-any-return]

    @cached_property
    def _read_row(self) -> RowReader:
        return RowReader(self.settings.item)

    def _read_and_judged(self, given: list[Given]) -> tuple[list[Any], Batch]:
        read: list[Any] = [self._read_row(item) if isinstance(item, Mapping) else item for item in given]
        return read, self.judge(read)

    def _decided(
        self, given: list[Given], read: list[Any], judged: Batch
    ) -> Generator[tuple[Given, Verdict], None, None]:
        """Yield the items of a batch with their verdicts, then remember the batch, or the consumed part of it."""
        consumed = 0
        try:
            for item, verdict in zip(given, judged.verdicts, strict=True):
                consumed += 1
                yield item, verdict
        finally:
            self.apply(judged if consumed == len(read) else self.judge(read[:consumed]))

    # -- judge, then remember ------------------------------------------------------------------------------

    def prepare(self, items: Iterable[Item | Tombstone | BadItem]) -> Prepared:
        """Do the part of `judge` that depends on the items alone, which is most of its work. Any thread may call it.

        >>> with Deduplicator() as dedup:
        ...     prepared = dedup.prepare(Item(name, "Elm bridge opens", "", "", 0) for name in "ab")
        ...     [str(verdict.kind) for verdict in dedup.judge(prepared).verdicts]
        ['unique', 'duplicate']
        """
        return super().prepare(self._checked(items))

    def judge(
        self,
        items: Iterable[Item | Tombstone | BadItem] | Prepared,
        latest: int = FAR_FUTURE,
        *,
        one_clock: bool = False,
    ) -> Batch:
        """Return the verdicts of the items, in their order; remember nothing.

        An item gets the stream's current time if its time is unknown (negative), later than `latest` (ms), or far from
        its neighbours' times. `one_clock`: ignore the items' partitions when judging the order of times. Raises
        UsageError, in one line, for values that are not items; warns once of times that look like seconds.

        >>> with Deduplicator() as dedup:
        ...     dedup.judge([None])
        Traceback (most recent call last):
        stream_dedup.errors.UsageError: item 0 of those given: None is no item; Item.of(...) makes one of \
values, Decoder(load_settings().item)(line, None, None, 0, number) of JSON
        """
        checked = items if isinstance(items, Prepared) else self._checked(items)
        ready = checked if isinstance(checked, Prepared) else super().prepare(checked)
        with self._alone():
            return replace(super().judge(ready, latest, one_clock=one_clock), judged_at=self._generation)

    def apply(self, batch: Batch, *, pending: bool = False) -> None:
        """Remember a batch, after its verdicts were carried out. See `deduplicator.Deduplicator` for `pending`.

        Raises UsageError if the batch was applied before, if another batch was applied since it was judged, or if
        another Deduplicator judged it.

        >>> with Deduplicator() as dedup:
        ...     batch = dedup.judge([])
        ...     dedup.apply(batch)
        ...     dedup.apply(batch)
        Traceback (most recent call last):
        stream_dedup.errors.UsageError: this batch was applied before; apply each batch once
        """
        if not isinstance(batch, Batch):
            raise UsageError(f"apply takes the batch that judge returned, not {type(batch).__name__}")
        judged_at = batch.judged_at
        if not isinstance(judged_at, _Generation) or judged_at.owner != id(self):
            raise UsageError("this batch was judged by another Deduplicator; apply it there, or judge its items here")
        if judged_at.applied is batch.delta:
            raise UsageError("this batch was applied before; apply each batch once")
        with self._alone():
            if judged_at is not self._generation:
                raise UsageError(
                    "another batch was applied after this one was judged, so its verdicts may be wrong; judge its "
                    "items again, and apply each batch before judging the next one"
                )
            super().apply(batch, pending=pending)
            self._start_generation(batch.delta)

    def rollback(self) -> None:
        super().rollback()
        self._start_generation()

    def forget(self, item_id: str) -> bool:
        """Forget all originals with this id, so that their next copy is let through; return whether any was known.

        `save` saves this, too. A batch that was judged before must be judged again. Raises UsageError for another type.

        >>> row = {"id": 1, "title": "Elm bridge opens", "text": "It opened on Monday."}
        >>> with Deduplicator() as dedup:
        ...     [len(list(dedup.filter([row]))), dedup.forget("1"), len(list(dedup.filter([row]))), dedup.forget("2")]
        [1, True, 1, False]
        """
        if not isinstance(item_id, str):
            raise UsageError(f"forget takes the id of an item, a string, not {item_id!r:.80}")
        known = super().forget(item_id)
        self._start_generation()
        return known

    def restore(self, delta: Delta) -> None:
        super().restore(delta)
        self._start_generation()

    def _start_generation(self, applied: Delta | None = None) -> None:
        self._generation.applied, self._generation = applied, _Generation(id(self))

    def _checked(self, items: Iterable[Any]) -> list[Item | Tombstone | BadItem]:
        """Check and normalise the items. This takes .2 of the 20 µs of judging an item."""
        checked: list[Item | Tombstone | BadItem] = []
        for item in _iterable(items):
            if not (
                type(item) is Item
                and type(item.time) is int
                and item.time in SURE
                and type(item.id) is str
                and item.id != NO_POSITION
                and type(item.title) is str
                and type(item.text) is str
                and type(item.source) is str
                and type(item.partition) is int
                and type(item.offset) is int
            ):
                item = fitting(item, f"item {len(checked)} of those given: ")
                problem = "" if self._warned or isinstance(item, BadItem) else looks_like(item.time)
                if problem:
                    self._warned = True
                    _warn(f"item {item.id!r}: {problem}")
            checked.append(item)
        return checked

    # -- between two runs ------------------------------------------------------------------------------------

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Deduplicator cannot be pickled or copied: `save` writes its state, `Deduplicator.load` reads it"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file with a checksum. An existing file is replaced atomically.

        A Deduplicator that `load` makes of the file gives the same verdicts. Raises InputError if the file cannot be
        written, UsageError while a batch is pending.

        A million originals of 310 words with default settings and ids of 40 bytes make a file of 336 MiB. Saving them
        takes 3.5 s of processor time and 200 MiB of memory, loading them 2.8 s; measured with a tenth of them.
        """
        saved.save(self, Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str], settings: Settings | None = None) -> Self:
        """Make a Deduplicator with a saved state.

        By default it has the saved [item], [fingerprint], [window], [decision], [policy] and [index] settings. Settings
        that name a file ([fingerprint] idf) must be given, else ConfigError. Given `settings` may differ from the saved
        ones, but another [fingerprint] is a SchemeMismatch, which names the difference. Raises InputError if the file
        cannot be read, CorruptBlock if it is damaged.

        >>> import tempfile
        >>> item = Item("1", "Elm bridge opens", "The bridge over the Elm opened on Monday.", "post.example", 0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Deduplicator() as dedup:
        ...         _ = list(dedup.filter([item]))
        ...         dedup.save(folder + "/seen.dedup")
        ...     with Deduplicator.load(folder + "/seen.dedup") as dedup:
        ...         list(dedup.filter([item]))
        []
        """
        file = Path(path)
        dedup = cls(saved.settings_of(file) if settings is None else settings)
        try:
            saved.restore(dedup, file)
        except BaseException:
            dedup.close()
            raise
        return dedup


def _iterable(items: Iterable[Any]) -> Iterator[Any]:
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


def _batches(items: Iterator[Given], size: int) -> Iterator[list[Given]]:
    """Yield the items in lists of this size. If the source fails, yield the items before that, then raise its error."""
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


async def _async_batches(items: AsyncIterable[Given], size: int) -> AsyncGenerator[list[Given], None]:
    """Do what `_batches` does, for an asynchronous source."""
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


def _checked_size(batch: int) -> int:
    if batch < 1:
        raise UsageError(f"batch must be at least 1, not {batch}")
    return batch


def _let_through(
    decided: Generator[tuple[Given, Verdict], None, None], bad: Counter[str]
) -> Generator[Given, None, None]:
    """Yield the items to let through. Count the bad ones, and warn of the first."""
    with closing(decided):
        for item, verdict in decided:
            if verdict.kind is Kind.BAD:
                if not bad:
                    name = "an item without an id" if verdict.id == NO_POSITION else f"item {verdict.id!r}"
                    _warn(f"{name} is left out, it cannot be judged: {verdict.reason}")
                bad["items"] += 1
            if verdict.forward:
                yield item


def _sum_up(bad: Counter[str]) -> None:
    if bad.total() > 1:
        _warn(f"{counted(bad.total(), 'item')} left out, which cannot be judged")


def _warn(text: str) -> None:
    """Warn at the calling line of the script."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("stream_dedup."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, StreamDedupWarning, stacklevel=level + 1)
