"""The rule for one pair of items. Two models answer: is anything new? is it the same article? decide.py applies it.

A pair is a `SIMILARITY` record; an answer is a log-odds. core/rule.c has the features, the weights of fixed terms and
the constants; this module reads their names from it, and gives it the trees and the settings.

**Is anything new?** Would a reader of the earlier item miss something if the new one were never shown? `novelty_logit`
estimates the probability from what the article of the new item has and the earlier one lacks (words, sentences,
figures, words of the headline that its text confirms), from what it lost, from what the two share, and from how clean
both pages are. An item is held back if its novelty against any candidate is below `decision.novelty`.

The model is boosted trees (trees.py). A linear model pays for each kind of news with repeats: a new figure means little
in a page full of new words, and much in a page that is otherwise the same. More new words, sentences or figures never
lower the novelty, because the trees are monotone in them.

**Is it the same article?** `kinship_logit` names an item that is let through: `update` or `unique`.

An item with exactly the same words is held back before (`is_repeat`). The families without words (SimHash, given) and
`decision.jaccard` use plain similarity alone (`is_alike`): the Hamming distance or the Jaccard of the bodies.

Sources: gradient boosting, Friedman 2001, with monotone constraints. Fitted by tests/lab/labels/fit.py.
"""

import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import BOOL, FLOAT, Struct, call, declared, fields, record
from stream_dedup.dedup.trees import CoreTrees, Trees, core_trees, parts_of, read_trees
from stream_dedup.dedup.verdict import Stage
from stream_dedup.settings import DecisionSettings

SAME_ARTICLE = 0.0
"""Lowest log-odds of the same article."""


def logit(share: float) -> float:
    """Return the log-odds of a probability; infinite at 0 and 1."""
    return math.log(share / (1 - share)) if 0 < share < 1 else math.copysign(math.inf, share - 0.5)


class Feature(NamedTuple):
    """A feature of trees. direction: 1 if more of it never lowers the answer, -1 if it never raises it, else 0."""

    direction: int
    meaning: str


class FixedTerm(NamedTuple):
    """A feature that no tree uses, and its weight in the log-odds."""

    weight: float
    meaning: str


def _features(table: str) -> dict[str, Feature]:
    return {name: Feature(int(direction), meaning) for name, direction, meaning in declared(table)}


NOVELTY, KINSHIP = _features("novelty_features"), _features("kinship_features")
"""The features of the trees, by name. core/rule.c declares them."""
FIXED = {name: FixedTerm(float(weight), meaning) for name, weight, meaning in declared("fixed_features")}
"""What novelty consists of besides its trees, by name."""
_FEATURES = {"novelty": [*NOVELTY], "kinship": [*KINSHIP], "fixed": [*FIXED]}  # as core.h numbers them
TABLE, KINSHIP_TABLE = Path(__file__).with_name("novelty.json"), Path(__file__).with_name("kinship.json")


class Rule(Struct, name="thresholds"):
    """What the core takes of a decision.

    novelty, kinship: the trees.
    body: the setting `decision.body`.
    hold_below: the log-odds of `decision.novelty`.
    same_article: `SAME_ARTICLE`.
    is_plain: plain similarity decides alone.
    """

    _fields_ = (
        *fields(CoreTrees, "novelty kinship"),
        *fields(FLOAT, "body hold_below same_article"),
        ("is_plain", BOOL),
    )


def rule_of(decision: DecisionSettings, *, has_words: bool) -> Rule:
    """Return the `Rule` of settings. has_words: fingerprints have the words that novelty needs, as MinHash."""
    return Rule(
        novelty=core_trees(novelty_trees(), len(NOVELTY)),
        kinship=core_trees(kinship_trees(), len(KINSHIP)),
        body=1.0 if decision.jaccard is None else decision.jaccard,
        hold_below=logit(decision.threshold),
        same_article=SAME_ARTICLE,
        is_plain=decision.jaccard is not None or not has_words,
    )


@cache
def novelty_trees() -> Trees:
    """Return the trees of novelty; read once, 2 ms."""
    return read_trees(TABLE, list(NOVELTY))


@cache
def kinship_trees() -> Trees:
    """Return the trees of kinship; read once, 1 ms."""
    return read_trees(KINSHIP_TABLE, list(KINSHIP))


_VIEWS = Stage.BODY, Stage.HEADLINE, Stage.PROSE


def strongest(pairs: NDArray[np.void]) -> list[Stage]:
    """Return the most similar view of each pair, for people; PROSE if no view is similar."""
    views = np.empty(len(pairs), np.uint8)
    call("strongest_views", np.ascontiguousarray(pairs), len(pairs), views)
    return [_VIEWS[view] for view in views.tolist()]


def probability(logits: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return the probability, 0..1, of log-odds, in their dtype.

    numpy's exp of a float32 differs in the last bit between processors; that of a float64 is exact enough for both.
    """
    share: NDArray[np.floating[Any]] = (1 / (1 + np.exp(-logits.astype(np.float64)))).astype(logits.dtype)
    return share


# -- many pairs -------------------------------------------------------------------------------------------------------


JUDGED = record(
    "judged",
    [
        *fields("<f4", "logit kinship"),
        *fields("?", "is_repeat is_same is_held"),
    ],
)
"""What the rule says of a pair alone.

logit: the log-odds of something new; NaN if not computed.
kinship: the log-odds of the same article; NaN if not computed.
is_repeat: the same words, held back before any model is used.
is_same: the same article.
is_held: the new item is held back."""


def judge_pairs(pairs: NDArray[np.void], rule: Rule) -> "np.recarray[Any, Any]":
    """Judge pairs, (n,) SIMILARITY, as the stream judges an item with this one candidate: (n,) JUDGED."""
    judged = np.empty(len(pairs), JUDGED).view(np.recarray)
    call("judge_pairs", np.ascontiguousarray(pairs), len(pairs), rule, judged)
    return judged


def columns(pairs: NDArray[np.void], kind: str = "novelty") -> NDArray[np.float32]:
    """Return the features of pairs, (n, features). kind: "novelty", "kinship", or "fixed" (1 where it holds)."""
    values, number = np.empty((len(pairs), len(_FEATURES[kind])), np.float32), list(_FEATURES).index(kind)
    call("feature_columns", np.ascontiguousarray(pairs), len(pairs), number, values)
    return values


def contributions(pairs: NDArray[np.void], p: int, of_kinship: bool = False) -> dict[str, float]:
    """Return what each feature adds to the log-odds of novelty, or kinship, of pair p; more than 0 speaks for yes."""
    pair = pairs[p : p + 1]
    names, trees = (KINSHIP, kinship_trees()) if of_kinship else (NOVELTY, novelty_trees())
    _, adds = parts_of(trees, columns(pair, "kinship" if of_kinship else "novelty")[0])
    parts = dict(zip(names, adds.tolist(), strict=True))
    if of_kinship:
        return parts
    for (name, term), value in zip(FIXED.items(), columns(pair, "fixed")[0].tolist(), strict=True):
        parts[name] = term.weight * value
    return parts
