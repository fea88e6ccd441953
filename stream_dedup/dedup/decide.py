"""Decide: similarities of a batch's pairs -> a verdict an item, and what the index is to remember and to forget.

In: a batch's items, their candidate pairs and similarities. Out: verdicts and `Memory`. Items are settled in order
(resolve.py), because who is let through decides what later ones find:

1. an item whose id an original has is a redelivery or a new version of it (`policy.updates`);
2. the same words again bring nothing new;
3. where a candidate leaves nothing new to tell, the item is a duplicate of the one that lacks least of it;
4. where one is the same article, the item is an update of the closest;
5. anything else is another article.

An item that is retained **leads to** an original: to itself if it is let through, to its own original if it is a
variant of it. A tombstone, or a new version that is let through, forgets the original of its id and whatever leads to
it. A **variant** is a held-back item of the same article that lacks enough of its original, or has enough beside it, to
lead to copies that the original would not lead to: a cut, a new headline. It is remembered in its original's name: with
the original's id, time and place, so that a verdict names who was let through first, and both are forgotten together.
(Without variants, recall on the labelled Chinese pairs is .95 instead of .98, on the English .975 instead of .98.)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.batch import FORGOTTEN
from stream_dedup.dedup.candidates import Pairs
from stream_dedup.dedup.resolve import (
    NEW,
    NOTHING_NEW,
    REVISED,
    SAME_ID,
    SAME_TEXT,
    TOMBSTONE,
    UNASKED,
    UNLIKE,
    Facts,
    Resolution,
    Subjects,
    resolve,
)
from stream_dedup.dedup.rule import (
    CUT,
    GUARD_REASONS,
    NEXT_DAY_HOURS,
    STAGE_OF,
    Finding,
    depends_on_headline,
    is_bare,
    is_repeat,
    judge_pairs,
    logit,
    novelty_logits,
    on_the_other_day,
    probability,
    shows_section_headline,
)
from stream_dedup.dedup.similarity import Similarities
from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.fingerprint.fingerprint import unmark
from stream_dedup.index.times import Windows
from stream_dedup.news.item import Item
from stream_dedup.settings import DecisionSettings, PolicySettings

# Below this Jaccard of body or headline a held-back item has something of its own. Above it the original's own
# keys lead to whatever the copy's would lead to, and every exact copy would cost a row.
_OWN = 0.8
# A cut shows in its length too: the longer body has a third more.
_THIRD_MORE = 4 / 3
# The sketch's containment of a text in itself with a tail is this or more in 96 of 100 (60 to 800 words).
_NOTHING_NEW = 0.95

_LONGER, _SHORTER = 1, -1
_CUTS = {_LONGER: "longer", _SHORTER: "shorter", 0: None}
_DROPPED = "the same article with something new; policy.updates = drop"


class VersionChange(IntEnum):
    """To an item whose id an original has."""

    SAME_WORDS = 0
    DROPPED = 1
    COSMETIC = 2
    FORWARDED = 3
    MATERIAL = 4


class Meaning(NamedTuple):
    """An answer as a verdict says it."""

    kind: Kind
    stage: Stage
    forward: bool
    reason: str


MEANINGS = (
    Meaning(Kind.DUPLICATE, Stage.ID, False, "same id, same words"),
    Meaning(Kind.UPDATE, Stage.POLICY, False, "same id, new content; policy.updates = drop"),
    Meaning(Kind.DUPLICATE, Stage.ID, False, "same id, cosmetic change; policy.updates = compare"),
    Meaning(Kind.UPDATE, Stage.POLICY, True, "same id, new content; policy.updates = forward"),
    Meaning(Kind.UPDATE, Stage.POLICY, True, "same id, material change; policy.updates = compare"),
)
"""The answers' meanings, in their order."""
_IS_FORWARDED = np.array([meaning.forward for meaning in MEANINGS])


