"""A batch's candidate pairs -> a verdict an item, and what the index is to remember and to forget.

In: the batch's items, their verified candidate pairs and findings. `cascade` settles each item in order; here it gets
what it must know of the pairs, and here its answer becomes a verdict.

A **variant** is a held-back item that lacks enough of its original, or has enough beside it, to lead to copies
that the original would not lead to: a cut, a new headline. It is remembered in its original's name: with the
original's id, time and place, so that a verdict names who was let through first, and both are forgotten
together. (Without variants, recall on the labelled Chinese pairs is .95 instead of .98, on the English .975
instead of .98.)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.batch import FORGOTTEN
from stream_dedup.dedup.cascade import (
    LONGER,
    NEW,
    SAME_ID,
    SAME_TEXT,
    TOMBSTONE,
    UNASKED,
    UNLIKE,
    Facts,
    Settled,
    Subjects,
    cascade,
)
from stream_dedup.dedup.policy import MEANINGS, Meaning, answer_same_id
from stream_dedup.dedup.rule import (
    GUARD_REASONS,
    NEXT_DAY_HOURS,
    STAGE_OF,
    judge_pairs,
    on_the_other_day,
    stand_over_another,
    torn_by_a_section,
)
from stream_dedup.dedup.similarity import Similarities
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

_LONGER, _SHORTER = 1, -1
_CUTS = {_LONGER: "longer", _SHORTER: "shorter", 0: None}
_IS_FORWARDED = np.array([meaning.forward for meaning in MEANINGS])


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


@dataclass(frozen=True, slots=True)
class Memory:
    """What the index is to remember of the batch, in the order in which it happened.

    added: places of items; is_another: which of them are articles of their own, neither updates nor variants; roots: of
    those that are variants the original, and the hash of its id.
    """

    added: NDArray[np.int64]
    is_another: NDArray[np.bool_]
    roots: dict[int, tuple[Original, int]]
    forgotten: NDArray[np.void]


def judge_in_order(
    items: Sequence[Item],
    kinds: NDArray[np.int8],
    records: NDArray[np.void],
    horizons: NDArray[np.int64],
    pairs: Pairs,
    id_of: Callable[[int], str],
    policy: PolicySettings,
    decision: DecisionSettings,
) -> tuple[list[Verdict | None], Memory]:
    """A verdict an item, None for what is no item, and what is to be remembered.

    `kinds`: what each item is, as `cascade` calls it; `id_of`: the id of a row of the index. O(items + pairs).
    """
    size, known_size = records["body_size"][pairs.item], pairs.known["body_size"]
    cuts = _cuts(size, known_size, pairs.similar.containment)
    is_shortened = (size < known_size) & (pairs.similar.containment >= _NOTHING_NEW)
    answers = answer_same_id(pairs.similar, is_shortened, policy, decision.cosmetic)
    facts = _facts(pairs, len(items), cuts, answers, policy, decision)
    settled = cascade(Subjects(kinds, records["row_id"].copy(), records["time"].copy(), horizons), facts)

    told = _told(pairs, settled, cuts, answers)
    roots: dict[int, tuple[Original, int]] = {}
    verdicts: list[Verdict | None] = []
    columns = (kinds, settled.outcome, settled.finding, settled.root)
    course = zip(items, *(column.tolist() for column in columns), strict=True)
    for j, (item, kind, outcome, finding, root) in enumerate(course):
        if outcome == NEW:
            verdicts.append(Verdict(item.id, Kind.TOMBSTONE if kind == TOMBSTONE else Kind.UNIQUE, Stage.NONE, True))
            continue
        if outcome == UNASKED:
            verdicts.append(None)
            continue
        row, time, partition, offset, means, evidence = next(told)
        if -1 - row in roots:
            original = roots[-1 - row][0]
        else:
            original = Original(id_of(row) if row >= 0 else items[-1 - row].id, time, partition, offset)
        if root:
            roots[j] = original, root
        stage = Stage.EXACT if outcome == SAME_TEXT else STAGE_OF[finding]
        if kind == TOMBSTONE:
            verdict = Verdict(item.id, Kind.TOMBSTONE, Stage.POLICY, True, original)
        elif outcome == SAME_ID:
            verdict = Verdict(item.id, means.kind, means.stage, means.forward, original, evidence, means.reason)
        elif outcome == UNLIKE:
            verdict = Verdict(item.id, Kind.UNIQUE, stage, True, original, evidence)
        elif outcome == LONGER:
            reason = "a longer cut of its original; policy.longer = forward"
            verdict = Verdict(item.id, Kind.UPDATE, Stage.POLICY, True, original, evidence, reason)
        else:
            verdict = Verdict(item.id, Kind.DUPLICATE, stage, False, original, evidence)
        verdicts.append(verdict)
    forgotten = np.empty(len(settled.forgotten), FORGOTTEN)
    forgotten["before"], forgotten["row_id"] = settled.before, settled.forgotten
    added = np.flatnonzero(settled.is_added)
    return verdicts, Memory(added, np.isin(settled.outcome[added], (NEW, UNLIKE)), roots, forgotten)


def _facts(
    pairs: Pairs,
    items: int,
    cuts: NDArray[np.int8],
    answers: NDArray[np.int8],
    policy: PolicySettings,
    decision: DecisionSettings,
) -> Facts:
    similar = pairs.similar
    other_day = pairs.finding.copy()
    if policy.variants:
        maybe = np.flatnonzero((pairs.row < 0) & pairs.by_text)  # of what this batch may make a variant
        other_day[maybe] = judge_pairs(on_the_other_day(similar.take(maybe)), decision)
    return Facts(
        bounds=np.searchsorted(pairs.item, np.arange(items + 1)),
        row=pairs.row,
        root=pairs.known["row_id"].copy(),
        time=pairs.known["time"].copy(),
        by_text=pairs.by_text,
        same_text=similar.same_text,
        finding=pairs.finding,
        other_day=other_day,
        next_day=similar.apart > NEXT_DAY_HOURS,
        closeness=_closeness(similar),
        over_another=stand_over_another(similar, decision),
        torn=torn_by_a_section(similar),
        replaces=_IS_FORWARDED[answers],
        longer=(cuts == _LONGER) & (policy.longer == "forward"),
        lends=((similar.body < _OWN) | (similar.headline < _OWN)) & policy.variants,
    )


def _told(
    pairs: Pairs, settled: Settled, cuts: NDArray[np.int8], answers: NDArray[np.int8]
) -> Iterator[tuple[int, int, int, int, Meaning, Evidence]]:
    """What a verdict tells of its pair, item by item: its row, that record's time and place, the answer, the evidence.

    By columns: an element of an array costs ten times as much as one of a list.
    """
    has_one = settled.pair >= 0
    at = settled.pair[has_one]
    s, known = pairs.similar, pairs.known.take(at)
    evidence = map(
        Evidence,
        _or_none(s.body[at]),
        _or_none(s.containment[at]),
        _or_none(s.lead[at]),
        _or_none(s.headline[at]),
        s.same_source[at].tolist(),
        map(_CUTS.__getitem__, cuts[at].tolist()),
        map(GUARD_REASONS.get, settled.finding[has_one].tolist()),
        settled.candidates[has_one].tolist(),
        (None if bits is None else int(bits) for bits in _or_none(s.distance[at])),
    )
    places = (known[name].tolist() for name in ("time", "partition", "offset"))
    means = map(MEANINGS.__getitem__, answers[at].tolist())
    return zip(pairs.row[at].tolist(), *places, means, evidence, strict=True)


def _cuts(new: NDArray[np.uint32], known: NDArray[np.uint32], containment: NDArray[np.float32]) -> NDArray[np.int8]:
    """Whether the new body is a cut of the known one, or the other way round, or neither (0)."""
    smaller, larger = np.minimum(new, known), np.maximum(new, known)
    is_cut = (containment >= _FOUND) & (larger >= _THIRD_MORE * smaller)
    return np.where(is_cut, np.where(new > known, _LONGER, _SHORTER), 0).astype(np.int8)


def _closeness(s: Similarities) -> NDArray[np.float64]:
    """Sum of what the views say; a view that is missing says nothing."""
    body, lead, headline = (np.nan_to_num(view.astype(np.float64)) for view in (s.body, s.lead, s.headline))
    return body + lead + headline


def _or_none(values: NDArray[np.float32]) -> list[float | None]:
    return [x if x == x else None for x in values.tolist()]  # NaN is what differs from itself
