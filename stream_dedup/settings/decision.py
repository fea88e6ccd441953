"""[decision]: which similarities make a copy. [policy]: what happens to it."""

from typing import Literal

from pydantic import Field

from stream_dedup.settings.values import Share, Table


class DecisionSettings(Table):
    """The rule: which similarities make the same article."""

    rule: Literal["views", "jaccard"] = Field(
        "views",
        description="views: headline, lead and body decide, and the guard has the last word; "
        "jaccard: the bodies' Jaccard (with a SimHash their distance) alone decides, as in plain deduplication, "
        "without a guard.",
    )
    body: Share = Field(
        0.5, description="Jaccard of the bodies' shingles from which an item of another source is a copy."
    )
    lead: Share = Field(
        0.55, description="Share of the smaller lead's shingles found in the other lead from which it is a copy."
    )
    headline: Share = Field(0.5, description="Jaccard of the headlines from which it is a copy, given kinship.")
    kinship: Share = Field(
        0.45, description="Share of the smaller body in the other that like headlines need to count."
    )
    headline_alone: Share = Field(
        0.8, description="Jaccard of the headlines from which it is a copy where one item has no text."
    )
    other_headline: Share = Field(
        0.5, description="Guard: the same source with a headline Jaccard below this is another article."
    )
    novelty: Share = Field(
        0.45,
        description="Novelty from which the same article is let through as an update; below it is held back. Higher: "
        "readers see less twice, and miss more.",
    )
    cosmetic: Share = Field(
        0.9, description="Same id: Jaccard of body and headline from which a new version is a mere touch-up."
    )


class PolicySettings(Table):
    """What happens with a verdict."""

    updates: Literal["forward", "drop", "compare"] = Field(
        "compare",
        description="The same article with something new, and a new version of an id. compare: let through what is "
        "new to a reader (`decision.novelty`), hold back what is not; forward: the same, and new versions of an id "
        "always; drop: hold all of them back, so that each article passes once.",
    )
    variants: bool = Field(
        True,
        description="Remember of a held-back item what its original lacks: a copy that was cut or re-headlined "
        "leads to further copies. They lead to the same original, and are forgotten with it.",
    )
    shadow: bool = Field(
        False,
        description="Shadow mode, to try it out: everything goes to the output, too, what would be held back with its "
        "verdict and evidence in headers. Duplicates, dead letters, memory and metrics are as without it.",
    )
