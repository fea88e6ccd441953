"""What is decided about one item, and why.

Out: `Verdict` with its `Evidence` and the `Original` it speaks of; `as_json()` is the one form in which a
verdict leaves the process (headers of the duplicates topic, rows of the duplicates file, `explain --json`).
"""

from enum import StrEnum
from typing import Any

import msgspec

RULE_VERSION = 3
"""Of rule.py's features and weights; counted up when they change, so that evidence can be compared."""


class Kind(StrEnum):
    """The five things that can be said of a record."""

    UNIQUE = "unique"
    DUPLICATE = "duplicate"
    UPDATE = "update"  # the same article with something new, or a new version of an id
    BAD = "bad"  # cannot be judged: dead letter
    TOMBSTONE = "tombstone"  # null value: forwarded, and the original is forgotten


class Stage(StrEnum):
    """Which stage of the cascade settled it."""

    NONE = "none"  # no candidate came near
    ID = "id"  # the same id as an original
    EXACT = "exact"  # the same normalised text as an original
    HEADLINE = "headline"  # headline alike
    LEAD = "lead"  # lead found in the other
    BODY = "body"  # body alike
    PROSE = "prose"  # no view speaks for it, but it has no prose of its own: a page of menus under a known headline
    GUARD = "guard"  # a rule said duplicate, the guard said no: unique
    POLICY = "policy"  # the policy on updates or tombstones


class Original(msgspec.Struct, frozen=True, gc=False):
    """The item that was let through before. `time` in milliseconds; partition and offset -1 if unknown."""

    id: str
    time: int
    partition: int
    offset: int


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """The similarities to the best candidate, each in 0..1 (None: a view is missing or cannot tell)."""

    body: float | None = None
    containment: float | None = None
    lead: float | None = None
    headline: float | None = None
    same_source: bool | None = None
    cut: str | None = None  # "shorter" or "longer": this much of one article stands in the other
    guard: str | None = None  # the guard's reason, where it spoke
    candidates: int = 0
    distance: int | None = None  # Hamming, bits, where the body is a SimHash
    novelty: float | None = None  # how likely the item has something new against its original
    new_words: float | None = None  # words of prose that the original lacks
    new_share: float | None = None  # share of the item's prose that they are


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """One record's verdict. `forward` says whether the record goes to the output.

    `similarity` is the Jaccard of the bodies (with a SimHash the cosine that its distance estimates),
    `containment` the share of the smaller body in the other (with a SimHash None).
    """

    id: str
    kind: Kind
    stage: Stage
    forward: bool
    original: Original | None = None
    evidence: Evidence | None = None
    reason: str = ""  # for people and dead letters

    @property
    def similarity(self) -> float | None:
        return self.evidence.body if self.evidence else None

    @property
    def containment(self) -> float | None:
        return self.evidence.containment if self.evidence else None

    def as_json(self) -> dict[str, Any]:
        """The row as documented in docs/files.md; similarities rounded to four digits."""

        def short(x: float | None) -> float | None:
            return None if x is None else round(x, 4)

        o, e = self.original, self.evidence
        row: dict[str, Any] = {"id": self.id, "verdict": str(self.kind)}
        row["original"] = o and {"id": o.id, "time": o.time, "partition": o.partition, "offset": o.offset}
        row |= {"similarity": short(self.similarity), "containment": short(self.containment)}
        row["stage"] = str(self.stage)
        row["evidence"] = e and {
            "headline": short(e.headline), "lead": short(e.lead), "body": short(e.body),
            "same_source": e.same_source, "cut": e.cut, "guard": e.guard, "candidates": e.candidates,
            "distance": e.distance,
            "novelty": short(e.novelty), "new_words": short(e.new_words), "new_share": short(e.new_share),
            "rule": RULE_VERSION,
        }  # fmt: skip
        if self.reason:
            row["reason"] = self.reason
        return row
