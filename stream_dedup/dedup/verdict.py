"""The verdict on an item: `Verdict`, its `Evidence`, its `Original` (of which only id, time and place are known), and
its JSON form.

`as_json()` is the form in which a whole verdict leaves the process: a header of duplicates and updates, rows of the
duplicates file, `explain --json`. tools/wording.py explains it to people.
"""

from enum import StrEnum
from typing import Any

import msgspec

RULE_VERSION = 11
"""The version of the rule: features and fixed weights in core/rule.c, trees in novelty.json and kinship.json. Each
change raises it; it is part of the evidence."""


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
    HEADLINE = "headline"  # the two models, on a pair of which the headlines are the most similar view,
    BODY = "body"  # or the bodies,
    PROSE = "prose"  # or neither is similar
    POLICY = "policy"  # the policy on updates or tombstones


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
