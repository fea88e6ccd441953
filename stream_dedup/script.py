"""The Deduplicator as a person's script uses it: checked, in one call, and kept in a file between two runs.

In: items, or dicts of their fields, from any iterable. Out: verdicts, or the items let through; a file with what is
remembered. It decides nothing itself: that is dedup/deduplicator.py, which the worker uses without these checks.
"""

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypeVar

from stream_dedup.changelog import saved
from stream_dedup.dedup import deduplicator
from stream_dedup.dedup.batch import Batch, Delta
from stream_dedup.dedup.clocks import FAR_FUTURE
from stream_dedup.dedup.prepared import Prepared
from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import BadItem, StreamDedupWarning, UsageError
from stream_dedup.news.given import DECODED, SURE, fitting, looks_like
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings

Given = TypeVar("Given", bound=Item | Tombstone | BadItem | Mapping[str, Any])
# An item of the made-up feed (50 words) takes by its batch's size, µs: 1: 1,650; 16: 110; 256: 20; 4,096: 14.
_BATCH = 256


class _Moment:
    """A state of one Deduplicator's memory; `applied`: what was applied to it and so ended it."""

    __slots__ = ("applied", "owner")

    def __init__(self, owner: int) -> None:
        self.owner = owner
        self.applied: Delta | None = None


