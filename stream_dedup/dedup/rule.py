"""The decision rule for pairs, with its guards and the novelty regression: the same article? anything new for a reader?

In: `Similarities` of pairs. Out: the log-odds of novelty and a `Finding` per pair. Pure functions over arrays; every
number comes from pages that people read and judged.

**Is anything new?** Would a reader of the earlier item miss something if the new one were never shown? `novelty_logits`
estimates how likely that is: a logistic regression on ten features of the views and the prose (`FEATURES`), fitted on
2,100 labelled pairs. The item is held back if its novelty is below `decision.novelty`. Novelty needs the body's
shingles, so only MinHash computes it. An item whose headline marks it as a correction has something new in any family.

**Is it the same article?** An item with something new is an update of the same article, or another article. A pair is
the same article if one of these views matches:

- **lead**: the larger lead contains most of the smaller one. Boilerplate around a short body, trimmed ends and added
  paragraphs do not change the lead.
- **headline**: the headlines are alike and the bodies are related (those of a daily "Morning briefing" are not).
- **body**: the bodies are alike and the sites differ (agency copies). On one site, alike bodies prove nothing, because
  its pages share menus and templates. With a SimHash the distance decides, on one site too: so few differing bits
  leave no room for another article inside a shared menu.

and no guard vetoes it:

- **other headline**: one site publishes both, under different headlines, however much the pages share.
- **template**: on one site, each headline has a word that its own text repeats and the other text lacks.
- **other body**: on one site, headline and lead are alike but the bodies are not (a bulletin), or short notices or
  texts without headlines (market tables) differ at all.
- **next day**: one site publishes the second a day later, and the texts differ or are short: the next bulletin.
- **boilerplate**: neither text mentions its headline, so they share only menus, notices or a login form. Alike
  headlines overrule this guard.
- **section**: one site uses the headline for other texts too ("Latest news"). Then only nearly identical bodies are the
  same article.
- **digest**: on two sites, the leads overlap, but headlines (if any) and bodies do not: one is a round-up or live page
  that quotes the other.

Where novelty is unknown, this second question alone decides: the same article is held back.

`decision.rule = "jaccard"` replaces both questions by plain deduplication: only the Jaccard similarity of the bodies
counts, or the distance of their SimHashes. `evaluate` uses it to compare with exact sets; it also matches other
systems.
"""

import math
from dataclasses import replace
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.dedup.similarity import Similarities
from stream_dedup.dedup.verdict import Stage
from stream_dedup.settings import DecisionSettings


class Finding(IntEnum):
    """The view or guard that decides about a pair: above NOTHING the same article, below it a guard's veto."""

    SECTION = -7
    DIGEST = -6
    BOILERPLATE = -5
    NEXT_DAY = -4
    OTHER_BODY = -3
    TEMPLATE = -2
    OTHER_HEADLINE = -1
    NOTHING = 0
    BODY = 1
    LEAD = 2
    HEADLINE = 3