@dataclass(frozen=True, slots=True)
class IndexChanges:
    """What the index is to remember of the batch, in the order in which it happened.

    added: places of items; is_another: which of them are articles of their own, neither updates nor variants; roots: of
    those that are variants the original, and the hash of its id.
    """

    added: NDArray[np.int64]
    is_another: NDArray[np.bool_]
    roots: dict[int, tuple[Original, int]]
    forgotten: NDArray[np.void]


def decide(
    items: Sequence[Item],
    kinds: NDArray[np.int8],
    signatures: NDArray[np.void],
    windows: Windows,
    pairs: Pairs,
    similar: Similarities,
    id_of: Callable[[int], str],
    policy: PolicySettings,
    decision: DecisionSettings,
    first_kept_rows: NDArray[np.int64],
) -> tuple[list[Verdict | None], IndexChanges]:
    """A verdict an item, None for what is no item, and what is to be remembered.

    `kinds`: what each item is, see the top; `id_of`: the id of a row of the index;
    `first_kept_rows`: the first row that
    has room, by the number of items added before. O(items + pairs).
    """
    size, known_size = signatures["body_size"][pairs.item], pairs.known["body_size"]
    cuts = _cuts(size, known_size, similar.containment)
    is_shortened = (size < known_size) & (similar.containment >= _NOTHING_NEW)
    answers = classify_new_version(similar, is_shortened, policy, decision.cosmetic)
    facts = _facts(pairs, similar, len(items), answers, policy, decision)
    subjects = Subjects(kinds, signatures["row_id"].copy(), signatures["time"].copy(), windows.low, windows.high)
    resolution = resolve(subjects, facts, logit(decision.novelty), policy.updates == "drop", first_kept_rows)

    told = _told(pairs, similar, resolution, cuts, answers)
    roots: dict[int, tuple[Original, int]] = {}
    verdicts: list[Verdict | None] = []
    columns = (kinds, resolution.outcome, resolution.finding, resolution.root)
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
        elif outcome == REVISED:
            forward, reason = policy.updates != "drop", "" if policy.updates != "drop" else _DROPPED
            verdict = Verdict(item.id, Kind.UPDATE, stage, forward, original, evidence, reason)
        else:
            stage = Stage.PROSE if outcome == NOTHING_NEW and finding <= Finding.NOTHING else stage
            verdict = Verdict(item.id, Kind.DUPLICATE, stage, False, original, evidence)
        verdicts.append(verdict)
    forgotten = np.empty(len(resolution.forgotten), FORGOTTEN)
    forgotten["before"], forgotten["row_id"] = resolution.before, resolution.forgotten
    added = np.flatnonzero(resolution.is_added)
    return verdicts, IndexChanges(added, np.isin(resolution.outcome[added], (NEW, UNLIKE)), roots, forgotten)


def _facts(
    pairs: Pairs,
    similar: Similarities,
    items: int,
    answers: NDArray[np.int8],
    policy: PolicySettings,
    decision: DecisionSettings,
) -> Facts:
    finding = judge_pairs(similar, decision)
    unknown = np.full(len(pairs.item), np.nan, np.float32)
    other_day = finding.copy()
    if policy.variants:
        maybe = np.flatnonzero((pairs.row < 0) & pairs.by_text)  # of what this batch may make a variant
        other_day[maybe] = judge_pairs(on_the_other_day(similar.take(maybe)), decision)
    return Facts(
        bounds=np.searchsorted(pairs.item, np.arange(items + 1)),
        row=pairs.row,
        root=pairs.known["row_id"].copy(),
        time=pairs.known["time"].copy(),
        by_text=pairs.by_text,
        near=pairs.near,
        is_repeat=is_repeat(similar),
        logit=novelty_logits(similar) if decision.rule == "views" else unknown,
        finding=finding,
        other_day=other_day,
        next_day=similar.apart > NEXT_DAY_HOURS,
        closeness=_closeness(similar),
        shows_section=shows_section_headline(similar, decision),
        headline_only=depends_on_headline(similar),
        replaces=_IS_FORWARDED[answers],
        is_variant=unmark(pairs.known["offset"])[1],
        keeps_variant=((similar.body < _OWN) | (similar.headline < _OWN)) & policy.variants,
        is_bare=is_bare(similar, finding),
    )


