"""The rule for one pair of items, two models: anything new? the same article? decide.py asks it.

In: `SIMILARITY` records of pairs. Out: log-odds. The core computes them (core/rule.c, a line for each feature), with
the names, weights and thresholds of this module. Every number comes from pages that people read, and from articles that
were changed on purpose.

**Is anything new?** Would a reader of the earlier item miss something if the new one were never shown? `novelty_logit`
estimates how likely that is, from what the new item's article has that the earlier one lacks (words, sentences,
figures, words of the headline that its text proves), from what it has lost, from what the two have in common, and from
how clean both pages are. An item is held back if its novelty against any candidate is below `decision.novelty`.

Boosted trees answer it (trees.py), because a straight line pays for each kind of news with repeats: a new figure means
little in a page full of new words, and much in one that is the same otherwise. More words, sentences or figures that
are new never lower the novelty: the trees are monotone in them.

**Is it the same article?** `kinship_logit` names an item that is let through: `update`, or `unique`.

An item with the very same words is held back before (`is_repeat`). The families without prose (SimHash, given), and
`decision.rule = "jaccard"`, know plain similarity only (`is_alike`): the Hamming distance or the Jaccard of the bodies.

Sources: gradient boosting, Friedman 2001, with monotone constraints; ridge logistic regression, Hoerl, Kennard 1970; le
Cessie, van Houwelingen 1992. Fitted by tests/labels/fit.py.
"""

import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import BOOL, FLOAT, Struct, call, record
from stream_dedup.dedup.trees import CoreTrees, Trees, core_trees, parts_of, read_trees
from stream_dedup.dedup.verdict import Stage
from stream_dedup.errors import ConfigError
from stream_dedup.settings import DecisionSettings
from stream_dedup.settings.judging import NOVELTY_NAMES

NEXT_DAY_HOURS = 16
"""A text that one site publishes this many hours later is the next bulletin; copies come within 13 hours."""
SAME_ARTICLE = 0.0
"""Least log-odds of the same article."""
# Log-odds that a new fact has at least: those of `cautious`.
_FACT_NOVELTY = NOVELTY_NAMES["cautious"]
_CONSTANTS = {
    # Jaccard from which readers take headlines for the same, and below which one site's headlines are different.
    **{"same_headline": 0.8, "another_headline": 0.5},
    # Shingles of a short notice: two changed numbers in 40 shingles reduce the Jaccard to .8 or less.
    "shortest": 40,
    # Longer and shorter than these ratios say no more.
    **{"least_ratio": -1.5, "most_ratio": 2.0},
    # A bulletin comes every day, perhaps in the evening instead of the morning.
    **{"next_day": NEXT_DAY_HOURS, "bulletin_hours": 12},
    # Figures make up this share of a bulletin's words; in an article of eight words or fewer, any figure.
    **{"figures": 0.05, "fewest_words": 8},
    # Texts of which one holds less of the other than this are two articles.
    "another_text": 0.4,
    # A forecast of another day without figures: much of it is worded otherwise, although all its words are known. Of
    # the labelled pairs beyond both, 62 have something new and 15 do not.
    **{"same_wording": 0.75, "form_tokens": 300},
    # Words that a new version has and the earlier one lacks, as an added sentence of known words does: 4.5 or more of
    # 100 updates of the made-up feed (demo/newsroom.py). "Read more here", a changed figure and "twenty" for "20" have
    # three.
    "new_to_version": 4,
    # "A beats B" and "B beats A": the words of headline and text are the same, and their order is not. Of copies under
    # a headline that is reworded in its own words, whose text is the same, .92 or more are covered.
    "same_order": 0.93,
    # A figure has changed, and nothing else: more new or lost words are boilerplate, in which figures come and go.
    **{"few_new": 4, "few_lost": 8, "one_figure": 0.9},
}
"""What core/rule.c asks of a pair beside the trees."""


def logit(share: float) -> float:
    """The log-odds of a probability; infinite at 0 and 1."""
    return math.log(share / (1 - share)) if 0 < share < 1 else math.copysign(math.inf, share - 0.5)


class Feature(NamedTuple):
    """A feature: its weight in the log-odds, and an explanation for users."""

    weight: float
    meaning: str