_NOTHING, _SECTION = int(Finding.NOTHING), int(Finding.SECTION)
GUARD_REASONS = {
    Finding.SECTION: "same source, its headline stands over other texts too",
    Finding.DIGEST: "other headline and body, one quotes the other",
    Finding.BOILERPLATE: "text speaks of neither headline",
    Finding.NEXT_DAY: "same source, a day apart",
    Finding.OTHER_BODY: "same source, other body",
    Finding.TEMPLATE: "same source, words swapped in headline and text",
    Finding.OTHER_HEADLINE: "same source, other headline",
}
STAGE_OF = {
    **dict.fromkeys(GUARD_REASONS, Stage.GUARD),
    Finding.NOTHING: Stage.NONE,
    Finding.BODY: Stage.BODY,
    Finding.LEAD: Stage.LEAD,
    Finding.HEADLINE: Stage.HEADLINE,
}
# Bodies this much alike are the same text: in a filled-in template the swapped words change more of the body.
_SAME_TEXT = 0.95
CUT = 0.75
"""Containment from which the shorter body is a cut of the longer one. With a longer body of at least 4/3 the size, it
finds 17 of the 24 pairs that readers called cuts; copies inside boilerplate look the same (28 of 183 copies). Daily
bulletins of one site share only headline and lead, so they stay below."""
# Two reports of one statement share headline and quotes. Labelled pairs of the same article that only the headline
# decides have bodies at least this much alike, unless one is a cut.
_DISTANT = 0.15
# For headlines without texts on one site: a change of one word in twenty or fewer.
_IDENTICAL_HEADLINE = 0.95
# Shingles of a short notice: two changed numbers in 40 shingles reduce the Jaccard to .8 or less.
_SHORT = 40
# Jaccard from which readers take headlines for the same, and below which one site's headlines are different.
_SAME_HEADLINE, _OTHER_HEADLINE = 0.8, 0.5
# New words of prose that a stub (a page without an article of its own) may have: a teaser, a request to subscribe.
_STUB_WORDS = 40
NEARLY_ONE_TEXT = 0.9
"""Jaccard of bodies that differ in a few words."""
# Bodies and leads less alike than this are two articles.
_UNRELATED = 0.3
NEXT_DAY_HOURS = 16
"""A text that one site publishes this many hours later is the next bulletin; copies come within 13 hours."""
# Least share of a headline's words in its text: .4 or more in 150 articles of two languages with new headlines,
# .17 or less in 11 pairs of pages whose extracted text was only boilerplate.
_GROUNDED = 0.25
# Of seven labelled pairs below both, five were round-ups and live pages. Texts without headlines that share one
# paragraph (1,000 composed of agency sentences) have a body Jaccard below .1.
_UNLIKE_HEADLINE, _UNLIKE_BODY = 0.1, 0.25


class Feature(NamedTuple):
    """A feature of novelty: its weight in the log-odds, and an explanation for users."""

    weight: float
    meaning: str


# Ridge logistic regression on standardised features of 2,086 pairs, labelled for "anything new?" or "same article?".
# `python -m tests.labels.fit FOLDER` fits it again. Cross-validated by corpus and language, it misses .038 at .061
# repeated; by site, .038 at .057. Leaving out any feature but `swapped`, which guards against template pages, costs
# .005 to .05 of repeated. These add nothing to the ten: lead, containment and Jaccard of the body, share of new
# prose, Jaccard of the headlines, groundedness, views and guards.
# A change of a feature or weight must increase verdict.RULE_VERSION, which every evidence contains.
FEATURES = {
    "larger": Feature(0.69, "how much longer its page is"),
    "same_headline": Feature(-1.48, "the headlines are the same"),
    "swapped": Feature(2.01, "one source, and words swapped in headline and text"),
    "covered": Feature(-3.13, "share of its text that the original holds"),
    "same_source": Feature(2.14, "one source, which seldom tells a story twice"),
    "apart": Feature(0.75, "the time between them"),
    "new_prose": Feature(0.93, "words of prose that the original lacks"),
    "prose": Feature(-0.60, "words of prose in all"),
    "other_headline": Feature(1.81, "one source under another headline"),
    "short_notice": Feature(-1.05, "one source and few words, as a notice sent again"),
}
_INTERCEPT = 0.53
CORRECTS = Feature(10.0, "its headline says that it corrects an earlier one")
"""Not fitted, because no labelled pair is a correction. Two articles that differ in one number have log-odds of -6 to
-.5; this weight outvotes them, because readers of the wrong number must see the right one."""
APART_WEIGHT, APART_UNIT = FEATURES["apart"].weight, 6.0
"""Weight of the time between two items, and its unit in hours: the feature is log(1 + hours / 6). An error of one time
zone moves the log-odds by at most .8, so no decision depends on one date."""


def novelty_logits(s: Similarities) -> NDArray[np.float32]:
    """Log-odds that the new item of each pair has something new, (pairs,) float32; NaN where unknown."""
    logits = np.full(len(s.body), np.float32(_INTERCEPT))
    for feature, column in zip(FEATURES.values(), features(s), strict=True):
        logits += np.float32(feature.weight) * column
    logits += np.float32(CORRECTS.weight) * s.corrects
    return np.where(np.isnan(s.words) & ~s.corrects, np.float32(np.nan), logits)


