"""Turn each outcome of decide.py into a `Verdict` with its evidence; nothing is decided here. Only rulings by policy or
id are worded here: tools/wording.py has the wording of all others.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.additions import describe_additions
from stream_dedup.dedup.batch import TOMBSTONE, Name, Prepared
from stream_dedup.dedup.decide import (
    DIFFERENT,
    NEW,
    NOTHING_NEW,
    PREFERRED,
    REVISED,
    SAME_ID,
    SAME_TEXT,
    SKIPPED,
    VERSION,
    Decided,
)
from stream_dedup.dedup.rule import probability, strongest
from stream_dedup.dedup.source_rules import IGNORE, PASS, PREFER, REASONS
from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.fingerprint.headlines import cut_tail
from stream_dedup.settings import PolicySettings

# A body is a cut of a longer one that contains this share of it: so are 17 of 24 pairs that readers called cuts, and 28
# of 183 copies, which stand inside boilerplate. It is longer by this ratio.
_CUT, _CUT_RATIO = 0.75, 4 / 3
_CUTS = (None, "longer", "shorter")


class Ruling(NamedTuple):
    """What a verdict says of a finding. stage: None stands for the most similar view."""

    kind: Kind
    stage: Stage | None
    forward: bool
    reason: str = ""


# The ruling on an item, by what the decision found.
_RULINGS = {
    SAME_ID: Ruling(Kind.DUPLICATE, Stage.ID, False, "same id, same words"),
    SAME_TEXT: Ruling(Kind.DUPLICATE, Stage.EXACT, False),
    NOTHING_NEW: Ruling(Kind.DUPLICATE, None, False),
    VERSION: Ruling(Kind.UPDATE, Stage.POLICY, True, "same id, something new; policy.updates = compare"),
    REVISED: Ruling(Kind.UPDATE, None, True),
    PREFERRED: Ruling(Kind.UPDATE, Stage.POLICY, True, REASONS[PREFER]),
    DIFFERENT: Ruling(Kind.UNIQUE, Stage.NONE, True),
}
# The same by policy, where it differs.
_RULINGS_BY_POLICY = {
    "compare": {},
    "forward": {VERSION: Ruling(Kind.UPDATE, Stage.POLICY, True, "same id, other words; policy.updates = forward")},
    "drop": {
        VERSION: Ruling(Kind.UPDATE, Stage.POLICY, False, "same id, something new; policy.updates = drop"),
        REVISED: Ruling(Kind.UPDATE, None, False, "the same article with something new; policy.updates = drop"),
    },
}
_WITHDRAWN = Ruling(Kind.TOMBSTONE, Stage.POLICY, True)


def verdicts_of(
    ready: Prepared, decided: Decided, pending: Iterable[Name], name_of: Callable[[int], Name], policy: PolicySettings
) -> list[Verdict | None]:
    """Return a verdict per subject (None for an empty one). O(items).

    pending: the names of the pending items, followed by those of the batch, so that row -1-i of an `OUTCOME` is
    names[i]; name_of: returns the name of a row of the index.
    """
    items = ready.subjects
    names, rulings = [*pending], _RULINGS | _RULINGS_BY_POLICY[policy.updates]
    unique, update, none = Kind.UNIQUE, Kind.UPDATE, Stage.NONE  # it takes 100 ns to look up a member of an enum
    parts = _verdict_parts(decided)
    verdicts: list[Verdict | None] = []
    findings = decided.outcomes["finding"].tolist()
    rows = zip(items, ready.kinds.tolist(), ready.rules, findings, strict=True)
    for j, (item, kind, rule, finding) in enumerate(rows):
        story = "" if kind == TOMBSTONE else item.id
        names.append((item.id, story))
        if finding == NEW:
            verdicts.append(Verdict(item.id, Kind.TOMBSTONE if kind == TOMBSTONE else unique, none, True, story=story))
            continue
        if finding == SKIPPED:
            ignored = Verdict(item.id, unique, Stage.POLICY, True, reason=REASONS[IGNORE], story=story)
            verdicts.append(ignored if rule == IGNORE else None)
            continue
        row, time, partition, offset, stage, evidence = next(parts)
        ruling = rulings[finding]
        if kind == TOMBSTONE:
            ruling, evidence = _WITHDRAWN, None
        elif ruling.kind is update and decided.has_novelty:
            adds = describe_additions(cut_tail(item.text, item.source), decided.outcomes["adds"][j])
            evidence = msgspec.structs.replace(evidence, adds=adds)
        if rule == PASS and not ruling.forward:
            ruling = Ruling(ruling.kind, Stage.POLICY, True, REASONS[PASS])
        name, its_story = name_of(row) if row >= 0 else names[-1 - row]
        other = Original(name, time, partition, offset)
        original, nearest = (None, other) if ruling.kind is unique else (other, None)
        if original and story:
            names[-1] = item.id, (story := its_story)
        stage = stage if ruling.stage is None else ruling.stage
        verdicts.append(
            Verdict(item.id, ruling.kind, stage, ruling.forward, original, evidence, ruling.reason, nearest, story)
        )
    return verdicts


def _verdict_parts(decided: Decided) -> Iterator[tuple[Any, ...]]:
    """Yield of each item that a candidate decided: its row, time, partition and offset, the stage and the evidence.

    Built column by column, because an element of an array costs ten times as much as one of a list.
    """
    has_decided = np.flatnonzero(decided.outcomes["finding"] > NEW)
    outcomes, size = decided.outcomes.take(has_decided), decided.signatures["body_size"][has_decided]
    pairs, originals = outcomes["similar"], outcomes["original"]
    of_original = originals["body_size"]
    is_cut = pairs["containment"] >= _CUT
    is_cut &= np.maximum(size, of_original) >= _CUT_RATIO * np.minimum(size, of_original)
    cuts = np.where(is_cut, np.where(size > of_original, 1, 2), 0)
    with np.errstate(invalid="ignore"):
        new_words = np.minimum(pairs["new_words"], pairs["words"])  # a filter may estimate more than there are
        share = new_words / np.maximum(pairs["words"], 1)
    evidence = map(
        Evidence,
        *(_or_none(pairs[name]) for name in ("body", "containment", "headline", "covered")),
        pairs["same_source"].tolist(),
        map(_CUTS.__getitem__, cuts.tolist()),
        outcomes["candidates"].tolist(),
        (None if bits is None else int(bits) for bits in _or_none(pairs["distance"])),
        _or_none(probability(outcomes["logit"])),
        _or_none(new_words),
        _or_none(share),
        (None if count is None else round(count) for count in _or_none(pairs["new_numbers"])),
    )
    places = (originals[name].tolist() for name in ("time", "partition", "offset"))
    return zip(outcomes["row"].tolist(), *places, strongest(pairs), evidence, strict=True)


def _or_none(values: NDArray[np.floating[Any]]) -> list[float | None]:
    return [x if x == x else None for x in values.tolist()]  # NaN differs from itself
