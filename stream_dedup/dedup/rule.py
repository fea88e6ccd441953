"""The rule for one pair of items. Two models answer: is anything new? is it the same article? decide.py applies it.

A pair is a `SIMILARITY` record; an answer is a log-odds. The core computes it (core/rule.c, a line per feature) from
the names, weights and constants of this module. Every number but the weights of FIXED was fitted to pairs that people
read, and to articles that were edited on purpose.

**Is anything new?** Would a reader of the earlier item miss something if the new one were never shown? `novelty_logit`
estimates the probability from what the article of the new item has and the earlier one lacks (words, sentences,
figures, words of the headline that its text confirms), from what it lost, from what the two share, and from how clean
both pages are. An item is held back if its novelty against any candidate is below `decision.novelty`.

The model is boosted trees (trees.py). A linear model pays for each kind of news with repeats: a new figure means little
in a page full of new words, and much in a page that is otherwise the same. More new words, sentences or figures never
lower the novelty, because the trees are monotone in them.

**Is it the same article?** `kinship_logit` names an item that is let through: `update` or `unique`.

An item with exactly the same words is held back before (`is_repeat`). The families without words (SimHash, given) and
`decision.rule = "jaccard"` use plain similarity alone (`is_alike`): the Hamming distance or the Jaccard of the bodies.

Sources: gradient boosting, Friedman 2001, with monotone constraints. Fitted by tests/lab/labels/fit.py.
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

NEXT_DAY_HOURS = 16
"""A text that one site publishes again this many hours later is the next bulletin; copies come within 13 hours."""
SAME_ARTICLE = 0.0
"""Lowest log-odds of the same article."""
_CONSTANTS = {
    # Headlines: readers call them the same from this Jaccard on, and of one site different below the other.
    **{"same_headline": 0.8, "another_headline": 0.5},
    # Shingles of a text that its source may send again as another day's, in the same words: a warning of frost has 45.
    "shortest": 60,
    # Shingles of a notice, in which one source puts the news into a few words: a report of a quake in Japanese has 148;
    # the state of a service, 68. In longer teasers of one site the last words come and go.
    **{"notice": 160, "short_notice": 100, "same_body": 0.99},
    # Another row or sentence adds less to the log ratio of sizes than a longer teaser; of four words one is replaced.
    **{"same_size": 0.3, "one_word": 0.59},
    # Log ratios of sizes beyond these say no more.
    **{"least_ratio": -1.5, "most_ratio": 2.0},
    # A bulletin comes every day, perhaps in the evening instead of the morning.
    **{"next_day": NEXT_DAY_HOURS, "bulletin_hours": 12},
    # Share of figures among the words of a bulletin; in an article of eight words or fewer, any figure counts.
    **{"figures": 0.05, "fewest_words": 8},
    # Words of an article, and shingles of the shorter text: fewer are a headline, or a line below it.
    "own_words": 8,
    # Share of a headline that its text mentions, at most, where the text is a notice.
    "ungrounded": 0.2,
    # Two texts are two articles if neither contains this share of the other.
    "another_text": 0.4,
    # A forecast of another day has no figures, but it is worded differently, although all its words are known. Of the
    # labelled pairs beyond both limits, 62 have something new and 15 do not.
    **{"same_wording": 0.75, "form_tokens": 300},
    # Words that a new version adds. An added sentence of known words has 4.5 or more in 100 updates of the feed of the
    # demo; "Read more here", a changed figure, and "twenty" for "20" have three.
    "new_to_version": 4,
    # "A beats B" and "B beats A": headline and text have the same words in another order. A copy under a headline that
    # is reworded in its own words has the same text; without a diff .92 or more of it is covered.
    "same_order": 0.93,
    # A figure has changed, and nothing else. More new or lost words are boilerplate, in which figures come and go.
    **{"few_new": 4, "few_lost": 8, "few_gained": 2, "one_figure": 0.9},
    # Share of a text that is known word by word, beyond which a replaced word is an edit of this text.
    "nearly_all": 0.9,
    # A follow-up has its news in headline and lead, and the old text behind them: at most this difference of the log
    # sizes, and these numbers of words of the headline and of new words in the rest.
    **{"same_length": 0.12, "few_said": 2, "more_said": 3, "small_rest": 6, "some_rest": 15},
    # "Northbound" for "southbound": at most so many new words. Copies under headlines less alike than this are many.
    **{"few_unmatched": 4, "alike_headline": 0.61},
}
"""What core/rule.c uses besides the trees."""


def logit(share: float) -> float:
    """The log-odds of a probability; infinite at 0 and 1."""
    return math.log(share / (1 - share)) if 0 < share < 1 else math.copysign(math.inf, share - 0.5)


class Feature(NamedTuple):
    """A feature: its weight in the log-odds, and its meaning for users."""

    weight: float
    meaning: str


# `python -m tests.lab.labels.fit FOLDER` fits the trees again, and measures what each feature contributes. A changed
# feature, tree or weight must raise verdict.RULE_VERSION, which every evidence contains. A feature that is a field
# of SIMILARITY, or that the evidence shows, has its name.
NOVELTY = {
    "same_source": "one source, which seldom tells a story twice",
    "headline": "how similar the headlines are",
    "covered": "share of its article that the original holds, as far as that is certain",
    "new_sentences": "words in sentences of mostly new words",
    "new_share": "share of its words that the original lacks",
    "new_words": "words that the original lacks",
    "new_numbers": "figures that the original lacks",
    "lost_words": "words of the original that it lacks",
    "lost_numbers": "figures of the original that it lacks",
    "headline_gains": "words of its headline that its text has and the original lacks",
    "headline_losses": "words of the original's headline that it lacks",
    "headline_figures": "figures of its headline that its text has and the original lacks",
    "new_headline": "words of its headline that the original lacks",
    "grounded": "how much of their headlines the texts mention",
    "larger": "how much longer its page is",
    "spread": "share of its sentences that have a new word",
    "tokens": "words of its article",
    "article_share": "share of its page that is article",
    "matched": "share of its sentences that the original has word by word",
    "fresh": "words in sentences that the original has not as they stand",
    "inserted": "words in sentences that were put between known ones",
    "altered": "words in the place of others, in sentences that the original has",
    "facts": "figures in the place of others, and verbs that are denied or no more, in such sentences",
    "altered_headline": "such replaced words that its headline has and the original's lacks",
    "brief": "words of short new sentences behind known ones, and of new rows of a list",
    "lead": "new words in its first sentence",
    "edited": "words that were replaced, put in, or said by its headline, where all else is known",
}
"""The features of novelty that the trees use, and the meaning of each."""
MONOTONE = (
    ("new_sentences", "new_share", "new_words", "new_numbers", "lost_numbers", "headline_gains", "headline_losses",
     "headline_figures", "new_headline", "larger", "fresh", "inserted", "altered", "facts", "altered_headline", "brief",
     "lead", "edited"),
    ("covered", "grounded", "matched"),
)  # fmt: skip
"""Features of which more never lowers, and never raises, the novelty."""
FIXED = {
    "bulletin": Feature(6.0, "another day's bulletin: figures, a table or a form"),
    "corrects": Feature(10.0, "it says that it corrects an earlier one"),
    "reordered": Feature(8.0, "names that have changed places in headline and text"),
    "version": Feature(3.0, "a new version of its id, with a new sentence or a few new words"),
    "flash": Feature(8.0, "a headline alone with another figure or word"),
    "notice": Feature(
        8.0, "another notice of its source: another place or number in the headline, or a few words more"
    ),
    "unshared": Feature(8.0, "no run of words in common with the original"),
    "wall": Feature(8.0, "a text of the site that speaks of neither headline"),
    "filled": Feature(8.0, "another word of the headline and another figure in the same text, as in a form"),
    "follow_up": Feature(8.0, "another headline, whose words stand in another first sentence over the same text"),
    "turned": Feature(8.0, "another word of the headline in its place in the same text"),
}
"""Features with fixed weights, which the trees do not use. Labelled pairs hardly show them.

