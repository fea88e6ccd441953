"""The rule and the similarities on numbers one can check by hand."""

import numpy as np
import pytest

from stream_dedup.dedup.rule import Finding, judge_pairs
from stream_dedup.dedup.similarity import Similarities
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
    shorter = np.array([other.get("shorter", 300)], np.uint32)
    flash, no = np.array([bool(other.get("flash"))]), np.array([False])
    pairs = Similarities(
        *views, swapped, grounded, apart, shorter, flash, same, no, no, views[0] * NO, no, *[views[0] * NO] * 4
    )
    return Finding(int(judge_pairs(pairs, decision or DecisionSettings())[0]))


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
        ("the same few words a day later", (1.0, 1.0, 1.0, 1.0), True, {"apart": 24, "shorter": 12}, Finding.NEXT_DAY),
        ("the same few words within the day", (1.0, 1.0, 1.0, 1.0), True, {"apart": 15, "shorter": 12}, Finding.LEAD),
        ("a copy elsewhere a day later", (0.9, 0.95, 0.9, 1.0), False, {"apart": 24}, Finding.LEAD),
        ("short notices that differ", (0.8, 0.9, 0.9, 0.6), True, {"shorter": 12}, Finding.OTHER_BODY),
        ("furniture on two sites", (0.9, 0.95, 0.9, 0.1), False, {"grounded": 0.1}, Finding.FURNITURE),
        ("furniture under one headline", (0.9, 0.95, 0.9, 0.9), False, {"grounded": 0.1}, Finding.LEAD),
        ("a round-up that quotes an article", (0.1, 0.9, 0.8, 0.0), False, {}, Finding.DIGEST),
        ("a story after its flash", (NO, NO, NO, 1.0), False, {"flash": 1}, Finding.NOTHING),
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
