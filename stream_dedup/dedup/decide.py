"""Make the verdicts of a batch from its pairs' similarities, with evidence, and the changes to the index.

In: a batch's items, their candidate pairs and similarities. Out: verdicts and `IndexChanges`. resolve.py settles the
items in order, because the fate of an item decides what later ones find:

1. If an original has the item's id, the item is a redelivery or a new version (`policy.updates`).
2. If a candidate has the same words, the item is a duplicate.
3. If a candidate leaves nothing new, the item is a duplicate of the candidate that lacks least of it.
4. If a candidate is the same article, the item is an update of the closest one.
5. Otherwise the item is another article.

A **variant** is a duplicate that differs enough from its original, as a cut or by a new headline, to find copies that
the original would miss. The index remembers it under the original's id, time and place, so that verdicts name the item
that was let through, and both are forgotten together. (Without variants, recall on the labelled Chinese pairs is .95
instead of .98, on the English ones .975 instead of .98.)
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
    DIFFERENT,
    NEW,
    NOTHING_NEW,
    REVISED,
    SAME_ID,
    SAME_TEXT,
    SKIPPED,
    TOMBSTONE,
    PairFacts,
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
    flip_next_day,
    is_repeat,
    is_stub,
    judge_pairs,
    logit,
    novelty_logits,
    probability,
    shows_section_headline,
)
from stream_dedup.dedup.similarity import Similarities
from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.fingerprint.fingerprint import unmark_variants
from stream_dedup.index.times import Windows
from stream_dedup.news.item import Item
from stream_dedup.settings import DecisionSettings, PolicySettings

# A duplicate becomes a variant below this Jaccard of body or headline. Above it, the original's keys find the same
# copies, and each copy would cost a row.
_DISTINCT = 0.8
# Least ratio of the sizes of a body and a cut of it.
_CUT_RATIO = 4 / 3
# Containment from which the new body adds nothing: for a text and itself with a tail, sketches estimate this or more in
# 96 of 100 cases (60 to 800 words).
_CONTAINED = 0.95

_LONGER, _SHORTER = 1, -1
_CUTS = {_LONGER: "longer", _SHORTER: "shorter", 0: None}
_DROPPED = "the same article with something new; policy.updates = drop"


class VersionChange(IntEnum):
    """What becomes of an item whose id an original has."""

    SAME_WORDS = 0
    DROPPED = 1
    COSMETIC = 2
    FORWARDED = 3
    MATERIAL = 4


class VersionVerdict(NamedTuple):
    """The verdict for a `VersionChange`."""

    kind: Kind
    stage: Stage
    forward: bool
    reason: str


VERSION_VERDICTS = (
    VersionVerdict(Kind.DUPLICATE, Stage.ID, False, "same id, same words"),
    VersionVerdict(Kind.UPDATE, Stage.POLICY, False, "same id, new content; policy.updates = drop"),
    VersionVerdict(Kind.DUPLICATE, Stage.ID, False, "same id, cosmetic change; policy.updates = compare"),
    VersionVerdict(Kind.UPDATE, Stage.POLICY, True, "same id, new content; policy.updates = forward"),
    VersionVerdict(Kind.UPDATE, Stage.POLICY, True, "same id, material change; policy.updates = compare"),
)
"""By `VersionChange`."""
_IS_FORWARDED = np.array([meaning.forward for meaning in VERSION_VERDICTS])


@dataclass(frozen=True, slots=True)
class IndexChanges:
    """The changes that a batch makes to the index: items to add and ids to forget, in order.

    added: (n,) positions of items in the batch; is_another: (n,) the item is an article of its own, neither update nor
    variant; variants: for each position of a variant, its original and the hash of that id; forgotten: FORGOTTEN.
    """

    added: NDArray[np.int64]
    is_another: NDArray[np.bool_]
    variants: dict[int, tuple[Original, int]]
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
    """Return a verdict per item (None for an empty one) and the changes to the index. O(items + pairs).

    `kinds`: of resolve.py; `id_of`: returns the id of a row of the index; `first_kept_rows`: the first row still in the
    index, by the number of items added before.
    """
    size, candidate_size = signatures["body_size"][pairs.item], pairs.signatures["body_size"]
    cuts = _cuts(size, candidate_size, similar.containment)
    is_shortened = (size < candidate_size) & (similar.containment >= _CONTAINED)
    version_changes = classify_new_version(similar, is_shortened, policy, decision.cosmetic)
    facts = _facts(pairs, similar, len(items), version_changes, policy, decision)
    subjects = Subjects(kinds, signatures["row_id"].copy(), signatures["time"].copy(), windows.low, windows.high)
    resolution = resolve(subjects, facts, logit(decision.novelty), policy.updates == "drop", first_kept_rows)

    parts = _verdict_parts(pairs, similar, resolution, cuts, version_changes)
    variants: dict[int, tuple[Original, int]] = {}
    verdicts: list[Verdict | None] = []
    columns = kinds, resolution.outcome, resolution.finding, resolution.variant_of
    settled_items = zip(items, *(column.tolist() for column in columns), strict=True)
    for j, (item, kind, outcome, finding, variant_of) in enumerate(settled_items):
        if outcome == NEW:
            verdicts.append(Verdict(item.id, Kind.TOMBSTONE if kind == TOMBSTONE else Kind.UNIQUE, Stage.NONE, True))
            continue
        if outcome == SKIPPED:
            verdicts.append(None)
            continue
        row, time, partition, offset, version, evidence = next(parts)
        if -1 - row in variants:
            original = variants[-1 - row][0]
        else:
            original = Original(id_of(row) if row >= 0 else items[-1 - row].id, time, partition, offset)
        if variant_of:
            variants[j] = original, variant_of
        stage = Stage.EXACT if outcome == SAME_TEXT else STAGE_OF[finding]
        if kind == TOMBSTONE:
            verdict = Verdict(item.id, Kind.TOMBSTONE, Stage.POLICY, True, original)
        elif outcome == SAME_ID:
            verdict = Verdict(item.id, version.kind, version.stage, version.forward, original, evidence, version.reason)
        elif outcome == DIFFERENT:
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
    return verdicts, IndexChanges(added, np.isin(resolution.outcome[added], (NEW, DIFFERENT)), variants, forgotten)


def _facts(
    pairs: Pairs,
    similar: Similarities,
    items: int,
    version_changes: NDArray[np.int8],
    policy: PolicySettings,
    decision: DecisionSettings,
) -> PairFacts:
    finding = judge_pairs(similar, decision)
    unknown = np.full(len(pairs.item), np.nan, np.float32)
    flipped_finding = finding.copy()
    if policy.variants:
        batch_pairs = np.flatnonzero((pairs.row < 0) & pairs.by_text)  # of what this batch may make a variant
        flipped_finding[batch_pairs] = judge_pairs(flip_next_day(similar.take(batch_pairs)), decision)
    return PairFacts(
        bounds=np.searchsorted(pairs.item, np.arange(items + 1)),
        row=pairs.row,
        canonical_id=pairs.signatures["row_id"].copy(),
        time=pairs.signatures["time"].copy(),
        by_text=pairs.by_text,
        in_window=pairs.in_window,
        is_repeat=is_repeat(similar),
        logit=novelty_logits(similar) if decision.rule == "views" else unknown,
        finding=finding,
        flipped_finding=flipped_finding,
        is_next_day=similar.apart > NEXT_DAY_HOURS,
        closeness=_closeness(similar),
        shows_section=shows_section_headline(similar, decision),
        headline_only=depends_on_headline(similar),
        replaces=_IS_FORWARDED[version_changes],
        is_variant=unmark_variants(pairs.signatures["offset"])[1],
        keeps_variant=((similar.body < _DISTINCT) | (similar.headline < _DISTINCT)) & policy.variants,
        is_stub=is_stub(similar, finding),
    )


def _verdict_parts(
    pairs: Pairs, s: Similarities, resolution: Resolution, cuts: NDArray[np.int8], version_changes: NDArray[np.int8]
) -> Iterator[tuple[int, int, int, int, VersionVerdict, Evidence]]:
    """For each item that a pair settled: the candidate's row, time, partition and offset, and parts of the verdict.

    Built column by column, because an element of an array costs ten times as much as one of a list.
    """
    has_pair = resolution.pair >= 0
    chosen = resolution.pair[has_pair]
    signatures = pairs.signatures.take(chosen)
    with np.errstate(invalid="ignore"):
        share = s.new_words[chosen] / np.maximum(s.words[chosen], 1)
    evidence = map(
        Evidence,
        _or_none(s.body[chosen]),
        _or_none(s.containment[chosen]),
        _or_none(s.lead[chosen]),
        _or_none(s.headline[chosen]),
        s.same_source[chosen].tolist(),
        map(_CUTS.__getitem__, cuts[chosen].tolist()),
        map(GUARD_REASONS.get, resolution.finding[has_pair].tolist()),
        resolution.candidate_count[has_pair].tolist(),
        (None if bits is None else int(bits) for bits in _or_none(s.distance[chosen])),
        _or_none(probability(resolution.logit[has_pair])),
        _or_none(s.new_words[chosen]),
        _or_none(share),
    )
    offsets = unmark_variants(signatures["offset"])[0].tolist()
    times_and_places = signatures["time"].tolist(), signatures["partition"].tolist(), offsets
    versions = map(VERSION_VERDICTS.__getitem__, version_changes[chosen].tolist())
    return zip(pairs.row[chosen].tolist(), *times_and_places, versions, evidence, strict=True)


def _cuts(
    size: NDArray[np.uint32], candidate_size: NDArray[np.uint32], containment: NDArray[np.float32]
) -> NDArray[np.int8]:
    """Whether the new body is a longer or shorter cut of the candidate's, or neither (0)."""
    smaller, larger = np.minimum(size, candidate_size), np.maximum(size, candidate_size)
    is_cut = (containment >= CUT) & (larger >= _CUT_RATIO * smaller)
    return np.where(is_cut, np.where(size > candidate_size, _LONGER, _SHORTER), 0).astype(np.int8)


