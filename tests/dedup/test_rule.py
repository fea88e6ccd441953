"""The two models, on similarities that can be checked by hand; and what decides without them."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_dedup.dedup import rule
from stream_dedup.dedup.rule import (
    FACT,
    FIXED,
    KINSHIP,
    MEANINGS,
    NOVELTY,
    columns,
    contributions,
    fixed_columns,
    judge_pairs,
    logit,
    novelty_trees,
    thresholds,
)
from stream_dedup.dedup.similarity import SIMILARITY, unknown
from stream_dedup.dedup.trees import parts_of
from stream_dedup.errors import ConfigError
from stream_dedup.settings import DecisionSettings
from stream_dedup.settings.judging import NOVELTY_NAMES

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
# Of these more never means less that is new, and of those more never means more.
RISING = (
    *("new_sentences", "new_share", "new_words", "new_numbers", "lost_numbers", "headline_gains", "headline_losses"),
    *("headline_figures", "new_headline", "larger"),
)
FALLING = ("covered", "grounded")


@pytest.mark.parametrize("name", [*RISING, *FALLING])
def test_more_that_is_new_never_lowers_the_novelty(name: str) -> None:
    random, place = np.random.default_rng(3), list(NOVELTY).index(name)
    for features in columns(drawn(2, 40)):
        log_odds = [
            sum(parts_of(novelty_trees(), features)[1])
            for features[place] in np.sort(random.choice([1, 10, 300]) * random.random(12))
        ]
        steps = np.diff(log_odds) * (-1 if name in FALLING else 1)
        assert steps.min() >= -1e-6


@pytest.mark.parametrize(
    ("name", "less", "more"),
    [
        ("headline", {"headline": 0.1}, {"headline": 0.9}),
        ("containment", {"containment": 0.2}, {"containment": 0.95}),
        ("swapped", ONE_SITE | {"swapped": True}, ONE_SITE),
        ("series", ONE_SITE | {"apart": 24, "numbers": 20}, ONE_SITE | {"apart": 11, "numbers": 20}),
    ],
)
def test_more_in_common_raises_the_kinship(name: str, less: dict[str, Any], more: dict[str, Any]) -> None:
    kinship = [sum(contributions(pair(**values), 0, of_kinship=True).values()) for values in (less, more)]
    assert kinship[0] < kinship[1]


@pytest.mark.parametrize(
    ("why", "values", "expected"),
    [
        ("nothing new", {}, False),
        ("a whole sentence", {"new_sentences": 9}, True),
        ("a figure for another", {"new_numbers": 1.2, "lost_numbers": 1, "new_words": 3, "lost_words": 3}, True),
        ("a figure more", {"new_numbers": 1.2, "lost_numbers": 0, "new_words": 3, "lost_words": 3}, False),
        ("furniture that has figures", {"new_numbers": 1.2, "lost_numbers": 1, "new_words": 30}, False),
        ("furniture that went", {"new_numbers": 1.2, "lost_numbers": 1, "new_words": 1, "lost_words": 20}, False),
    ],
)
def test_a_new_fact_has_the_novelty_of_cautious_however_alike_the_rest_is(
    why: str, values: dict[str, Any], expected: bool
) -> None:
    same = {"article_coverage": 1.0, "new_sentences": 0, "new_words": 0, "lost_words": 0, "new_numbers": 0}
    similar = pair(**same | {"body": 0.98, "containment": 1.0, "headline": 1.0, "spread": 0.02} | values)
    assert judge_pairs(similar, BALANCED).has_fact.tolist() == [expected], why
    told = contributions(similar, 0)[FACT]
    assert (novelty(similar) >= logit(NOVELTY_NAMES["cautious"]) - 1e-5) or not expected
    assert told == 0 or expected


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("bulletin", {"apart": 24.0, "numbers": 20, "new_numbers": 9}),
        ("corrects", {"corrects": True}),
        ("version", {"same_id": True}),
    ],
)
def test_what_no_tree_is_asked_weighs_the_same_in_every_pair(name: str, values: dict[str, Any]) -> None:
    plain = pair(**values | {"apart": 2.0, "corrects": False, "same_id": False})
    assert novelty(pair(**values)) - novelty(plain) == pytest.approx(FIXED[name].weight, abs=1e-4)
    assert contributions(pair(**values), 0)[name] == FIXED[name].weight


def test_every_feature_has_a_meaning_for_people() -> None:
    told = {**contributions(pair(), 0), **contributions(pair(), 0, of_kinship=True)}
    assert list(told) == [*NOVELTY, *FIXED, FACT, *(name for name in KINSHIP if name not in NOVELTY)]
    assert all(len((MEANINGS | KINSHIP)[name]) > 5 for name in told)


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


def test_the_log_odds_are_the_sum_that_is_told() -> None:
    similar = drawn(1, 500)
    judged, known = judge_pairs(similar, BALANCED), ~np.isnan(similar["words"])
    assert np.array_equal(np.isnan(judged.logit), ~known), "novelty is unknown where the texts are not compared"
    expected = float(novelty_trees().values[:, 0].sum())
    for p in np.flatnonzero(known):
        assert judged.logit[p] == pytest.approx(expected + sum(contributions(similar, p).values()), abs=1e-3)
    assert np.array_equal(judged.is_held, judged.is_repeat | (judged.logit < logit(0.4)))
    assert not judged.is_same[similar["same_text"] & ~judged.is_repeat].any(), "the same words, and another event"


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
        ("a short form without a figure", {"smaller_size": 60, "headline": 0.5, "new_headline_words": 2}, False),
        ("the same words", {"smaller_size": 60, "same_text": True, "headline": 1.0}, False),
        ("the same few words of another day", {"smaller_size": 12, "same_text": True, "headline": 1.0}, True),
        ("no figure, but worded otherwise", {"article_coverage": 0.7, "same_source": False}, True),
        ("in the evening of the day", {"article_coverage": 0.7, "apart": 15}, False),
        ("a long article that is rewritten", {"article_coverage": 0.7, "article_tokens": 300}, False),
    ],
)
def test_a_bulletin_has_other_figures_on_another_day(why: str, values: dict[str, Any], expected: bool) -> None:
    assert fixed_columns(pair(**BULLETIN | values))[0, list(FIXED).index("bulletin")] == expected, why


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


@pytest.mark.parametrize("of", range(3))
def test_a_core_that_asks_for_other_features_is_refused(of: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [list(one) for one in (NOVELTY, KINSHIP, FIXED)]
    names[of][0] = "moon"
    monkeypatch.setattr(rule, "_NAMES", names)
    with pytest.raises(ConfigError, match=r"asks for the features .*, rule\.py for .*moon.*compile it again"):
        rule._check_names()
