"""[decision]: which similarities make two items the same article. [policy]: what to do with a verdict."""

from typing import Literal

from pydantic import Field

from stream_dedup.settings.values import Share, Table


class DecisionSettings(Table):
    """The rule: which similarities make two items the same article."""

    rule: Literal["views", "jaccard"] = Field(
        "views",
        description="views: headline, lead and body decide, and a guard may veto; jaccard: the Jaccard similarity of "
        "the bodies alone decides (with SimHash their Hamming distance), without guards, as in plain deduplication.",
    )
    body: Share = Field(
        0.5, description="Least Jaccard similarity of the bodies at which an item of another source is a copy."
    )
    lead: Share = Field(
        0.55,
        description="Least containment of the leads (share of the smaller lead's shingles in the other) at which an "
        "item is a copy.",
    )
    headline: Share = Field(
        0.5,
        description="Least Jaccard similarity of the headlines at which an item is a copy, if the bodies have "
        "`kinship`, too.",
    )
    kinship: Share = Field(0.45, description="Least share of the smaller body in the other for `headline` to count.")
    headline_alone: Share = Field(
        0.8,
        description="Least Jaccard similarity of the headlines at which an item is a copy if one of the two has no "
        "text.",
    )
    other_headline: Share = Field(
        0.5, description="Guard: below this Jaccard similarity of headlines, two items of one source are two articles."
    )
    novelty: Share = Field(
        0.45,
        description="Least novelty of an update, which is let through; below it the item is held back. A higher value "
        "repeats less and misses more.",
    )
    cosmetic: Share = Field(
        0.9, description="Same id: a new version is cosmetic from this Jaccard similarity of body and headline."
    )


class PolicySettings(Table):
    """What to do with a verdict."""

    updates: Literal["forward", "drop", "compare"] = Field(
        "compare",
        description="Updates: the same article with something new, or a new version of an id. compare: let through "
        "what is new to a reader (`decision.novelty`) and hold back the rest; forward: the same, but let through "
        "every new version of an id; drop: hold back all of them, so that each article passes once.",
    )
    variants: bool = Field(
        True,
        description="Remember a held-back copy that was cut or has another headline, to find copies of it. They get "
        "the same original, and the variant is forgotten with it.",
    )
    shadow: bool = Field(
        False,
        description="Shadow mode, for a trial in production: the output gets every item, with the verdict and the "
        "evidence in headers where one would be held back. Duplicates, dead letters, index and metrics are unchanged.",
    )
