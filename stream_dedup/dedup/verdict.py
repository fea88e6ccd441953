"""The verdict on an item: `Verdict`, its `Evidence`, its `Original` (of which only id, time and place are known), its
JSON form, and its wording for people.

`as_json()` is the only form in which a verdict leaves the process: headers of the duplicates topic, rows of the
duplicates file, `explain --json`. `describe_verdict` explains it to people, on the status page and in samples; `trial`
says it in a line of its own (`_reason` in tools/topics/trial.py).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from stream_dedup.phrases import counted
from stream_dedup.settings import Settings

RULE_VERSION = 11
"""The version of the features and weights in core/rule.c. Each change raises it; it is part of the evidence."""
# The margin of one bit of a distance.
_BIT = 0.05


class Kind(StrEnum):
    """The five kinds of verdict."""

    UNIQUE = "unique"
    DUPLICATE = "duplicate"
    UPDATE = "update"  # the same article with something new, or a new version of an id
    BAD = "bad"  # it cannot be judged: a dead letter
    TOMBSTONE = "tombstone"  # a null value: forwarded, and the original is forgotten


class Stage(StrEnum):
    """The stage of the decision that determined the verdict."""

    NONE = "none"  # no candidate was close
    ID = "id"  # the same id as an original
    EXACT = "exact"  # the same normalised text as an original
    HEADLINE = "headline"  # nothing new; the headlines are the most similar view,
    BODY = "body"  # or the bodies
    PROSE = "prose"  # nothing new, although no view is similar
    POLICY = "policy"  # the policy on updates or tombstones


NOT_ASKED = (Stage.ID, Stage.EXACT, Stage.POLICY)
"""The stages that decide without novelty."""


class Original(msgspec.Struct, frozen=True, gc=False):
    """An earlier item that was let through. `time` in milliseconds; partition and offset are -1 if unknown."""

    id: str
    time: int
    partition: int
    offset: int


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """The similarities to the candidate that decided, in 0..1; None if a view is missing or does not apply.

    The names are published. A feature in core/rule.c and a field of SIMILARITY have the name of the same evidence.
    """

    body: float | None = None
    containment: float | None = None
    headline: float | None = None
    covered: float | None = None  # share of the item's article that the original holds
    same_source: bool | None = None
    cut: str | None = None  # "shorter" or "longer": the item is such a cut of the original
    candidates: int = 0
    distance: int | None = None  # Hamming distance, bits, if the body is a SimHash
    novelty: float | None = None  # probability that the item has something new against its original
    new_words: float | None = None  # words of the item's article that the original lacks
    new_share: float | None = None  # their share of its words
    new_numbers: int | None = None  # figures of its prose that the original lacks
    adds: str | None = None  # of an update: what it adds, in a few words


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The verdict on one record; `forward`: it goes to the output.

    `similarity` is the Jaccard of the bodies, or the cosine that the distance of SimHashes estimates; `containment` is
    the share of the smaller body that the other contains, None with SimHashes.
    """

    id: str
    kind: Kind
    stage: Stage
    forward: bool
    original: Original | None = None
    evidence: Evidence | None = None
    reason: str = ""  # for users and dead letters
    nearest: Original | None = None  # of a unique item: the most similar one, with which the evidence compares it
    story: str = ""  # the id of the first original of its lineage; "" for bad items and tombstones

    @property
    def compared(self) -> Original | None:
        """The item that the evidence compares with."""
        return self.original or self.nearest

    @property
    def similarity(self) -> float | None:
        return self.evidence.body if self.evidence else None

    @property
    def containment(self) -> float | None:
        return self.evidence.containment if self.evidence else None

    def as_json(self) -> dict[str, Any]:
        """Return the row as documented in docs/files.md; similarities rounded to four digits."""
        row: dict[str, Any] = {"id": self.id, "verdict": str(self.kind), "story": self.story or None}
        for name, item in (("original", self.original), ("nearest", self.nearest)):
            row[name] = item and {"id": item.id, "time": item.time, "partition": item.partition, "offset": item.offset}
        row |= {"similarity": _rounded(self.similarity), "containment": _rounded(self.containment)}
        row["stage"], row["evidence"] = str(self.stage), None
        if self.evidence is not None:
            evidence = {name: _rounded(getattr(self.evidence, name)) for name in _SHOWN}
            words = self.evidence.new_words
            evidence["new_words"] = None if words is None else round(words)
            row["evidence"] = evidence | {"rule": RULE_VERSION}
        return row | ({"reason": self.reason} if self.reason else {})


_SHOWN = (
    *("headline", "body", "covered", "same_source", "cut", "candidates", "distance", "novelty", "new_words"),
    *("new_share", "new_numbers", "adds"),
)
"""The evidence, in the order of its JSON."""


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


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


# -- in words ----------------------------------------------------------------------------------------------------------

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
