"""The rule: similarities -> is it the same article, and has it anything new for a reader?

Pure functions over arrays of pairs; pages that people read and judged are where every number comes from.

**Nothing new?** A reader asks of a feed: would I miss something if this item were never shown? `novelty` estimates how
likely that is: a logistic regression on ten things that the views and the prose say (`FEATURES`), fitted on 2,100
labelled pairs. A pair is held back if its novelty stays below `decision.novelty`. It needs the body's shingles, so it
is known with MinHash alone. What says in its headline that it is a correction has something new, with any family.

**The same article?** What has something new is an update of its original, or another article. It is the same article if
any view says so:

- **lead**: the smaller lead is found in the other. Boilerplate round a short body, trimmed tails and added
  paragraphs leave the lead alone.
- **headline**: the headlines are alike, and the bodies are not strangers (a daily "Morning briefing" is).
- **body**: the bodies are alike and the sites differ (agency copies). On one site this says nothing: its
  pages share menus and templates. Where the body is a SimHash, its distance says it, on any site: so few bits
  have no room for another article round a shared menu.

and no guard says no:

- **other headline**: one site under another headline is another article, however much the pages share.
- **template**: on one site each headline has a word of its own that its text repeats and the other text lacks.
- **other body**: on one site headline and lead are alike and the bodies are not (a bulletin), or short notices
  or texts without headlines (market tables) differ at all.
- **next day**: on one site what comes a day later and is not the same text, or is a few words, is the next bulletin.
- **boilerplate**: neither text speaks of its headline; what they share is menus, notices, a login form. Like
  headlines are then needed.
- **section**: one site's headline that stands over another of its texts too ("Latest news") says nothing; then only
  bodies that are nearly one text are one article.
- **digest**: on two sites a lead in common under headlines (if any) and bodies that have nothing in common; one
  is a round-up, or a live page, that quotes the other.

Where novelty is not known, this second question decides alone: the same article is held back.

`decision.rule = "jaccard"` is the rule of plain MinHash deduplication instead: the bodies' Jaccard, nothing else;
with a SimHash it is that of plain SimHash deduplication, the bodies' distance.
It is what `evaluate` compares with exact sets, and what a team that must match another system asks for.
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
    """What the rule says of one pair: above NOTHING the same article, below it a guard's no."""

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
# A template's swapped words stand in many places of the text; bodies this much alike are one text.
_ONE_TEXT = 0.95
CUT = 0.75
"""Containment from which the shorter body is a cut of the other: most of it is found there. Of the pairs that readers
called cuts this finds, with a third more in the longer body, 17 in 24; a copy that a page wraps in boilerplate looks
the
same (28 in 183 copies). One site's daily bulletins share headline and lead, and go on differently."""
# Two reports of one statement share headline and quotes; no labelled pair of one article that the headline alone
# decides has bodies less alike than this, unless one is a cut.
_DISTANT = 0.15
# Of one site's headlines without text: the same words, but for one in twenty.
_SAME_HEADLINE = 0.95
# A notice of 40 shingles that changes two numbers keeps a Jaccard of .8 or less.
_SHORT = 40
# Jaccard of headlines from which they are the same to a reader, and below which, on one site, they are others.
_SAME, _OTHER = 0.8, 0.5
# Words of prose beside the headline that a page without an article of its own may have: a teaser, a plea to subscribe.
_BARE = 40
NEARLY_ONE_TEXT = 0.9
"""Jaccard of bodies that differ in a few words."""
# Bodies and leads less alike than this are two articles.
_STRANGERS = 0.3
NEXT_DAY_HOURS = 16
"""One site's text of so many hours later is the next bulletin: copies come within some 13 hours of each other."""
# Share of its headline's words that a text holds: .4 and more in 150 re-headlined articles of two languages,
# .17 and less in 11 pairs of pages whose extracted text was boilerplate alone.
_GROUNDED = 0.25
# Of seven pairs below both, five were round-ups and live pages. Texts without headlines that share one paragraph
# (1,000 made of agency sentences) lie below .1 of body.
_NO_HEADLINE, _NO_BODY = 0.1, 0.25


class Feature(NamedTuple):
    """What novelty looks at: its weight in the sum, and what it means to a person."""

    weight: float
    meaning: str


