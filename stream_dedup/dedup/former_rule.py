"""The rule for one pair of items, two models: anything new? the same article? decide.py asks it.

In: `SIMILARITY` records of pairs. Out: log-odds. Pure functions; every number comes from pages that people read, and
from articles that were changed on purpose.

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

from stream_dedup.compiled import njit
from stream_dedup.dedup.former_trees import Trees, parts_of, read_trees, sum_of
from stream_dedup.dedup.verdict import Stage
from stream_dedup.settings import DecisionSettings
from stream_dedup.settings.judging import NOVELTY_NAMES

# Jaccard from which readers take headlines for the same, and below which one site's headlines are different.
_SAME_HEADLINE, _ANOTHER_HEADLINE = np.float32(0.8), np.float32(0.5)
# Shingles of a short notice: two changed numbers in 40 shingles reduce the Jaccard to .8 or less.
_SHORT = 40
# Longer and shorter than these ratios say no more.
_LEAST_RATIO, _MOST_RATIO = np.float32(-1.5), np.float32(2.0)
NEXT_DAY_HOURS = 16
"""A text that one site publishes this many hours later is the next bulletin; copies come within 13 hours."""
# A bulletin comes every day, perhaps in the evening instead of the morning.
_BULLETIN_HOURS = 12
# Figures make up this share of a bulletin's words; in an article of eight words or fewer, any figure.
_FIGURES, _FEWEST_WORDS = np.float32(0.05), np.float32(8)
# Texts of which one holds less of the other than this are two articles.
_ANOTHER_TEXT = np.float32(0.4)
# A forecast of another day without figures: much of it is worded otherwise, although all its words are known. Of the
# labelled pairs beyond both, 62 have something new and 15 do not.
_SAME_WORDING, _FORM_TOKENS = np.float32(0.75), 300
# Words that a new version has and the earlier one lacks, as an added sentence of known words does: 4.5 or more of 100
# updates of the made-up feed (demo/sample.py). "Read more here", a changed figure and "twenty" for "20" have three.
_NEW_TO_VERSION = np.float32(4)
# "A beats B" and "B beats A": the words of headline and text are the same, and their order is not. Of copies under a
# headline that is reworded in its own words, whose text is the same, .92 or more are covered.
_SAME_ORDER = np.float32(0.93)
# A figure has changed, and nothing else: more new or lost words are boilerplate, in which figures come and go.
_FEW_NEW, _FEW_LOST, _ONE_FIGURE = np.float32(4), np.float32(8), np.float32(0.9)


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
made-up feed (demo/sample.py), which add one sentence each, would be held back."""
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
SAME_ARTICLE = np.float32(0)
"""Least log-odds of the same article."""
FACT_LOGIT = np.float32(logit(NOVELTY_NAMES["cautious"]))
_FIXED_WEIGHTS = np.array([feature.weight for feature in FIXED.values()], np.float32)


class Thresholds(NamedTuple):
    """The settings of a decision, as compiled code takes them. hold_below: log-odds of `decision.novelty`; trees: of
    novelty; kinship: of kinship.
    """

    is_plain: bool
    body: np.float32
    hold_below: np.float32
    trees: Trees
    kinship: Trees


def thresholds(d: DecisionSettings, *, has_words: bool) -> Thresholds:
    """The `Thresholds` of settings. has_words: novelty can be asked, as in the family MinHash."""
    is_plain = d.rule == "jaccard" or not has_words
    return Thresholds(is_plain, np.float32(d.body), np.float32(logit(d.threshold)), novelty_trees(), kinship_trees())


@cache
def novelty_trees() -> Trees:
    """The trees of novelty; read once, 2 ms."""
    return read_trees(TABLE, list(NOVELTY))


@cache
def kinship_trees() -> Trees:
    """The trees of kinship; read once, 1 ms."""
    return read_trees(KINSHIP_TABLE, list(KINSHIP))


@njit(nogil=True, cache=True)
def novelty_features(s):
    """The features of novelty of a pair, float32, in the order of `NOVELTY`."""
    words = max(_or_zero(s.words), np.float32(1))
    return (
        np.float32(s.same_source),
        np.float32(-1) if np.isnan(s.headline) else s.headline,
        _or_zero(s.article_coverage),
        _or_zero(s.new_sentences),
        min(_or_zero(s.new_words) / words, np.float32(1)),
        _or_zero(s.new_words),
        _or_zero(s.new_numbers),
        _or_zero(s.lost_words),
        _or_zero(s.lost_numbers),
        _or_zero(s.headline_gains),
        _or_zero(s.headline_losses),
        _or_zero(s.headline_figures),
        _or_zero(s.new_headline_words),
        np.float32(1) if np.isnan(s.grounded) else s.grounded,
        min(max(s.log_size_ratio, _LEAST_RATIO), _MOST_RATIO),
        _or_zero(s.spread),
        _or_zero(s.article_tokens),
        _or_zero(s.article_share),
    )


