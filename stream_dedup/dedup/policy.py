"""What is done with a new version of a known item: same id, seen again."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.similarity import Similarities
from stream_dedup.dedup.verdict import Kind, Stage
from stream_dedup.settings import PolicySettings


class Answer(IntEnum):
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


def answer_same_id(
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
        answer = np.where(touched_up, np.int8(Answer.COSMETIC), np.int8(Answer.MATERIAL))
    else:
        answer = np.full(len(s.body), Answer.FORWARDED if policy.updates == "forward" else Answer.DROPPED, np.int8)
    answer[s.same_text] = Answer.SAME_WORDS
    return answer
