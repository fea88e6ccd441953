"""The compiled pass against a plain Python reference, on random facts of every kind."""

import numpy as np
import pytest

from stream_dedup.dedup.resolve import (
    DIFFERENT,
    EMPTY,
    ITEM,
    NEW,
    NOTHING_NEW,
    REVISED,
    SAME_ID,
    SAME_TEXT,
    SKIPPED,
    TOMBSTONE,
    PairFacts,
    Subjects,
    resolve,
)
from stream_dedup.dedup.rule import APART_UNIT, APART_WEIGHT, NEXT_DAY_HOURS, Finding
from stream_dedup.dedup.similarity import HOUR

DAY = 24 * HOUR
THRESHOLD = 0.5


def random_facts(rng: np.random.Generator, items: int, pairs: int) -> tuple[Subjects, PairFacts]:
    """Random facts with few ids and few days, so that ids collide, are forgotten and return, and variants expire."""

    def flags(share: float) -> np.ndarray:
        return rng.random(pairs) < share

    kind = rng.choice([EMPTY, ITEM, TOMBSTONE], items, p=[0.05, 0.85, 0.1]).astype(np.int8)
    id_hash = rng.integers(1, 1 + items, items).astype(np.uint64)
    time = rng.integers(0, 3, items) * DAY
    item = np.sort(rng.integers(0, items, pairs))
    row = np.where(
        flags(0.5) & (item > 0), -1 - (rng.random(pairs) * item).astype(np.int64), rng.integers(0, 99, pairs)
    )
    in_batch = row < 0
    candidate_time = np.where(in_batch, time[np.where(in_batch, -1 - row, 0)], rng.integers(0, 3, pairs) * DAY)
    canonical_id = np.where(
        in_batch, id_hash[np.where(in_batch, -1 - row, 0)], rng.integers(1, 1 + items, pairs)
    ).astype(np.uint64)
    findings = np.array(list(Finding), np.int8)
    facts = PairFacts(
        bounds=np.searchsorted(item, np.arange(items + 1)),
        row=row,
        canonical_id=canonical_id,
        time=candidate_time,
        by_text=flags(0.8),
        in_window=flags(0.9) | ~in_batch,
        is_repeat=flags(0.05),
        logit=np.where(flags(0.2), np.nan, rng.integers(-4, 4, pairs)).astype(np.float32),
        finding=rng.choice(findings, pairs),
        flipped_finding=rng.choice(findings, pairs),
        is_next_day=np.abs(time[item] - candidate_time) / HOUR > NEXT_DAY_HOURS,
        closeness=rng.integers(0, 4, pairs) / 2,
        shows_section=flags(0.1),
        headline_only=flags(0.5),
        replaces=flags(0.6),
        is_variant=flags(0.2) & ~in_batch,
        keeps_variant=flags(0.6),
        is_stub=flags(0.3),
    )
    low = rng.integers(-1, 2, items) * DAY
    return Subjects(kind, id_hash, time, low, low + rng.integers(0, 3, items) * DAY), facts