# Logistic regression (ridge, on standardised features) on 2,086 pairs read for "anything new?" or "the same article?";
# `python -m tests.labels.fit FOLDER` fits it again. Each corpus and language judged by weights fitted on the others it
# misses .038 at .061 repeated, each site by those of other sites .038 at .057; left out, every feature but `swapped`,
# which the drop of template pages needs, costs .005 to .05 of repeated. These brought nothing beside the ten: lead,
# containment and Jaccard of the body, the share of new prose, headline Jaccard as such, groundedness, views and guards.
# With a feature or a weight verdict.RULE_VERSION changes, which stands in every evidence.
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
"""Not fitted, as no labelled pair is one: of two articles that differ in one number nothing else speaks for the new
one (their log-odds are -6 to -.5), and whoever has read the wrong number must see the right one."""
APART_WEIGHT, APART_UNIT = FEATURES["apart"].weight, 6.0
"""Weight of the time between two items, and the hours at which it begins to count: the sum holds log(1 + hours / 6). A
time zone more or less moves the sum by .8 at most, so that no decision hangs on one date."""


def novelty_logits(s: Similarities) -> NDArray[np.float32]:
    """Log-odds that each pair's new item has something new, (pairs,) float32; NaN where it is not known."""
    logits = np.full(len(s.body), np.float32(_INTERCEPT))
    for feature, column in zip(FEATURES.values(), features(s), strict=True):
        logits += np.float32(feature.weight) * column
    logits += np.float32(CORRECTS.weight) * s.corrects
    return np.where(np.isnan(s.words) & ~s.corrects, np.float32(np.nan), logits)


def features(s: Similarities) -> list[NDArray[np.floating[Any]]]:
    """The columns of FEATURES, in their order, (pairs,) each."""
    same = s.same_source
    with np.errstate(invalid="ignore"):
        return [
            s.larger,
            (s.headline >= _SAME).astype(np.float32),
            (same & s.swapped).astype(np.float32),
            np.nan_to_num(s.covered),
            same.astype(np.float32),
            np.log1p(s.apart / APART_UNIT),
            np.log1p(np.nan_to_num(s.new_words)),
            np.log1p(np.nan_to_num(s.words)),
            (same & (s.headline < _OTHER)).astype(np.float32),
            (same & (s.shorter < _SHORT)).astype(np.float32),
        ]


