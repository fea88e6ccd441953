"""The decision rule for pairs, with its guards and the novelty regression: the same article? anything new for a reader?

In: `Similarities` of pairs. Out: the log-odds of novelty and a `Finding` per pair. Pure functions; every number comes
from pages that people read and judged.

**Is anything new?** Would a reader of the earlier item miss something if the new one were never shown? `novelty_logit`
estimates how likely that is: a logistic regression on ten features of the views and the prose (`FEATURES`), fitted on
2,100 labelled pairs. Only the same article is asked (see below), and a page without an article of its own under the
same headline (`is_stub`): it is held back if its novelty is below `decision.novelty`. What no view matches or a guard
vetoes is let through without being asked. Novelty needs the body's shingles, so only MinHash computes it. An item whose
headline marks it as a correction has something new in any family.

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
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.dedup.similarity import Similarities, pair_at
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


# To compiled code, members of an enumeration are objects.
_NOTHING, _BODY, _LEAD, _HEADLINE = map(int, (Finding.NOTHING, Finding.BODY, Finding.LEAD, Finding.HEADLINE))
_SECTION, _DIGEST, _BOILERPLATE, _NEXT_DAY, _OTHER_BODY, _TEMPLATE, _OTHER_HEADLINE = range(-7, 0)
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
_SAME_TEXT = np.float32(0.95)
CUT = np.float32(0.75)
"""Containment from which the shorter body is a cut of the longer one. With a longer body of at least 4/3 the size, it
finds 17 of the 24 pairs that readers called cuts; copies inside boilerplate look the same (28 of 183 copies). Daily
bulletins of one site share only headline and lead, so they stay below."""
# Two reports of one statement share headline and quotes. Labelled pairs of the same article that only the headline
# decides have bodies at least this much alike, unless one is a cut.
_DISTANT = np.float32(0.15)
# For headlines without texts on one site: a change of one word in twenty or fewer.
_IDENTICAL_HEADLINE = np.float32(0.95)
# Shingles of a short notice: two changed numbers in 40 shingles reduce the Jaccard to .8 or less.
_SHORT = 40
# Jaccard from which readers take headlines for the same, and below which one site's headlines are different.
_SAME_HEADLINE, _ANOTHER_HEADLINE = np.float32(0.8), np.float32(0.5)
# New words of prose that a stub (a page without an article of its own) may have: a teaser, a request to subscribe.
_STUB_WORDS = 40
NEARLY_ONE_TEXT = np.float32(0.9)
"""Jaccard of bodies that differ in a few words."""
# Bodies and leads less alike than this are two articles.
_UNRELATED = np.float32(0.3)
NEXT_DAY_HOURS = 16
"""A text that one site publishes this many hours later is the next bulletin; copies come within 13 hours."""
# Least share of a headline's words in its text: .4 or more in 150 articles of two languages with new headlines,
# .17 or less in 11 pairs of pages whose extracted text was only boilerplate.
_GROUNDED = np.float32(0.25)
# Of seven labelled pairs below both, five were round-ups and live pages. Texts without headlines that share one
# paragraph (1,000 composed of agency sentences) have a body Jaccard below .1.
_UNLIKE_HEADLINE, _UNLIKE_BODY = np.float32(0.1), np.float32(0.25)


class Feature(NamedTuple):
    """A feature of novelty: its weight in the log-odds, and an explanation for users."""

    weight: float
    meaning: str


# Ridge logistic regression on standardised features of 2,086 pairs, labelled for "anything new?" or "same article?".
# `python -m tests.labels.fit FOLDER` fits it again. Behind views and guards, cross-validated by corpus and language, it
# misses .029 at .089 repeated; by site, .032 at .085. Leaving out a feature costs up to .04 of repeated (at .04 missed)
# and up to .035 of log loss; `swapped`, which guards against template pages, costs nothing there. These add nothing
# to the ten: lead, containment and Jaccard of the body, share of new prose, Jaccard of the headlines, groundedness.
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
CORRECTS_WEIGHT = 10.0
CORRECTS = Feature(CORRECTS_WEIGHT, "its headline says that it corrects an earlier one")
"""Not fitted, because no labelled pair is a correction. Two articles that differ in one number have log-odds of -6 to
-.5; this weight outvotes them, because readers of the wrong number must see the right one."""
# The unit of the time between two items, hours: the feature is log(1 + hours / 6). An error of one time zone moves the
# log-odds by at most .8, so no decision depends on one date.
APART_UNIT = np.float32(6.0)
_WEIGHTS = np.array([feature.weight for feature in FEATURES.values()], np.float32)


class Thresholds(NamedTuple):
    """The settings of a decision, as compiled code takes them. hold_below: log-odds of `decision.novelty`."""

    is_jaccard: bool
    body: np.float32
    lead: np.float32
    headline: np.float32
    kinship: np.float32
    headline_alone: np.float32
    other_headline: np.float32
    hold_below: np.float32


def thresholds(d: DecisionSettings) -> Thresholds:
    """The `Thresholds` of settings."""
    shares = d.body, d.lead, d.headline, d.kinship, d.headline_alone, d.other_headline, logit(d.novelty)
    return Thresholds(d.rule == "jaccard", *map(np.float32, shares))


@njit(nogil=True, cache=True)
def novelty_logit(s, t):
    """Log-odds that the new item of a pair has something new, float32; NaN where unknown."""
    if t.is_jaccard or (np.isnan(s.words) and not s.corrects):
        return np.float32(np.nan)
    values = np.empty(len(_WEIGHTS), np.float32)
    write_features(s, values)
    log_odds = np.float32(_INTERCEPT)
    for k in range(values.size):
        log_odds += _WEIGHTS[k] * values[k]
    return log_odds + np.float32(CORRECTS_WEIGHT) * np.float32(s.corrects)


@njit(nogil=True, cache=True)
def write_features(s, values):
    """Write the features of a pair, in the order of `FEATURES`, into values, (10,) float32."""
    same = s.same_source
    values[0] = s.log_size_ratio
    values[1] = s.headline >= _SAME_HEADLINE
    values[2] = same and s.swapped
    values[3] = 0 if np.isnan(s.coverage) else s.coverage
    values[4] = same
    values[5] = np.log1p(s.apart / APART_UNIT)
    values[6] = 0 if np.isnan(s.new_words) else np.log1p(s.new_words)
    values[7] = 0 if np.isnan(s.words) else np.log1p(s.words)
    values[8] = same and s.headline < _ANOTHER_HEADLINE
    values[9] = same and s.smaller_size < _SHORT


def probability(logits: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """The novelty, 0..1, of log-odds."""
    share: NDArray[np.floating[Any]] = 1 / (1 + np.exp(-logits))
    return share


def logit(share: float) -> float:
    """The log-odds of a probability; infinite at 0 and 1."""
    return math.log(share / (1 - share)) if 0 < share < 1 else math.copysign(math.inf, share - 0.5)


def features(s: Similarities) -> NDArray[np.float32]:
    """The columns of `FEATURES`, in that order, (pairs, 10)."""
    values = np.empty((len(s.body), len(FEATURES)), np.float32)
    _features(s, values)
    return values


def contributions(s: Similarities, p: int) -> dict[str, float]:
    """The contribution of each feature to the log-odds of pair p; above 0 it indicates something new."""
    values = zip(FEATURES.items(), features(s)[p].tolist(), strict=True)
    contributions = {name: feature.weight * value for (name, feature), value in values}
    return contributions | ({"corrects": CORRECTS.weight} if s.corrects[p] else {})


def meaning_of(name: str) -> str:
    """The explanation of a name in `contributions`, for users."""
    return CORRECTS.meaning if name == "corrects" else FEATURES[name].meaning


@njit(nogil=True, cache=True, inline="always")
def is_stub(s, finding):
    """Whether the new item of a pair is a page without an article of its own under the same headline.

    Examples are menus, a one-line teaser, a paywall. No view matches, because there is no article, and no guard vetoes.
    """
    is_candidate = finding == _NOTHING and s.headline >= _SAME_HEADLINE and not np.isnan(s.body)
    return is_candidate and s.new_words <= _STUB_WORDS


@njit(nogil=True, cache=True, inline="always")
def is_repeat(s):
    """Whether a pair has the same words and is not a new event.

    If a source sends the same few words a day later, they report a new event ("Fed sets two billion customer
    repurchase"). Of the Reuters texts that recur a day later, whole articles are repeats and headlines are news.
    """
    another_day = s.same_source and s.smaller_size < _SHORT and s.apart > NEXT_DAY_HOURS
    return s.same_text and not another_day


@njit(nogil=True, cache=True, inline="always")
def shows_section_headline(s, t):
    """Whether in a pair one site uses the same headline for two articles, so that it must be the name of a section."""
    unrelated = s.body < _UNRELATED and s.lead < _UNRELATED
    return s.same_source and s.headline >= t.headline_alone and unrelated and not t.is_jaccard


@njit(nogil=True, cache=True, inline="always")
def vetoed(s, finding, is_section):
    """The finding about a pair after the section guard. is_section: `shows_section_headline` of any pair of the item.

    Then only a pair of nearly identical bodies is the same article.
    """
    is_named_by_section = is_section and s.same_source and s.body < NEARLY_ONE_TEXT
    return _SECTION if is_named_by_section and finding > _NOTHING else finding


@njit(nogil=True, cache=True, inline="always")
def gated_logit(s, finding, log_odds, is_section):
    """The log-odds that count: infinity if the pair is not asked whether anything is new; NaN if that is unknown.

    Only the same article can make an item "nothing new", or an article whose headline a stub repeats, unless that
    headline is the name of a section. finding: of the views and guards, before `vetoed`.
    """
    is_vetoed = is_section and s.same_source and s.body < NEARLY_ONE_TEXT
    if not np.isnan(log_odds) and finding <= _NOTHING and (is_vetoed or not is_stub(s, finding)):
        return np.float32(np.inf)
    return log_odds


@njit(nogil=True, cache=True)
def judge_pair(s, t):
    """The `Finding` about a pair: the first of its guards, if a view matches; see `matching`."""
    found = matching(s, t)
    for view in (_LEAD, _HEADLINE, _BODY):  # by precedence
        if found & bit_of(view):
            for guard in range(-1, _SECTION, -1):
                if found & bit_of(guard):
                    return guard
            return view
    return _NOTHING


@njit(inline="always")
def bit_of(finding):
    """The bit of a `Finding` in `matching`."""
    return 1 << (finding - _SECTION)


@njit(nogil=True, cache=True)
def matching(s, t):
    """The views that match and the guards that would veto, as a set of `bit_of`. A missing view (NaN) does neither."""
    body, containment, lead, headline = s.body, s.containment, s.lead, s.headline
    is_simhash, one_site = not np.isnan(s.distance), s.same_source
    if t.is_jaccard:
        alike = s.within_hamming if is_simhash else body >= t.body
        return bit_of(_BODY) if alike else 0
    found = 0
    # -- views
    if s.within_hamming if is_simhash else body >= t.body and not one_site:
        found |= bit_of(_BODY)
    if lead >= t.lead:
        found |= bit_of(_LEAD)
    if np.isnan(lead):
        # Without texts, which begin with a lead, the headlines must be the same. On one site a changed number makes
        # another notice. A headline sent ahead must not hold back its story.
        alike = headline >= (_IDENTICAL_HEADLINE if one_site else t.headline_alone) and not s.expands_flash
    else:
        is_related = containment >= t.kinship and (body >= _DISTANT or containment >= CUT)
        alike = headline >= t.headline and (is_related or (is_simhash and body >= t.kinship))
    if alike:
        found |= bit_of(_HEADLINE)
    # -- guards
    # A cut without a headline is not a quote.
    quotes = headline < _UNLIKE_HEADLINE or (np.isnan(headline) and containment < CUT)
    if not one_site and body < _UNLIKE_BODY and quotes:
        found |= bit_of(_DIGEST)
    if s.grounded < _GROUNDED and not headline >= t.headline_alone and not np.isnan(body):
        found |= bit_of(_BOILERPLATE)
    if not one_site:
        return found
    is_short = s.smaller_size < _SHORT
    if s.apart > NEXT_DAY_HOURS and (is_short or not body >= _SAME_TEXT):
        found |= bit_of(_NEXT_DAY)
    other_body = body < t.body and not containment >= CUT
    # Market tables come every hour, without headlines.
    untitled = np.isnan(headline) and body < _SAME_TEXT
    short_notice = is_short and body < NEARLY_ONE_TEXT and headline < t.headline_alone
    if other_body or short_notice or untitled:
        found |= bit_of(_OTHER_BODY)
    if s.swapped and not body >= _SAME_TEXT:
        found |= bit_of(_TEMPLATE)
    if headline < t.other_headline:
        found |= bit_of(_OTHER_HEADLINE)
    return found


# -- for many pairs ---------------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """What the decision says of each pair alone, (pairs,) each.

    finding: `Finding`, int8; is_repeat: the same words, held back before anything else is asked; logit: log-odds of
    something new, float32, NaN where unknown; is_asked: the item is held back if the log-odds are below
    `decision.novelty`: the same article, or a page without one, and novelty is known; shows_section: the headline must
    be the name of a section.
    """

    finding: NDArray[np.int8]
    is_repeat: NDArray[np.bool_]
    logit: NDArray[np.float32]
    is_asked: NDArray[np.bool_]
    shows_section: NDArray[np.bool_]

    def is_held(self, hold_below: float) -> NDArray[np.bool_]:
        """Whether the new item of each pair is held back; hold_below: log-odds."""
        unknown = np.isnan(self.logit) & (self.finding > Finding.NOTHING)
        held: NDArray[np.bool_] = self.is_repeat | unknown | (self.is_asked & (self.logit < hold_below))
        return held


def judge_pairs(s: Similarities, d: DecisionSettings, items: NDArray[np.integer] | None = None) -> Judged:
    """Judge pairs as the stream judges an item with these candidates.

    items: (pairs,) the new item of each pair, from 0 on: a headline is the name of a section for all pairs of an item
    if one of them shows it. None: each pair stands alone.
    """
    pairs = len(s.body)
    of_item = np.arange(pairs) if items is None else items.astype(np.int64)
    flags = np.zeros(pairs, np.bool_), np.full(pairs, np.nan, np.float32), np.zeros(pairs, np.bool_)
    judged = Judged(np.zeros(pairs, np.int8), *flags, np.zeros(pairs, np.bool_))
    _judge_pairs(s, thresholds(d), of_item, np.zeros(int(of_item.max(initial=-1)) + 1, np.bool_), *judged)
    return judged


@njit(nogil=True, cache=True)
def _judge_pairs(similar, t, of_item, is_section, finding, repeats, logits, asked, shows_section):
    for p in range(of_item.size):
        shows_section[p] = shows_section_headline(pair_at(similar, p), t)
        is_section[of_item[p]] |= shows_section[p]
    for p in range(of_item.size):
        s = pair_at(similar, p)
        found, log_odds, section = judge_pair(s, t), novelty_logit(s, t), is_section[of_item[p]]
        repeats[p], logits[p] = is_repeat(s), log_odds
        asked[p] = np.isfinite(gated_logit(s, found, log_odds, section))
        finding[p] = vetoed(s, found, section)


@njit(nogil=True, cache=True)
def _features(similar, values):
    for p in range(len(values)):
        write_features(pair_at(similar, p), values[p])


def all_findings(s: Similarities, p: int, d: DecisionSettings) -> list[Finding]:
    """All findings about pair p: guards, then views, each by precedence. Guards are listed even if no view matches.

    The finding of `judge_pair` is the first one, provided that a view is among them.
    """
    found = matching(pair_at(s, p), thresholds(d))
    by_precedence = [*range(-1, _SECTION, -1), _LEAD, _HEADLINE, _BODY]
    return [Finding(finding) for finding in by_precedence if found & bit_of(finding)]