# `python -m tests.labels.fit FOLDER` fits the trees and weights again, and measures what each feature contributes.
# A change of a feature, tree or weight must increase verdict.RULE_VERSION, which every evidence contains.
NOVELTY = {
    "same_source": "one source, which seldom tells a story twice",
    "headline": "how alike the headlines are",
    "covered": "share of its article that the original holds, as far as that is certain",
    "new_sentences": "words in sentences that are new",
    "new_share": "share of its words that the original lacks",
    "new_words": "words that the original lacks",
    "new_numbers": "figures that the original lacks",
    "lost_words": "words of the original that it lacks",
    "lost_numbers": "figures of the original that it lacks",
    "headline_gains": "words of its headline that its text has and the original lacks",
    "headline_losses": "words of the original's headline that it lacks",
    "headline_figures": "figures of its headline that its text has and the original lacks",
    "new_headline": "words of its headline that the original lacks",
    "grounded": "how much of their headlines the texts speak of",
    "larger": "how much longer its page is",
    "spread": "share of its sentences that have a new word",
    "tokens": "words of its article",
    "article_share": "share of its page that is article",
}
"""The features of novelty that the trees ask for, and what each means."""
MONOTONE = (
    (
        *(
            "new_sentences",
            "new_share",
            "new_words",
            "new_numbers",
            "lost_numbers",
            "headline_gains",
            "headline_losses",
        ),
        *("headline_figures", "new_headline", "larger"),
    ),
    ("covered", "grounded"),
)
"""Features of which more never lowers, and never raises, the novelty."""
FIXED = {
    "bulletin": Feature(6.0, "another day's bulletin: figures, a table or a form"),
    "corrects": Feature(10.0, "it says that it corrects an earlier one"),
    "reordered": Feature(8.0, "names that have changed places in headline and text"),
    "version": Feature(3.0, "a new version of its id, with a new sentence or a few new words"),
}
"""What the trees are not asked. `bulletin`: a list of another day is news to those who need it, although readers of
labelled pairs call many of them alike. `corrects`: readers of a wrong number must see the right one; no labelled pair
is a correction, and two articles that differ in one number can have log-odds down to -6. `reordered`: no labelled pair
is, and four of five real articles whose two names change places are. `version`: an editor who adds a sentence to a
published article does so for its readers; no labelled pair has one id, and without it nine of ten updates of the
made-up feed (demo/newsroom.py), which add one sentence each, would be held back."""
FACT = "fact"
"""What raises the novelty to that of `cautious` where `has_fact` holds: there nothing with a new fact is held back."""
KINSHIP_MONOTONE = (
    ("headline", "body", "containment", "grounded"),
    ("swapped", "headline_losses", "replaced", "replaced_numbers", "series"),
)
"""Features of which more never lowers, and never raises, the kinship."""
MEANINGS = NOVELTY | {name: feature.meaning for name, feature in FIXED.items()}
MEANINGS[FACT] = "a whole sentence or a figure that is new"
"""What adds to the novelty of a pair, for people; `KINSHIP` says the same of kinship."""
TABLE, KINSHIP_TABLE = Path(__file__).with_name("novelty.json"), Path(__file__).with_name("kinship.json")
KINSHIP = {
    "same_source": "one source",
    "headline": "how alike the headlines are",
    "body": "how alike the bodies are",
    "containment": "share of the shorter text that the other holds",
    "swapped": "words swapped in headline and text",
    "headline_losses": "words of the original's headline that it lacks",
    "grounded": "how much of their headlines the texts speak of",
    "series": "one source, and another day's item of a series",
    "replaced": "share of the words that stand in the place of others",
    "replaced_numbers": "figures that stand in the place of others",
    "smaller_size": "length of the shorter text",
    "larger": "how much longer its page is",
}
"""The features of kinship. They need signatures only, so `pairs` asks nothing else."""
FACT_LOGIT = np.float32(logit(_FACT_NOVELTY))
"""Least log-odds of a new fact."""
_NOVELTY, _KINSHIP, _FIXED = range(3)  # features, as core.h numbers them
_NAMES = [*NOVELTY], [*KINSHIP], [*FIXED]


def _check_names() -> None:
    """Raises ConfigError if the core has other features than this module."""
    for of, names in enumerate(_NAMES):
        buffer = np.zeros(4096, np.uint8)
        found = buffer[: call("feature_names", of, buffer, len(buffer))].tobytes().decode().split(",")[:-1]
        if found != names:
            raise ConfigError(
                f"the compiled core asks for the features {found}, rule.py for {names}; compile it again: "
                "python stream_dedup/core/build.py"
            )


_check_names()


class Thresholds(Struct, name="thresholds"):
    """The settings of a decision with the trees, weights and constants of the rule, as the core takes them.

    hold_below: log-odds of `decision.novelty`; is_plain: plain similarity decides alone.
    """

    _fields_ = (
        *((name, CoreTrees) for name in ("novelty", "kinship")),
        ("fixed_weights", FLOAT * len(FIXED)),
        *((name, FLOAT) for name in ("body", "hold_below", "fact", "same_article", *_CONSTANTS)),
        ("is_plain", BOOL),
    )


