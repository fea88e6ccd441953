"""Verdicts in words: each stage has a sentence, which matches the verdict."""

import pytest

from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.dedup.wording import describe_verdict

ORIGINAL = Original("1", 0, 0, 0)
FULL = Evidence(0.81, 0.92, 0.73, 0.64, True, "shorter", "same source, a day apart", 3)


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (Stage.EXACT, "the same words as its original, throughout."),
        (Stage.HEADLINE, "64 % of their words in common), and 92 % of the shorter text"),
        (Stage.LEAD, "73 % of the shorter opening"),
        (Stage.BODY, "81 % of their phrases in common), on one site"),
    ],
)
def test_a_duplicate_says_what_is_alike_and_that_it_is_a_cut(stage: Stage, words: str) -> None:
    told = describe_verdict(Verdict("2", Kind.DUPLICATE, stage, False, ORIGINAL, FULL))
    assert told.startswith("Held back: ")
    assert words in told
    assert told.endswith("It is a shorter cut of the original.")


NEWS = Evidence(lead=0.73, cut="longer", novelty=0.8, new_words=1180.4, new_share=0.34)
LEAD = "73 % of the shorter opening (the first 80 words or so) stands in the other's."


def test_an_update_says_how_much_of_its_prose_is_new_and_why_it_is_the_same_article() -> None:
    told = describe_verdict(Verdict("2", Kind.UPDATE, Stage.LEAD, True, ORIGINAL, NEWS))
    new = "1,180 words of its prose (34 %) are not in the original."
    assert told == f"Let through: the same article with something new. {new} {LEAD}"
    held = describe_verdict(Verdict("2", Kind.UPDATE, Stage.LEAD, False, ORIGINAL, NEWS, "policy.updates = drop"))
    assert held == f"Held back by policy.updates = drop: the same article with something new. {new} {LEAD}"


@pytest.mark.parametrize(
    ("words", "nothing_new"),
    [
        (0.3, "Nothing new: all of its prose stands in the original."),
        (1.0, "Nothing new: 1 word of its prose (2 %) is not in the original."),
        (7.0, "Nothing new: 7 words of its prose (2 %) are not in the original."),
    ],
)
def test_a_duplicate_says_how_little_of_its_prose_is_new(words: float, nothing_new: str) -> None:
    evidence = Evidence(lead=0.73, novelty=0.1, new_words=words, new_share=0.02)
    assert describe_verdict(Verdict("2", Kind.DUPLICATE, Stage.LEAD, False, ORIGINAL, evidence)) == (
        f"Held back: {LEAD} {nothing_new}"
    )


def test_a_page_without_an_article_is_told_from_a_copy() -> None:
    bare = Verdict("2", Kind.DUPLICATE, Stage.PROSE, False, ORIGINAL, Evidence(headline=1.0))
    assert (
        describe_verdict(bare) == "Held back: the original's headline stands over a page without an article of its own."
    )


def test_what_is_let_through_says_so() -> None:
    guarded = describe_verdict(Verdict("2", Kind.UNIQUE, Stage.GUARD, True, ORIGINAL, FULL))
    assert guarded == "Let through: much is alike, but it is another article: same source, a day apart."
    near = describe_verdict(Verdict("2", Kind.UNIQUE, Stage.NONE, True, ORIGINAL, Evidence(body=0.2)))
    assert near.startswith("Let through: an earlier item shares something")


def test_a_policy_s_reason_a_simhash_s_distance_and_missing_numbers_are_told() -> None:
    update = Verdict("2", Kind.UPDATE, Stage.POLICY, False, ORIGINAL, None, "same id, new content")
    assert describe_verdict(update) == "Held back: same id, new content."
    bits = describe_verdict(Verdict("2", Kind.DUPLICATE, Stage.BODY, False, ORIGINAL, Evidence(distance=2)))
    assert bits == "Held back: the texts' fingerprints differ in only 2 bits."
    assert "some" in describe_verdict(Verdict("2", Kind.DUPLICATE, Stage.LEAD, False, ORIGINAL, Evidence()))


def test_dead_letters_and_tombstones() -> None:
    assert describe_verdict(Verdict("", Kind.BAD, Stage.NONE, False, reason="json: x")) == (
        "Dead letter: it cannot be judged (json: x)."
    )
    told = describe_verdict(Verdict("2", Kind.TOMBSTONE, Stage.POLICY, True, ORIGINAL))
    assert told == "Let through: it withdraws the item of this id, and its original is forgotten."


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("stage", Stage)
def test_every_verdict_has_words(kind: Kind, stage: Stage) -> None:
    told = describe_verdict(Verdict("2", kind, stage, True))
    assert told.endswith(".")
    assert "None" not in told.replace("article: None", "")


def test_a_row_counts_whole_words() -> None:
    verdict = Verdict("1", Kind.DUPLICATE, Stage.LEAD, False, None, NEWS)
    assert verdict.as_json()["evidence"]["new_words"] == 1180