@njit(nogil=True, cache=True)
def kinship_features(s):
    """The features of kinship of a pair, float32, in the order of `KINSHIP`."""
    replaced = min(_or_zero(s.lost_words), _or_zero(s.gained_words)) / max(_or_zero(s.fewer_words), np.float32(1))
    return (
        np.float32(s.same_source),
        np.float32(-1) if np.isnan(s.headline) else s.headline,
        np.float32(-1) if np.isnan(s.body) else s.body,
        _or_zero(s.containment),
        np.float32(s.swapped),
        _or_zero(s.headline_losses),
        np.float32(1) if np.isnan(s.grounded) else s.grounded,
        np.float32(is_series(s)),
        replaced,
        min(_or_zero(s.lost_numbers), _or_zero(s.gained_numbers)),
        np.float32(s.smaller_size),
        min(max(s.log_size_ratio, _LEAST_RATIO), _MOST_RATIO),
    )


@njit(inline="always")
def _or_zero(share):
    return np.float32(0) if np.isnan(share) else share


@njit(nogil=True, cache=True)
def is_series(s):
    """Whether the new item of a pair is another day's item of a series: a bulletin, or the same headline over a text of
    its own, as the name of a section ("Latest news").
    """
    is_section = s.same_source and s.headline >= _SAME_HEADLINE and s.containment < _ANOTHER_TEXT
    return is_bulletin(s) or (is_section and s.apart >= _BULLETIN_HOURS)


@njit(nogil=True, cache=True)
def is_bulletin(s):
    """Whether the new item of a pair reports on another day in the form of the known one."""
    if s.apart < _BULLETIN_HOURS:
        return False
    if s.same_text:
        return is_another_event(s)
    figures = s.numbers + s.headline_numbers >= _FIGURES * max(s.words, _FEWEST_WORDS)
    if figures and s.new_numbers + s.new_headline_numbers >= np.float32(0.9):
        return True
    is_reworded = s.article_coverage < _SAME_WORDING and s.article_tokens < _FORM_TOKENS
    if is_reworded and s.apart > NEXT_DAY_HOURS:
        return True
    return s.same_source and s.same_form and s.new_numbers_anywhere + s.new_headline_numbers >= np.float32(0.9)


@njit(nogil=True, cache=True, inline="always")
def weighed(features, weights, intercept):
    """The log-odds of features, float32."""
    log_odds = np.float32(intercept)
    for k in range(len(features)):
        log_odds += weights[k] * features[k]
    return log_odds


@njit(nogil=True, cache=True)
def novelty_logit(s, trees):
    """Log-odds that the new item of a pair has something new, float32; NaN where it is not asked."""
    if np.isnan(s.words):
        return np.float32(np.nan)
    log_odds = sum_of(trees, np.array(novelty_features(s))) + fixed_logit(s)
    return max(log_odds, FACT_LOGIT) if has_fact(s) else log_odds


@njit(nogil=True, cache=True)
def has_fact(s):
    """Whether the new item of a pair has a fact that is new beyond doubt, however small it is beside the rest: a whole
    sentence, or a figure in the place of another one.
    """
    is_changed = s.new_numbers >= _ONE_FIGURE and s.lost_numbers >= 1
    is_alone = s.new_words <= _FEW_NEW and s.lost_words <= _FEW_LOST
    return s.new_sentences > 0 or (is_changed and is_alone)


@njit(nogil=True, cache=True)
def fixed_features(s):
    """The features that no tree asks for, float32, in the order of `FIXED`."""
    is_version = s.same_id and (s.new_sentences > 0 or s.new_words >= _NEW_TO_VERSION)
    has_others = s.new_words > _FEW_NEW or s.lost_words > _FEW_LOST
    is_reordered = s.reordered and s.article_coverage < _SAME_ORDER and not has_others
    return np.float32(is_bulletin(s)), np.float32(s.corrects), np.float32(is_reordered), np.float32(is_version)


@njit(nogil=True, cache=True)
def fixed_logit(s):
    """What the features that no tree asks for add, float32."""
    return weighed(fixed_features(s), _FIXED_WEIGHTS, np.float32(0))


@njit(nogil=True, cache=True)
def kinship_logit(s, kinship):
    """Log-odds that a pair is the same article, float32; from `SAME_ARTICLE` on it counts as the same."""
    return sum_of(kinship, np.array(kinship_features(s)))


