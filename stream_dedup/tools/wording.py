"""Explain a verdict to people: why, in words, and by what margin.

`describe_verdict` serves the status page and samples; `trial` says it in a line of its own (`_reason` in
topics/trial.py).
"""

from collections.abc import Mapping
from typing import Any

from stream_dedup.dedup.verdict import Evidence, Kind, Stage, Verdict
from stream_dedup.phrases import counted
from stream_dedup.settings import Settings

# The margin of one bit of a distance.
_BIT = 0.05
NOT_ASKED = (Stage.ID, Stage.EXACT, Stage.POLICY)
"""The stages that decide without novelty."""
STAGES = {
    Stage.NONE: "nothing like it",
    Stage.ID: "the same id",
    Stage.EXACT: "the same text",
    Stage.HEADLINE: "similar headlines",
    Stage.BODY: "similar texts",
    Stage.PROSE: "nothing new",
    Stage.POLICY: 'an update ([policy] updates = "drop")',  # [sources] only lets through
}
"""Why an item is held back, in a few words, by the deciding stage."""
_LET_THROUGH = "Let through: "
_HELD_BACK = "Held back: "
_HELD_BY_POLICY = "Held back by policy.updates = drop: "


def describe_verdict(verdict: Verdict) -> str:
    """Explain to news readers, in sentences, why the item was let through or held back; the evidence has all numbers.

    >>> from stream_dedup.dedup.verdict import Original
    >>> evidence = Evidence(covered=0.97, novelty=0.1, new_words=7, new_share=0.02, new_numbers=0)
    >>> describe_verdict(Verdict("2", Kind.DUPLICATE, Stage.BODY, False, Original("1", 0, 0, 0), evidence))
    'Held back: hardly anything new. The original holds 97 % of its article. New are 7 words (2 %).'
    >>> describe_verdict(Verdict("2", Kind.UNIQUE, Stage.NONE, True))
    'Let through: nothing like it is remembered.'
    """
    if verdict.kind is Kind.BAD:
        return f"Dead letter: it cannot be judged ({verdict.reason})."
    if verdict.kind is Kind.TOMBSTONE:
        original = "its original is forgotten" if verdict.original else "no original of this id was in its window"
        return f"{_LET_THROUGH}it withdraws the item of this id, and {original}."
    start, evidence = _LET_THROUGH if verdict.forward else _HELD_BACK, verdict.evidence or Evidence()
    if verdict.stage in (Stage.ID, Stage.POLICY):
        return f"{start}{verdict.reason or 'the id of an original'}."
    if verdict.stage is Stage.EXACT:
        return f"{start}the same words as its original, throughout."
    if verdict.compared is None:
        return f"{start}nothing like it is remembered."
    if verdict.kind is Kind.UPDATE:
        start = _LET_THROUGH if verdict.forward else _HELD_BY_POLICY
        finding = "the same article with something new"
    elif verdict.kind is Kind.DUPLICATE:
        finding = "the texts are alike" if evidence.novelty is None else "hardly anything new"
    else:
        finding = "another article than the most similar one that is remembered"
    other = "The other one" if verdict.kind is Kind.UNIQUE else "The original"
    sentences = (f"{start}{finding}", *_new(evidence, other), *_alike(evidence))
    if evidence.cut and verdict.kind is not Kind.UNIQUE:
        sentences += (f"It is a {evidence.cut} cut of the original",)
    return " ".join(f"{sentence}." for sentence in sentences)


def _new(evidence: Evidence, other: str) -> list[str]:
    """Return what the other item holds and lacks; nothing without novelty."""
    if evidence.novelty is None or evidence.new_words is None:
        return []
    holds = [] if evidence.covered is None else [f"{other} holds {_percent(evidence.covered)} of its article"]
    words, numbers = round(evidence.new_words), evidence.new_numbers or 0
    new = [f"{counted(words, 'word')} ({_percent(evidence.new_share)})"] if words else []
    new += [counted(numbers, "number")] if numbers else []
    return [*holds, f"New are {' and '.join(new)}" if new else "No word or number is new"]


def _alike(evidence: Evidence) -> list[str]:
    """Return how similar headlines and texts are, and whether both are from one site."""
    if evidence.distance is not None:
        return [f"The texts' fingerprints differ in {counted(evidence.distance, 'bit')}"]
    shares = [] if evidence.headline is None else [f"{_percent(evidence.headline)} of the words of their headlines"]
    shares += [] if evidence.body is None else [f"{_percent(evidence.body)} of the phrases of their texts"]
    in_common = [f"In common are {' and '.join(shares)}"] if shares else []
    return [*in_common, *(["Both are from one site"] if evidence.same_source else [])]


def _percent(share: float | None) -> str:
    return "some" if share is None else f"{round(100 * share)} %"


def margin_of(decision: Mapping[str, Any], settings: Settings) -> float | None:
    """Return how far the deciding number of a decision (`Verdict.as_json`) is above its threshold; None without one.

    >>> margin_of({"stage": "exact"}, Settings()) is None
    True
    """
    evidence = decision.get("evidence") or {}
    if decision["stage"] in NOT_ASKED:
        return None
    if evidence.get("novelty") is not None:
        return float(evidence["novelty"]) - settings.decision.threshold
    if evidence.get("distance") is not None:
        return float(settings.fingerprint.hamming - evidence["distance"]) * _BIT
    body, jaccard = evidence.get("body"), settings.decision.jaccard
    return None if body is None or jaccard is None else float(body) - jaccard
