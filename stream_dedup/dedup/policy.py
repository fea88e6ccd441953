"""What is done with a new version of a known item: same id, seen again."""

import math

from stream_dedup.dedup.verdict import Kind, Stage
from stream_dedup.settings import PolicySettings


def answer_same_id(
    same_text: bool, body: float, headline: float, policy: PolicySettings, cosmetic: float, shortened: bool = False
) -> tuple[Kind, Stage, bool, str]:
    """(kind, stage, forward, reason) for an item whose id an original has. body, headline: Jaccard or NaN.

    A redelivery (same words) is a duplicate under every policy: nothing is new in it. `shortened`: the new
    body is found in the old one, so it brings nothing new either (feeds that drop a footer or a doubled text).

    >>> answer_same_id(True, 1.0, 1.0, PolicySettings(), 0.9)[:3]
    (<Kind.DUPLICATE: 'duplicate'>, <Stage.ID: 'id'>, False)
    >>> answer_same_id(False, 0.6, 1.0, PolicySettings(), 0.9)[:3]
    (<Kind.UPDATE: 'update'>, <Stage.POLICY: 'policy'>, True)
    """
    if same_text:
        return Kind.DUPLICATE, Stage.ID, False, "same id, same words"
    if policy.updates == "forward":
        return Kind.UPDATE, Stage.POLICY, True, "same id, new content; policy.updates = forward"
    if policy.updates == "drop":
        return Kind.UPDATE, Stage.POLICY, False, "same id, new content; policy.updates = drop"
    like_bodies = math.isnan(body) or body >= cosmetic or shortened
    touched_up = like_bodies and (math.isnan(headline) or headline >= cosmetic)
    if touched_up and not (math.isnan(body) and math.isnan(headline)):
        return Kind.DUPLICATE, Stage.ID, False, "same id, cosmetic change; policy.updates = compare"
    return Kind.UPDATE, Stage.POLICY, True, "same id, material change; policy.updates = compare"
