"""Two items -> why they are, or are not, the same article: every stage's numbers.

Nothing here decides anything of its own: it asks the parts that decide (fingerprint, similarity, rule,
Deduplicator) and puts the exact sets beside their estimates.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.rule import Finding, judge_pairs
from stream_dedup.dedup.similarity import compare
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.fingerprint.fingerprint import ExactViews, Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings


@dataclass(frozen=True, slots=True)
class View:
    """One view of both items: sizes of the two sets, what they share, exact and estimated similarity."""

    name: str
    first: int
    second: int
    shared: int
    jaccard: float
    containment: float
    estimate: float | None  # from the sketches; of the lead: the containment, else the Jaccard
    tables: int  # tables of this view
    shared_keys: int  # of them, in how many the index would propose the first for the second


@dataclass(frozen=True, slots=True)
class Explanation:
    """What each stage says of the second item, given the first."""

    views: list[View]
    same_source: bool
    same_text: bool
    same_id: bool
    finding: str
    verdict: Verdict

    def as_json(self) -> dict[str, Any]:
        return {
            "views": [{f: getattr(v, f) for f in View.__slots__} for v in self.views],
            "same_source": self.same_source,
            "same_text": self.same_text,
            "same_id": self.same_id,
            "finding": self.finding,
            "verdict": self.verdict.as_json(),
        }


def explain(first: Item, second: Item, settings: Settings) -> Explanation:
    """Judges `second` as if `first` had been let through just before it.

    >>> a = Item("1", "Bridge opens on the Elm", "The bridge opened on Monday, the mayor said.", "a.example", 0)
    >>> b = Item("2", "Bridge opens on the Elm", "The bridge opened on Monday, the mayor said.", "b.example", 0)
    >>> told = explain(a, b, Settings())
    >>> told.same_text, str(told.verdict.kind), told.views[2].jaccard
    (True, 'duplicate', 1.0)
    """
    time = max(first.time, 0)
    first, second = replace(first, time=time), replace(second, time=max(second.time, time))
    scheme = Scheme(settings.fingerprint)
    make = Fingerprinter(scheme)
    prints = make([first, second])
    one = np.array([0])
    similar = compare(prints, prints.records, one + 1, one)
    finding = Finding(int(judge_pairs(similar, settings.decision)[0]))
    s = settings.fingerprint
    shared_keys = (prints.keys[0] == prints.keys[1]) & (prints.keys[0] != 0)
    ends = np.cumsum([s.body_bands, s.lead_bands, s.headline_bands])
    tables = {"body": slice(0, ends[0]), "lead": slice(ends[0], ends[1]), "headline": slice(ends[1], ends[2])}
    estimates = {"body": similar.body[0], "lead": similar.lead[0], "headline": similar.headline[0]}
    exact = make.exact(first), make.exact(second)
    views = [
        _view(name, exact, float(estimates[name]), shared_keys[tables[name]].size, int(shared_keys[tables[name]].sum()))
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
        finding.name.lower(),
        verdict,
    )


def _view(name: str, exact: tuple[ExactViews, ExactViews], estimate: float, tables: int, shared_keys: int) -> View:
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
        tables,
        shared_keys,
    )
