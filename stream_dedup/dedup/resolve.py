"""Choose, item by item in order, which candidate decides: the compiled loop behind decide.py.

In: `Subjects` (the items) and `PairFacts` (what is known of each candidate pair, whatever becomes of the other items),
as arrays. Out: a `Resolution`: for each item its outcome and the pair that decided it; the additions and deletions.

Every remembered item has a **canonical id**: its own if it was let through, that of its original if it is a variant. A
tombstone, and a new version that is let through, delete the original with that id together with its variants. So the
fate of an item decides what later items of the batch find, and the pass is sequential. It is compiled because news
items that have candidates have 17 on average: in Python the pass took 6 of the 17 µs per item of the whole decision.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.dedup.rule import APART_UNIT, APART_WEIGHT, NEXT_DAY_HOURS, Finding, vetoed
from stream_dedup.dedup.similarity import HOUR

# Kinds of subjects. EMPTY: an item without anything to judge it by.
EMPTY, ITEM, TOMBSTONE = 0, 1, 2
# Outcomes, in the order of the cascade; decide.py turns them into verdicts.
SKIPPED, NEW, SAME_ID, SAME_TEXT, NOTHING_NEW, REVISED, DIFFERENT = range(7)

_NO_ID = np.uint64(0)  # no id has this hash
_NOTHING = int(Finding.NOTHING)


class Subjects(NamedTuple):
    """The items to judge, (m,) each.

    kind: EMPTY, ITEM or TOMBSTONE; time: ms; low, high: an original counts if its time lies from low to high, ms.
    """

    kind: NDArray[np.int8]
    id_hash: NDArray[np.uint64]
    time: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


class PairFacts(NamedTuple):
    """Facts of the candidate pairs, (pairs,) each, ordered by item, the oldest candidate of each item first.

    bounds: (m + 1,), item j has the pairs bounds[j] to bounds[j + 1] - 1.
    row: a row of the index, or -1-i for item i of the batch.
    canonical_id, time: of the candidate's signature: hash of the id (of a variant its original's id), and ms.
    by_text: the pair shares a key other than the id's; in_window: the candidate lies within the item's window.
    is_repeat: the words are the same, and it is no new event; logit: log-odds of something new, NaN if unknown.
    finding: a `Finding` of the rule; is_next_day: the two are more than `NEXT_DAY_HOURS` apart;
    flipped_finding: the finding if `is_next_day` were the opposite.
    closeness: sum of the similarities of the views.
    shows_section: the pair shows that the headline is the name of a section; headline_only: with such a headline the
    pair is not the same article.
    replaces: if both have the same id, the new version is let through.
    is_variant: the candidate is a variant in the index; keeps_variant: as a duplicate, the item becomes a variant.
    is_stub: the item is a page without an article of its own, under the candidate's headline.
    """

    bounds: NDArray[np.int64]
    row: NDArray[np.int64]
    canonical_id: NDArray[np.uint64]
    time: NDArray[np.int64]
    by_text: NDArray[np.bool_]
    in_window: NDArray[np.bool_]
    is_repeat: NDArray[np.bool_]
    logit: NDArray[np.float32]
    finding: NDArray[np.int8]
    flipped_finding: NDArray[np.int8]
    is_next_day: NDArray[np.bool_]
    closeness: NDArray[np.float64]
    shows_section: NDArray[np.bool_]
    headline_only: NDArray[np.bool_]
    replaces: NDArray[np.bool_]
    is_variant: NDArray[np.bool_]
    keeps_variant: NDArray[np.bool_]
    is_stub: NDArray[np.bool_]


class Resolution(NamedTuple):
    """What `resolve` decided.

    For each item, (m,): outcome; pair: the pair that decided, or -1; finding and logit of that pair (NaN: unknown);
    candidate_count; is_added: the index remembers the item; variant_of: hash of the id of the original of which it is
    a variant, or 0. For each deletion, in order: before: it happens before this addition; forgotten: hash of the id.
    """

    outcome: NDArray[np.int8]
    pair: NDArray[np.int64]
    finding: NDArray[np.int8]
    logit: NDArray[np.float32]
    candidate_count: NDArray[np.int64]
    is_added: NDArray[np.bool_]
    variant_of: NDArray[np.uint64]
    before: NDArray[np.int64]
    forgotten: NDArray[np.uint64]


def resolve(
    subjects: Subjects,
    facts: PairFacts,
    threshold: float,
    drops_updates: bool,
    first_kept_rows: NDArray[np.int64] | None = None,
) -> Resolution:
    """Resolve the items in order. O(items + pairs), and O(items) per deletion.

    threshold: log-odds from which an item counts as something new; drops_updates: updates are held back;
    first_kept_rows: (m + 1,) the first row still in the index after n additions; None: the index keeps all rows.
    """
    if first_kept_rows is None:
        first_kept_rows = np.full(len(subjects.id_hash) + 1, -(2**62))
    return Resolution(*_resolve(subjects, facts, np.float32(threshold), drops_updates, first_kept_rows))


@njit(nogil=True, cache=True)
def _resolve(subjects, facts, threshold, drops_updates, first_kept_rows):
    m = subjects.id_hash.size
    outcome, pair, candidate_count = np.zeros(m, np.int8), np.full(m, -1, np.int64), np.zeros(m, np.int64)
    finding, logit = np.zeros(m, np.int8), np.full(m, np.float32(np.nan))
    is_added, variant_of = np.zeros(m, np.bool_), np.zeros(m, np.uint64)
    # Of each remembered item of the batch its canonical id, and of a variant the time of its original.
    canonical, original_time = np.zeros(m, np.uint64), np.zeros(m, np.int64)
    before, forgotten, forgotten_ids = np.zeros(m, np.int64), np.zeros(m, np.uint64), {_NO_ID}
    most = 0
    for j in range(m):
        most = max(most, facts.bounds[j + 1] - facts.bounds[j])
    # The n candidates of the item at hand that still count: their pairs, canonical ids, findings and log-odds.
    live, canonicals, findings = np.empty(most, np.int64), np.empty(most, np.uint64), np.empty(most, np.int8)
    logits = np.empty(most, np.float32)
    added, deletions = 0, 0
    for j in range(m):
        if subjects.kind[j] == EMPTY:
            continue
        # 1. Keep the candidates that count now.
        n = 0
        for p in range(facts.bounds[j], facts.bounds[j + 1]):
            i = -1 - facts.row[p]
            if i < 0:
                is_kept = facts.row[p] >= first_kept_rows[added] and facts.canonical_id[p] not in forgotten_ids
                of_candidate = facts.canonical_id[p] if is_kept else _NO_ID
            elif variant_of[i] == _NO_ID:
                of_candidate = canonical[i] if facts.in_window[p] else _NO_ID
            # A variant counts by its original's time, and cannot be found by its own id.
            elif facts.by_text[p] and subjects.low[j] <= original_time[i] <= subjects.high[j]:
                of_candidate = canonical[i]
            else:
                of_candidate = _NO_ID
            if of_candidate != _NO_ID:
                live[n], canonicals[n] = p, of_candidate
                n += 1
        candidate_count[j] = n

        # 2. Decide: by id, by text, by novelty, by the rule.
        forgets_its_id, is_retained = False, False
        best = _first_of_id(canonicals, n, subjects.id_hash[j])
        if subjects.kind[j] == TOMBSTONE:
            outcome[j] = SAME_ID if best >= 0 else NEW
            forgets_its_id = best >= 0
        elif n == 0:
            outcome[j] = NEW
            is_retained = True
        elif best >= 0:
            outcome[j] = SAME_ID
            forgets_its_id = is_retained = facts.replaces[live[best]]
        else:
            best = _first_repeat(facts, live, n)
            if best >= 0:
                outcome[j] = SAME_TEXT
            else:
                _judge_candidates(
                    facts, subjects.time[j], variant_of, original_time, live, canonicals, findings, logits, n
                )
                best = _least_new(logits, n)
                if best < 0 or not logits[best] < threshold:
                    best = _closest(facts, live, findings, n)
                if logits[best] < threshold:
                    outcome[j] = NOTHING_NEW
                elif findings[best] <= _NOTHING:
                    outcome[j] = DIFFERENT
                else:
                    outcome[j] = NOTHING_NEW if np.isnan(logits[best]) else REVISED
                finding[j], logit[j] = findings[best], logits[best]
            p = live[best]
            is_retained = outcome[j] == DIFFERENT or (outcome[j] == REVISED and not drops_updates)
            if not is_retained and outcome[j] != SAME_TEXT and findings[best] > _NOTHING and facts.keeps_variant[p]:
                i = -1 - facts.row[p]
                variant_of[j] = canonical[j] = canonicals[best]
                original_time[j] = original_time[i] if i >= 0 and variant_of[i] != _NO_ID else facts.time[p]
                is_added[j] = True
        # 3. Record the changes to the index.
        if best >= 0:
            pair[j] = live[best]
        if forgets_its_id:
            before[deletions], forgotten[deletions] = added, canonicals[best]
            deletions += 1
            forgotten_ids.add(canonicals[best])
            for i in range(j):
                if canonical[i] == canonicals[best]:
                    canonical[i] = _NO_ID
        if is_retained:
            canonical[j], is_added[j] = subjects.id_hash[j], True
        added += is_added[j]
    changes = is_added, variant_of, before[:deletions], forgotten[:deletions]
    return outcome, pair, finding, logit, candidate_count, *changes


@njit(nogil=True, cache=True)
def _first_of_id(canonicals, n, id_hash):
    for k in range(n):
        if canonicals[k] == id_hash:
            return k
    return -1


@njit(nogil=True, cache=True)
def _first_repeat(facts, live, n):
    for k in range(n):
        if facts.is_repeat[live[k]]:
            return k
    return -1


@njit(nogil=True, cache=True)
def _judge_candidates(facts, time, variant_of, original_time, live, canonicals, findings, logits, n):
    """Fill in the findings and log-odds of the n live candidates of an item of this time."""
    # 1. Take the facts. A variant of this batch counts by its original's time, as it will once it is in the index.
    is_section = False
    is_variant = np.empty(n, np.bool_)
    for k in range(n):
        p = live[k]
        is_section |= facts.shows_section[p]
        findings[k] = facts.finding[p]
        is_batch_variant = facts.row[p] < 0 and variant_of[-1 - facts.row[p]] != _NO_ID
        is_variant[k] = is_batch_variant or facts.is_variant[p]
        logits[k] = facts.logit[p]
        if not is_batch_variant:
            continue
        hours = np.float32(abs(time - original_time[-1 - facts.row[p]]) / HOUR)
        own_hours = np.float32(abs(time - facts.time[p]) / HOUR)
        logits[k] += np.float32(APART_WEIGHT) * np.log((APART_UNIT + hours) / (APART_UNIT + own_hours))
        if (hours > NEXT_DAY_HOURS) != facts.is_next_day[p]:
            findings[k] = facts.flipped_finding[p]
    # 2. A variant takes the log-odds of its original: no reader saw the variant, so novelty is against the original.
    previous_id, original = _NO_ID, -1  # variants of one original are often neighbours
    for k in range(n):
        if not is_variant[k]:
            continue
        if canonicals[k] != previous_id:
            previous_id, original = canonicals[k], -1
            for other in range(n):
                if canonicals[other] == previous_id and not is_variant[other]:
                    original = other
                    break
        if original >= 0:
            logits[k] = logits[original]
    # 3. Only the same article can make an item "nothing new", or an article whose headline a stub repeats, unless that
    #    headline is the name of a section.
    for k in range(n):
        p = live[k]
        is_vetoed = is_section and facts.headline_only[p]
        if not np.isnan(logits[k]) and findings[k] <= _NOTHING and (is_vetoed or not facts.is_stub[p]):
            logits[k] = np.float32(np.inf)
        findings[k] = vetoed(findings[k], is_section, facts.headline_only[p])


@njit(nogil=True, cache=True)
def _least_new(logits, n):
    """The candidate with the lowest log-odds, the oldest of equals; -1 if all are unknown."""
    best = -1
    for k in range(n):
        if not np.isnan(logits[k]) and (best < 0 or logits[k] < logits[best]):
            best = k
    return best


@njit(nogil=True, cache=True)
def _closest(facts, live, findings, n):
    """The closest candidate: among the same articles, else among those with a guard's veto, else among all; the
    oldest of equals.
    """
    best = 0
    for k in range(1, n):
        rank, best_rank = _rank(findings[k]), _rank(findings[best])
        if rank > best_rank or (rank == best_rank and facts.closeness[live[k]] > facts.closeness[live[best]]):
            best = k
    return best


@njit(nogil=True, cache=True, inline="always")
def _rank(finding):
    return 2 if finding > _NOTHING else (1 if finding < _NOTHING else 0)
