"""Verdicts in words: every stage has its sentence, and the words follow what the verdict says."""

import pytest

from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.dedup.wording import in_words

ORIGINAL = Original("1", 0, 0, 0)
FULL = Evidence(0.81, 0.92, 0.73, 0.64, True, "shorter", "same source, a day apart", 3)


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (Stage.EXACT, "the same words throughout"),
        (Stage.HEADLINE, "64 % of their words in common), and 92 % of the shorter text"),
        (Stage.LEAD, "73 % of the shorter opening"),
        (Stage.BODY, "81 % of their phrases in common), on one site"),
    ],
)
def test_a_duplicate_says_what_is_alike_and_that_it_is_a_cut(stage: Stage, words: str) -> None:
    told = in_words(Verdict("2", Kind.DUPLICATE, stage, False, ORIGINAL, FULL))
    assert told.startswith("Held back: ")
    assert words in told
    assert told.endswith("It is a shorter cut of the original.")


def test_what_is_let_through_says_so() -> None:
    guarded = in_words(Verdict("2", Kind.UNIQUE, Stage.GUARD, True, ORIGINAL, FULL))
    assert guarded == "Let through: much is alike, but it is another article: same source, a day apart."
    near = in_words(Verdict("2", Kind.UNIQUE, Stage.NONE, True, ORIGINAL, Evidence(body=0.2)))
    assert near.startswith("Let through: an earlier item shares something")


def test_a_policy_s_reason_a_simhash_s_distance_and_missing_numbers_are_told() -> None:
    update = Verdict("2", Kind.UPDATE, Stage.POLICY, False, ORIGINAL, None, "same id, new content")
    assert in_words(update) == "Held back: same id, new content."
    bits = in_words(Verdict("2", Kind.DUPLICATE, Stage.BODY, False, ORIGINAL, Evidence(distance=2)))
    assert bits == "Held back: the texts' fingerprints differ in only 2 bits."
    assert "some" in in_words(Verdict("2", Kind.DUPLICATE, Stage.LEAD, False, ORIGINAL, Evidence()))


def test_dead_letters_and_tombstones() -> None:
    assert in_words(Verdict("", Kind.BAD, Stage.NONE, False, reason="json: x")) == (
        "Dead letter: it cannot be judged (json: x)."
    )
    told = in_words(Verdict("2", Kind.TOMBSTONE, Stage.POLICY, True, ORIGINAL))
    assert told == "Let through: it withdraws the item of this id, and its original is forgotten."


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("stage", Stage)
def test_every_verdict_has_words(kind: Kind, stage: Stage) -> None:
    told = in_words(Verdict("2", kind, stage, True))
    assert told.endswith(".")
    assert "None" not in told.replace("article: None", "")
