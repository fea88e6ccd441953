"""Make the verdicts of a batch from what was decided about its items, with evidence, and the changes to the index.

In: a batch's items and their `Resolution`. Out: verdicts and `IndexChanges`. resolve.py has judged the items in order,
because the fate of an item decides what later ones find:

1. If an original has the item's id, the item is a redelivery or a new version (`policy.updates`).
2. If a candidate has the same words, and it is no new event, the item is a duplicate.
3. If the item has nothing new for a reader of a candidate, it is a duplicate of the one that it lacks least of.
4. If a candidate is the same article, the item is an update of the one that most likely is.
5. Otherwise the item is another article.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.additions import describe_additions
from stream_dedup.dedup.batch import FORGOTTEN
from stream_dedup.dedup.boilerplate import Boilerplate, in_seconds, undo
from stream_dedup.dedup.candidates import find_again, find_candidates
from stream_dedup.dedup.choice import DELETED, LOGGED
from stream_dedup.dedup.clocks import BatchTimes
from stream_dedup.dedup.prepared import Prepared
from stream_dedup.dedup.resolve import (
    DIFFERENT,
    NEW,
    REVISED,
    SAME_ID,
    SAME_TEXT,
    SKIPPED,
    TOMBSTONE,
    Known,
    Policy,
    Progress,
    Resolution,
    Subjects,
    VersionChange,
    begin,
    judge_from,
)
from stream_dedup.dedup.rule import probability, strongest, thresholds
from stream_dedup.dedup.similarity import news_of, scratch_for, views_of
from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.dedup.windows import Arrivals, scope_of
from stream_dedup.fingerprint.fingerprint import Fingerprints, Texts
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.rows import RowStore, as_bytes
from stream_dedup.news.item import Item
from stream_dedup.settings import DecisionSettings, PolicySettings, Settings

# A body is a cut of a longer one if that contains this share of it: 17 of 24 pairs that readers called cuts, and 28 of
# 183 copies, inside boilerplate. Longer: by this ratio.
_CUT, _CUT_RATIO = 0.75, 4 / 3

_LONGER, _SHORTER = 1, -1
_CUTS = {_LONGER: "longer", _SHORTER: "shorter", 0: None}
_DROPPED = "the same article with something new; policy.updates = drop"
_ON_VERSION = {
    "forward": VersionChange.FORWARDED,
    "drop": VersionChange.DROPPED,
    "compare": VersionChange.MATERIAL,
}


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


@dataclass(frozen=True, slots=True)
class IndexChanges:
    """The changes that a batch makes to the index: items to add and ids to forget, in order.

    added: (n,) positions of items in the batch; is_another: (n,) the item is an article of its own, no update;
    forgotten: FORGOTTEN.
    """

    added: NDArray[np.int64]
    is_another: NDArray[np.bool_]
    forgotten: NDArray[np.void]


def policy_of(policy: PolicySettings, decision: DecisionSettings) -> Policy:
    """The policy of settings, as compiled code takes it."""
    on_version = int(_ON_VERSION[policy.updates])
    return Policy(policy.updates == "drop", on_version, np.float32(decision.cosmetic))


@dataclass(frozen=True, slots=True)
class Memory:
    """What a Deduplicator remembers."""

    index: HybridIndex
    rows: RowStore
    boilerplate: Boilerplate
    arrivals: Arrivals


def decide(
    ready: Prepared,
    prints: Fingerprints,
    batch_times: BatchTimes,
    memory: Memory,
    first_kept_rows: NDArray[np.int64],
    settings: Settings,
) -> tuple[list[Verdict | None], IndexChanges]:
    """Return a verdict per subject of a batch (None for an empty one), and the changes to the index.

    prints: of the subjects, with effective times; first_kept_rows: (m + 1,) the first row still in the index, by the
    number of items added before. The memory is as before when this returns. O(candidates), and a lookup for each item
    whose candidates were forgotten in this batch.
    """
    index, rows, boilerplate, arrivals = memory.index, memory.rows, memory.boilerplate, memory.arrivals
    m, limit, kinds = len(ready.subjects), settings.index.bucket_limit, ready.kinds
    scope = scope_of(batch_times, arrivals)
    found = find_candidates(prints, scope.windows, index, limit, int(first_kept_rows[-1]))
    nothing = _Slots(prints.signatures, list(prints.bodies), np.zeros(m, np.int64))
    known, slots = _with_rows(nothing, found.row, memory)
    found = found._replace(slot=slots)
    stated = batch_times.watermarks, batch_times.times
    seen_at = np.where(stated[1] < stated[0] - arrivals.window, *stated)
    subjects = Subjects(
        kinds, prints.signatures["row_id"].copy(), batch_times.times, batch_times.stated, batch_times.elapsed,
        scope.steps, *scope.windows[1:], scope.times, in_seconds(seen_at), first_kept_rows, rows.next_row,
        arrivals.window, arrivals.step,
    )  # fmt: skip
    news = news_of(prints, ready.is_correction, (boilerplate, batch_times.times - arrivals.window))
    asks = thresholds(settings.decision, has_words=prints.texts is not None)
    by_settings = asks, policy_of(settings.policy, settings.decision), limit
    done = begin(m, found.keys.shape[1], len(news.texts.passages.ends))
    j = 0
    try:
        while True:
            views = views_of(known.signatures, known.bodies)
            sides = Known(views, known.arrived)
            scratch = scratch_for(news, views)
            j = judge_from(j, subjects, found, index.nearness, sides, news, *by_settings, scratch, done)
            if j == m:
                break
            found, again = find_again(found, j, scope.windows, index, 2 * int(found.limits[j]))
            known, slots = _with_rows(known, again, memory)
            found.slot[len(found.slot) - len(again) :] = slots
    finally:
        undo(news.entries, done.changed, done.before, done.counts[LOGGED])
    return _verdicts_of(ready.subjects, kinds, prints.texts, known, done, rows.id, settings.policy)


class _Slots(NamedTuple):
    """The items of a batch, and behind them the rows of the index that they may be compared with: see `Known`."""

    signatures: NDArray[np.void]
    bodies: list[bytes]
    arrived: NDArray[np.int64]


def _with_rows(slots: _Slots, added: NDArray[np.int64], memory: Memory) -> tuple[_Slots, NDArray[np.int64]]:
    """Add rows of the index. Return also their slots, (n,)."""
    first, size = len(slots.signatures), len(slots.signatures) + len(added)
    signatures: NDArray[np.void] = np.empty(size, slots.signatures.dtype)
    as_bytes(signatures)[:first] = as_bytes(slots.signatures)
    places = np.arange(first, size)
    memory.rows.take(added, signatures, places)
    bodies = [*slots.bodies, *memory.rows.bodies(added)] if slots.bodies else []
    arrived = np.append(slots.arrived, memory.arrivals.before_or_at(added))
    return _Slots(signatures, bodies, arrived), places


def _verdicts_of(
    items: Sequence[Item],
    kinds: NDArray[np.int8],
    texts: Texts | None,
    known: _Slots,
    done: Progress,
    id_of: Callable[[int], str],
    policy: PolicySettings,
) -> tuple[list[Verdict | None], IndexChanges]:
    """Return a verdict per item (None for an empty one) and the changes to the index. O(items).

    `kinds`: of resolve.py; `id_of`: returns the id of a row of the index.
    """
    resolution = done.resolution
    parts = _verdict_parts(known, resolution)
    verdicts: list[Verdict | None] = []
    settled = zip(items, kinds.tolist(), resolution.outcome.tolist(), resolution.slot.tolist(), strict=True)
    for j, (item, kind, outcome, slot) in enumerate(settled):
        if outcome == NEW:
            verdicts.append(Verdict(item.id, Kind.TOMBSTONE if kind == TOMBSTONE else Kind.UNIQUE, Stage.NONE, True))
            continue
        if outcome == SKIPPED:
            verdicts.append(None)
            continue
        row, time, partition, offset, version, stage, evidence = next(parts)
        is_update = outcome == REVISED or (outcome == SAME_ID and version.kind is Kind.UPDATE)
        if is_update and texts is not None:
            adds = describe_additions(item, texts, j, known.signatures["words"][slot])
            evidence = msgspec.structs.replace(evidence, adds=adds)
        original = Original(id_of(row) if row >= 0 else items[-1 - row].id, time, partition, offset)
        if kind == TOMBSTONE:
            verdict = Verdict(item.id, Kind.TOMBSTONE, Stage.POLICY, True, original)
        elif outcome == SAME_ID:
            verdict = Verdict(item.id, version.kind, version.stage, version.forward, original, evidence, version.reason)
        elif outcome == DIFFERENT:
            verdict = Verdict(item.id, Kind.UNIQUE, Stage.NONE, True, original, evidence)
        elif outcome == REVISED:
            forward, reason = policy.updates != "drop", "" if policy.updates != "drop" else _DROPPED
            verdict = Verdict(item.id, Kind.UPDATE, stage, forward, original, evidence, reason)
        else:
            stage = Stage.EXACT if outcome == SAME_TEXT else stage
            verdict = Verdict(item.id, Kind.DUPLICATE, stage, False, original, evidence)
        verdicts.append(verdict)
    deletions = int(done.counts[DELETED])
    forgotten = np.empty(deletions, FORGOTTEN)
    forgotten["before"], forgotten["row_id"] = resolution.before[:deletions], resolution.forgotten[:deletions]
    added = np.flatnonzero(resolution.is_added)
    return verdicts, IndexChanges(added, np.isin(resolution.outcome[added], (NEW, DIFFERENT)), forgotten)


def _verdict_parts(known: _Slots, resolution: Resolution) -> Iterator[Any]:
    """For each item that a candidate settled: its row, time, partition and offset, and parts of the verdict.

    Built column by column, because an element of an array costs ten times as much as one of a list.
    """
    decided = np.flatnonzero(resolution.slot >= 0)
    s, chosen = resolution.similar[decided], known.signatures.take(resolution.slot[decided])
    cuts = _cuts(known.signatures["body_size"][decided], chosen["body_size"], s["containment"])
    with np.errstate(invalid="ignore"):
        new_words = np.minimum(s["new_words"], s["words"])  # a filter estimates, and may estimate more
        share = new_words / np.maximum(s["words"], 1)
    evidence = map(
        Evidence,
        _or_none(s["body"]),
        _or_none(s["containment"]),
        _or_none(s["headline"]),
        _or_none(s["article_coverage"]),
        s["same_source"].tolist(),
        map(_CUTS.__getitem__, cuts.tolist()),
        resolution.candidate_count[decided].tolist(),
        (None if bits is None else int(bits) for bits in _or_none(s["distance"])),
        _or_none(probability(resolution.logit[decided])),
        _or_none(new_words),
        _or_none(share),
        (None if count is None else round(count) for count in _or_none(s["new_numbers"])),
    )
    places = (chosen[name].tolist() for name in ("time", "partition", "offset"))
    versions = map(VERSION_VERDICTS.__getitem__, resolution.version[decided].tolist())
    return zip(resolution.row[decided].tolist(), *places, versions, strongest(s), evidence, strict=True)


def _cuts(
    size: NDArray[np.uint32], candidate_size: NDArray[np.uint32], containment: NDArray[np.float32]
) -> NDArray[np.int8]:
    """Whether the new body is a longer or shorter cut of the candidate's, or neither (0)."""
    smaller, larger = np.minimum(size, candidate_size), np.maximum(size, candidate_size)
    is_cut = (containment >= _CUT) & (larger >= _CUT_RATIO * smaller)
    return np.where(is_cut, np.where(size > candidate_size, _LONGER, _SHORTER), 0).astype(np.int8)


def _or_none(values: NDArray[np.floating[Any]]) -> list[float | None]:
    return [x if x == x else None for x in values.tolist()]  # NaN differs from itself
