"""The two regressions, on similarities that can be checked by hand; and what decides without them."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_dedup.dedup import rule
from stream_dedup.dedup.rule import (
    KINSHIP,
    NOVELTY,
    columns,
    contributions,
    judge_pairs,
    logit,
    thresholds,
)
from stream_dedup.dedup.similarity import SIMILARITY, unknown
from stream_dedup.settings import DecisionSettings

NO = float("nan")
USUAL = {
    **{"body": 0.5, "containment": 0.9, "coverage": 0.6, "article_coverage": 0.6, "headline": 0.6, "grounded": 0.8},
    **{"apart": 2.0, "log_size_ratio": 0.2, "article_share": 0.8, "article_tokens": 200, "words": 120, "new_words": 30},
    **{"new_sentences": 20, "numbers": 4, "new_numbers": 1, "new_numbers_anywhere": 1, "headline_numbers": 0},
    **{"new_headline_numbers": 0, "new_headline_words": 0, "smaller_size": 300},
}
BALANCED = thresholds(DecisionSettings(), has_words=True)


def pair(**values: Any) -> NDArray[np.void]:
    """A pair from two sources that have something in common; `values` replaces what they have."""
    similar = unknown(1)
    for name, value in (USUAL | values).items():
        similar[name] = value
    return similar


def novelty(similar: NDArray[np.void]) -> float:
    return float(judge_pairs(similar, BALANCED).logit[0])


ONE_SITE: dict[str, Any] = {"same_source": True}
MORE_NEW: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "same_source": ({}, ONE_SITE),
    "same_headline": ({"headline": 0.81}, {"headline": 0.79}),
    "covered": ({"article_coverage": 0.9}, {"article_coverage": 0.3}),
    "new_sentences": ({}, {"new_sentences": 60}),
    "new_numbers": ({}, {"new_numbers": 5}),
    "new_headline": (ONE_SITE, ONE_SITE | {"new_headline_words": 3}),
    "short_notice": (ONE_SITE | {"smaller_size": 39}, ONE_SITE | {"smaller_size": 40}),
    "second_headline": (
        ONE_SITE | {"headline": 0.4, "article_share": 0.9},
        ONE_SITE | {"headline": 0.4, "article_share": 0.2},
    ),
    "ungrounded": ({}, {"grounded": 0.1}),
    "larger": ({"log_size_ratio": 0.0}, {"log_size_ratio": 1.0}),
    "swapped": (ONE_SITE, ONE_SITE | {"swapped": True}),
    "version": ({}, {"same_id": True}),
    "stub": ({"headline": 1.0, "article_tokens": 79}, {"headline": 1.0, "article_tokens": 80}),
    "bulletin": ({"apart": 11, "numbers": 20}, {"apart": 24, "numbers": 20}),
    "corrects": ({}, {"corrects": True}),
}
MORE_ALIKE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "body": ({"body": 0.2}, {"body": 0.9}),
    "containment": ({"containment": 0.4}, {}),
    "headline": ({"headline": 0.1}, {}),
    "same_source_body": (ONE_SITE, {}),
    "swapped": (ONE_SITE | {"swapped": True}, ONE_SITE),
    "ungrounded": ({"grounded": 0.1}, {}),
    "no_text": ({"body": 0.0}, {"body": NO}),
    "series": ({"apart": 24, "numbers": 20}, {"apart": 11, "numbers": 20}),
}


@pytest.mark.parametrize("name", NOVELTY)
def test_each_feature_of_novelty_moves_the_log_odds_in_its_direction(name: str) -> None:
    less, more = (pair(**values) for values in MORE_NEW[name])
    assert novelty(less) < novelty(more)
    change = dict(zip(NOVELTY, (columns(more) - columns(less))[0].tolist(), strict=True))
    assert [feature for feature, by in change.items() if by] == [name], "and it is the only one that changes"
    assert novelty(more) - novelty(less) == pytest.approx(NOVELTY[name].weight * change[name], abs=1e-5)


@pytest.mark.parametrize("name", KINSHIP)
def test_each_feature_of_kinship_moves_the_log_odds_in_its_direction(name: str) -> None:
    less, more = (pair(**values) for values in MORE_ALIKE[name])
    assert rule.kinship_logit(less[0]) < rule.kinship_logit(more[0])
    change = columns(more, of_kinship=True) - columns(less, of_kinship=True)
    assert [feature for feature, by in zip(KINSHIP, change[0], strict=True) if by] == [name]


@pytest.mark.parametrize(
    "values",
    [{"headline": 0.4}, {"swapped": True}, {"smaller_size": 10}, {"new_headline_words": 5}],
    ids=["other headline", "swapped", "short notice", "new words in the headline"],
)
def test_what_speaks_of_one_source_says_nothing_of_two(values: dict[str, Any]) -> None:
    assert novelty(pair(**values)) == novelty(pair())


def drawn(seed: int, count: int) -> NDArray[np.void]:
    """Pairs of random similarities, some of them unknown."""
    random, similar = np.random.default_rng(seed), unknown(count)
    for name in SIMILARITY.names or ():
        kind = SIMILARITY[name].kind
        values = random.random(count) * (1 if name in ("body", "headline", "grounded", "article_coverage") else 40)
        similar[name] = values < 20 if kind == "b" else values
        if name in ("body", "containment", "headline", "grounded", "words"):
            similar[name][random.random(count) < 0.1] = NO
    return similar


def test_the_log_odds_are_the_weighted_sum_that_is_told() -> None:
    similar = drawn(1, 500)
    judged, known = judge_pairs(similar, BALANCED), ~np.isnan(similar["words"])
    assert np.array_equal(np.isnan(judged.logit), ~known), "novelty is unknown where the texts are not compared"
    intercept = novelty(pair()) - sum(contributions(pair(), 0).values())
    for p in np.flatnonzero(known):
        assert judged.logit[p] == pytest.approx(intercept + sum(contributions(similar, p).values()), abs=1e-3)
    assert np.array_equal(judged.is_held, judged.is_repeat | (judged.logit < logit(0.4)))
    kinship = np.array([rule.kinship_logit(one) >= rule.SAME_ARTICLE for one in similar])
    assert np.array_equal(judged.is_same, kinship & (judged.is_repeat | ~similar["same_text"]))


BULLETIN = {"apart": 24.0, "same_source": True, "smaller_size": 200, "article_coverage": 0.8, "new_numbers": 0}


@pytest.mark.parametrize(
    ("why", "values", "expected"),
    [
        ("figures of another day", {"numbers": 20, "new_numbers": 9}, True),
        ("of another source too", {"numbers": 20, "new_numbers": 9, "same_source": False}, True),
        ("in the headline", {"words": 40, "headline_numbers": 3, "new_headline_numbers": 2}, True),
        ("the same day", {"numbers": 20, "new_numbers": 9, "apart": 8}, False),
        ("the same figures", {"numbers": 20, "new_numbers": 0}, False),
        ("an article with a few figures", {"numbers": 4, "new_numbers": 2}, False),
        ("one form, other figures anywhere", {"same_form": True, "new_numbers_anywhere": 3}, True),
        (
            "one form, a figure in no sentence",
            {"same_form": True, "numbers": 20, "new_numbers_anywhere": 1},
            True,
        ),
        ("one form, of two sources", {"same_form": True, "new_numbers_anywhere": 3, "same_source": False}, False),
        ("a short form of a series", {"smaller_size": 60, "headline": 0.5, "new_headline_words": 2}, True),
        ("the same words", {"smaller_size": 60, "same_text": True, "headline": 1.0}, False),
        ("the same few words of another day", {"smaller_size": 12, "same_text": True, "headline": 1.0}, True),
        ("no figure, but worded otherwise", {"article_coverage": 0.7, "same_source": False}, True),
        ("in the evening of the day", {"article_coverage": 0.7, "apart": 15}, False),
        ("a long article that is rewritten", {"article_coverage": 0.7, "article_tokens": 300}, False),
    ],
)
def test_a_bulletin_has_other_figures_on_another_day(why: str, values: dict[str, Any], expected: bool) -> None:
    assert rule.is_bulletin(pair(**BULLETIN | values)[0]) == expected, why


@pytest.mark.parametrize(
    ("why", "values", "expected"),
    [
        ("the same words", {}, True),
        ("other words", {"same_text": False}, False),
        ("the same few words of the day", {"same_source": True, "smaller_size": 12, "apart": 15.0}, True),
        ("the same few words of the next day", {"same_source": True, "smaller_size": 12, "apart": 17.0}, False),
        ("of another source", {"smaller_size": 12, "apart": 17.0}, True),
        ("an article of the next day", {"same_source": True, "apart": 17.0}, True),
    ],
)
def test_the_same_words_are_a_repeat_unless_they_are_a_new_event(
    why: str, values: dict[str, Any], expected: bool
) -> None:
    assert judge_pairs(pair(**{"same_text": True} | values), BALANCED).is_repeat.tolist() == [expected], why


@pytest.mark.parametrize(
    ("why", "values", "has_words", "expected"),
    [
        ("a Jaccard of .8", {"body": 0.8, "same_source": True, "headline": 0.0}, True, True),
        ("a lower one", {"body": 0.79, "containment": 1.0, "headline": 1.0}, True, False),
        ("no text", {"body": NO, "headline": 1.0}, True, False),
        ("a near SimHash", {"body": 0.1, "distance": 3, "within_hamming": True}, False, True),
        ("a far one", {"body": 0.99, "distance": 4}, False, False),
    ],
)
def test_plain_similarity_decides_alone(why: str, values: dict[str, Any], has_words: bool, expected: bool) -> None:
    decision = DecisionSettings(rule="jaccard" if has_words else "novelty", body=0.8)
    judged = judge_pairs(pair(**values), thresholds(decision, has_words=has_words))
    assert (judged.is_held.tolist(), judged.is_same.tolist()) == ([expected], [expected]), why
    assert np.isnan(judged.logit).all()
