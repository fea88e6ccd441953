"""The compiled pass against the same rules told plainly, on made-up facts of every kind."""

import numpy as np
import pytest

from stream_dedup.dedup.resolve import (
    ITEM,
    NEW,
    NO_ITEM,
    NOTHING_NEW,
    REVISED,
    SAME_ID,
    SAME_TEXT,
    TOMBSTONE,
    UNASKED,
    UNLIKE,
    Facts,
    Subjects,
    resolve,
)
from stream_dedup.dedup.rule import APART_UNIT, APART_WEIGHT, NEXT_DAY_HOURS, Finding
from stream_dedup.dedup.similarity import HOUR

DAY = 24 * HOUR
THRESHOLD = 0.5


def made_up(rng: np.random.Generator, items: int, pairs: int) -> tuple[Subjects, Facts]:
    """Few ids and few days, so that ids meet, are forgotten and come again, and variants age."""

    def some(share: float) -> np.ndarray:
        return rng.random(pairs) < share

    kind = rng.choice([NO_ITEM, ITEM, TOMBSTONE], items, p=[0.05, 0.85, 0.1]).astype(np.int8)
    own = rng.integers(1, 1 + items, items).astype(np.uint64)
    time = rng.integers(0, 3, items) * DAY
    item = np.sort(rng.integers(0, items, pairs))
    row = np.where(some(0.5) & (item > 0), -1 - (rng.random(pairs) * item).astype(np.int64), rng.integers(0, 99, pairs))
    in_batch = row < 0
    known = np.where(in_batch, time[np.where(in_batch, -1 - row, 0)], rng.integers(0, 3, pairs) * DAY)
    root = np.where(in_batch, own[np.where(in_batch, -1 - row, 0)], rng.integers(1, 1 + items, pairs)).astype(np.uint64)
    findings = np.array(list(Finding), np.int8)
    facts = Facts(
        bounds=np.searchsorted(item, np.arange(items + 1)),
        row=row,
        root=root,
        time=known,
        by_text=some(0.8),
        near=some(0.9) | ~in_batch,
        is_repeat=some(0.05),
        logit=np.where(some(0.2), np.nan, rng.integers(-4, 4, pairs)).astype(np.float32),
        finding=rng.choice(findings, pairs),
        other_day=rng.choice(findings, pairs),
        next_day=np.abs(time[item] - known) / HOUR > NEXT_DAY_HOURS,
        closeness=rng.integers(0, 4, pairs) / 2,
        shows_section=some(0.1),
        headline_only=some(0.5),
        replaces=some(0.6),
        is_variant=some(0.2) & ~in_batch,
        keeps_variant=some(0.6),
        is_bare=some(0.3),
    )
    low = rng.integers(-1, 2, items) * DAY
    return Subjects(kind, own, time, low, low + rng.integers(0, 3, items) * DAY), facts