- `bulletin`: a list of another day is news to those who need it, although readers call many such pairs the same.
- `corrects`: readers of a wrong number must see the right one. No labelled pair is a correction, and two articles that
  differ in one number can have log-odds down to -6.
- `reordered`: in four of five real pairs of articles whose two names change places, this is news. No labelled pair is
  one.
- `version`: an editor who adds a sentence to a published article does so for its readers. No labelled pair has one id,
  and without this nine of ten updates of the feed of the demo, each of one added sentence, would be held back.
- `unshared`: a headline alone proves nothing if both have texts. Of the labelled pairs 71 have something new, 8 do not.
- `wall`: a cookie notice or a paywall stands under all headlines of a site, so the headlines decide. Of
  the labelled pairs 29 have something new, 11 do not.
- `filled`: an obituary, a road closed, a result. Of the labelled pairs 134 have something new, 22 do not.
- `follow_up`: a story goes on in a new lead over old text. Of the labelled pairs 40 have something new, 12 do not.
- `turned`: a road northbound, another country. Of the labelled pairs 10 have something new, 6 do not."""
KINSHIP_MONOTONE = (
    ("headline", "body", "containment", "grounded"),
    ("swapped", "headline_losses", "replaced", "replaced_numbers", "series"),
)
"""Features of which more never lowers, and never raises, the kinship."""
MEANINGS = NOVELTY | {name: feature.meaning for name, feature in FIXED.items()}
"""What adds to the novelty of a pair, for people. `KINSHIP` has the same for kinship."""
TABLE, KINSHIP_TABLE = Path(__file__).with_name("novelty.json"), Path(__file__).with_name("kinship.json")
KINSHIP = {
    "same_source": "one source",
    "headline": "how similar the headlines are",
    "body": "how similar the bodies are",
    "containment": "share of the shorter text that the other holds",
    "swapped": "words swapped in headline and text",
    "headline_losses": "words of the original's headline that it lacks",
    "grounded": "how much of their headlines the texts mention",
    "series": "one source, and another day's item of a series",
    "replaced": "share of the words that replace others",
    "replaced_numbers": "figures that replace others",
    "smaller_size": "length of the shorter text",
    "larger": "how much longer its page is",
}
"""The features of kinship. They need signatures alone."""
_FEATURES = {"novelty": [*NOVELTY], "kinship": [*KINSHIP], "fixed": [*FIXED]}  # in the order of core.h


def _check_names() -> None:
    """Raises ConfigError if the core has other features than this module."""
    for kind, names in enumerate(_FEATURES.values()):
        buffer = np.zeros(4096, np.uint8)
        found = buffer[: call("feature_names", kind, buffer, len(buffer))].tobytes().decode().split(",")[:-1]
        if found != names:
            raise ConfigError(
                f"the compiled core has the features {found}, rule.py has {names}; compile it again: "
                "python stream_dedup/core/build.py"
            )


_check_names()


class Thresholds(Struct, name="thresholds"):
    """The rule as the core takes it: the settings of a decision, the trees, weights and constants.

    hold_below: log-odds of `decision.novelty`; is_plain: plain similarity decides alone.
    """

    _fields_ = (
        *((name, CoreTrees) for name in ("novelty", "kinship")),
        ("fixed_weights", FLOAT * len(FIXED)),
        *((name, FLOAT) for name in ("body", "hold_below", "same_article", *_CONSTANTS)),
        ("is_plain", BOOL),
    )


def thresholds(decision: DecisionSettings, *, has_words: bool) -> Thresholds:
    """The `Thresholds` of settings. has_words: fingerprints have the words that novelty needs, as those of MinHash."""
    return Thresholds(
        novelty=core_trees(novelty_trees(), len(NOVELTY)),
        kinship=core_trees(kinship_trees(), len(KINSHIP)),
        fixed_weights=tuple(feature.weight for feature in FIXED.values()),
        body=decision.body,
        hold_below=logit(decision.threshold),
        same_article=SAME_ARTICLE,
        **_CONSTANTS,
        is_plain=decision.rule == "jaccard" or not has_words,
    )


@cache
def _default_rule() -> Thresholds:
    """The rule of the default settings, for what does not depend on them."""
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


def strongest(pairs: NDArray[np.void]) -> list[Stage]:
    """The most similar view of each pair, for people; PROSE if no view is similar."""
    views = np.empty(len(pairs), np.uint8)
    call("strongest_views", np.ascontiguousarray(pairs), len(pairs), _default_rule(), views)
    return [_VIEWS[view] for view in views.tolist()]


def probability(logits: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """The probability, 0..1, of log-odds, in their dtype.

    numpy's exp of a float32 differs in the last bit between processors; that of a float64 is exact enough for both.
    """
    share: NDArray[np.floating[Any]] = (1 / (1 + np.exp(-logits.astype(np.float64)))).astype(logits.dtype)
    return share


# -- many pairs -------------------------------------------------------------------------------------------------------


JUDGED = record(
    "judged",
    [
        *((name, "<f4") for name in ("logit", "kinship")),
        *((name, "?") for name in ("is_repeat", "is_same", "is_held")),
    ],
)
"""What the rule says of a pair alone.

