"""The rule and the similarities, on numbers that can be checked by hand."""

import math
from typing import Any

import numpy as np
import pytest

from stream_dedup.dedup.rule import (
    FEATURES,
    Finding,
    contributions,
    is_repeat,
    is_stub,
    judge_pairs,
    logit,
    probability,
)
from stream_dedup.dedup.similarity import Similarities, pair_at
from stream_dedup.settings import DecisionSettings

NO = float("nan")


def found(
    body: float,
    containment: float,
    lead: float,
    headline: float,
    same_source: bool,
    decision: DecisionSettings | None = None,
    **other: float,
) -> Finding:
    views = [np.array([x], np.float32) for x in (body, containment, lead, headline)]
    swapped, same = np.array([bool(other.get("swapped"))]), np.array([same_source])
    grounded = np.array([other.get("grounded", 0.8)], np.float32)
    apart = np.array([other.get("apart", 1)], np.float32)
    smaller_size = np.array([other.get("smaller_size", 300)], np.uint32)
    expands_flash, no = np.array([bool(other.get("expands_flash"))]), np.array([False])
    pairs = Similarities(
        *views,
        swapped,
        grounded,
        apart,
        smaller_size,
        expands_flash,
        same,
        no,
        no,
        views[0] * NO,
        no,
        *[views[0] * NO] * 4,
        no,
    )
    return Finding(int(judge_pairs(pairs, decision or DecisionSettings()).finding[0]))


@pytest.mark.parametrize(
    ("why", "views", "same_source", "expected"),
    [
        ("nothing alike", (0.1, 0.2, 0.1, 0.1), False, Finding.NOTHING),
        ("the lead is found in the other", (0.1, 0.2, 0.55, 0.1), False, Finding.LEAD),
        ("like headlines, kindred bodies", (0.25, 0.45, 0.1, 0.6), False, Finding.HEADLINE),
        ("like headlines, shared quotes only", (0.1, 0.5, 0.1, 0.7), False, Finding.NOTHING),
        ("like headlines, a cut of the body", (0.1, 0.8, 0.1, 0.7), False, Finding.HEADLINE),
        ("like headlines, strange bodies", (0.05, 0.1, 0.1, 1.0), False, Finding.NOTHING),
        ("like bodies of two sources", (0.5, 0.7, 0.1, 0.1), False, Finding.BODY),
        ("like bodies and headlines of one source", (0.9, 0.9, 0.1, 0.5), True, Finding.HEADLINE),
        ("one source, other headline", (0.97, 0.99, 1.0, 0.2), True, Finding.OTHER_HEADLINE),
        ("one source, no headlines, one text", (0.96, 0.99, 1.0, NO), True, Finding.LEAD),
        ("one source, no headlines, a table of another hour", (0.9, 0.9, 0.9, NO), True, Finding.OTHER_BODY),
        ("one source, like headline and lead, other body", (0.3, 0.5, 1.0, 0.9), True, Finding.OTHER_BODY),
        ("one source, a cut of the article", (0.3, 0.9, 1.0, 0.9), True, Finding.LEAD),
        ("no body, same headline", (NO, NO, NO, 0.8), False, Finding.HEADLINE),
        ("no body, one source, a number changed", (NO, NO, NO, 0.8), True, Finding.NOTHING),
        ("no body, one source, same headline", (NO, NO, NO, 1.0), True, Finding.HEADLINE),
        ("no body, like headline", (NO, NO, NO, 0.7), False, Finding.NOTHING),
        ("nothing to compare", (NO, NO, NO, NO), False, Finding.NOTHING),
    ],
)
def test_the_rule(why: str, views: tuple[float, float, float, float], same_source: bool, expected: Finding) -> None:
    assert found(*views, same_source) == expected, why


@pytest.mark.parametrize(
    ("body", "same_source", "expected"),
    [(0.9, True, Finding.TEMPLATE), (0.96, True, Finding.LEAD), (0.9, False, Finding.LEAD)],
)
def test_swapped_words_make_a_template_on_one_site_unless_the_text_is_one(
    body: float, same_source: bool, expected: Finding
) -> None:
    assert found(body, 0.95, 1.0, 0.67, same_source, swapped=1) == expected


