"""[decision]: what is held back. [policy]: what to do with a verdict."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from stream_dedup.settings.values import Share, Table

NOVELTY_NAMES = {"cautious": 0.3, "balanced": 0.4, "eager": 0.5}
"""The named values of `decision.novelty`."""


def parse_novelty(value: Any) -> Any:
    """Return a named novelty as it is, and a number as a float; refuse other names.

    >>> parse_novelty("eager"), parse_novelty("0.35")
    ('eager', 0.35)
    """
    if isinstance(value, str) and value not in NOVELTY_NAMES:
        try:
            return float(value)
        except ValueError:
            raise ValueError(f"write {', '.join(NOVELTY_NAMES)} or a number from 0 to 1") from None
    return value


def with_name(novelty: float) -> str:
    """Return a value of `decision.novelty` with its name, if it has one.

    >>> with_name(0.4), with_name(0.45)
    ('0.4 balanced', '0.45')
    """
    names = {number: name for name, number in NOVELTY_NAMES.items()}
    return f"{novelty:g} {names.get(novelty, '')}".rstrip()


class DecisionSettings(Table):
    """The rule: what is held back."""

    rule: Literal["novelty", "jaccard"] = Field(
        "novelty",
        description="novelty: an item is held back if it has nothing new for a reader of an earlier one; jaccard: if "
        "the Jaccard similarity of the bodies is at least `body`, as in plain deduplication. With SimHash and given "
        "fingerprints the Hamming distance decides, whatever is set here.",
    )
    novelty: Annotated[Literal["cautious", "balanced", "eager"] | Share, BeforeValidator(parse_novelty)] = Field(
        "balanced",
        description="Least probability of something new at which an item is let through. cautious (.3) misses least, "
        "eager (.5) repeats least; or a number from 0 to 1. `stream-dedup sample` finds it for your feed.",
    )
    body: Share = Field(0.5, description="jaccard: least Jaccard similarity of two bodies that are the same.")
    cosmetic: Share = Field(
        0.9, description="Same id: a new version is cosmetic from this Jaccard similarity of body and headline."
    )

    @property
    def threshold(self) -> float:
        """`novelty` as a number."""
        return NOVELTY_NAMES[self.novelty] if isinstance(self.novelty, str) else self.novelty


class PolicySettings(Table):
    """What to do with a verdict."""

    updates: Literal["forward", "drop", "compare"] = Field(
        "compare",
        description="Updates: the same article with something new, or a new version of an id. compare: let through "
        "what is new to a reader (`decision.novelty`) and hold back the rest; forward: the same, but let through "
        "every new version of an id; drop: hold back all of them, so that each article passes once.",
    )
    shadow: bool = Field(
        False,
        description="Shadow mode, for a trial in production: the output gets every item, with the verdict and the "
        "evidence in headers where one would be held back. Duplicates, dead letters, index and metrics are unchanged.",
    )
