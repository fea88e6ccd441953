"""The input of `Decider.judge`, `Prepared`, and its result: a `Batch` of verdicts, with the `Delta` of the index.

To prepare a batch is the part of the decision that depends on the items alone, mostly their fingerprints. It is most of
the work and needs no index, so another thread can do it while the previous batch is judged and committed. The caller of
`judge` acts on the verdicts, writes the delta to the changelog, and passes the batch to `Decider.apply`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.clocks import CLOCK, Odd
from stream_dedup.dedup.source_rules import IGNORE, SourceRules, count_rules
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import BadItem
from stream_dedup.fingerprint.fingerprint import Fingerprinter, Fingerprints
from stream_dedup.news.item import Item, Tombstone

T = TypeVar("T")

EMPTY, ITEM, TOMBSTONE = range(3)
"""Kinds of subjects. EMPTY: an item that has nothing to judge it by, or whose source is ignored."""

DELETED = np.dtype([("before", "<u4"), ("name", "<u8")])
"""Originals to forget, as a block of the changelog stores them.

before: how many additions of the delta come before.
name: the hash of their id, or the name of one version of it (`candidates.versions_of`)."""
ARRIVAL = np.dtype([("watermark", "<i8"), ("elapsed", "<i8"), ("doubted", "u1")])
"""The arrival of an added row.

watermark, elapsed: the watermark and the elapsed event time (clocks.py), ms.
doubted: 1 if its time is doubted, else 0."""


def batches(values: Iterable[T], size_of: Callable[[T], int], most: int, most_bytes: int) -> Iterator[list[T]]:
    """Yield the values in order, in batches that end once they reach `most` values or `most_bytes` bytes.

    `size_of` gives the bytes of a value. A batch is yielded before the next value is read.

    >>> list(batches(["a", "b", "long", "c"], len, most=2, most_bytes=4))
    [['a', 'b'], ['long'], ['c']]
    """
    batch: list[T] = []
    size = 0
    for value in values:
        batch.append(value)
        size += size_of(value)
        if len(batch) >= most or size >= most_bytes:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class Prepared:
    """A fingerprinted batch. The decision uses nothing else, except the marks of corrections (corrections.py).

    items: all, in order.
    subjects: the m items that are not a BadItem.
    prints: their fingerprints.
    kinds: (m,) int8, EMPTY, ITEM or TOMBSTONE.
    rules: the rules of their sources (source_rules.py).
    scheme: the id of the fingerprints' scheme.
    """

    items: Sequence[Item | Tombstone | BadItem]
    subjects: list[Item]
    prints: Fingerprints
    kinds: NDArray[np.int8]
    rules: list[str]
    scheme: int

    def __len__(self) -> int:
        return len(self.items)


def prepare(items: Sequence[Item | Tombstone | BadItem], fingerprint: Fingerprinter, rules_of: SourceRules) -> Prepared:
    """Fingerprint the items; a pure function. O(bytes)."""
    readable = [item for item in items if not isinstance(item, BadItem)]
    subjects = [
        item if isinstance(item, Item) else Item(item.id, "", "", "", item.time, item.partition, item.offset)
        for item in readable
    ]
    prints, rules = fingerprint(subjects), rules_of.find(subjects)
    is_tombstone = np.array([isinstance(item, Tombstone) for item in readable], np.bool_)
    is_empty = prints.is_empty | np.array([rule == IGNORE for rule in rules], np.bool_)
    kinds = np.where(is_tombstone, TOMBSTONE, np.where(is_empty, EMPTY, ITEM)).astype(np.int8)
    prints.keys[kinds == TOMBSTONE, :-1] = 0  # only the id is looked up
    prints.keys[kinds == EMPTY] = 0
    return Prepared(items, subjects, prints, kinds, rules, fingerprint.scheme.id)


Name = tuple[str, str]
"""The id of an item and that of its story."""


def stories_of(names: Iterable[Name]) -> list[str]:
    """Return the stories of rows, as a delta holds them.

    >>> stories_of([("1", "1"), ("2", "1")]), stories_of([("1", "1")])
    (['', '1'], [])
    """
    stories = ["" if story == name else story for name, story in names]
    return stories if any(stories) else []


@dataclass(frozen=True, slots=True)
class Delta:
    """The changes of a batch to the index: n rows to add and m ids to forget.

    signatures: (n,) of the scheme's `signature_dtype`.
    keys: (n, T) uint32.
    ids: n strings.
    forgotten: (m,) DELETED.
    watermark, elapsed: after the batch, ms.
    bodies: n, see `Scheme.has_bodies`, else empty.
    passages: uint32, hashes of the passages of the added originals; empty if unknown.
    passage_counts: (n,) uint8, passages per row; empty if unknown.
    arrivals: (n,) ARRIVAL; may be empty.
    clocks: CLOCK, the new states of the partitions that had items; may be empty.
    stories: n ids of stories (`Verdict.story`), "" for a row's own id; empty if all are "", or none is known.
    """

    signatures: NDArray[np.void]
    keys: NDArray[np.uint32]
    ids: list[str]
    forgotten: NDArray[np.void]
    watermark: int
    bodies: list[bytes] = field(default_factory=list)
    passages: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    passage_counts: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    arrivals: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, ARRIVAL))
    clocks: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, CLOCK))
    elapsed: int = 0
    stories: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    def names(self) -> list[Name]:
        """Return the names of the rows."""
        return [(name, story or name) for name, story in zip(self.ids, self.stories or repeat(""), strict=False)]


@dataclass(frozen=True, slots=True)
class Batch:
    """The verdicts of a batch, in the order of its items, and the delta to apply.

    odd: (n,) int8, `Odd`, what is unusual about the items' times.
    judged_at: for script.py, the state of the index against which it judged the batch.
    scheme: the id of its fingerprint scheme.
    """

    verdicts: list[Verdict]
    delta: Delta
    odd: NDArray[np.int8]
    judged_at: object = field(default=None, repr=False, compare=False)
    scheme: int = field(default=0, repr=False, compare=False)

    def odd_times(self) -> dict[str, int]:
        """Return the number of items by kind of unusual time (`Odd`, in lower case)."""
        counts = np.bincount(self.odd, minlength=len(Odd)).tolist()
        return {kind.name.lower(): counts[kind] for kind in Odd if kind is not Odd.NOTHING}

    def source_rules(self) -> dict[str, int]:
        """Return the number of verdicts that each rule for sources has changed."""
        return count_rules(verdict.reason for verdict in self.verdicts)

    def counts(self) -> dict[Kind, int]:
        """Return the number of verdicts of each kind."""
        counts = Counter(verdict.kind for verdict in self.verdicts)
        return {kind: counts[kind] for kind in Kind}
