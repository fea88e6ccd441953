"""The rule and the guard: similarities -> is it the same article, and which view says so.

Pure functions over arrays of pairs. The rule comes from pairs that were read and judged: whole-page Jaccard
is the wrong measure, the headline and the lead settle it (README, "How it decides").

- **lead**: the smaller lead is found in the other. Furniture round a short body, trimmed tails and added
  paragraphs leave the lead alone.
- **headline**: the headlines are alike, and the bodies are not strangers (a daily "Morning briefing" is).
- **body**: the bodies are alike and the hosts differ (agency copies). On one host this says nothing: its
  pages share menus and templates.
- **guard**: the same site under another headline is another article, however much the pages share; so it is
  where each headline has a word of its own that its text repeats and the other text lacks: a template; and so
  it is where headline and lead are alike and the bodies are not: a bulletin of every day.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.similarity import Similarities
from stream_dedup.dedup.verdict import Stage
from stream_dedup.settings import DecisionSettings


class Finding(IntEnum):
    """What the rule says of one pair: above NOTHING the same article, below it a guard's no."""

    OTHER_BODY = -3
    TEMPLATE = -2
    OTHER_HEADLINE = -1
    NOTHING = 0
    BODY = 1
    LEAD = 2
    HEADLINE = 3


STAGE_OF = {
    Finding.OTHER_BODY: Stage.GUARD,
    Finding.TEMPLATE: Stage.GUARD,
    Finding.OTHER_HEADLINE: Stage.GUARD,
    Finding.NOTHING: Stage.NONE,
    Finding.BODY: Stage.BODY,
    Finding.LEAD: Stage.LEAD,
    Finding.HEADLINE: Stage.HEADLINE,
}
GUARD_REASONS = {
    Finding.TEMPLATE: "same source, words swapped in headline and text",
    Finding.OTHER_HEADLINE: "same source, other headline",
    Finding.OTHER_BODY: "same source, other body",
}
# A template's swapped words stand in many places of the text; bodies this much alike are one text.
_ONE_TEXT = 0.95
# One site's daily bulletins share headline and lead, and go on differently; a cut of an article is found in it.
_CUT = 0.75


def judge_pairs(s: Similarities, d: DecisionSettings) -> NDArray[np.int8]:
    """A `Finding` for every pair, (pairs,) int8. A missing view (NaN) supports nothing and guards nothing."""
    with np.errstate(invalid="ignore"):
        # Where a body is missing there is nothing but the headline to go by; it must then be the same.
        no_body = np.isnan(s.body)
        headline = np.where(
            no_body, s.headline >= d.headline_alone, (s.headline >= d.headline) & (s.containment >= d.kinship)
        )
        lead = s.lead >= d.lead
        body = (s.body >= d.body) & ~s.same_source
        other_headline = s.same_source & (s.headline < d.other_headline)
        other_body = s.same_source & (s.body < d.body) & (s.containment < _CUT)
        template = s.same_source & s.swapped & ~(s.body >= _ONE_TEXT)
    finding = np.zeros(len(s.body), np.int8)
    # The plainest reason last, so that it names the stage.
    finding[body] = Finding.BODY
    finding[headline] = Finding.HEADLINE
    finding[lead] = Finding.LEAD
    alike = finding > Finding.NOTHING
    finding[alike & other_body] = Finding.OTHER_BODY
    finding[alike & template] = Finding.TEMPLATE
    finding[alike & other_headline] = Finding.OTHER_HEADLINE
    return finding
