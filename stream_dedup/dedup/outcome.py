"""Make the verdicts of a batch, with evidence, from what was decided about its items.

In: a batch's items and what decide.py has `Decided`. Out: a `Verdict` for each item.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.additions import describe_additions
from stream_dedup.dedup.batch import TOMBSTONE, Prepared
from stream_dedup.dedup.decide import DIFFERENT, NEW, REVISED, SAME_ID, SAME_TEXT, SKIPPED, Decided
from stream_dedup.dedup.rule import probability, strongest
from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.settings import PolicySettings

# A body is a cut of a longer one if that contains this share of it: 17 of 24 pairs that readers called cuts, and 28 of
# 183 copies, inside boilerplate. Longer: by this ratio.
_CUT, _CUT_RATIO = 0.75, 4 / 3

_LONGER, _SHORTER = 1, -1
_CUTS = {_LONGER: "longer", _SHORTER: "shorter", 0: None}
_DROPPED = "the same article with something new; policy.updates = drop"


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


def verdicts_of(
    ready: Prepared, decided: Decided, settled_ids: Sequence[str], id_of: Callable[[int], str], policy: PolicySettings
) -> list[Verdict | None]:
    """Return a verdict per subject (None for an empty one). O(items).

    settled_ids: of the settled items; id_of: returns the id of a row of the index.
    """
    items, resolution, texts, p = ready.subjects, decided.resolution, ready.prints.texts, decided.settled
    ids = [*settled_ids, *(item.id for item in items)]
    parts = _verdict_parts(decided)
    verdicts: list[Verdict | None] = []
    outcomes, slots = resolution.outcome[p:].tolist(), resolution.slot[p:].tolist()
    settled = zip(items, ready.kinds.tolist(), outcomes, slots, strict=True)
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
            adds = describe_additions(item, texts, j, decided.signatures["words"][slot])
            evidence = msgspec.structs.replace(evidence, adds=adds)
        original = Original(id_of(row) if row >= 0 else ids[-1 - row], time, partition, offset)
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
    return verdicts


def _verdict_parts(decided: Decided) -> Iterator[Any]:
    """For each item that a candidate settled: its row, time, partition and offset, and parts of the verdict.

    Built column by column, because an element of an array costs ten times as much as one of a list.
    """
    resolution, signatures = decided.resolution, decided.signatures
    judged = np.flatnonzero(resolution.slot >= 0)
    s, chosen = resolution.similar[judged], signatures.take(resolution.slot[judged])
    cuts = _cuts(signatures["body_size"][judged], chosen["body_size"], s["containment"])
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
        resolution.candidate_count[judged].tolist(),
        (None if bits is None else int(bits) for bits in _or_none(s["distance"])),
        _or_none(probability(resolution.logit[judged])),
        _or_none(new_words),
        _or_none(share),
        (None if count is None else round(count) for count in _or_none(s["new_numbers"])),
    )
    places = (chosen[name].tolist() for name in ("time", "partition", "offset"))
    versions = map(VERSION_VERDICTS.__getitem__, resolution.version[judged].tolist())
    return zip(resolution.row[judged].tolist(), *places, versions, strongest(s), evidence, strict=True)


def _cuts(
    size: NDArray[np.uint32], candidate_size: NDArray[np.uint32], containment: NDArray[np.float32]
) -> NDArray[np.int8]:
    """Whether the new body is a longer or shorter cut of the candidate's, or neither (0)."""
    smaller, larger = np.minimum(size, candidate_size), np.maximum(size, candidate_size)
    is_cut = (containment >= _CUT) & (larger >= _CUT_RATIO * smaller)
    return np.where(is_cut, np.where(size > candidate_size, _LONGER, _SHORTER), 0).astype(np.int8)


def _or_none(values: NDArray[np.floating[Any]]) -> list[float | None]:
    return [x if x == x else None for x in values.tolist()]  # NaN differs from itself
