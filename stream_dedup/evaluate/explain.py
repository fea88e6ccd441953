"""Explain the decision on a pair of items: the numbers of every stage, and what makes the second item new or not.

In: two items and the settings. Out: `Explanation`. The decision itself comes from fingerprint, similarity, rule and
Deduplicator; this module adds exact similarities beside the estimates, and compares the texts passage by passage.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.dedup.corrections import are_corrections
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.figures import Figures, compare_figures
from stream_dedup.dedup.passages import Comparison, compare_texts, word_key, word_spans
from stream_dedup.dedup.rule import (
    GUARD_REASONS,
    Finding,
    all_findings,
    contributions,
    judge_pairs,
    meaning_of,
    probability,
)
from stream_dedup.dedup.similarity import Similarities, compare
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.fingerprint.characters import CHARACTER, character_classes
from stream_dedup.fingerprint.fingerprint import ExactViews, Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.fingerprint.views import cut_site_suffix, fold_with_python
from stream_dedup.index.probe import nearness_of
from stream_dedup.news.item import Item
from stream_dedup.settings import DecisionSettings, Settings


@dataclass(frozen=True, slots=True)
class View:
    """One view of both items: the sizes of both shingle sets, their intersection, exact and estimated similarity."""

    name: str
    first: int
    second: int
    shared: int
    jaccard: float
    containment: float
    estimate: float | None  # from the sketches: containment of leads, cosine of SimHashes, otherwise Jaccard
    tables: int  # keys of this view
    shared_keys: int  # keys of the second item for which the index proposes the first


@dataclass(frozen=True, slots=True)
class Novelty:
    """The probability that the second item has something new for a reader of the first, and its components.

    novelty: from 0 to 1; the item has something new from `threshold` on. words: the words of its prose; new_words:
    those that the first item lacks. adds: the contribution of each feature (`rule.contributions`) to the log-odds of
    novelty, the largest first; a positive one speaks for something new.
    """

    novelty: float
    threshold: float
    words: float
    new_words: float
    adds: dict[str, float]

    @property
    def new_share(self) -> float:
        """The share of the prose that the first item lacks."""
        return self.new_words / max(self.words, 1)

    def as_json(self) -> dict[str, Any]:
        return {
            "novelty": self.novelty,
            "threshold": self.threshold,
            "words": round(self.words),
            "new_words": round(self.new_words),
            "new_share": self.new_share,
            "features": [{"name": name, "meaning": meaning_of(name), "adds": adds} for name, adds in self.adds.items()],
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of each stage for the second item, given the first.

    swapped: the headline words of the first and of the second item that indicate a template (`Similarities.swapped`);
    both empty if nothing does. grounded: None without a headline. speaks_for: the views that say "same article".
    against: the guards that veto, name -> reason; they count only if a view says yes. anything_new: None if novelty is
    not computed: nothing is similar, the body is a SimHash, or `decision.rule` is "jaccard".
    """

    views: list[View]
    same_source: bool
    same_text: bool
    same_id: bool
    hours_apart: float
    grounded: float | None
    swapped: tuple[list[str], list[str]]
    speaks_for: list[str]
    against: dict[str, str]
    finding: str
    anything_new: Novelty | None
    verdict: Verdict
    headline: Comparison
    text: Comparison
    figures: Figures  # of headline and text

    def as_json(self) -> dict[str, Any]:
        return {
            "views": [{f: getattr(v, f) for f in View.__slots__} for v in self.views],
            "same_source": self.same_source,
            "same_text": self.same_text,
            "same_id": self.same_id,
            "hours_apart": self.hours_apart,
            "grounded": self.grounded,
            "swapped": {"first": self.swapped[0], "second": self.swapped[1]},
            "speaks_for": self.speaks_for,
            "against": self.against,
            "finding": self.finding,
            "anything_new": self.anything_new and self.anything_new.as_json(),
            "verdict": self.verdict.as_json(),
            "headline": self.headline.as_json(),
            "text": self.text.as_json(),
            "figures": self.figures.as_json(),
        }