logit, kinship: log-odds of something new, and of the same article; NaN if not computed. is_repeat: the same words, held
back before any model is used; is_same: the same article; is_held: the new item is held back."""


def judge_pairs(pairs: NDArray[np.void], rule: Thresholds) -> "np.recarray[Any, Any]":
    """Judge pairs, (n,) SIMILARITY, as the stream judges an item with this one candidate: (n,) JUDGED."""
    judged = np.empty(len(pairs), JUDGED).view(np.recarray)
    call("judge_pairs", np.ascontiguousarray(pairs), len(pairs), rule, judged)
    return judged


def columns(pairs: NDArray[np.void], of: str = "novelty") -> NDArray[np.float32]:
    """The features of pairs, (n, features), of `NOVELTY`, `KINSHIP` or `FIXED` ("fixed": 1 where one holds, else 0)."""
    values, number = np.empty((len(pairs), len(_FEATURES[of])), np.float32), list(_FEATURES).index(of)
    call("feature_columns", np.ascontiguousarray(pairs), len(pairs), _default_rule(), number, values)
    return values


def contributions(pairs: NDArray[np.void], p: int, of_kinship: bool = False) -> dict[str, float]:
    """What each feature adds to the novelty (or kinship) of pair p, log-odds; a positive number speaks for yes."""
    pair = pairs[p : p + 1]
    names, trees = (KINSHIP, kinship_trees()) if of_kinship else (NOVELTY, novelty_trees())
    _, adds = parts_of(trees, columns(pair, "kinship" if of_kinship else "novelty")[0])
    parts = dict(zip(names, adds.tolist(), strict=True))
    if of_kinship:
        return parts
    for (name, feature), value in zip(FIXED.items(), columns(pair, "fixed")[0].tolist(), strict=True):
        parts[name] = feature.weight * value
    return parts