@pytest.mark.parametrize(
    ("why", "views", "same_source", "other", "expected"),
    [
        ("a bulletin of the next day", (0.9, 0.95, 0.9, 1.0), True, {"apart": 24}, Finding.NEXT_DAY),
        ("the same text a day later", (0.97, 0.99, 1.0, 1.0), True, {"apart": 24}, Finding.LEAD),
        (
            "the same few words a day later",
            (1.0, 1.0, 1.0, 1.0),
            True,
            {"apart": 24, "smaller_size": 12},
            Finding.NEXT_DAY,
        ),
        (
            "the same few words within the day",
            (1.0, 1.0, 1.0, 1.0),
            True,
            {"apart": 15, "smaller_size": 12},
            Finding.LEAD,
        ),
        ("a copy elsewhere a day later", (0.9, 0.95, 0.9, 1.0), False, {"apart": 24}, Finding.LEAD),
        ("short notices that differ", (0.8, 0.9, 0.9, 0.6), True, {"smaller_size": 12}, Finding.OTHER_BODY),
        ("boilerplate on two sites", (0.9, 0.95, 0.9, 0.1), False, {"grounded": 0.1}, Finding.BOILERPLATE),
        ("boilerplate under one headline", (0.9, 0.95, 0.9, 0.9), False, {"grounded": 0.1}, Finding.LEAD),
        ("a round-up that quotes an article", (0.1, 0.9, 0.8, 0.0), False, {}, Finding.DIGEST),
        ("a story after its flash", (NO, NO, NO, 1.0), False, {"expands_flash": 1}, Finding.NOTHING),
        ("a headline of the next day", (NO, NO, NO, 1.0), True, {"apart": 24}, Finding.NEXT_DAY),
        ("a paragraph in common, no headlines", (0.1, 0.2, 0.6, NO), False, {"grounded": NO}, Finding.DIGEST),
        ("a cut without a headline", (0.1, 0.9, 0.8, NO), False, {"grounded": NO}, Finding.LEAD),
    ],
)
def test_the_guards(
    why: str,
    views: tuple[float, float, float, float],
    same_source: bool,
    other: dict[str, float],
    expected: Finding,
) -> None:
    assert found(*views, same_source, **other) == expected, why


@pytest.mark.parametrize(
    ("views", "same_source", "expected"),
    [
        ((0.8, 0.9, 0.0, 0.0), True, Finding.BODY),  # no guard
        ((0.79, 1.0, 1.0, 1.0), False, Finding.NOTHING),  # no other view
        ((NO, NO, NO, 1.0), False, Finding.NOTHING),
    ],
)
def test_the_plain_rule_asks_for_the_bodies_jaccard_alone(
    views: tuple[float, float, float, float], same_source: bool, expected: Finding
) -> None:
    assert found(*views, same_source, decision=DecisionSettings(rule="jaccard", body=0.8)) == expected


def novelty_logits(pairs: Similarities) -> np.ndarray:
    return judge_pairs(pairs, DecisionSettings()).logit


# -- novelty -------------------------------------------------------------------------------------------------


def pair(**values: Any) -> Similarities:
    """A pair from two sources; `values` replaces its default similarities."""
    usual: dict[str, Any] = {
        **{"body": 0.5, "containment": 0.9, "lead": 0.6, "headline": 0.6, "grounded": 0.8, "distance": NO},
        **{
            "apart": 2.0,
            "smaller_size": 300,
            "log_size_ratio": 0.2,
            "coverage": 0.6,
            "words": 200.0,
            "new_words": 60.0,
        },
        **dict.fromkeys(
            ("swapped", "expands_flash", "same_source", "same_text", "same_id", "within_hamming", "corrects"), False
        ),
    }
    kinds = {bool: np.bool_, int: np.uint32, float: np.float32}
    return Similarities(**{name: np.array([value], kinds[type(value)]) for name, value in (usual | values).items()})


