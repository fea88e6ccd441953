"""The rule for a pair: as the specification says, monotone, and explained by its features."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_dedup.dedup.rule import logit, rule_of, trees_of
from stream_dedup.dedup.similarity import SIMILARITY
from stream_dedup.settings import DecisionSettings
from stream_dedup.tools.pair_rule import FIXED, KINSHIP, NOVELTY, columns, contributions, judge_pairs, parts_of
from tests.reference.decision import is_bulletin, is_repeat, is_same_article, kinship_of, novelty_of
from tests.reference.similarity import FLAGS, FLOATS, Similar

BALANCED = rule_of(DecisionSettings(), has_words=True)
# Values on both sides of every constant of the rule.
NEAR = {
    "body": (0.1, 0.49, 0.5, 0.79, 0.8, 1.0),
    "headline": (0.0, 0.3, 0.79, 0.8, 1.0),
    "covered": (0.3, 0.74, 0.75, 0.92, 0.93, 1.0),
    "containment": (0.2, 0.39, 0.4, 0.95),
    "grounded": (0.1, 0.6, 1.0),
    "apart": (2, 11.9, 12, 15, 16.1, 24),
    "tokens": (20, 299, 300),
    "log_size_ratio": (-3, -1.4, 0.1, 2.5),
    **dict.fromkeys(("article_share", "spread"), (0.0, 0.02, 0.5, 1.0)),
    **dict.fromkeys(("new_words", "gained_words"), (0, 1, 4, 4.1, 8, 8.1, 40)),
    "lost_words": (0, 0, 0, 1, 8, 8.1),
    **dict.fromkeys(("words", "fewer_words"), (5, 8, 40, 300)),
    **dict.fromkeys(("new_sentences", "headline_gains", "headline_losses"), (0, 0, 9)),
    "new_headline": (0, 9),
}
"""All others are small counts."""


def drawn(seed: int, count: int) -> NDArray[np.void]:
    """Pairs of random similarities, some of them unknown."""
    random, pairs = np.random.default_rng(seed), np.zeros(count, SIMILARITY)
    for name in sorted(FLOATS):
        pairs[name] = random.choice(NEAR.get(name, (0, 0.89, 0.9, 1, 2, 9)), count)
        if name in ("body", "containment", "headline", "grounded", "words"):
            pairs[name][random.random(count) < 0.1] = np.nan
    for name in sorted(FLAGS):
        pairs[name] = random.random(count) < 0.4
    pairs["distance"] = np.nan
    pairs["smaller_size"] = random.choice([0, 12, 59, 60, 300], count)
    return pairs


def similar(pair: np.void) -> Similar:
    """The same pair for the specification."""
    one = Similar()
    for name in (*FLOATS, *FLAGS, "smaller_size"):
        setattr(one, name, pair[name].item() if name in FLAGS else pair[name])
    return one


def test_the_rule_is_that_of_the_specification() -> None:
    pairs = drawn(1, 2000)
    judged, fixed, held = judge_pairs(pairs, BALANCED), columns(pairs, "fixed"), logit(0.4)
    with np.errstate(invalid="ignore"):
        for p, pair in enumerate(map(similar, pairs)):
            assert fixed[p, list(FIXED).index("bulletin")] == is_bulletin(pair), pair
            assert judged.is_repeat[p] == is_repeat(pair)
            assert judged.kinship[p] == kinship_of(pair)
            assert judged.is_same[p] == is_same_article(pair)
            assert np.isnan(judged.logit[p]) == np.isnan(pair.words), "novelty needs texts"
            if not np.isnan(pair.words):
                assert judged.logit[p] == novelty_of(pair)
                assert judged.is_held[p] == (is_repeat(pair) or novelty_of(pair) < np.float32(held))
    for counts in (fixed.sum(axis=0), judged.is_repeat.sum(), judged.is_held.sum()):
        assert np.all((counts > 10) & (counts < 1990))


@pytest.mark.parametrize("name", [name for name, feature in NOVELTY.items() if feature.direction])
def test_more_that_is_new_never_lowers_the_novelty(name: str) -> None:
    random, place = np.random.default_rng(3), list(NOVELTY).index(name)
    for features in columns(drawn(2, 40)):
        log_odds = [
            sum(parts_of(trees_of("novelty"), features))
            for features[place] in np.sort(random.choice([1, 10, 300]) * random.random(12))
        ]
        assert np.min(np.diff(log_odds) * NOVELTY[name].direction) >= -1e-6


def test_the_log_odds_are_the_sum_of_what_each_feature_adds() -> None:
    pairs = drawn(1, 300)
    judged, known = judge_pairs(pairs, BALANCED), ~np.isnan(pairs["words"])
    expected = float(trees_of("novelty").values[:, 0].sum())
    for p in np.flatnonzero(known).tolist():
        parts = contributions(pairs, p)
        assert judged.logit[p] == pytest.approx(expected + sum(parts.values()), abs=1e-3)
        assert all(parts[name] in (0, FIXED[name].weight) for name in FIXED)
    names = {**contributions(pairs, 0), **contributions(pairs, 0, of_kinship=True)}
    assert list(names) == [*NOVELTY, *FIXED, *(name for name in KINSHIP if name not in NOVELTY)]
    assert all(len((NOVELTY | FIXED | KINSHIP)[name].meaning) > 5 for name in names)


@pytest.mark.parametrize("has_flags", [False, True])
@pytest.mark.parametrize("size", [0, 50, 300])
@pytest.mark.parametrize("apart", [0, 100])
def test_what_is_unknown_makes_no_fixed_term_and_no_nan(has_flags: bool, size: int, apart: float) -> None:
    pair = np.zeros(1, SIMILARITY)
    for name in SIMILARITY.names or ():
        pair[name] = has_flags if name in FLAGS else np.nan if name in FLOATS else size
    for name, value in {"apart": apart, "log_size_ratio": 0, "same_text": False, "corrects": False}.items():
        pair[name] = value
    assert not columns(pair, "fixed").any()
    assert not np.isnan([*columns(pair, "novelty")[0], *columns(pair, "kinship")[0]]).any()


@pytest.mark.parametrize(
    ("why", "values", "has_words", "expected"),
    [
        ("a Jaccard of .8", {"body": 0.8, "same_source": True, "headline": 0.0}, True, True),
        ("a lower one", {"body": 0.79, "containment": 1.0, "headline": 1.0}, True, False),
        ("no text", {"body": np.nan, "headline": 1.0}, True, False),
        ("a near SimHash", {"body": 0.1, "distance": 3, "within_hamming": True}, False, True),
        ("a far one", {"body": 0.99, "distance": 4}, False, False),
    ],
)
def test_plain_similarity_decides_alone(why: str, values: dict[str, Any], has_words: bool, expected: bool) -> None:
    pair = np.zeros(1, SIMILARITY)
    for name, value in ({"distance": np.nan} | values).items():
        pair[name] = value
    decision = DecisionSettings(jaccard=0.8 if has_words else None)
    judged = judge_pairs(pair, rule_of(decision, has_words=has_words))
    assert (judged.is_held.tolist(), judged.is_same.tolist()) == ([expected], [expected]), why
    assert np.isnan(judged.logit).all()
