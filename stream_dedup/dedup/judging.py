"""The one pass over a batch in order: who is retained decides whom later items may be duplicates of.

In: the batch's items, their verified candidate pairs and findings. Out: a verdict an item, and what the index
is to remember: originals, variants of originals, and originals to forget.

A **variant** is a held-back item that lacks enough of its original, or has enough beside it, to lead to copies
that the original would not lead to: a cut, a new headline. It is remembered in its original's name: with the
original's id, time and place, so that a verdict names who was let through first, and both are forgotten
together. (Without variants, recall on the labelled Chinese pairs is .95 instead of .98, on the English .975
instead of .98.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.policy import answer_same_id
from stream_dedup.dedup.rule import (
    GUARD_REASONS,
    NEARLY_ONE_TEXT,
    STAGE_OF,
    Finding,
    is_next_day,
    judge_pairs,
    on_the_other_day,
    stand_over_another,
)
from stream_dedup.dedup.similarity import HOUR, Similarities
from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.news.item import Item
from stream_dedup.settings import DecisionSettings, PolicySettings

# Below this Jaccard of body or headline a held-back item has something of its own. Above it the original's own
# keys lead to whatever the copy's would lead to, and every exact copy would cost a row.
_OWN = 0.8
# A cut: most of the shorter body is found in the other, which has a third more. Of the pairs that readers called
# cuts this finds 17 in 24; a copy that a page wraps in furniture looks the same (28 in 183 copies).
_FOUND, _THIRD_MORE = 0.75, 4 / 3
# The sketch's containment of a text in itself with a tail is this or more in 96 of 100 (60 to 800 words).
_NOTHING_NEW = 0.95


_NOTHING = int(Finding.NOTHING)  # a plain number compares three times as fast


class Pairs(NamedTuple):
    """Candidate pairs of a batch, ordered by item, each item's oldest candidate first.

    `row` is a row of the index, or -1-i for item i of the batch; `known` are the candidates' records;
    `by_text`: they share a key other than that of the id.
    """

    item: NDArray[np.int32]
    row: NDArray[np.int64]
    known: NDArray[np.void]
    by_text: NDArray[np.bool_]
    similar: Similarities
    finding: NDArray[np.int8]


@dataclass(slots=True)
class Memory:
    """What the index is to remember of the batch, in the order in which it happened."""

    added: list[int] = field(default_factory=list)  # positions of items
    roots: dict[int, tuple[Original, int]] = field(default_factory=dict)  # of variants: original, hash of its id
    forgotten: list[tuple[int, int]] = field(default_factory=list)  # additions before it, hash of the id


class Judging:
    """Judges the items of one batch, each once, in order."""

    def __init__(
        self,
        items: Sequence[Item],
        records: NDArray[np.void],
        horizons: NDArray[np.int64],
        pairs: Pairs,
        id_of: Callable[[int], str],
        policy: PolicySettings,
        decision: DecisionSettings,
    ) -> None:
        self.memory = Memory()
        self._items, self._records, self._horizons = items, records, horizons
        self._pairs, self._id_of = pairs, id_of
        self._policy, self._decision = policy, decision
        self._bounds = np.searchsorted(pairs.item, np.arange(len(items) + 1)).tolist()
        # What is asked of every pair, as lists: an element of an array costs ten times as much.
        similar = pairs.similar
        self._row: list[int] = pairs.row.tolist()
        self._known_ids: list[int] = pairs.known["row_id"].tolist()
        self._ids: list[int] = records["row_id"].tolist()
        self._same_text: list[bool] = similar.same_text.tolist()
        self._finds: list[int] = pairs.finding.tolist()
        self._on_the_other_day: list[int] | None = None  # made when first asked for
        self._close: list[float] = _closeness(similar).tolist()
        self._over_another: list[bool] = stand_over_another(similar, decision).tolist()
        self._retained: dict[int, int] = {}  # items of the batch that lead to an original: the hash of its id
        self._gone: set[int] = set()  # hashes of ids that the batch forgets; of rows of the index

    def item(self, j: int) -> Verdict:
        """The verdict of item j."""
        name, alive = self._items[j].id, self._alive(j)
        if not alive:
            return self._retain(j, Verdict(name, Kind.UNIQUE, Stage.NONE, True))
        own, row, known, retained = self._ids[j], self._row, self._known_ids, self._retained
        for p in alive:
            if (known[p] if row[p] >= 0 else retained[-1 - row[p]]) == own:  # _root_hash, without the call
                return self._same_id(j, p, len(alive))
        for p in alive:
            if self._same_text[p]:
                return self._duplicate(j, p, Stage.EXACT, len(alive))
        findings = self._findings(alive)
        alike = [p for p in alive if findings[p] > _NOTHING]
        if alike:
            best = max(alike, key=self._close.__getitem__)  # of equals the first: the oldest
            return self._duplicate(j, best, STAGE_OF[Finding(findings[best])], len(alive))
        guarded = [p for p in alive if findings[p] < _NOTHING]
        best = max(guarded or alive, key=self._close.__getitem__)
        finding = Finding(findings[best])
        evidence = self._evidence(best, len(alive), GUARD_REASONS.get(finding))
        return self._retain(j, Verdict(name, Kind.UNIQUE, STAGE_OF[finding], True, self._original(best), evidence))

    def tombstone(self, j: int) -> Verdict:
        """The verdict of a tombstone at place j: forwarded, and its original forgotten."""
        for p in self._alive(j):
            if self._root_hash(p) == self._ids[j]:
                original = self._original(p)
                self._forget(p)
                return Verdict(self._items[j].id, Kind.TOMBSTONE, Stage.POLICY, True, original)
        return Verdict(self._items[j].id, Kind.TOMBSTONE, Stage.NONE, True)

    # -- the stages ----------------------------------------------------------------------------------------

    def _same_id(self, j: int, p: int, candidates: int) -> Verdict:
        similar = self._pairs.similar
        kind, stage, forward, reason = answer_same_id(
            bool(similar.same_text[p]),
            float(similar.body[p]),
            float(similar.headline[p]),
            self._policy,
            self._decision.cosmetic,
            self._is_shortened(p),
        )
        evidence = self._evidence(p, candidates)
        verdict = Verdict(self._items[j].id, kind, stage, forward, self._original(p), evidence, reason)
        if not forward:
            return verdict
        self._forget(p)
        return self._retain(j, verdict)

    def _duplicate(self, j: int, p: int, stage: Stage, candidates: int) -> Verdict:
        original, evidence = self._original(p), self._evidence(p, candidates)
        if evidence.cut == "longer" and self._policy.longer == "forward":
            reason = "a longer cut of its original; policy.longer = forward"
            update = Verdict(self._items[j].id, Kind.UPDATE, Stage.POLICY, True, original, evidence, reason)
            return self._retain(j, update)
        if self._policy.variants and stage != Stage.EXACT and self._has_its_own(p):
            root = self._root_hash(p)
            self.memory.added.append(j)
            self.memory.roots[j] = (original, root)
            self._retained[j] = root
        return Verdict(self._items[j].id, Kind.DUPLICATE, stage, False, original, evidence)

    def _has_its_own(self, p: int) -> bool:
        similar = self._pairs.similar
        return bool(similar.body[p] < _OWN or similar.headline[p] < _OWN)

    def _retain(self, j: int, verdict: Verdict) -> Verdict:
        self.memory.added.append(j)
        self._retained[j] = self._ids[j]
        return verdict

    def _forget(self, p: int) -> None:
        root = self._root_hash(p)
        self._retained = {j: other for j, other in self._retained.items() if other != root}
        self._gone.add(root)
        self.memory.forgotten.append((len(self.memory.added), root))

    # -- candidates ----------------------------------------------------------------------------------------

    def _alive(self, j: int) -> list[int]:
        first, end = self._bounds[j], self._bounds[j + 1]
        if first == end:
            return []
        row, known, gone = self._row, self._known_ids, self._gone
        return [p for p in range(first, end) if (known[p] not in gone if row[p] >= 0 else self._is_retained(p))]

    def _is_retained(self, p: int) -> bool:
        """Whether a candidate of the batch itself still leads to an original."""
        row = self._row[p]
        if -1 - row not in self._retained:
            return False
        root = self.memory.roots.get(-1 - row)
        # A variant stands in its original's name: it ages with it, and its own id leads nowhere.
        return root is None or (bool(self._pairs.by_text[p]) and root[0].time >= self._horizons[self._pairs.item[p]])

    def _findings(self, alive: list[int]) -> dict[int, int]:
        of = self._finding if self.memory.roots else self._finds.__getitem__
        findings = {p: of(p) for p in alive}
        if any(self._over_another[p] for p in alive):
            similar = self._pairs.similar
            for p in alive:
                if findings[p] > Finding.NOTHING and similar.same_source[p] and similar.body[p] < NEARLY_ONE_TEXT:
                    findings[p] = Finding.SECTION
        return findings

    def _finding(self, p: int) -> int:
        row = self._row[p]
        root = self.memory.roots.get(-1 - row) if row < 0 else None
        if root is None:
            return self._finds[p]
        # A variant of this batch counts from its original's time, as it will once it stands in the index.
        apart = np.float32(abs(int(self._records["time"][self._pairs.item[p]]) - root[0].time) / HOUR)
        if is_next_day(apart) == is_next_day(self._pairs.similar.apart[p]):  # the time tells nothing else
            return self._finds[p]
        if self._on_the_other_day is None:
            self._on_the_other_day = judge_pairs(on_the_other_day(self._pairs.similar), self._decision).tolist()
        return self._on_the_other_day[p]

    def _root_hash(self, p: int) -> int:
        """Hash of the id of the original that the candidate is or leads to."""
        row = self._row[p]
        return self._known_ids[p] if row >= 0 else self._retained[-1 - row]

    def _original(self, p: int) -> Original:
        row, record = self._row[p], self._pairs.known[p]
        if -1 - row in self.memory.roots:
            return self.memory.roots[-1 - row][0]
        name = self._id_of(row) if row >= 0 else self._items[-1 - row].id
        return Original(name, int(record["time"]), int(record["partition"]), int(record["offset"]))

    def _evidence(self, p: int, candidates: int, guard: str | None = None) -> Evidence:
        s = self._pairs.similar
        distance = float(s.distance[p])
        return Evidence(
            _or_none(s.body[p]),
            _or_none(s.containment[p]),
            _or_none(s.lead[p]),
            _or_none(s.headline[p]),
            bool(s.same_source[p]),
            self._cut(p),
            guard,
            candidates,
            None if distance != distance else int(distance),
        )

    def _is_shortened(self, p: int) -> bool:
        new, known = self._records["body_size"][self._pairs.item[p]], self._pairs.known["body_size"][p]
        return bool(new < known and self._pairs.similar.containment[p] >= _NOTHING_NEW)

    def _cut(self, p: int) -> str | None:
        new = int(self._records["body_size"][self._pairs.item[p]])
        known = int(self._pairs.known["body_size"][p])
        if not self._pairs.similar.containment[p] >= _FOUND or max(new, known) < _THIRD_MORE * min(new, known):
            return None
        return "longer" if new > known else "shorter"


def _closeness(s: Similarities) -> NDArray[np.float64]:
    """Sum of what the views say; a view that is missing says nothing."""
    body, lead, headline = (np.nan_to_num(view.astype(np.float64)) for view in (s.body, s.lead, s.headline))
    return body + lead + headline


def _or_none(x: np.float32) -> float | None:
    value = float(x)
    return value if value == value else None  # NaN is what differs from itself
