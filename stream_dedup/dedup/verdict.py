"""The verdict about an item: `Verdict`, with its `Evidence` and the `Original` that it names.

`as_json()` is the only form in which a verdict leaves the process: headers of the duplicates topic, rows of the
duplicates file, `explain --json`.
"""

from enum import StrEnum
from typing import Any

import msgspec

RULE_VERSION = 5
"""Version of the features and weights in rule.py. It increases with each change and is part of the evidence."""


class Kind(StrEnum):
    """The five kinds of verdict."""

    UNIQUE = "unique"
    DUPLICATE = "duplicate"
    UPDATE = "update"  # the same article with something new, or a new version of an id
    BAD = "bad"  # cannot be judged: dead letter
    TOMBSTONE = "tombstone"  # null value: forwarded, and the original is forgotten


class Stage(StrEnum):
    """The stage of the decision that settled the item."""

    NONE = "none"  # no candidate was close
    ID = "id"  # the same id as an original
    EXACT = "exact"  # the same normalised text as an original
    HEADLINE = "headline"  # nothing new; what is most alike are the headlines,
    BODY = "body"  # or the bodies
    PROSE = "prose"  # nothing new, although no view is alike
    POLICY = "policy"  # the policy on updates or tombstones


class Original(msgspec.Struct, frozen=True, gc=False):
    """The earlier item that was let through. `time` in milliseconds; partition and offset are -1 if unknown."""

    id: str
    time: int
    partition: int
    offset: int


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """The similarities to the candidate that decided, in 0..1; None if a view is missing or does not apply."""

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
    new_share: float | None = None  # the same as a share of its words
    new_numbers: int | None = None  # figures of its prose that the original lacks
    adds: str | None = None  # of an update: what it adds, in a few words


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The verdict about one record; `forward`: it goes to the output.

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

    @property
    def similarity(self) -> float | None:
        return self.evidence.body if self.evidence else None

    @property
    def containment(self) -> float | None:
        return self.evidence.containment if self.evidence else None

    def as_json(self) -> dict[str, Any]:
        """The row as documented in docs/files.md; similarities rounded to four digits."""

        def rounded(x: float | None) -> float | None:
            return None if x is None else round(x, 4)

        o, e = self.original, self.evidence
        row: dict[str, Any] = {"id": self.id, "verdict": str(self.kind)}
        row["original"] = o and {"id": o.id, "time": o.time, "partition": o.partition, "offset": o.offset}
        row |= {"similarity": rounded(self.similarity), "containment": rounded(self.containment)}
        row["stage"] = str(self.stage)
        row["evidence"] = e and {
            "headline": rounded(e.headline), "body": rounded(e.body), "covered": rounded(e.covered),
            "same_source": e.same_source, "cut": e.cut, "candidates": e.candidates,
            "distance": e.distance,
            "novelty": rounded(e.novelty), "new_words": None if e.new_words is None else round(e.new_words),
            "new_share": rounded(e.new_share), "new_numbers": e.new_numbers,
            "adds": e.adds,
            "rule": RULE_VERSION,
        }  # fmt: skip
        if self.reason:
            row["reason"] = self.reason
        return row