@njit(nogil=True, cache=True)
def is_same_article(s, kinship):
    """Whether a pair is one article: by kinship, and not a new event in the same words."""
    return kinship_logit(s, kinship) >= SAME_ARTICLE and not is_another_event(s)


@njit(nogil=True, cache=True, inline="always")
def is_another_event(s):
    """Whether a pair has the same words, and yet reports two events: see `is_repeat`."""
    return s.same_text and not is_repeat(s)


@njit(nogil=True, cache=True, inline="always")
def is_alike(s, t):
    """Whether the bodies of a pair are alike by plain similarity: Hamming distance, or Jaccard."""
    return s.within_hamming if not np.isnan(s.distance) else s.body >= t.body


@njit(nogil=True, cache=True, inline="always")
def is_repeat(s):
    """Whether a pair has the same words, headline included (`same_text`), and is not a new event.

    If a source sends the same few words a day later, they report a new event ("Fed sets two billion customer
    repurchase"). Of the Reuters texts that recur a day later, whole articles are repeats and headlines are news.
    """
    another_day = s.same_source and s.smaller_size < _SHORT and s.apart > NEXT_DAY_HOURS
    return s.same_text and not another_day


def strongest(similar: NDArray[np.void]) -> list[Stage]:
    """The view in which each pair is most alike, for people; PROSE if none is alike."""
    body = np.fmax(np.nan_to_num(similar["containment"]), np.nan_to_num(similar["body"]))
    headline = np.nan_to_num(similar["headline"])
    views = np.where(body >= headline, 0, 1)
    views[np.maximum(body, headline) < _ANOTHER_HEADLINE] = 2
    return [(Stage.BODY, Stage.HEADLINE, Stage.PROSE)[view] for view in views.tolist()]


def probability(logits: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """The probability, 0..1, of log-odds."""
    share: NDArray[np.floating[Any]] = 1 / (1 + np.exp(-logits))
    return share


# -- for many pairs ---------------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """What the decision says of each pair alone, (pairs,) each.

    is_repeat: the same words, held back before anything else is asked; is_same: the same article; logit: log-odds of
    something new, float32, NaN where unknown; is_held: the new item is held back.
    """

    is_repeat: NDArray[np.bool_]
    is_same: NDArray[np.bool_]
    logit: NDArray[np.float32]
    is_held: NDArray[np.bool_]


def judge_pairs(similar: NDArray[np.void], t: Thresholds) -> Judged:
    """Judge pairs, (pairs,) SIMILARITY, as the stream judges an item with this candidate."""
    flags = np.zeros((3, len(similar)), np.bool_)
    logits = np.empty(len(similar), np.float32)
    _judge_pairs(similar, t, flags, logits)
    return Judged(flags[0], flags[1], logits, flags[2])


@njit(nogil=True, cache=True)
def _judge_pairs(similar, t, flags, logits):
    for p in range(similar.size):
        s = similar[p]
        flags[0, p] = is_repeat(s)
        flags[1, p] = is_alike(s, t) if t.is_plain else is_same_article(s, t.kinship)
        logits[p] = np.float32(np.nan) if t.is_plain else novelty_logit(s, t.trees)
        flags[2, p] = flags[0, p] or (flags[1, p] if t.is_plain else logits[p] < t.hold_below)


def columns(similar: NDArray[np.void], of_kinship: bool = False) -> NDArray[np.float32]:
    """The features of pairs, (pairs, features): those of `NOVELTY`, or of `KINSHIP`, in that order."""
    features_of, names = (kinship_features, list(KINSHIP)) if of_kinship else (novelty_features, list(NOVELTY))
    return np.array([features_of(s) for s in similar], np.float32).reshape(len(similar), len(names))


def contributions(similar: NDArray[np.void], p: int, of_kinship: bool = False) -> dict[str, float]:
    """What each feature adds to the novelty (or kinship) of pair p, log-odds; above 0 it speaks for yes."""
    values, names = columns(similar[p : p + 1], of_kinship)[0], list(KINSHIP if of_kinship else NOVELTY)
    expected, adds = parts_of(kinship_trees() if of_kinship else novelty_trees(), values)
    found = dict(zip(names, adds.tolist(), strict=True))
    if of_kinship:
        return found
    for (name, feature), value in zip(FIXED.items(), fixed_features(similar[p]), strict=True):
        found[name] = feature.weight * float(value)
    lacks = float(FACT_LOGIT) - expected - sum(found.values())
    return found | {FACT: max(lacks, 0.0) if has_fact(similar[p]) else 0.0}
