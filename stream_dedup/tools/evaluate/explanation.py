"""Explain the decision on a pair of items: the numbers behind it, and what is new in the second item.

Fingerprint, similarity, rule and Decider make the decision. This module adds exact similarities beside the
estimates, and the marks of what differs.
"""

import math
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.dedup.corrections import corrections
from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.rule import SAME_ARTICLE, probability, rule_of
from stream_dedup.dedup.source_rules import SourceRules
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.fingerprint.fingerprint import ExactViews, Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.runs import nearness_of
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings
from stream_dedup.tools.marks import Comparison, compare_items
from stream_dedup.tools.pair_rule import FIXED, KINSHIP, NOVELTY, columns, compare, contributions, judge_pairs

# What the features of one source mean where the sources differ, or the items are of no series.
_ELSEWHERE = {"same_source": "two sources", "series": "two sources, so no series"}
_NO_SERIES = {"series": "one source, and no series"}
# Features that hold or do not; the others are counts and shares, and one is the logarithm of a ratio.
_FACTS = frozenset(("same_source", "series", *FIXED))
_RATIO = "larger"


@dataclass(frozen=True, slots=True)
class View:
    """One view of both items as sets."""

    name: str
    first: int  # size of the first set
    second: int  # size of the second set
    shared: int  # size of their intersection
    jaccard: float
    containment: float
    estimate: float | None  # the Jaccard from the sketches; of SimHashes, the cosine


@dataclass(frozen=True, slots=True)
class KeysOfKind:
    """Keys of one kind: how many the second item has, and with how many of them the index finds the first."""

    kind: str  # as in `Scheme.columns`
    keys: int
    shared: int


@dataclass(frozen=True, slots=True)
class Term:
    """A feature of a model, and what it adds to the log-odds. A positive number speaks for yes.

    value: of this pair; None if the meaning says it.
    """

    name: str
    meaning: str
    adds: float
    value: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer: a probability, and the threshold from which it means yes.

    features: the largest contributions first.
    """

    probability: float
    threshold: float
    features: list[Term]


@dataclass(frozen=True, slots=True)
class Added:
    """Counts of the second item's article, and of what is new in it by the first item's stored filter of words."""

    words: int
    new_words: int
    sentences: int  # words in mostly new sentences
    numbers: int  # figures in the prose
    new_numbers: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """The numbers behind the verdict on the second item, given the first.

    The answers and `added` are None if plain similarity decides: without words (SimHash, given), or with
    `decision.jaccard`.
    """

    views: list[View]
    keys: list[KeysOfKind]
    same_source: bool
    same_text: bool
    same_id: bool
    hours_apart: float
    # the share of a headline's words that its own text has, the higher of both; None without a headline
    grounded: float | None
    novelty: Answer | None  # is anything new?
    kinship: Answer | None  # is it the same article?
    added: Added | None
    verdict: Verdict
    headline: Comparison
    text: Comparison
    rules: list[str]  # those for the two sources

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict.as_json()}


def explain(first: Item, second: Item, settings: Settings) -> Explanation:
    """Judge `second` as if `first` had been let through just before it, and explain the verdict.

    >>> a = Item("1", "Bridge opens on the Elm", "The bridge opened on Monday, the mayor said.", "a.example", 0)
    >>> b = Item("2", "Bridge opens on the Elm", "The bridge opened on Monday, the mayor said.", "b.example", 0)
    >>> explanation = explain(a, b, Settings())
    >>> explanation.same_text, str(explanation.verdict.kind), explanation.views[1].jaccard
    (True, 'duplicate', 1.0)
    """
    time = first.time if first.time >= 0 else max(second.time, 0)  # without a date, it came just before
    first = msgspec.structs.replace(first, time=time)
    second = msgspec.structs.replace(second, time=max(second.time, time))
    scheme = Scheme(settings.fingerprint)
    make = Fingerprinter(scheme)
    prints = make([first, second])
    row = np.array([0])
    # No item came before the first, so no passage recurs yet.
    nothing_recurs = Boilerplate(), np.zeros(2, np.int64)
    marks = corrections([first, second])
    similar = compare(prints, prints.signatures, row + 1, row, boilerplate=nothing_recurs, corrects=marks)
    measured = similar[0]
    exact = make.exact(first), make.exact(second)
    novelty = kinship = added = None
    if settings.decision.jaccard is None and prints.texts is not None:
        judged = judge_pairs(similar, rule_of(settings.decision, has_words=True))
        novelty = _answer(similar, judged.logit[0], settings.decision.threshold)
        limit = float(probability(np.array(SAME_ARTICLE)))
        kinship = _answer(similar, judged.kinship[0], limit, of_kinship=True)
        counts = ("words", "new_words", "new_sentences", "numbers", "new_numbers")
        added = Added(*(round(float(measured[name])) for name in counts))
    with closing(Decider(settings)) as dedup:
        verdict = dedup.judge([first, second]).verdicts[1]
    headline, text = compare_items(first, second)
    equal = bool(measured["same_source"]), bool(measured["same_text"]), bool(measured["same_id"])
    return Explanation(
        [_view(name, exact, float(measured[name])) for name in ("headline", "body")],
        _keys(scheme, prints.keys),
        *equal,
        hours_apart=float(measured["apart"]), grounded=_known(float(measured["grounded"])), novelty=novelty,
        kinship=kinship, added=added, verdict=verdict, headline=headline, text=text,
        rules=SourceRules(settings.sources).find([first, second]),
    )  # fmt: skip


def _answer(pair: NDArray[np.void], logit: np.float32, threshold: float, of_kinship: bool = False) -> Answer:
    features = KINSHIP if of_kinship else NOVELTY | FIXED
    meanings = {name: feature.meaning for name, feature in features.items()}
    row = columns(pair, "kinship" if of_kinship else "novelty")[0].tolist()
    values = dict(zip(KINSHIP if of_kinship else NOVELTY, row, strict=True))
    if not pair["same_source"][0]:
        meanings |= _ELSEWHERE
    elif not values.get("series", True):
        meanings |= _NO_SERIES
    shown = {name: math.exp(value) if name == _RATIO else value for name, value in values.items() if name not in _FACTS}
    adds = contributions(pair, 0, of_kinship)
    terms = [Term(name, meanings[name], value, shown.get(name)) for name, value in adds.items()]
    return Answer(float(probability(np.array(logit))), threshold, sorted(terms, key=lambda term: -abs(term.adds)))


def _keys(scheme: Scheme, keys: NDArray[np.uint32]) -> list[KeysOfKind]:
    """Count the keys of both items, (2, columns), by kind."""
    nearness = nearness_of(scheme.dont_care_bits, scheme.table_of, scheme.settings.hamming)
    shared = nearness.matches(keys[1:], keys[:1])[0]
    return [
        KeysOfKind(kind, int(np.count_nonzero(keys[1, place])), int(np.count_nonzero(shared[place])))
        for kind, place in scheme.columns.items()
    ]


def _view(name: str, exact: tuple[ExactViews, ExactViews], estimate: float) -> View:
    a, b = getattr(exact[0], name), getattr(exact[1], name)
    shared = len(a & b)
    jaccard, containment = (shared / whole if whole else 0.0 for whole in (len(a | b), min(len(a), len(b))))
    return View(name, len(a), len(b), shared, jaccard, containment, _known(estimate))


def _known(number: float) -> float | None:
    return None if np.isnan(number) else number