def explain(first: Item, second: Item, settings: Settings) -> Explanation:
    """Judge `second` as if `first` had been let through just before it, and explain the verdict.

    >>> a = Item("1", "Bridge opens on the Elm", "The bridge opened on Monday, the mayor said.", "a.example", 0)
    >>> b = Item("2", "Bridge opens on the Elm", "The bridge opened on Monday, the mayor said.", "b.example", 0)
    >>> explanation = explain(a, b, Settings())
    >>> explanation.same_text, str(explanation.verdict.kind), explanation.views[2].jaccard
    (True, 'duplicate', 1.0)
    """
    time = first.time if first.time >= 0 else max(second.time, 0)  # without a date, it came just before
    first = msgspec.structs.replace(first, time=time)
    second = msgspec.structs.replace(second, time=max(second.time, time))
    scheme = Scheme(settings.fingerprint)
    make = Fingerprinter(scheme)
    prints = make([first, second])
    index = np.array([0])
    # No item came before the first, so no passage recurs yet.
    nothing_recurs = Boilerplate(), np.zeros(2, np.int64)
    corrects = are_corrections([first.title, second.title])
    similar = compare(prints, prints.signatures, index + 1, index, boilerplate=nothing_recurs, corrects=corrects)
    judged = judge_pairs(similar, settings.decision)
    finding = Finding(int(judged.finding[0]))
    findings = all_findings(similar, 0, settings.decision)
    grounded = float(similar.grounded[0])
    nearness = nearness_of(scheme.dont_care_bits, scheme.table_of, scheme.settings.hamming)
    shared_keys = nearness.matches(prints.keys[1:], prints.keys[:1])[0]
    estimates = {"body": similar.body[0], "lead": similar.lead[0], "headline": similar.headline[0]}
    exact = make.exact(first), make.exact(second)
    views = [
        _view(name, exact, float(estimates[name]), shared_keys[scheme.views[name]])
        for name in ("headline", "lead", "body")
    ]
    dedup = Deduplicator(settings)
    try:
        verdict = dedup.judge([first, second]).verdicts[1]
    finally:
        dedup.close()
    return Explanation(
        views,
        bool(similar.same_source[0]),
        bool(similar.same_text[0]),
        bool(similar.same_id[0]),
        hours_apart=float(similar.apart[0]),
        grounded=None if np.isnan(grounded) else grounded,
        swapped=swapped_words(first, second) if similar.swapped[0] else ([], []),
        speaks_for=[f.name.lower() for f in findings if f > Finding.NOTHING],
        against={f.name.lower(): GUARD_REASONS[f] for f in findings if f < Finding.NOTHING},
        finding=finding.name.lower(),
        anything_new=_anything_new(similar, float(judged.logit[0]), settings.decision),
        verdict=verdict,
        headline=compare_texts(first.title, second.title),
        text=compare_texts(first.text, second.text),
        figures=compare_figures(f"{first.title}\n{first.text}", f"{second.title}\n{second.text}"),
    )


def _anything_new(similar: Similarities, logit: float, decision: DecisionSettings) -> Novelty | None:
    if np.isnan(logit):
        return None
    adds = sorted(contributions(similar, 0).items(), key=lambda contribution: -abs(contribution[1]))
    return Novelty(
        float(probability(np.array([logit]))[0]),
        decision.novelty,
        float(similar.words[0]),
        float(similar.new_words[0]),
        dict(adds),
    )


def swapped_words(first: Item, second: Item) -> tuple[list[str], list[str]]:
    """Find the words of each headline that the other headline lacks and that its own text repeats.

    The words of the first item must also be missing from the second's text. In scripts without spaces a word is a pair
    of characters, as in the fingerprint.

    >>> a = Item("1", "Corn futures fall", "Corn was sold.", "a.example", 0)
    >>> b = Item("2", "Oats futures fall", "Oats were sold.", "a.example", 0)
    >>> swapped_words(a, b)
    (['corn'], ['oats'])
    """
    heads = [_features(cut_site_suffix(item.title)) for item in (first, second)]
    texts = [set(_features(item.text)) for item in (first, second)]
    return (
        [word for word in heads[0] if word not in heads[1] and word in texts[0] and word not in texts[1]],
        [word for word in heads[1] if word not in heads[0] and word in texts[1]],
    )


def _features(text: str) -> dict[str, None]:
    """Return distinct words, or pairs of neighbouring characters, in their order."""
    folded = fold_with_python(text).decode()
    table = character_classes()
    found: dict[str, None] = {}
    before = ""  # the previous token, if it is a character
    alone = False  # whether that character has no neighbour so far
    for start, stop in word_spans(folded):
        token = word_key(folded[start:stop])
        code = ord(token[0])
        if not (code < len(table) and table[code] == CHARACTER):
            if alone:
                found[before] = None
            before, alone = "", False
            found[token] = None
            continue
        if before:
            found[before + token] = None
        alone, before = not before, token
    if alone:
        found[before] = None
    return found


def _view(name: str, exact: tuple[ExactViews, ExactViews], estimate: float, shared_keys: NDArray[np.bool_]) -> View:
    a, b = getattr(exact[0], name), getattr(exact[1], name)
    shared, smaller, union = len(a & b), min(len(a), len(b)), len(a | b)
    return View(
        name,
        len(a),
        len(b),
        shared,
        shared / union if union else 0.0,
        shared / smaller if smaller else 0.0,
        None if np.isnan(estimate) else estimate,
        len(shared_keys),
        int(shared_keys.sum()),
    )
