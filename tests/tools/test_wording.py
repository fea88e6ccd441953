"""Verdicts in words: each stage has a sentence, which matches the verdict."""

import pytest

from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.tools.wording import describe_verdict

ORIGINAL = Original("1", 0, 0, 0)
NEWS = Evidence(
    0.81, 0.92, 0.64, 0.66, True, "longer", 3, None, novelty=0.8, new_words=1180.4, new_share=0.34, new_numbers=3
)
ALIKE = "In common are 64 % of the words of their headlines and 81 % of the phrases of their texts."


def test_an_update_says_what_its_original_holds_what_is_new_and_how_alike_they_are() -> None:
    told = describe_verdict(Verdict("2", Kind.UPDATE, Stage.BODY, True, ORIGINAL, NEWS))
    rest = (
        "the same article with something new. The original holds 66 % of its article. New are 1,180 words (34 %) and 3 "
        f"numbers. {ALIKE} Both are from one site. It is a longer cut of the original."
    )
    assert told == f"Let through: {rest}"
    held = describe_verdict(Verdict("2", Kind.UPDATE, Stage.BODY, False, ORIGINAL, NEWS, "policy.updates = drop"))
    assert held == f"Held back by policy.updates = drop: {rest}"


@pytest.mark.parametrize(
    ("words", "numbers", "new"),
    [
        (0.3, 0, "No word or number is new."),
        (1.0, 0, "New are 1 word (2 %)."),
        (7.0, 1, "New are 7 words (2 %) and 1 number."),
        (0.0, 2, "New are 2 numbers."),
    ],
)
def test_a_duplicate_says_how_little_is_new(words: float, numbers: int, new: str) -> None:
    evidence = Evidence(covered=0.97, novelty=0.1, new_words=words, new_share=0.02, new_numbers=numbers)
    assert describe_verdict(Verdict("2", Kind.DUPLICATE, Stage.PROSE, False, ORIGINAL, evidence)) == (
        f"Held back: hardly anything new. The original holds 97 % of its article. {new}"
    )


def test_without_novelty_a_duplicate_says_how_alike_the_texts_are() -> None:
    plain = describe_verdict(Verdict("2", Kind.DUPLICATE, Stage.BODY, False, ORIGINAL, Evidence(0.81, headline=0.64)))
    assert plain == f"Held back: the texts are alike. {ALIKE}"
    bits = describe_verdict(Verdict("2", Kind.DUPLICATE, Stage.BODY, False, ORIGINAL, Evidence(distance=2)))
    assert bits == "Held back: the texts are alike. The texts' fingerprints differ in 2 bits."


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("original", [None, ORIGINAL])
def test_every_verdict_has_words(kind: Kind, stage: Stage, original: Original | None) -> None:
    told = describe_verdict(Verdict("2", kind, stage, True, original))
    assert told.endswith(".")
    assert "None" not in told