def thresholds(d: DecisionSettings, *, has_words: bool) -> Thresholds:
    """The `Thresholds` of settings. has_words: novelty can be asked, as in the family MinHash."""
    return Thresholds(
        novelty=core_trees(novelty_trees(), len(NOVELTY)),
        kinship=core_trees(kinship_trees(), len(KINSHIP)),
        fixed_weights=tuple(feature.weight for feature in FIXED.values()),
        body=d.body,
        hold_below=logit(d.threshold),
        fact=float(FACT_LOGIT),
        same_article=SAME_ARTICLE,
        **_CONSTANTS,
        is_plain=d.rule == "jaccard" or not has_words,
    )


@cache
def _rule() -> Thresholds:
    """The rule with the settings as they come, for what does not depend on them."""
    return thresholds(DecisionSettings(), has_words=True)


@cache
def novelty_trees() -> Trees:
    """The trees of novelty; read once, 2 ms."""
    return read_trees(TABLE, list(NOVELTY))


@cache
def kinship_trees() -> Trees:
    """The trees of kinship; read once, 1 ms."""
    return read_trees(KINSHIP_TABLE, list(KINSHIP))


_VIEWS = Stage.BODY, Stage.HEADLINE, Stage.PROSE


def strongest(similar: NDArray[np.void]) -> list[Stage]:
    """The view in which each pair is most alike, for people; PROSE if none is alike."""
    views = np.empty(len(similar), np.uint8)
    call("strongest_views", np.ascontiguousarray(similar), len(similar), _rule(), views)
    return [_VIEWS[view] for view in views.tolist()]


def probability(logits: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """The probability, 0..1, of log-odds."""
    share: NDArray[np.floating[Any]] = 1 / (1 + np.exp(-logits))
    return share


# -- for many pairs ---------------------------------------------------------------------------------------------------


JUDGED = record(
    "judged",
    [
        *((name, "<f4") for name in ("logit", "kinship")),
        *((name, "?") for name in ("is_repeat", "is_same", "is_held", "has_fact")),
    ],
)
"""What the decision says of a pair alone.

logit, kinship: log-odds of something new, and of the same article, NaN where not asked; is_repeat: the same words, held
back before anything else is asked; is_same: the same article; is_held: the new item is held back; has_fact: it has a
whole sentence, or a figure in the place of another one, that is new."""


def judge_pairs(similar: NDArray[np.void], t: Thresholds) -> "np.recarray[Any, Any]":
    """Judge pairs, (pairs,) SIMILARITY, as the stream judges an item with this candidate: (pairs,) JUDGED."""
    judged = np.empty(len(similar), JUDGED).view(np.recarray)
    call("judge_pairs", np.ascontiguousarray(similar), len(similar), t, judged)
    return judged


def columns(similar: NDArray[np.void], of_kinship: bool = False) -> NDArray[np.float32]:
    """The features of pairs, (pairs, features): those of `NOVELTY`, or of `KINSHIP`, in that order."""
    return _columns(similar, _KINSHIP if of_kinship else _NOVELTY)


def fixed_columns(similar: NDArray[np.void]) -> NDArray[np.float32]:
    """What no tree is asked, (pairs, features): 1 where a feature of `FIXED` holds, else 0."""
    return _columns(similar, _FIXED)


def _columns(similar: NDArray[np.void], of: int) -> NDArray[np.float32]:
    found = np.empty((len(similar), len(_NAMES[of])), np.float32)
    call("feature_columns", np.ascontiguousarray(similar), len(similar), _rule(), of, found)
    return found


def contributions(similar: NDArray[np.void], p: int, of_kinship: bool = False) -> dict[str, float]:
    """What each feature adds to the novelty (or kinship) of pair p, log-odds; above 0 it speaks for yes."""
    pair = similar[p : p + 1]
    values, names = columns(pair, of_kinship)[0], list(KINSHIP if of_kinship else NOVELTY)
    expected, adds = parts_of(kinship_trees() if of_kinship else novelty_trees(), values)
    found = dict(zip(names, adds.tolist(), strict=True))
    if of_kinship:
        return found
    for (name, feature), value in zip(FIXED.items(), fixed_columns(pair)[0].tolist(), strict=True):
        found[name] = feature.weight * value
    lacks = float(FACT_LOGIT) - expected - sum(found.values())
    has_fact = judge_pairs(pair, _rule()).has_fact[0]
    return found | {FACT: max(lacks, 0.0) if has_fact else 0.0}