def probability(logits: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Novelty in 0..1 of its log-odds."""
    share: NDArray[np.floating[Any]] = 1 / (1 + np.exp(-logits))
    return share


def logit(share: float) -> float:
    """The log-odds of a probability; minus and plus infinity at 0 and 1."""
    return math.log(share / (1 - share)) if 0 < share < 1 else math.copysign(math.inf, share - 0.5)


def weighed(s: Similarities, p: int) -> dict[str, float]:
    """What each feature adds to the log-odds of pair p: above 0 it speaks for something new."""
    values = zip(FEATURES.items(), features(s), strict=True)
    adds = {name: feature.weight * float(column[p]) for (name, feature), column in values}
    return adds | ({"corrects": CORRECTS.weight} if s.corrects[p] else {})


def meaning_of(name: str) -> str:
    """What a name in `weighed` means to a person."""
    return CORRECTS.meaning if name == "corrects" else FEATURES[name].meaning


def is_bare(s: Similarities, finding: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Pairs of which the new page has no article of its own under the known one's headline, (pairs,) bool.

    Menus, a one-line teaser, a paywall: no view calls them the article, as they have none, and no guard says no.
    """
    with np.errstate(invalid="ignore"):
        found: NDArray[np.bool_] = (finding == Finding.NOTHING) & (s.headline >= _SAME) & (s.new_words <= _BARE)
    return found & ~np.isnan(s.body)


def is_repeat(s: Similarities) -> NDArray[np.bool_]:
    """Pairs of the same words that bring nothing new, (pairs,) bool.

    A source that sends the same few words a day later tells of a new event ("Fed sets two billion customer
    repurchase"); of Reuters' texts that came again a day later whole articles were re-sent, and headlines were news.
    """
    another_day = s.same_source & (s.shorter < _SHORT) & (s.apart > NEXT_DAY_HOURS)
    found: NDArray[np.bool_] = s.same_text & ~another_day
    return found


def judge_pairs(s: Similarities, d: DecisionSettings) -> NDArray[np.int8]:
    """A `Finding` for every pair, (pairs,) int8. A missing view (NaN) supports nothing and guards nothing."""
    finding = np.zeros(len(s.body), np.int8)
    with np.errstate(invalid="ignore"):
        for view, says_yes in _views(s, d):
            finding[says_yes] = view
        alike = finding > Finding.NOTHING
        for guard, says_no in _guards(s, d):
            finding[alike & says_no] = guard
    return finding


def all_findings(s: Similarities, p: int, d: DecisionSettings) -> list[Finding]:
    """All that speak of pair p, the guards before the views, the plainest of each first; guards also where no view
    speaks. `judge_pairs` tells the first of them if a view is among them.
    """
    with np.errstate(invalid="ignore"):
        return [
            finding for sayings in (_guards(s, d), _views(s, d)) for finding, speaks in reversed(sayings) if speaks[p]
        ]


def shows_section_headline(s: Similarities, d: DecisionSettings) -> NDArray[np.bool_]:
    """Pairs that show one site's headline over two articles: then it is a section's name, and says nothing."""
    strangers = (s.body < _STRANGERS) & (s.lead < _STRANGERS)
    found: NDArray[np.bool_] = s.same_source & (s.headline >= d.headline_alone) & strangers
    return found & (d.rule == "views")


def depends_on_headline(s: Similarities) -> NDArray[np.bool_]:
    """Pairs that are no longer one article once their headline is known to be a section's name."""
    return s.same_source & (s.body < NEARLY_ONE_TEXT)


@njit(inline="always")
def vetoed(finding: int, is_section: bool, headline_only: bool) -> int:
    """What the rule says of a pair once it is known whether its headline is a section's name.

    is_section: any pair of the item's `shows_section_headline`; headline_only: `depends_on_headline`, of this pair.
    """
    return _SECTION if is_section and headline_only and finding > _NOTHING else finding


def on_the_other_day(s: Similarities) -> Similarities:
    """The same pairs, each with event times on the other side of `NEXT_DAY_HOURS`: that is all they say."""
    return replace(s, apart=np.where(s.apart > NEXT_DAY_HOURS, 0.0, np.inf).astype(np.float32))


def _views(s: Similarities, d: DecisionSettings) -> list[tuple[Finding, NDArray[np.bool_]]]:
    """The plainest reason last, so that it names the stage."""
    is_simhash = ~np.isnan(s.distance)
    if d.rule == "jaccard":
        return [(Finding.BODY, np.where(is_simhash, s.near, s.body >= d.body))]
    # Where a body is missing there is nothing but the headline to go by; it must then be the same.
    no_body = np.isnan(s.body)
    kin = (s.containment >= d.kinship) & ((s.body >= _DISTANT) | (s.containment >= CUT))
    kin |= is_simhash & (s.body >= d.kinship)
    # On one site a number that changed is another notice. And a flash must not hold back its story.
    alone = np.where(s.same_source, _SAME_HEADLINE, d.headline_alone)
    headline = np.where(no_body, (s.headline >= alone) & ~s.flash, (s.headline >= d.headline) & kin)
    return [
        (Finding.BODY, np.where(is_simhash, s.near, (s.body >= d.body) & ~s.same_source)),
        (Finding.HEADLINE, headline),
        (Finding.LEAD, s.lead >= d.lead),
    ]


def _guards(s: Similarities, d: DecisionSettings) -> list[tuple[Finding, NDArray[np.bool_]]]:
    """The plainest reason last here too."""
    if d.rule == "jaccard":
        return []
    one_site = s.same_source
    like_headlines = s.headline >= d.headline_alone
    # Without headlines a cut is still a cut: most of it is found in the other.
    quotes = (s.headline < _NO_HEADLINE) | (np.isnan(s.headline) & (s.containment < CUT))
    other_body = (s.body < d.body) & ~(s.containment >= CUT)
    # Market tables come without a headline, hour by hour.
    untitled = np.isnan(s.headline) & (s.body < _ONE_TEXT)
    short_notice = (s.shorter < _SHORT) & (s.body < NEARLY_ONE_TEXT) & (s.headline < d.headline_alone)
    return [
        (Finding.DIGEST, ~one_site & (s.body < _NO_BODY) & quotes),
        (Finding.BOILERPLATE, (s.grounded < _GROUNDED) & ~like_headlines & ~np.isnan(s.body)),
        (Finding.NEXT_DAY, one_site & (s.apart > NEXT_DAY_HOURS) & ~((s.body >= _ONE_TEXT) & (s.shorter >= _SHORT))),
        (Finding.OTHER_BODY, one_site & (other_body | short_notice | untitled)),
        (Finding.TEMPLATE, one_site & s.swapped & ~(s.body >= _ONE_TEXT)),
        (Finding.OTHER_HEADLINE, one_site & (s.headline < d.other_headline)),
    ]
