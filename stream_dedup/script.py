"""The Deduplicator for Python scripts: it checks its arguments, filters in one call, and saves its state to a file.

It takes items or dicts from any iterable, or a data frame, and returns verdicts, or the items to let through.
dedup/decider.py makes the decisions. The worker uses that one directly, without these checks and this lock.
"""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

import msgspec

from stream_dedup.changelog import journal
from stream_dedup.dedup.batch import Batch, Delta, Prepared
from stream_dedup.dedup.clocks import FAR_FUTURE
from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import BadItem, UsageError
from stream_dedup.news.item import NO_POSITION, SURE, Item, Tombstone, fitting, looks_like
from stream_dedup.phrases import counted, moment, span
from stream_dedup.script_batches import Turn, async_batches, batches, iterable, let_through, sum_up, warn
from stream_dedup.script_rows import RowReader, chosen, refuse_unreadable, rows_of, verdict_columns, widened
from stream_dedup.settings import Settings, load_settings

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


class Deduplicator:
    """Decides which items are near-duplicates of earlier ones, and remembers the others.

    Five methods do most of it:

    - `check(item)`: one item; returns its verdict, and remembers it
    - `filter(items)`: yields the items to let through
    - `decide(items)`: yields every item with its verdict
    - `save(file)` writes what is remembered, and `Deduplicator.load(file)` reads it

    Arguments: `novelty` ("cautious", "balanced", "eager" or a number from 0 to 1), `window` (how long an original is
    remembered: "30d"), and `sources` ({"prefer": ["wire.example"]}; also "pass", "ignore"). For all other settings give
    `settings`, which `load_settings` makes.

    Any thread may call anything. A batch takes its turn from its judgement until it is remembered, so no two threads
    let through copies of one article. An original takes some 1,500 bytes of memory while its words are kept
    (`index.texts`), and some 500 afterwards. Use it in a `with`.

    >>> with Deduplicator(novelty="cautious", window="30d") as dedup:
    ...     for n in (1, 2):
    ...         verdict = dedup.check({"id": n, "title": "Elm bridge opens", "text": "It opened on Monday."})
    ...         print(verdict.forward, verdict.kind, verdict.original and verdict.original.id)
    True unique None
    False duplicate 1
    """

    _fields = ("check", "filter", "decide", "save")  # help() lists these first

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        novelty: str | float | None = None,
        window: str | timedelta | None = None,
        sources: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        overrides = _overrides(novelty, window, sources)
        if settings is not None and not isinstance(settings, Settings):
            raise UsageError(f"settings must come from load_settings(FILE), not be {settings!r:.80}")
        if settings is not None and overrides:
            raise UsageError(f"give all settings in one place: load_settings(FILE, **{overrides!r})")
        self.settings = load_settings(None, **overrides) if settings is None else settings
        self._core = Decider(self.settings)
        self._turn = Turn()
        self._lock = threading.RLock()  # around each call of the core, which refuses a second thread
        self._generation = _Generation(id(self))
        self._has_warned: set[str] = set()
        self._nameless = 0
        self._passed = 0  # originals let through since it was made or loaded

    def __len__(self) -> int:
        """Originals in memory, with those that have expired since the last clean-up."""
        return len(self._core)

    @property
    def evicted(self) -> int:
        """Originals forgotten within the window because there were more than `window.max_originals`."""
        return self._core.evicted

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the background merges."""
        self._core.close()

    # -- judge and remember in one call --------------------------------------------------------------------

    def check(self, item: Item | Tombstone | BadItem | Mapping[str, Any]) -> Verdict:
        """Judge one item, remember it, and return its verdict; `verdict.forward` says whether to let it through.

        It is read as `filter` reads it. A list is cheaper in `filter`: 20 µs an item instead of 1.7 ms.

        >>> with Deduplicator() as dedup:
        ...     dedup.check({"id": 1, "title": "Elm bridge opens", "text": "It opened on Monday."}).forward
        True
        """
        with self._turn:
            _, judged = self._read_and_judged([item])
            self._apply(judged)
        return judged.verdicts[0]

    def filter(self, items: Iterable[Given], *, batch: int = _BATCH) -> Iterator[Given]:
        """Yield the items to let through, unique ones and updates, in their order.

        Items may be dicts. The [item] settings say how their names, dates and HTML are read, as `filter_files` reads a
        row, and `time` has the meaning of `Item.time`. The same objects are yielded.

        Items are read and judged in batches. For a source that waits for each item use batch=1 (1.7 ms an item instead
        of .02). A batch is remembered once you have consumed it. If you stop earlier, only the items that you consumed
        are remembered. Meanwhile other threads wait with their calls, and calls of this thread are refused.

        Items that cannot be judged (without a letter or digit) are left out with a warning. `decide` shows which items
        are updates. Raises UsageError as `judge` does.
        """
        bad: Counter[str] = Counter()
        yield from let_through(self.decide(items, batch=batch), bad)
        sum_up(bad)

    def decide(self, items: Iterable[Given], *, batch: int = _BATCH) -> Generator[tuple[Given, Verdict], None, None]:
        """Yield every item with its verdict; items are read, judged and remembered as by `filter`.

        >>> rows = [{"id": n, "title": "Elm bridge opens", "text": "It opened on Monday."} for n in (1, 2)]
        >>> with Deduplicator() as dedup:
        ...     [(str(verdict.kind), verdict.original and verdict.original.id) for _, verdict in dedup.decide(rows)]
        [('unique', None), ('duplicate', '1')]
        """
        for given in batches(iterable(items), batch):
            with self._turn:
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
        async with aclosing(async_batches(items, batch)) as parts:
            async for given in parts:
                async with self._turn:
                    read, judged = await asyncio.to_thread(self._read_and_judged, given)
                    with closing(let_through(self._decided(given, read, judged), bad)) as kept:
                        for item in kept:
                            yield item
        sum_up(bad)

    def filter_frame(self, frame: Frame, *, verdicts: bool = False) -> Frame:
        """Return the rows of a pandas or Polars data frame to let through; they are read as `filter` reads dicts.

        `verdicts`: return all rows, with the columns `verdict`, `original` (its id), `story` and `novelty`. Takes the
        memory of a dict for each row. Raises UsageError for any other value, for a frame without a column of titles or
        texts, and as `filter` does.
        """
        rows = rows_of(frame)
        refuse_unreadable(rows, [self._read_row(row) for row in rows[:_BATCH]])
        if not verdicts:
            numbers = {id(row): number for number, row in enumerate(rows)}
            return chosen(frame, [numbers[id(row)] for row in self.filter(rows)])  # type: ignore[no-any-return]
        decided = [verdict for _, verdict in self.decide(rows)]
        return widened(frame, verdict_columns(decided))  # type: ignore[no-any-return]

    @cached_property
    def _read_row(self) -> RowReader:
        return RowReader(self.settings.item)

    def _read(self, given: Any) -> Any:
        """Make an item of what was given. One without an id gets its link, or else its position, as the id."""
        item = self._read_row(given) if isinstance(given, Mapping) else given
        if not isinstance(item, Item) or item.id != NO_POSITION:
            return item
        link = self._read_row.link_of(given) if isinstance(given, Mapping) else ""
        self._nameless += not link
        name = link or f"row {self._nameless}"
        self._warn_once(
            "id",
            f"an item without an id gets its link, or else its position, for one: {name!r}. If a field has an id, name "
            'it: load_settings(item={"fields": {"id": "FIELD"}})',
        )
        return msgspec.structs.replace(item, id=name)

    def _read_and_judged(self, given: list[Given]) -> tuple[list[Any], Batch]:
        read = [self._read(item) for item in given]
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
            self._apply(judged if consumed == len(read) else self.judge(read[:consumed]))

    # -- judge, then remember ------------------------------------------------------------------------------

    def prepare(self, items: Iterable[Item | Tombstone | BadItem]) -> Prepared:
        """Do the part of `judge` that depends on the items alone, which is most of its work. Any thread may call it.

        >>> with Deduplicator() as dedup:
        ...     prepared = dedup.prepare(Item(name, "Elm bridge opens", "", "", 0) for name in "ab")
        ...     [str(verdict.kind) for verdict in dedup.judge(prepared).verdicts]
        ['unique', 'duplicate']
        """
        return self._core.prepare(self._checked(items))

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
        ready = checked if isinstance(checked, Prepared) else self._core.prepare(checked)
        with self._lock:
            return replace(self._core.judge(ready, latest, one_clock=one_clock), judged_at=self._generation)

    def apply(self, batch: Batch) -> None:
        """Remember a batch, after its verdicts were carried out.

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
        with self._turn, self._lock:
            if judged_at is not self._generation:
                raise UsageError(
                    "another batch was applied after this one was judged, so its verdicts may be wrong; judge its "
                    "items again, and apply each batch before judging the next one. From several threads call "
                    "`check` or `filter`, which judge and remember in one turn"
                )
            self._apply(batch)

    def _apply(self, batch: Batch) -> None:
        with self._lock:
            self._core.apply(batch)
            self._passed += len(batch.delta)
            self._start_generation(batch.delta)

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
        with self._turn, self._lock:
            known = self._core.forget(item_id)
            self._start_generation()
            return known

    def _start_generation(self, applied: Delta | None = None) -> None:
        self._generation.applied, self._generation = applied, _Generation(id(self))

    def _checked(self, items: Iterable[Any]) -> list[Item | Tombstone | BadItem]:
        """Check and normalise the items. This takes .2 of the 20 µs of judging an item."""
        checked: list[Item | Tombstone | BadItem] = []
        for item in iterable(items):
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
                problem = "" if isinstance(item, BadItem) else looks_like(item.time)
                if problem:
                    self._warn_once("time", f"item {item.id!r}: {problem}")
            checked.append(item)
        return checked

    def _warn_once(self, subject: str, text: str) -> None:
        if subject not in self._has_warned:
            self._has_warned.add(subject)
            warn(text)

    # -- between two runs ------------------------------------------------------------------------------------

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Deduplicator cannot be pickled or copied: `save` writes its state, `Deduplicator.load` reads it"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file with a checksum. An existing file is replaced atomically.

        A Deduplicator that `load` makes of the file gives the same verdicts. If originals that this one has let through
        have expired, both warn: what is older than the memory would be let through again. Raises InputError if the file
        cannot be written.

        A million originals of 310 words with default settings and ids of 40 bytes make a file of 336 MiB. Saving them
        takes 3.5 s of processor time and 200 MiB of memory, loading them 2.8 s; measured with a tenth of them.
        """
        with self._turn, self._lock:
            expired = max(0, self._passed - self._remembered)
            journal.save(self._core, Path(path), expired, self._nameless)
            self._warn_of_expired(expired, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        settings: Settings | None = None,
        *,
        novelty: str | float | None = None,
        window: str | timedelta | None = None,
        sources: Mapping[str, Sequence[str]] | None = None,
    ) -> Self:
        """Make a Deduplicator with a saved state.

        By default it has the saved [item], [fingerprint], [window], [decision], [policy], [sources] and [index]
        settings, and `novelty`, `window` and `sources` replace theirs. Settings that name a file must
        be given, else ConfigError. Given `settings` may differ from the saved ones, but another [fingerprint] is a
        SchemeMismatch, which names the difference. Raises InputError if the file cannot be read, CorruptBlock if it is
        damaged.

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
        if settings is None:
            dedup = cls(journal.settings_of(file, _overrides(novelty, window, sources)))
        else:
            dedup = cls(settings, novelty=novelty, window=window, sources=sources)
        try:
            opening = journal.restore(dedup._core, file)
        except BaseException:
            dedup.close()
            raise
        dedup._nameless = opening.nameless
        dedup._warn_of_expired(opening.expired, path)
        return dedup

    @property
    def _remembered(self) -> int:
        return self._core.rows.next_row - self._core.index.first_row

    def _warn_of_expired(self, expired: int, path: str | os.PathLike[str]) -> None:
        if not expired:
            return
        length, limit = self.settings.window.length_ms, self._core.max_originals
        cause = f"more than window.max_originals ({limit:,}) came" if self.evicted else "they are older than the window"
        warn(
            f"{path}: {counted(expired, 'original')} that passed have expired: {cause}, {span(length)} back to "
            f"{moment(self._core.watermark - length)}. {counted(self._remembered, 'original')} are remembered; "
            "copies of what has expired pass again. To remember longer, begin anew with Deduplicator(window=...)"
        )


def _overrides(
    novelty: str | float | None, window: str | timedelta | None, sources: Mapping[str, Sequence[str]] | None
) -> dict[str, dict[str, Any]]:
    """Return the tables of settings that the keyword arguments set."""
    tables: dict[str, dict[str, Any]] = {"sources": dict(sources)} if sources else {}
    if novelty is not None:
        tables["decision"] = {"novelty": novelty}
    if window is not None:
        tables["window"] = {"length": window}
    return tables
