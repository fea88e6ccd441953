"""What goes into `Deduplicator.judge` (`Prepared`) and comes out: a `Batch` of verdicts, with the `Delta` of the index.

Preparing is the part of the decision that depends on the items alone, mostly their fingerprints. It is most of the work
and needs no index, so another thread can do it while the previous batch is judged and committed. The caller of `judge`
acts on the verdicts, writes the delta to the changelog, and passes the batch to `Deduplicator.apply`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.clocks import CLOCK, Odd, newest_clocks
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import BadItem
from stream_dedup.fingerprint.fingerprint import Fingerprinter, Fingerprints
from stream_dedup.news.item import Item, Tombstone

EMPTY, ITEM, TOMBSTONE = range(3)
"""Kinds of subjects. EMPTY: an item without anything to judge it by."""

FORGOTTEN = np.dtype([("before", "<u4"), ("row_id", "<u8")])
"""Originals to forget: `row_id` is the hash of their id, or the name of one version of it (`candidates.version_of`);
before: the number of additions of the delta that come before."""
ARRIVAL = np.dtype([("watermark", "<i8"), ("elapsed", "<i8"), ("doubted", "u1")])
"""The arrival of an added row: the watermark and its elapsed event time then (clocks.py), ms; 1 if its time is
doubted."""


# Marks of corrections in Latin script, as alternatives of a regular expression.
_WORDS = (
    "correct(?:ed|ion|ions|s)|clarification|korrigiert|korrektur|berichtigt|berichtigung|correctif|rectificatif|corrigé|"
    "corregido|corrección|rettifica|correção"
)
_CHARACTERS = "更正|訂正|订正"
# Every mark contains one of these. Searching the joined headlines for them costs .9 µs per headline, the expression 4.
_PARTS = tuple(
    part.encode()
    for part in (
        *("correc", "correç", "corrig", "correg", "korrig", "korrekt", "clarification", "berichtig"),
        *("rectificatif", "rettifica", *_CHARACTERS.split("|")),
    )
)
# Headlines that are searched at once. One in a thousand contains a part, and then each of these is searched. 1 µs per
# headline in all; 1.9 if a batch of 500 is searched at once.
_CHUNK = 32
_WORD = rf"(?:{_WORDS}|{_CHARACTERS})"
_MARKED = re.compile(
    rf"(?:^|\d[-–—:]\s?)\W{{0,2}}{_WORD}(?:\s\d+)?\s?[-–—:：|]"  # "CORRECTED-Fed ...", "UPDATE 2-CORRECTED-Fed ..."
    rf"|[(\[（【]\s?{_WORD}\s?[)\]）】]"  # "Fed ... (Corrected)"
    rf"|[-–—:|]\s?{_WORD}\W{{0,2}}$",  # "Fed ... - CORRECTED"
    re.I,
)
# A note in the text: "Correction: An earlier version of this article ...". It begins a sentence or a line, near the
# beginning or the end of the text.
_NOTED = re.compile(
    rf"(?:^|\n\s{{0,8}}|[.!?…\"”»)]\s{{1,8}}|[。！？])\W{{0,2}}{_WORD}(?:\s\w{{1,20}}){{0,2}}\s?[:：]", re.I
)
_EDGE = 300
# What is left of every mark without its first letter, whose case varies.
_INNER = (
    "orrec",
    "orreç",
    "orrig",
    "orreg",
    "orrek",
    "larific",
    "erichtig",
    "ectific",
    "ettific",
    *_CHARACTERS.split("|"),
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A fingerprinted batch.

    items: all, in order; subjects: the m items that are no BadItem, with their fingerprints (`prints`), kinds, (m,)
    int8, and `is_correction`, (m,): headline or text marks a correction. Nothing else is judged by: of the
    subjects, judging reads the ids only.
    """

    items: Sequence[Item | Tombstone | BadItem]
    subjects: list[Item]
    prints: Fingerprints
    kinds: NDArray[np.int8]
    is_correction: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.items)


def prepare(items: Sequence[Item | Tombstone | BadItem], fingerprint: Fingerprinter) -> Prepared:
    """Fingerprint the items; a pure function. O(bytes)."""
    readable = [item for item in items if not isinstance(item, BadItem)]
    subjects = [_as_item(item) for item in readable]
    prints = fingerprint(subjects)
    is_tombstone = np.array([isinstance(item, Tombstone) for item in readable], np.bool_)
    kinds = np.where(is_tombstone, TOMBSTONE, np.where(prints.is_empty, EMPTY, ITEM)).astype(np.int8)
    prints.keys[kinds == TOMBSTONE, :-1] = 0  # only the id is looked up
    prints.keys[kinds == EMPTY] = 0
    corrects = are_corrections([item.title for item in subjects]) | have_notes([item.text for item in subjects])
    return Prepared(items, subjects, prints, kinds, corrects)


