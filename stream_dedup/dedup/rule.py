"""The rule for one pair of items. Two models answer: is anything new? is it the same article? decide.py applies it.

A pair is a `SIMILARITY` record; an answer is a log-odds. core/rule.c has the features, the weights of fixed terms and
the constants; this module gives it the trees and the settings.

**Is anything new?** Would a reader of the earlier item miss something if the new one were never shown? `novelty_logit`
estimates the probability from what the article of the new item has and the earlier one lacks (words, sentences,
figures, words of the headline that its text confirms), from what it lost, from what the two share, and from how clean
both pages are. An item is held back if its novelty against any candidate is below `decision.novelty`.

The model is boosted trees. A linear model pays for each kind of news with repeats: a new figure means little in a page
full of new words, and much in a page that is otherwise the same. More new words, sentences or figures never lower the
novelty, because the trees are monotone in them. A tree compares one feature with a threshold, `TREE_DEPTH` times in a
row, and ends at a leaf; the log-odds are the sum of the leaves. A full binary tree needs no pointers: the children of
node k are 2k+1 and 2k+2 (Williams 1964). Its table is a file of numbers; nothing in it is code.

**Is it the same article?** `kinship_logit` names an item that is let through: `update` or `unique`.

An item with exactly the same words is held back before (`is_repeat`). The families without words (SimHash, given) and
`decision.jaccard` use plain similarity alone (`is_alike`): the Hamming distance or the Jaccard of the bodies.

Source: gradient boosting, Friedman 2001, with monotone constraints. Fitted by tests/lab/labels/fit.py.
"""

import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import BOOL, FLOAT, INT64, POINTER, Struct, call, declared, fields
from stream_dedup.dedup.verdict import Stage
from stream_dedup.settings import DecisionSettings

SAME_ARTICLE = 0.0
"""Lowest log-odds of the same article."""
TREE_DEPTH = 4
"""Comparisons of a tree. With three, the same number of trees repeats .02 more at the same missed."""
_TREES_AT_ONCE = 6  # trees that the core walks together


def logit(share: float) -> float:
    """Return the log-odds of a probability; infinite at 0 and 1."""
    return math.log(share / (1 - share)) if 0 < share < 1 else math.copysign(math.inf, share - 0.5)


class Trees(NamedTuple):
    """T trees.

    features: (T, 15) uint8, the feature of each node.
    thresholds: (T, 15) float32; a greater value goes to the right.
    values: (T, 31) float32, the expected log-odds at each node, the leaves last.
    """

    features: NDArray[np.uint8]
    thresholds: NDArray[np.float32]
    values: NDArray[np.float32]


def read_trees(path: Path, names: list[str]) -> Trees:
    """Read a table that `tests/lab/labels/fit.py` wrote.

    Raises ValueError if its features are not `names`, or its trees have another depth.
    """
    table = msgspec.json.decode(path.read_bytes())
    if table["names"] != names:
        raise ValueError(f"{path.name} was fitted to the features {table['names']}, not {names}: fit it again")
    kinds = np.uint8, np.float32, np.float32
    trees = Trees(*(np.array(table[name], kind) for name, kind in zip(Trees._fields, kinds, strict=True)))
    nodes, count = 2**TREE_DEPTH - 1, len(trees.values)
    shapes = [(count, nodes), (count, nodes), (count, 2 * nodes + 1)]
    if [part.shape for part in trees] != shapes or trees.features.max(initial=0) >= len(names):
        raise ValueError(f"{path.name} needs trees of depth {TREE_DEPTH} for {len(names)} features: fit it again")
    return trees


@cache
def trees_of(model: str) -> Trees:
    """Return the trees of "novelty" or "kinship"; read once, 2 ms."""
    return read_trees(Path(__file__).with_name(f"{model}.json"), [row[0] for row in declared(f"{model}_features")])


class CoreTrees(Struct, name="trees"):
    """`Trees` as the core reads them: of the values only the leaves, so that both models fit into the first cache."""

    _fields_ = (*fields(POINTER, "features thresholds leaves"), ("count", INT64))


def _core_trees(trees: Trees) -> CoreTrees:
    added = -len(trees.values) % _TREES_AT_ONCE  # trees that add 0
    parts: tuple[NDArray[Any], ...] = trees.features, trees.thresholds, trees.values[:, 2**TREE_DEPTH - 1 :]
    features_, thresholds, leaves = (np.pad(part, ((0, added), (0, 0))) for part in parts)
    return CoreTrees(features=features_, thresholds=thresholds, leaves=leaves, count=len(trees.values) + added)


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
        novelty=_core_trees(trees_of("novelty")),
        kinship=_core_trees(trees_of("kinship")),
        body=1.0 if decision.jaccard is None else decision.jaccard,
        hold_below=logit(decision.threshold),
        same_article=SAME_ARTICLE,
        is_plain=decision.jaccard is not None or not has_words,
    )


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