class _Reference:
    """A plain implementation of `resolve`."""

    def __init__(self, subjects: Subjects, facts: PairFacts, drops_updates: bool, first_row: int) -> None:
        self.s, self.f, self.drops_updates, self.first_row = subjects, facts, drops_updates, first_row
        self.canonical: dict[int, int] = {}  # remembered item of the batch -> canonical id
        self.variants: dict[int, tuple[int, int]] = {}  # variant -> id and time of its original
        self.forgotten_ids: set[int] = set()
        self.added: list[int] = []
        self.forgotten: list[tuple[int, int]] = []
        self.results = [self.item(j) for j in range(len(subjects.id_hash))]

    def canonical_id(self, j: int, p: int) -> int | None:
        i = -1 - int(self.f.row[p])
        if i < 0:
            is_kept = (
                self.f.row[p] >= self.first_row + len(self.added)
                and int(self.f.canonical_id[p]) not in self.forgotten_ids
            )
            return int(self.f.canonical_id[p]) if is_kept else None
        if i in self.variants and not (self.f.by_text[p] and self.s.low[j] <= self.variants[i][1] <= self.s.high[j]):
            return None
        if i not in self.variants and not self.f.in_window[p]:
            return None
        return self.canonical.get(i)

    def finding(self, j: int, p: int) -> int:
        i = -1 - int(self.f.row[p])
        time = self.variants[i][1] if i in self.variants else int(self.f.time[p])
        is_next_day = abs(int(self.s.time[j]) - time) / HOUR > NEXT_DAY_HOURS
        return int((self.f.finding if is_next_day == self.f.is_next_day[p] else self.f.flipped_finding)[p])

    def is_variant(self, p: int) -> bool:
        return bool(self.f.is_variant[p]) or self.in_batch(p)

    def in_batch(self, p: int) -> bool:
        return -1 - int(self.f.row[p]) in self.variants

    def logits(self, j: int, canonicals: dict[int, int], found: dict[int, int], is_section: bool) -> dict[int, float]:
        """The log-odds of each candidate that the item has something new."""
        logits = {}
        for p in canonicals:
            logits[p] = float(self.f.logit[p])
            if self.in_batch(p):
                since = self.variants[-1 - int(self.f.row[p])][1]
                true, stated = (abs(int(self.s.time[j]) - one) / HOUR for one in (since, int(self.f.time[p])))
                logits[p] += APART_WEIGHT * (np.log1p(true / APART_UNIT) - np.log1p(stated / APART_UNIT))
        by_original = dict(logits)
        for p in canonicals:
            originals = [q for q in canonicals if canonicals[q] == canonicals[p] and not self.is_variant(q)]
            if self.is_variant(p) and originals:
                by_original[p] = logits[originals[0]]
            may_repeat = found[p] > 0 or (self.f.is_stub[p] and not (is_section and self.f.headline_only[p]))
            if not may_repeat and not np.isnan(by_original[p]):
                by_original[p] = np.inf
        return by_original

    def forget(self, canonical_id: int) -> None:
        self.forgotten.append((len(self.added), canonical_id))
        self.forgotten_ids.add(canonical_id)
        self.canonical = {i: other for i, other in self.canonical.items() if other != canonical_id}

    def retain(self, j: int) -> None:
        self.added.append(j)
        self.canonical[j] = int(self.s.id_hash[j])

    def item(self, j: int) -> tuple[int, int, int, int]:
        """Settle item j; return outcome, pair, finding and the number of candidates."""
        kind, id_hash = self.s.kind[j], int(self.s.id_hash[j])
        if kind == EMPTY:
            return SKIPPED, -1, 0, 0
        canonicals = {
            p: canonical for p in range(*self.f.bounds[j : j + 2]) if (canonical := self.canonical_id(j, p)) is not None
        }
        of_id = [p for p, canonical in canonicals.items() if canonical == id_hash]
        if kind == TOMBSTONE:
            if of_id:
                self.forget(id_hash)
            return (SAME_ID, of_id[0], 0, len(canonicals)) if of_id else (NEW, -1, 0, len(canonicals))
        if not canonicals:
            self.retain(j)
            return NEW, -1, 0, 0
        if of_id:
            if self.f.replaces[of_id[0]]:
                self.forget(id_hash)
                self.retain(j)
            return SAME_ID, of_id[0], 0, len(canonicals)
        repeats = [p for p in canonicals if self.f.is_repeat[p]]
        if repeats:
            return SAME_TEXT, repeats[0], 0, len(canonicals)
        found = {p: self.finding(j, p) for p in canonicals}
        is_section = any(self.f.shows_section[p] for p in canonicals)
        logits = self.logits(j, canonicals, found, is_section)
        if is_section:
            found = {p: int(Finding.SECTION) if of > 0 and self.f.headline_only[p] else of for p, of in found.items()}
        alike, refused = [p for p in canonicals if found[p] > 0], [p for p in canonicals if found[p] < 0]
        best = max(alike or refused or canonicals, key=lambda p: (self.f.closeness[p], -p))
        known = [p for p in canonicals if not np.isnan(logits[p])]
        least = min(known, key=lambda p: (np.float32(logits[p]), p), default=None)
        if least is not None and logits[least] < THRESHOLD:
            best, outcome = least, NOTHING_NEW
        elif not alike:
            outcome = DIFFERENT
        else:
            outcome = NOTHING_NEW if np.isnan(logits[best]) else REVISED
        if outcome == DIFFERENT or (outcome == REVISED and not self.drops_updates):
            self.retain(j)
        elif found[best] > 0 and self.f.keeps_variant[best]:
            i = -1 - int(self.f.row[best])
            since = self.variants[i][1] if i in self.variants else int(self.f.time[best])
            self.added.append(j)
            self.canonical[j], self.variants[j] = canonicals[best], (canonicals[best], since)
        return outcome, best, found[best], len(canonicals)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("drops_updates", [False, True])
def test_each_item_is_settled_as_the_reference_settles_it(seed: int, drops_updates: bool) -> None:
    rng = np.random.default_rng(seed)
    items = int(rng.integers(1, 60))
    subjects, facts = random_facts(rng, items, int(rng.integers(0, 8)) * items)
    first_row = int(rng.choice([-100, 0, 50]))  # rows are 0 to 98: all, some or half of them are kept
    reference = _Reference(subjects, facts, drops_updates, first_row)
    first_kept_rows = first_row + np.arange(len(subjects.id_hash) + 1)
    resolution = resolve(subjects, facts, THRESHOLD, drops_updates, first_kept_rows)
    parts = (resolution.outcome, resolution.pair, resolution.finding, resolution.candidate_count)
    results = zip(*(part.tolist() for part in parts), strict=True)
    assert list(results) == reference.results
    assert np.flatnonzero(resolution.is_added).tolist() == reference.added
    assert {j: original for j, original in enumerate(resolution.variant_of.tolist()) if original} == {
        j: original for j, (original, _) in reference.variants.items()
    }
    assert list(zip(resolution.before.tolist(), resolution.forgotten.tolist(), strict=True)) == reference.forgotten


def test_the_random_facts_lead_to_every_outcome() -> None:
    rng = np.random.default_rng(0)
    outcomes: set[int] = set()
    for _ in range(10):
        outcomes |= set(resolve(*random_facts(rng, 50, 300), THRESHOLD, False).outcome.tolist())
    assert outcomes == {SKIPPED, NEW, SAME_ID, SAME_TEXT, NOTHING_NEW, REVISED, DIFFERENT}