@pytest.mark.parametrize(
    ("why", "less", "more"),
    [
        ("a longer page", {"log_size_ratio": 0.0}, {"log_size_ratio": 1.0}),
        ("less of it in the original", {"coverage": 0.9}, {"coverage": 0.3}),
        ("later", {"apart": 1.0}, {"apart": 12.0}),
        ("more new prose", {"new_words": 10.0}, {"new_words": 100.0}),
        ("less prose round the same new words", {"words": 800.0}, {"words": 100.0}),
        ("another headline", {"headline": 0.8}, {"headline": 0.79}),
        ("another headline of one source", {"same_source": True}, {"same_source": True, "headline": 0.49}),
        ("one source", {"same_source": False}, {"same_source": True}),
        ("swapped words", {"same_source": True}, {"same_source": True, "swapped": True}),
        ("no notice sent again", {"same_source": True, "smaller_size": 39}, {"same_source": True, "smaller_size": 40}),
    ],
)
def test_novelty_grows_with(why: str, less: dict[str, Any], more: dict[str, Any]) -> None:
    low, high = (float(probability(novelty_logits(pair(**values)))[0]) for values in (less, more))
    assert 0 < low < high < 1, why


@pytest.mark.parametrize(
    "values",
    [{"headline": 0.49}, {"swapped": True}, {"smaller_size": 10}],
    ids=["other headline", "swapped", "short notice"],
)
def test_what_speaks_of_one_source_says_nothing_of_two(values: dict[str, Any]) -> None:
    assert novelty_logits(pair(**values)).tolist() == novelty_logits(pair()).tolist()


def test_novelty_is_not_known_without_prose() -> None:
    assert np.isnan(novelty_logits(pair(words=NO, new_words=NO)))[0]
    assert np.isnan(probability(novelty_logits(pair(words=NO, new_words=NO))))[0]
    assert np.isfinite(novelty_logits(pair(words=0.0, new_words=0.0, headline=NO, body=NO, coverage=NO)))[0]


def test_the_features_shares_sum_to_the_log_odds() -> None:
    nothing = pair(log_size_ratio=0.0, headline=0.6, coverage=0.0, apart=0.0, words=0.0, new_words=0.0)
    base = float(novelty_logits(nothing)[0])
    assert not any(contributions(nothing, 0).values())
    for values in ({}, {"same_source": True, "swapped": True, "smaller_size": 9, "headline": 0.1}, {"headline": 1.0}):
        one = pair(**values)
        assert list(contributions(one, 0)) == list(FEATURES)
        assert base + sum(contributions(one, 0).values()) == pytest.approx(float(novelty_logits(one)[0]), abs=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.45, 0.999, 1.0])
def test_a_threshold_is_the_same_as_log_odds(share: float) -> None:
    with np.errstate(over="ignore"):
        assert float(probability(np.array(logit(share)))) == pytest.approx(share)
    assert math.isinf(logit(share)) == (share in (0.0, 1.0))


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
    assert is_repeat(pair_at(pair(**({"same_text": True} | values)), 0)) == expected, why


@pytest.mark.parametrize(
    ("why", "values", "finding", "expected"),
    [
        ("menus under the same headline", {"headline": 1.0, "new_words": 20.0}, Finding.NOTHING, True),
        ("an article of its own", {"headline": 1.0, "new_words": 120.0}, Finding.NOTHING, False),
        ("another headline", {"headline": 0.7, "new_words": 20.0}, Finding.NOTHING, False),
        ("no text at all", {"headline": 1.0, "new_words": 0.0, "body": NO}, Finding.NOTHING, False),
        ("a guard's no", {"headline": 1.0, "new_words": 20.0}, Finding.NEXT_DAY, False),
        ("a view's yes", {"headline": 1.0, "new_words": 20.0}, Finding.LEAD, False),
    ],
)
def test_a_page_without_an_article_of_its_own(
    why: str, values: dict[str, Any], finding: Finding, expected: bool
) -> None:
    assert is_stub(pair_at(pair(**values), 0), int(finding)) == expected, why