class _Plainly:
    """The pass, with a dictionary of who leads where."""

    def __init__(self, subjects: Subjects, facts: Facts, holds_updates: bool, first_row: int) -> None:
        self.s, self.f, self.holds_updates, self.first_row = subjects, facts, holds_updates, first_row
        self.leads: dict[int, int] = {}  # a retained item of the batch -> id of its original
        self.variants: dict[int, tuple[int, int]] = {}  # -> id of the original, and its time
        self.gone: set[int] = set()
        self.added: list[int] = []
        self.forgotten: list[tuple[int, int]] = []
        self.said = [self.item(j) for j in range(len(subjects.own))]

    def lead(self, j: int, p: int) -> int | None:
        i = -1 - int(self.f.row[p])
        if i < 0:
            is_there = self.f.row[p] >= self.first_row + len(self.added) and int(self.f.root[p]) not in self.gone
            return int(self.f.root[p]) if is_there else None
        if i in self.variants and not (self.f.by_text[p] and self.s.low[j] <= self.variants[i][1] <= self.s.high[j]):
            return None
        if i not in self.variants and not self.f.near[p]:
            return None
        return self.leads.get(i)

    def finding(self, j: int, p: int) -> int:
        i = -1 - int(self.f.row[p])
        time = self.variants[i][1] if i in self.variants else int(self.f.time[p])
        is_next_day = abs(int(self.s.time[j]) - time) / HOUR > NEXT_DAY_HOURS
        return int((self.f.finding if is_next_day == self.f.next_day[p] else self.f.other_day)[p])

    def is_variant(self, p: int) -> bool:
        return bool(self.f.is_variant[p]) or self.in_batch(p)

    def in_batch(self, p: int) -> bool:
        return -1 - int(self.f.row[p]) in self.variants

    def logits(self, j: int, leads: dict[int, int], found: dict[int, int], is_section: bool) -> dict[int, float]:
        """Log-odds that something is new, of each candidate."""
        said = {}
        for p in leads:
            said[p] = float(self.f.logit[p])
            if self.in_batch(p):
                since = self.variants[-1 - int(self.f.row[p])][1]
                true, stated = (abs(int(self.s.time[j]) - one) / HOUR for one in (since, int(self.f.time[p])))
                said[p] += APART_WEIGHT * (np.log1p(true / APART_UNIT) - np.log1p(stated / APART_UNIT))
        by_original = dict(said)
        for p in leads:
            shown = [q for q in leads if leads[q] == leads[p] and not self.is_variant(q)]
            if self.is_variant(p) and shown:
                by_original[p] = said[shown[0]]
            may_repeat = found[p] > 0 or (self.f.is_bare[p] and not (is_section and self.f.headline_only[p]))
            if not may_repeat and not np.isnan(by_original[p]):
                by_original[p] = np.inf
        return by_original

    def forget(self, root: int) -> None:
        self.forgotten.append((len(self.added), root))
        self.gone.add(root)
        self.leads = {i: other for i, other in self.leads.items() if other != root}

    def retain(self, j: int) -> None:
        self.added.append(j)
        self.leads[j] = int(self.s.own[j])

    def item(self, j: int) -> tuple[int, int, int, int]:
        """Outcome, pair, finding, candidates."""
        kind, own = self.s.kind[j], int(self.s.own[j])
        if kind == NO_ITEM:
            return UNASKED, -1, 0, 0
        leads = {p: lead for p in range(*self.f.bounds[j : j + 2]) if (lead := self.lead(j, p)) is not None}
        of_id = [p for p, lead in leads.items() if lead == own]
        if kind == TOMBSTONE:
            if of_id:
                self.forget(own)
            return (SAME_ID, of_id[0], 0, len(leads)) if of_id else (NEW, -1, 0, len(leads))
        if not leads:
            self.retain(j)
            return NEW, -1, 0, 0
        if of_id:
            if self.f.replaces[of_id[0]]:
                self.forget(own)
                self.retain(j)
            return SAME_ID, of_id[0], 0, len(leads)
        repeats = [p for p in leads if self.f.is_repeat[p]]
        if repeats:
            return SAME_TEXT, repeats[0], 0, len(leads)
        found = {p: self.finding(j, p) for p in leads}
        is_section = any(self.f.shows_section[p] for p in leads)
        logits = self.logits(j, leads, found, is_section)
        if is_section:
            found = {p: int(Finding.SECTION) if of > 0 and self.f.headline_only[p] else of for p, of in found.items()}
        alike, refused = [p for p in leads if found[p] > 0], [p for p in leads if found[p] < 0]
        best = max(alike or refused or leads, key=lambda p: (self.f.closeness[p], -p))
        known = [p for p in leads if not np.isnan(logits[p])]
        least = min(known, key=lambda p: (np.float32(logits[p]), p), default=None)
        if least is not None and logits[least] < THRESHOLD:
            best, outcome = least, NOTHING_NEW
        elif not alike:
            outcome = UNLIKE
        else:
            outcome = NOTHING_NEW if np.isnan(logits[best]) else REVISED
        if outcome == UNLIKE or (outcome == REVISED and not self.holds_updates):
            self.retain(j)
        elif found[best] > 0 and self.f.keeps_variant[best]:
            i = -1 - int(self.f.row[best])
            since = self.variants[i][1] if i in self.variants else int(self.f.time[best])
            self.added.append(j)
            self.leads[j], self.variants[j] = leads[best], (leads[best], since)
        return outcome, best, found[best], len(leads)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("holds_updates", [False, True])
def test_each_item_is_settled_as_the_rules_told_plainly_settle_it(seed: int, holds_updates: bool) -> None:
    rng = np.random.default_rng(seed)
    items = int(rng.integers(1, 60))
    subjects, facts = made_up(rng, items, int(rng.integers(0, 8)) * items)
    first_row = int(rng.choice([-100, 0, 50]))  # rows are 0 to 98: with room for all, for some, for half
    plainly = _Plainly(subjects, facts, holds_updates, first_row)
    first_kept_rows = first_row + np.arange(len(subjects.own) + 1)
    resolution = resolve(subjects, facts, THRESHOLD, holds_updates, first_kept_rows)
    parts = (resolution.outcome, resolution.pair, resolution.finding, resolution.candidates)
    said = zip(*(part.tolist() for part in parts), strict=True)
    assert list(said) == plainly.said
    assert np.flatnonzero(resolution.is_added).tolist() == plainly.added
    assert {j: root for j, root in enumerate(resolution.root.tolist()) if root} == {
        j: root for j, (root, _) in plainly.variants.items()
    }
    assert list(zip(resolution.before.tolist(), resolution.forgotten.tolist(), strict=True)) == plainly.forgotten


def test_the_made_up_facts_lead_to_every_outcome() -> None:
    rng = np.random.default_rng(0)
    outcomes: set[int] = set()
    for _ in range(10):
        outcomes |= set(resolve(*made_up(rng, 50, 300), THRESHOLD, False).outcome.tolist())
    assert outcomes == {UNASKED, NEW, SAME_ID, SAME_TEXT, NOTHING_NEW, REVISED, UNLIKE}