def _told(
    pairs: Pairs, s: Similarities, resolution: Resolution, cuts: NDArray[np.int8], answers: NDArray[np.int8]
) -> Iterator[tuple[int, int, int, int, Meaning, Evidence]]:
    """What a verdict tells of its pair, item by item: its row, that record's time and place, the answer, the evidence.

    By columns: an element of an array costs ten times as much as one of a list.
    """
    has_one = resolution.pair >= 0
    at = resolution.pair[has_one]
    known = pairs.known.take(at)
    with np.errstate(invalid="ignore"):
        share = s.new_words[at] / np.maximum(s.words[at], 1)
    evidence = map(
        Evidence,
        _or_none(s.body[at]),
        _or_none(s.containment[at]),
        _or_none(s.lead[at]),
        _or_none(s.headline[at]),
        s.same_source[at].tolist(),
        map(_CUTS.__getitem__, cuts[at].tolist()),
        map(GUARD_REASONS.get, resolution.finding[has_one].tolist()),
        resolution.candidates[has_one].tolist(),
        (None if bits is None else int(bits) for bits in _or_none(s.distance[at])),
        _or_none(probability(resolution.logit[has_one])),
        _or_none(s.new_words[at]),
        _or_none(share),
    )
    places = (known["time"].tolist(), known["partition"].tolist(), unmark(known["offset"])[0].tolist())
    means = map(MEANINGS.__getitem__, answers[at].tolist())
    return zip(pairs.row[at].tolist(), *places, means, evidence, strict=True)


def _cuts(new: NDArray[np.uint32], known: NDArray[np.uint32], containment: NDArray[np.float32]) -> NDArray[np.int8]:
    """Whether the new body is a cut of the known one, or the other way round, or neither (0)."""
    smaller, larger = np.minimum(new, known), np.maximum(new, known)
    is_cut = (containment >= CUT) & (larger >= _THIRD_MORE * smaller)
    return np.where(is_cut, np.where(new > known, _LONGER, _SHORTER), 0).astype(np.int8)


def _closeness(s: Similarities) -> NDArray[np.float64]:
    """Sum of what the views say; a view that is missing says nothing."""
    body, lead, headline = (np.nan_to_num(view.astype(np.float64)) for view in (s.body, s.lead, s.headline))
    return body + lead + headline


def _or_none(values: NDArray[np.floating[Any]]) -> list[float | None]:
    return [x if x == x else None for x in values.tolist()]  # NaN is what differs from itself


def classify_new_version(
    s: Similarities, shortened: NDArray[np.bool_], policy: PolicySettings, cosmetic: float
) -> NDArray[np.int8]:
    """An `Answer` for every pair, (pairs,) int8, should the two have one id.

    A redelivery (same words) is a duplicate under every policy: nothing is new in it. `shortened`: the new
    body is found in the old one, so it brings nothing new either (feeds that drop a footer or a doubled text).
    """
    if policy.updates == "compare":
        with np.errstate(invalid="ignore"):
            like_bodies = np.isnan(s.body) | (s.body >= cosmetic) | shortened
            like_headlines = np.isnan(s.headline) | (s.headline >= cosmetic)
        touched_up = like_bodies & like_headlines & ~(np.isnan(s.body) & np.isnan(s.headline))
        answer = np.where(touched_up, np.int8(VersionChange.COSMETIC), np.int8(VersionChange.MATERIAL))
    else:
        answer = np.full(
            len(s.body), VersionChange.FORWARDED if policy.updates == "forward" else VersionChange.DROPPED, np.int8
        )
    answer[s.same_text] = VersionChange.SAME_WORDS
    return answer