def _as_item(item: Item | Tombstone) -> Item:
    if isinstance(item, Item):
        return item
    return Item(item.id, "", "", "", item.time, item.partition, item.offset)


def are_corrections(headlines: Sequence[str]) -> NDArray[np.bool_]:
    """(n,) bool, whether each headline marks a correction of an earlier item. O(characters).

    A change from 38 to 83 million is one word in three hundred, which no similarity shows, but editors mark their
    corrections. The mark must be set apart ("CORRECTED-", "(Corrected)", "Correction:"), because market corrections and
    corrections officers are ordinary news. Of 83,000 real headlines it finds 48, by Reuters and AP, and all are
    corrections.

    >>> are_corrections(["CORRECTED-Bridge costs 83 million", "Bridge costs 83 million (corrected)"]).tolist()
    [True, True]
    >>> are_corrections(["Correction of the market looms", "Corrections officer: 'I saw nothing'"]).tolist()
    [False, False]
    """
    found = np.zeros(len(headlines), np.bool_)
    for first in range(0, len(headlines), _CHUNK):
        chunk = headlines[first : first + _CHUNK]
        if _may_correct("\n".join(chunk)):
            is_marked = (_may_correct(headline) and _MARKED.search(headline) is not None for headline in chunk)
            found[first : first + len(chunk)] = np.fromiter(is_marked, np.bool_, len(chunk))
    return found


def have_notes(texts: Sequence[str]) -> NDArray[np.bool_]:
    """(n,) bool, whether each text begins or ends with a note on a correction. O(texts).

    Of 45,000 texts of four corpora it finds 11, all of them corrections but one.

    >>> have_notes(["The bridge cost 83 million. Correction: An earlier version said 38 million."]).tolist()
    [True]
    >>> have_notes(["The market awaits its correction. Corrections officers: we saw nothing."]).tolist()
    [False]
    """
    return np.fromiter((_is_noted(text[:_EDGE]) or _is_noted(text[-_EDGE:]) for text in texts), np.bool_, len(texts))


def _is_noted(edge: str) -> bool:
    has_colon = ": " in edge or "：" in edge  # seven edges in ten have none
    return has_colon and any(part in edge for part in _INNER) and _NOTED.search(edge) is not None


def _may_correct(text: str) -> bool:
    low = text.lower().encode("utf-8", "surrogatepass")
    return any(part in low for part in _PARTS)


@dataclass(frozen=True, slots=True)
class Delta:
    """The changes that a batch makes to the index: n rows to add and m ids to forget.

    - signatures: (n,) structured, the scheme's `signature_dtype`; keys: (n, T) uint32; ids: n strings.
    - forgotten: (m,) FORGOTTEN.
    - bodies: n packed bodies for exact comparison, else empty.
    - passages: uint32, hashes of the passages of the added originals; passage_counts: (n,) uint8, passages per row; or
      both empty if unknown.
    - arrivals: (n,) ARRIVAL; clocks: CLOCK, the new states of the partitions that had items; or both empty.
    - watermark, elapsed: after the batch, ms.
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

    def __len__(self) -> int:
        return len(self.ids)


def merge_arrivals(deltas: Sequence[Delta]) -> tuple[NDArray[np.void], NDArray[np.void], int]:
    """Merge the arrivals, clocks and elapsed times of consecutive deltas, for one delta that replaces them.

    The last clock of each partition counts.
    """
    arrivals = np.concatenate([delta.arrivals for delta in deltas])
    return arrivals, newest_clocks([delta.clocks for delta in deltas]), deltas[-1].elapsed


@dataclass(frozen=True, slots=True)
class Batch:
    """The verdicts of a batch, in the order of its items, and the delta to apply.

    odd: (n,) int8, `Odd`, what is unusual about the items' times; judged_at: script.py marks here the state of the
    index against which it judged the batch.
    """

    verdicts: list[Verdict]
    delta: Delta
    odd: NDArray[np.int8]
    judged_at: object = field(default=None, repr=False, compare=False)

    def odd_times(self) -> dict[str, int]:
        """The number of items by kind of unusual time (`Odd`, in lower case)."""
        counts = np.bincount(self.odd, minlength=len(Odd)).tolist()
        return {kind.name.lower(): counts[kind] for kind in Odd if kind is not Odd.NOTHING}

    def counts(self) -> dict[Kind, int]:
        """The number of verdicts of each kind."""
        counts = dict.fromkeys(Kind, 0)
        for verdict in self.verdicts:
            counts[verdict.kind] += 1
        return counts