def features(s: Similarities) -> list[NDArray[np.floating[Any]]]:
    """The columns of `FEATURES`, in that order, (pairs,) each."""
    same = s.same_source
    with np.errstate(invalid="ignore"):
        return [
            s.log_size_ratio,
            (s.headline >= _SAME_HEADLINE).astype(np.float32),
            (same & s.swapped).astype(np.float32),
            np.nan_to_num(s.coverage),
            same.astype(np.float32),
            np.log1p(s.apart / APART_UNIT),
            np.log1p(np.nan_to_num(s.new_words)),
            np.log1p(np.nan_to_num(s.words)),
            (same & (s.headline < _OTHER_HEADLINE)).astype(np.float32),
            (same & (s.smaller_size < _SHORT)).astype(np.float32),
        ]


def probability(logits: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """The novelty, 0..1, of log-odds."""
    share: NDArray[np.floating[Any]] = 1 / (1 + np.exp(-logits))
    return share


def logit(share: float) -> float:
    """The log-odds of a probability; infinite at 0 and 1."""
    return math.log(share / (1 - share)) if 0 < share < 1 else math.copysign(math.inf, share - 0.5)


def contributions(s: Similarities, p: int) -> dict[str, float]:
    """The contribution of each feature to the log-odds of pair p; above 0 it indicates something new."""
    values = zip(FEATURES.items(), features(s), strict=True)
    contributions = {name: feature.weight * float(column[p]) for (name, feature), column in values}
    return contributions | ({"corrects": CORRECTS.weight} if s.corrects[p] else {})


def meaning_of(name: str) -> str:
    """The explanation of a name in `contributions`, for users."""
    return CORRECTS.meaning if name == "corrects" else FEATURES[name].meaning


def is_stub(s: Similarities, finding: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Pairs whose new item is a page without an article of its own under the same headline, (pairs,) bool.

    Examples are menus, a one-line teaser, a paywall. No view matches, because there is no article, and no guard vetoes.
    """
    with np.errstate(invalid="ignore"):
        found: NDArray[np.bool_] = (
            (finding == Finding.NOTHING) & (s.headline >= _SAME_HEADLINE) & (s.new_words <= _STUB_WORDS)
        )
    return found & ~np.isnan(s.body)


def is_repeat(s: Similarities) -> NDArray[np.bool_]:
    """Pairs with the same words that are not a new event, (pairs,) bool.

    If a source sends the same few words a day later, they report a new event ("Fed sets two billion customer
    repurchase"). Of the Reuters texts that recur a day later, whole articles are repeats and headlines are news.
    """
    another_day = s.same_source & (s.smaller_size < _SHORT) & (s.apart > NEXT_DAY_HOURS)
    found: NDArray[np.bool_] = s.same_text & ~another_day
    return found


def judge_pairs(s: Similarities, d: DecisionSettings) -> NDArray[np.int8]:
    """A `Finding` for every pair, (pairs,) int8. A missing view (NaN) neither matches nor vetoes."""
    finding = np.zeros(len(s.body), np.int8)
    with np.errstate(invalid="ignore"):
        for view, matches in _views(s, d):
            finding[matches] = view
        alike = finding > Finding.NOTHING
        for guard, vetoes in _guards(s, d):
            finding[alike & vetoes] = guard
    return finding


def all_findings(s: Similarities, p: int, d: DecisionSettings) -> list[Finding]:
    """All findings about pair p: guards, then views, each by precedence. Guards are listed even if no view matches.

    The finding of `judge_pairs` is the first one, provided that a view is among them.
    """
    with np.errstate(invalid="ignore"):
        return [
            finding for rules in (_guards(s, d), _views(s, d)) for finding, applies in reversed(rules) if applies[p]
        ]


def shows_section_headline(s: Similarities, d: DecisionSettings) -> NDArray[np.bool_]:
    """Pairs in which one site uses the same headline for two articles, so that it must be the name of a section."""
    unrelated = (s.body < _UNRELATED) & (s.lead < _UNRELATED)
    found: NDArray[np.bool_] = s.same_source & (s.headline >= d.headline_alone) & unrelated
    return found & (d.rule == "views")


def depends_on_headline(s: Similarities) -> NDArray[np.bool_]:
    """Pairs that are not the same article if their headline is the name of a section."""
    return s.same_source & (s.body < NEARLY_ONE_TEXT)


@njit(inline="always")
def vetoed(finding: int, is_section: bool, headline_only: bool) -> int:
    """The finding about a pair after the section guard.

    is_section: `shows_section_headline` holds for any pair of the item; headline_only: `depends_on_headline` of this
    pair.
    """
    return _SECTION if is_section and headline_only and finding > _NOTHING else finding


def flip_next_day(s: Similarities) -> Similarities:
    """The same pairs with times on the other side of `NEXT_DAY_HOURS`."""
    return replace(s, apart=np.where(s.apart > NEXT_DAY_HOURS, 0.0, np.inf).astype(np.float32))


def _views(s: Similarities, d: DecisionSettings) -> list[tuple[Finding, NDArray[np.bool_]]]:
    """Where each view matches, in order of precedence, the highest last: that one names the stage."""
    is_simhash = ~np.isnan(s.distance)
    if d.rule == "jaccard":
        return [(Finding.BODY, np.where(is_simhash, s.within_hamming, s.body >= d.body))]
    # Without texts, which begin with a lead, the headlines must be the same.
    no_text = np.isnan(s.lead)
    is_related = (s.containment >= d.kinship) & ((s.body >= _DISTANT) | (s.containment >= CUT))
    is_related |= is_simhash & (s.body >= d.kinship)
    # On one site a changed number makes another notice. A headline sent ahead must not hold back its story.
    alone = np.where(s.same_source, _IDENTICAL_HEADLINE, d.headline_alone)
    headline = np.where(no_text, (s.headline >= alone) & ~s.expands_flash, (s.headline >= d.headline) & is_related)
    return [
        (Finding.BODY, np.where(is_simhash, s.within_hamming, (s.body >= d.body) & ~s.same_source)),
        (Finding.HEADLINE, headline),
        (Finding.LEAD, s.lead >= d.lead),
    ]


def _guards(s: Similarities, d: DecisionSettings) -> list[tuple[Finding, NDArray[np.bool_]]]:
    """Where each guard vetoes, in order of precedence, the highest last."""
    if d.rule == "jaccard":
        return []
    one_site = s.same_source
    like_headlines = s.headline >= d.headline_alone
    # A cut without a headline is not a quote.
    quotes = (s.headline < _UNLIKE_HEADLINE) | (np.isnan(s.headline) & (s.containment < CUT))
    other_body = (s.body < d.body) & ~(s.containment >= CUT)
    # Market tables come every hour, without headlines.
    untitled = np.isnan(s.headline) & (s.body < _SAME_TEXT)
    short_notice = (s.smaller_size < _SHORT) & (s.body < NEARLY_ONE_TEXT) & (s.headline < d.headline_alone)
    return [
        (Finding.DIGEST, ~one_site & (s.body < _UNLIKE_BODY) & quotes),
        (Finding.BOILERPLATE, (s.grounded < _GROUNDED) & ~like_headlines & ~np.isnan(s.body)),
        (
            Finding.NEXT_DAY,
            one_site & (s.apart > NEXT_DAY_HOURS) & ~((s.body >= _SAME_TEXT) & (s.smaller_size >= _SHORT)),
        ),
        (Finding.OTHER_BODY, one_site & (other_body | short_notice | untitled)),
        (Finding.TEMPLATE, one_site & s.swapped & ~(s.body >= _SAME_TEXT)),
        (Finding.OTHER_HEADLINE, one_site & (s.headline < d.other_headline)),
    ]