def _closeness(s: Similarities) -> NDArray[np.float64]:
    """Sum of the similarities of the views; a missing view counts as 0."""
    body, lead, headline = (np.nan_to_num(view.astype(np.float64)) for view in (s.body, s.lead, s.headline))
    return body + lead + headline


def _or_none(values: NDArray[np.floating[Any]]) -> list[float | None]:
    return [x if x == x else None for x in values.tolist()]  # NaN differs from itself


def classify_new_version(
    s: Similarities, is_shortened: NDArray[np.bool_], policy: PolicySettings, cosmetic: float
) -> NDArray[np.int8]:
    """A `VersionChange` for every pair, (pairs,) int8, as if both had the same id.

    A redelivery (same words) is a duplicate under every policy. `is_shortened`: the old body contains the new one, as
    in feeds that drop a footer or a doubled text, so the new version adds nothing.
    """
    if policy.updates == "compare":
        with np.errstate(invalid="ignore"):
            like_bodies = np.isnan(s.body) | (s.body >= cosmetic) | is_shortened
            like_headlines = np.isnan(s.headline) | (s.headline >= cosmetic)
        is_cosmetic = like_bodies & like_headlines & ~(np.isnan(s.body) & np.isnan(s.headline))
        change = np.where(is_cosmetic, np.int8(VersionChange.COSMETIC), np.int8(VersionChange.MATERIAL))
    else:
        change = np.full(
            len(s.body), VersionChange.FORWARDED if policy.updates == "forward" else VersionChange.DROPPED, np.int8
        )
    change[s.same_text] = VersionChange.SAME_WORDS
    return change
