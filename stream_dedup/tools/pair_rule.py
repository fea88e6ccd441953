"""Compare and judge pairs by themselves, without a stream, and say what each feature adds to an answer.

The stream does both in the core, candidate by candidate (core/judge.c). Here a caller has a list of pairs.

What a feature adds is exact: at each node of a tree the expectation moves from that of the node to that of the child,
and the feature of the node gets the difference (Saabas 2014). The differences and the expectation of all roots sum to
the log-odds.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import arena, call, declared, fields, record
from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.dedup.rule import Rule, Trees, trees_of
from stream_dedup.dedup.similarity import SIMILARITY, new_items_of, signatures_of
from stream_dedup.fingerprint.fingerprint import Fingerprints


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


def compare(
    new: Fingerprints,
    known: NDArray[np.void],
    new_of_pair: NDArray[np.integer],
    known_of_pair: NDArray[np.integer],
    bodies: Sequence[bytes] | None = None,
    boilerplate: tuple[Boilerplate, NDArray[np.int64]] | None = None,
    corrects: NDArray[np.int8] | None = None,
) -> NDArray[np.void]:
    """Compare new[new_of_pair[p]] with the signature known[known_of_pair[p]], for every pair p: (pairs,) SIMILARITY.

    bodies: those of `known`, if the scheme has them; None: `known` are the signatures of `new`.
    boilerplate: the table of recurring passages, and (n,) the begin of each new item's window, ms; None: without
    novelty.
    corrects: (n,) `corrections`; None: no item is one.

    O(pairs · (bytes of a signature and of two bodies + words of the article)); fastest if the pairs are ordered
    by new item.
    """
    news_at, known_at = (np.ascontiguousarray(places, np.int64) for places in (new_of_pair, known_of_pair))
    marks = np.zeros(len(new.signatures), np.int8) if corrects is None else corrects
    pairs, news = np.empty(len(news_at), SIMILARITY), new_items_of(new, marks, boilerplate)
    left = signatures_of(new.signatures, new.bodies)
    right = signatures_of(known, new.bodies and (new.bodies if bodies is None else bodies))
    call("measure_pairs", arena(), pairs, news, left, right, news_at, known_at, len(pairs))
    return pairs


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
    pair, model = pairs[p : p + 1], "kinship" if of_kinship else "novelty"
    adds = parts_of(trees_of(model), columns(pair, model)[0])
    parts = dict(zip(_FEATURES[model], adds.tolist(), strict=True))
    if not of_kinship:
        values = columns(pair, "fixed")[0].tolist()
        parts |= {name: term.weight * value for (name, term), value in zip(FIXED.items(), values, strict=True)}
    return parts


def parts_of(trees: Trees, x: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return what each feature of x adds, (features,): with the expectation of all roots they sum to the log-odds."""
    adds = np.zeros(len(x))
    for features, thresholds, values in zip(*trees, strict=True):
        node = 0
        while node < len(features):
            child = 2 * node + 1 + bool(x[features[node]] > thresholds[node])
            adds[features[node]] += float(values[child]) - float(values[node])
            node = child
    return adds