class Deduplicator(deduplicator.Deduplicator):
    """Decides which items are near-duplicates of earlier ones, and remembers the others.

    In one call: `filter`. In two: `judge` says what is to be done with each item and changes nothing; `apply`, once you
    have done it, remembers them. Each batch is applied once, before the next one is judged. `save` and `load` keep what
    is remembered between two runs.

    Memory: some 600 bytes for each original within the window. Not thread-safe, but for `prepare`. Use it in a `with`.

    >>> text = "The bridge over the Elm opened on Monday after two years of work, the mayor said."
    >>> with Deduplicator() as dedup:
    ...     batch = dedup.judge([
    ...         Item("1", "Elm bridge opens after two years", text, "post.example", 0),
    ...         Item("2", "Elm bridge opens after two years - Gazette", text + " More soon.", "gazette.example", 1),
    ...     ])
    ...     dedup.apply(batch)
    >>> [(v.id, str(v.kind), v.original and v.original.id) for v in batch.verdicts]
    [('1', 'unique', None), ('2', 'duplicate', '1')]
    >>> len(dedup)
    1
    """

    def __init__(self, settings: Settings | None = None) -> None:
        if settings is not None and not isinstance(settings, Settings):
            raise UsageError(f"settings must be what load_settings(FILE) gives, not {settings!r:.80}")
        super().__init__(settings)
        self._moment = _Moment(id(self))
        self._warned = False

    # -- in one call ---------------------------------------------------------------------------------------

    def filter(self, items: Iterable[Given], *, batch: int = _BATCH) -> Iterator[Given]:
        """The items to let through, unique ones and updates, in their order; the rest is held back.

        Items may be dicts, as `Item.of` takes them; you get back what you gave. They are read and judged in batches:
        from a source that waits for each item take batch=1 (1.7 ms an item instead of .02). A batch is remembered when
        you have seen the last of it; if you stop before, what you have seen is remembered and nothing else. Judge and
        filter nothing else meanwhile. What cannot be judged (without a letter or digit) is left out with a warning.
        Raises UsageError as `judge` does.

        >>> rows = [{"id": n, "title": "Elm bridge opens", "text": "It opened on Monday."} for n in (1, 2)]
        >>> with Deduplicator() as dedup:
        ...     [row["id"] for row in dedup.filter(rows)]
        [1]
        """
        if batch < 1:
            raise UsageError(f"batch must be at least 1, not {batch}")
        bad = 0
        for some in _batches(_iterable(items), batch):
            read: list[Any] = [Item.of(one) if isinstance(one, Mapping) else one for one in some]
            judged, taken = self.judge(read), 0
            try:
                for one, verdict in zip(some, judged.verdicts, strict=True):
                    taken += 1
                    if verdict.kind is Kind.BAD:
                        bad += 1
                        _warn_of_bad(bad, f"item {verdict.id!r} is left out, it cannot be judged: {verdict.reason}")
                    if verdict.forward:
                        yield one
            finally:
                self.apply(judged if taken == len(read) else self.judge(read[:taken]))
        if bad > 1:
            warnings.warn(f"{bad} items were left out, they cannot be judged", StreamDedupWarning, stacklevel=2)

    # -- in two --------------------------------------------------------------------------------------------

    def prepare(self, items: Iterable[Item | Tombstone | BadItem]) -> Prepared:
        """All of `judge` that depends on the items alone, most of its work; any thread may call it at any time.

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
        """Verdicts of the items, in their order; remembers nothing.

        An item without a time (negative), with one after `latest` (ms), or with one that stands alone among its
        neighbours' counts as of now in the stream's own time. `one_clock`: the items' partitions say nothing of the
        order of times. Raises UsageError, in one line, for what is no item; warns once of times that look like seconds.

        >>> with Deduplicator() as dedup:
        ...     dedup.judge([None])
        Traceback (most recent call last):
        stream_dedup.errors.UsageError: item 0 of those given: None is no item; leave it out, or give an Item
        """
        given = items if isinstance(items, Prepared) else self._checked(items)
        return replace(super().judge(given, latest, one_clock=one_clock), judged_at=self._moment)

    def apply(self, batch: Batch, *, pending: bool = False) -> None:
        """Remembers a batch once its verdicts have been carried out. See `deduplicator.Deduplicator` for `pending`.

        Raises UsageError if it was applied before, was judged before another one was applied, or by somebody else.

        >>> with Deduplicator() as dedup:
        ...     batch = dedup.judge([])
        ...     dedup.apply(batch)
        ...     dedup.apply(batch)
        Traceback (most recent call last):
        stream_dedup.errors.UsageError: this batch was applied before; apply each batch once
        """
        if not isinstance(batch, Batch):
            raise UsageError(f"apply takes what judge returned, not {type(batch).__name__}")
        judged_at = batch.judged_at
        if not isinstance(judged_at, _Moment) or judged_at.owner != id(self):
            raise UsageError("this batch was judged by another Deduplicator; apply it there, or judge its items here")
        if judged_at.applied is batch.delta:
            raise UsageError("this batch was applied before; apply each batch once")
        if judged_at is not self._moment:
            raise UsageError(
                "this batch was judged before another one was applied, so it does not know what that one had; judge "
                "its items again, and apply each batch before the next one is judged"
            )
        super().apply(batch, pending=pending)
        self._go_on(batch.delta)

    def rollback(self) -> None:
        super().rollback()
        self._go_on()

    def restore(self, delta: Delta) -> None:
        super().restore(delta)
        self._go_on()

    def _go_on(self, applied: Delta | None = None) -> None:
        self._moment.applied, self._moment = applied, _Moment(id(self))

    def _checked(self, items: Iterable[Any]) -> list[Item | Tombstone | BadItem]:
        """The items, once it is sure that they are some; .2 µs each of the 20 that judging takes."""
        found: list[Item | Tombstone | BadItem] = []
        for item in _iterable(items):
            if not (
                type(item) is Item
                and type(item.time) is int
                and item.time in SURE
                and type(item.id) is str
                and type(item.title) is str
                and type(item.text) is str
                and type(item.source) is str
                and type(item.partition) is int
                and type(item.offset) is int
            ):
                item = fitting(item, f"item {len(found)} of those given: ")
                odd = "" if self._warned or isinstance(item, BadItem) else looks_like(item.time)
                if odd:
                    self._warned = True
                    warnings.warn(f"item {item.id!r}: {odd}", StreamDedupWarning, stacklevel=3)
            found.append(item)
        return found

    # -- between two runs ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all that is remembered into a file: checksummed, and in the place of a former one all at once.

        `load` makes a Deduplicator of it that gives every later item the verdict that this one gives. Raises InputError
        if it cannot be written, RuntimeError while a batch is pending.

        A million originals with default settings and ids of 40 bytes are a file of 394 MiB; to save them takes 2.5 s of
        processor and 200 MiB more for that time, to load them 2.3 s.
        """
        saved.save(self, Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str], settings: Settings | None = None) -> Self:
        """A Deduplicator that remembers what was saved.

        Without `settings` it has the [fingerprint], [window], [decision], [policy] and [index] of the one that was
        saved. Others are allowed, but for [fingerprint]: SchemeMismatch names what differs. Raises InputError for a
        file that cannot be read, CorruptBlock for one that was damaged.

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
            f"a {type(items).__name__} is no list of items; of each line of a file {DECODED} makes an item, and "
            "filter_files reads and writes whole files"
        )
    if isinstance(items, Mapping):
        raise UsageError("a dict is no list of items; for a single one write [item]")
    try:
        return iter(items)
    except TypeError:
        raise UsageError(f"{type(items).__name__} is no list of items; for a single one write [item]") from None


def _batches(items: Iterator[Given], size: int) -> Iterator[list[Given]]:
    """The items in lists of this size; what came before their source failed is not lost by it."""
    while True:
        some: list[Given] = []
        failure = None
        try:
            some.extend(islice(items, size))
        except Exception as error:  # noqa: BLE001 - raised below
            failure = error
        if some:
            yield some
        if failure is not None:
            raise failure
        if len(some) < size:
            return


def _warn_of_bad(count: int, text: str) -> None:
    if count == 1:
        warnings.warn(text, StreamDedupWarning, stacklevel=3)
