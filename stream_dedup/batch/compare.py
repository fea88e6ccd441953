"""Candidate pairs -> near-duplicate pairs: the sketches confirm, the rule and its guards decide, as in the stream.

In: `Parts` and the runs of all tables. Out: *verified* files, the near-duplicates of a stretch of rows each, in the
order of (later, earlier). The runs are merged stretch by stretch: what they hold of its rows lies side by side in each,
so one sort makes each pair one. A pair counts as it would for an item that comes later and meets the other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.batch.parts import Parts
from stream_dedup.batch.spill import Arrays
from stream_dedup.dedup.rule import STAGE_OF, Finding, depends_on_headline, judge_pairs, shows_section_headline, vetoed
from stream_dedup.dedup.similarity import compare
from stream_dedup.dedup.verdict import Stage
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.settings import DecisionSettings

STAGES = list(Stage)
"""A verified file names a stage by its place here."""
# Stretches begin at multiples of so many rows, so that a run is searched for n / 256 rows and not for n.
_STEP = 256
# Rows of a stretch at most: their sets of words take 4 KB each.
_MOST_STEPS = 16
_SHIFT, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


class VerifiedHead(msgspec.Struct, frozen=True):
    """The rows from `first` up to `end` are done: pairs compared, and those that a guard refused."""

    first: int
    end: int
    compared: int
    guarded: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows first..end as the later of a pair; `bounds`: of each run, where their codes stand."""

    first: int
    end: int
    bounds: list[tuple[int, int]]


def verified_name(number: int) -> str:
    return f"verified-{number:06}"


def stretches(runs: Sequence[NDArray[np.uint64]], first: int, size: int, capacity: int) -> Iterator[Stretch]:
    """The rows from `first` (a multiple of 256) up to `size`, cut where some `room` codes are full."""
    edges = np.append(np.arange(first, size, _STEP), size).astype(np.uint64)
    places = np.array([np.searchsorted(run, edges << _SHIFT) for run in runs]).reshape(len(runs), len(edges))
    codes = places.sum(axis=0)
    start = 0
    while start < len(edges) - 1:
        end = int(np.searchsorted(codes, codes[start] + capacity, side="right")) - 1
        end = min(max(end, start + 1), start + _MOST_STEPS, len(edges) - 1)
        bounds = [(int(place[start]), int(place[end])) for place in places]
        yield Stretch(int(edges[start]), int(edges[end]), bounds)
        start = end


class Comparer:
    """Decides the pairs of one stretch; for several threads at once."""

    def __init__(
        self, parts: Parts, runs: Sequence[NDArray[np.uint64]], decision: DecisionSettings, hamming: int
    ) -> None:
        self._parts = parts
        self._runs = runs
        self._decision = decision
        self._hamming = hamming

    def __call__(self, stretch: Stretch) -> tuple[VerifiedHead, Arrays]:
        """The near-duplicates among the stretch's candidates. O(candidates · bytes of a record)."""
        slices = [run[low:high] for run, (low, high) in zip(self._runs, stretch.bounds, strict=True)]
        codes = _distinct(np.concatenate([np.empty(0, np.uint64), *slices]))
        later, of_later = np.unique((codes >> _SHIFT).astype(np.int64), return_inverse=True)
        earlier, of_earlier = np.unique((codes & _LOW).astype(np.int64), return_inverse=True)
        parts, no_keys = self._parts, np.empty((len(later), 0), np.uint32)
        new = Fingerprints(parts.signatures(later), no_keys, parts.words(later), self._hamming, parts.bodies(later))
        bodies = parts.bodies(earlier), of_earlier
        similar = compare(new, parts.signatures(earlier), of_later, of_earlier, bodies)
        finding = judge_pairs(similar, self._decision)
        with np.errstate(invalid="ignore"):
            shows_section, headline_only = shows_section_headline(similar, self._decision), depends_on_headline(similar)
        veto_sections(finding, of_later, np.zeros(len(later), np.bool_), shows_section, headline_only)
        stage = np.array([STAGES.index(STAGE_OF[Finding(one)]) for one in range(min(Finding), max(Finding) + 1)], "u1")[
            finding - np.int8(min(Finding))
        ]
        stage[similar.same_text] = STAGES.index(Stage.EXACT)
        kept = similar.same_text | (finding > Finding.NOTHING)
        arrays: Arrays = {
            "later": later[of_later[kept]],
            "earlier": earlier[of_earlier[kept]],
            "stage": stage[kept],
            "body": similar.body[kept],
            "containment": similar.containment[kept],
            "lead": similar.lead[kept],
            "headline": similar.headline[kept],
            "distance": similar.distance[kept],
        }
        guarded = int(np.count_nonzero((finding < Finding.NOTHING) & ~similar.same_text))
        return VerifiedHead(stretch.first, stretch.end, len(codes), guarded), arrays


def _distinct(codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The codes, ascending, each once; sorts in place. `np.unique` hashes first, which here takes twice as long."""
    codes.sort()
    first = np.ones(len(codes), np.bool_)
    np.not_equal(codes[1:], codes[:-1], out=first[1:])
    return codes[first]


@njit(nogil=True, cache=True)
def veto_sections(finding, of_item, is_section, shows_section, headline_only):  # type: ignore[no-untyped-def]
    """The section veto on pairs of many items, in place; is_section: (items,) bool scratch, all False."""
    for p in range(finding.size):
        is_section[of_item[p]] |= shows_section[p]
    for p in range(finding.size):
        finding[p] = vetoed(finding[p], is_section[of_item[p]], headline_only[p])
