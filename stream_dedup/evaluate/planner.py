"""Plan the LSH tables: choose bands and rows for a recall and a memory limit, and predict recall, work and bytes.

Pure; nothing is run. `stream-dedup plan` prints the result, and tests compare the predictions with a measured index.
`present` evaluates the current settings, `plan` finds others, `advise` combines both.

The S-curve of a view is 1 - (1 - s^r)^b (`curve.predicted`). A copy that is just similar enough in every view must be
proposed with the requested recall. The views use different hash functions and miss independently, so each of V views
may miss the V-th root of the total miss rate. This determines the fewest bands for each number of rows. More rows
propose fewer unrelated pairs and need more bands: memory buys fewer false candidates. Among the choices that fit into
memory the cheapest one wins.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stream_dedup.errors import ConfigError
from stream_dedup.evaluate.curve import predicted
from stream_dedup.fingerprint.packed_sets import expected_bytes
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import footprint, peak_bytes
from stream_dedup.settings import DecisionSettings, FingerprintSettings
from stream_dedup.settings.fingerprint import MOST_BANDS
from stream_dedup.settings.memory import sized

AMPLIFICATION = (
    "bands × rows: each of `bands` tables has a key of `rows` values, and two items of similarity s are compared if "
    "they share a key in any table, which happens with chance 1 - (1 - s^rows)^bands. More rows propose fewer unlike "
    "pairs (AND), more bands find more alike ones (OR)."
)

LETTERS = (
    "With shingle_letters these figures are too low: unrelated texts share more letters than words, so more of them "
    "are proposed. Measure your own with `stream-dedup evaluate CORPUS --sweep`."
)
"""What to say of false candidates where shingles are of letters; plain text. They were measured with words."""

# Mean of J^r over pairs of unrelated items, r = 1..8, from 1.1 M pairs of English web news with J < .5. Times the
# number of bands it is the probability that such a pair becomes a candidate. Bodies of Reuters' wire give about the
# same values; Chinese with character 5-grams gives 10 to 300 times as much: measure your own corpus with `evaluate`.
UNRELATED = {
    "body": (6.2e-4, 3.5e-5, 5.3e-6, 1.1e-6, 3.0e-7, 1.0e-7, 4.0e-8, 1.7e-8),
    "lead": (2.1e-4, 1.4e-5, 3.2e-6, 1.1e-6, 4.2e-7, 1.7e-7, 7.3e-8, 3.1e-8),
    "headline": (1.5e-2, 9.5e-4, 7.5e-5, 8.6e-6, 1.5e-6, 3.9e-7, 1.3e-7, 4.5e-8),
}
CANDIDATE_US = 4.0
"""Cost of a false candidate in µs: 4 to 10 measured (fetch and compare)."""
TABLE_US = 1.0
"""Cost of a table in µs an item: .2 measured; the rest stands for its 9 bytes an original."""
_KEY_BITS = 32
# Bytes that store the end of a packed body.
_BODY_END = 4
MOST_CANDIDATES = 500.0
"""The most false candidates an item that a plan may have (2 ms of work), however little memory it takes. If the best
plan has more than half as many, the limit is twice its number."""
_SMALLEST_BINS = 64
WORTH = 1.25
"""Propose other settings only if they are this much cheaper: a migration judges a whole window again."""


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """The tables of one view. `similarity`: the Jaccard of a pair at the threshold.

    recall: the probability that the view proposes such a pair; recall_above: of a pair with .1 more. false_candidates:
    unrelated originals that it proposes for an item, at the planned number of originals.
    """

    name: str
    similarity: float
    bands: int
    rows: int
    recall: float
    recall_above: float
    false_candidates: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings and their consequences. `memory`: bytes of all originals at rest; `peak`: at most, while tables merge.

    body_bins: 0 if whole bodies are kept. body_bytes: mean bytes of a whole body, beside the signature; 0 with a
    sketch. record_bytes: bytes of a signature.
    """

    items: int
    views: list[ViewPlan]
    tables: int
    body_bins: int
    recall: float
    standard_error: float
    record_bytes: int
    body_bytes: float
    table_bytes: float
    id_bytes: float
    bytes_per_item: float
    memory: int
    peak: int
    false_candidates: float

    @property
    def price(self) -> float:
        """The cost of an item by its false candidates and tables, in µs."""
        return _price(self.views)

    def curve(self) -> list[tuple[float, list[float]]]:
        """Return (similarity, probability of being proposed by each view) from 0 to 1 in tenths."""
        return [(k / 10, [float(predicted(k / 10, view.bands, view.rows)) for view in self.views]) for k in range(11)]

    def toml(self) -> str:
        """Return the settings as TOML."""
        lines = ["[fingerprint]", f"body_bins = {self.body_bins}" if self.body_bins else 'verify = "exact"']
        for view in self.views:
            lines += [f"{view.name}_bands = {view.bands}", f"{view.name}_rows = {view.rows}"]
        return "\n".join(lines) + "\n"

    def as_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__ if name != "views"}
        out["views"] = [{name: getattr(view, name) for name in view.__slots__} for view in self.views]
        out["curve"] = [{"similarity": s, "proposed": chances} for s, chances in self.curve()]
        out["settings"] = self.toml()
        return out


@dataclass(frozen=True, slots=True)
class Advice:
    """The plan of the present settings, and a better one; None: keep the present ones.

    recall: as requested, or that of the present settings. limit: of the peak in bytes, as requested, or what the
    present settings take. exceeded: no plan with this recall stays within the limit, and the limit was not requested.
    """

    recall: float
    limit: int
    present: Plan
    proposed: Plan | None
    exceeded: bool = False


def advise(
    items: int,
    recall: float | None,
    fingerprint: FingerprintSettings,
    decision: DecisionSettings,
    memory: int | None = None,
    id_bytes: float = 40.0,
    body_shingles: float = 500.0,
) -> Advice:
    """Evaluate the present settings, and propose others if they are a quarter cheaper or if the present ones fall
    short.

    `recall` defaults to that of the present settings, `memory` to what they take, unless a higher recall needs more. If
    the present settings meet both, the proposal takes no more memory than they do. Raises ConfigError as `plan` does.

    >>> found = advise(1_000_000, None, FingerprintSettings(), DecisionSettings())
    >>> round(found.present.recall, 3), found.proposed is None
    (0.94, True)
    """
    now = present(items, fingerprint, decision, id_bytes, body_shingles)
    wanted = now.recall if recall is None else recall
    limit = now.peak if memory is None else memory
    given = items, wanted, fingerprint, decision
    more = id_bytes, body_shingles, now.false_candidates
    is_enough = now.recall >= wanted and now.peak <= limit
    exceeded = False
    try:
        made = plan(
            *given, min(limit, now.peak) if is_enough else limit, *more, halve=not is_enough and memory is not None
        )
    except ConfigError:
        if is_enough:
            return Advice(wanted, limit, now, None)
        if memory is not None:
            raise
        made, exceeded = plan(*given, None, *more, halve=False, smallest=True), True
    if is_enough and now.price <= WORTH * made.price:
        return Advice(wanted, limit, now, None)
    return Advice(wanted, limit, now, made, exceeded)


def present(
    items: int,
    fingerprint: FingerprintSettings,
    decision: DecisionSettings,
    id_bytes: float = 40.0,
    body_shingles: float = 500.0,
) -> Plan:
    """Evaluate the present settings. Raises ConfigError for a family without bands (`simhash_planner`)."""
    _require_bands(fingerprint)
    views = [
        view_plan(name, s, getattr(fingerprint, f"{name}_bands"), getattr(fingerprint, f"{name}_rows"), items)
        for name, s in thresholds(decision, fingerprint)
    ]
    exact = fingerprint.verify == "exact"
    bins = 0 if exact else fingerprint.body_bins
    return _made(views, items, bins, fingerprint, id_bytes, _body_bytes(exact, body_shingles))


def plan(
    items: int,
    recall: float,
    fingerprint: FingerprintSettings,
    decision: DecisionSettings,
    memory: int | None = None,
    id_bytes: float = 40.0,
    body_shingles: float = 500.0,
    candidates: float = 0.0,
    *,
    halve: bool = True,
    smallest: bool = False,
) -> Plan:
    """Find the cheapest tables with this recall at the thresholds, within `memory` bytes even during a merge.

    `items`: originals remembered at a time: those let through in a window. `body_shingles`: mean number of distinct
    shingles of a body; it counts if whole bodies are kept (verify = "exact"). `candidates`: this many false ones an
    item are always allowed. `halve`: halve the sketch, down to 64 bins, before memory counts as too small. `smallest`:
    minimise memory instead of cost. Raises ConfigError that says what would fit.

    >>> made = plan(100_000, 0.95, FingerprintSettings(), DecisionSettings())
    >>> [(view.name, view.bands, view.rows) for view in made.views if view.name == "body"]
    [('body', 16, 4)]
    >>> made.recall >= 0.95
    True
    """
    _require_bands(fingerprint)
    views = thresholds(decision, fingerprint)
    each = 1.0 - (1.0 - recall) ** (1.0 / len(views))
    choices = [list(_choices(name, s, each, items)) for name, s in views]
    for (name, s), some in zip(views, choices, strict=True):
        if not some:
            raise ConfigError(
                f"recall {recall:.4g} cannot be had in the {name} at Jaccard {s:g} with {MOST_BANDS} bands; "
                "ask for less"
            )
    combinations = sorted(itertools.product(*choices), key=_price)
    most = max(MOST_CANDIDATES, 2 * _candidates(combinations[0]), candidates)
    combinations = [chosen for chosen in combinations if _candidates(chosen) <= most]
    if smallest:
        combinations.sort(key=lambda chosen: sum(view.bands for view in chosen))
    exact = fingerprint.verify == "exact"
    body_bytes = _body_bytes(exact, body_shingles)
    halved = [fingerprint.body_bins]
    while halve and halved[-1] > _SMALLEST_BINS:
        halved.append(halved[-1] // 2)
    cheapest = math.inf
    for bins in [0] if exact else halved:
        for chosen in combinations:
            made = _made(list(chosen), items, bins, fingerprint, id_bytes, body_bytes)
            if memory is None or made.peak <= memory:
                return made
            cheapest = min(cheapest, made.peak)
    capacity = memory or 0
    # Fewer originals take a little more each (.2 % at half the number): subtract 3 %, and round down to two digits.
    fit = int(0.97 * items * capacity / cheapest)
    fit -= fit % 10 ** max(len(str(fit)) - 2, 0)
    raise ConfigError(
        f"{items:,} originals at recall {recall:.4g} need at least {sized(cheapest)} while tables merge, not "
        f"{sized(capacity)}, which hold about {fit:,}; take a shorter window, a lower recall or more memory"
    )


def thresholds(d: DecisionSettings, fingerprint: FingerprintSettings) -> list[tuple[str, float]]:
    """Return each deciding view with the Jaccard at its threshold.

    The threshold of the lead is a containment c; two leads of equal length then have J = c / (2 - c).
    """
    if d.rule == "jaccard" or fingerprint.views == "body":
        return [("body", d.body)]
    return [("body", d.body), ("lead", d.lead / (2.0 - d.lead)), ("headline", d.headline)]


def _choices(name: str, similarity: float, recall: float, items: int) -> Iterator[ViewPlan]:
    """Yield the fewest bands with this recall for each number of rows."""
    for rows in range(1, len(UNRELATED[name]) + 1):
        agree = similarity**rows
        bands = 1 if agree >= 1 else math.ceil(math.log1p(-recall) / math.log1p(-agree) - 1e-9) if agree else math.inf
        if bands > MOST_BANDS:
            return
        yield view_plan(name, similarity, max(int(bands), 1), rows, items)


def view_plan(name: str, similarity: float, bands: int, rows: int, items: int) -> ViewPlan:
    unrelated = UNRELATED[name][min(rows, len(UNRELATED[name])) - 1]  # an upper bound for more rows
    return ViewPlan(
        name,
        round(similarity, 4),
        bands,
        rows,
        float(predicted(similarity, bands, rows)),
        float(predicted(min(similarity + 0.1, 1.0), bands, rows)),
        items * bands * (unrelated + 2.0**-_KEY_BITS),
    )


def _require_bands(fingerprint: FingerprintSettings) -> None:
    if fingerprint.family != "minhash":
        raise ConfigError(
            f"family = {fingerprint.family!r} has no bands to plan: a layout finds every pair within its Hamming "
            "distance for certain"
        )


def _body_bytes(exact: bool, shingles: float) -> float:
    return expected_bytes(shingles) + _BODY_END if exact else 0.0


def _candidates(views: Sequence[ViewPlan]) -> float:
    return sum(view.false_candidates for view in views)


def _price(views: Sequence[ViewPlan]) -> float:
    return _candidates(views) * CANDIDATE_US + sum(view.bands for view in views) * TABLE_US


def _made(
    views: list[ViewPlan], items: int, bins: int, s: FingerprintSettings, id_bytes: float, body_bytes: float
) -> Plan:
    bands = {f"{view.name}_{part}": getattr(view, part) for view in views for part in ("bands", "rows")}
    scheme = Scheme(s.model_copy(update={**bands, "body_bins": bins or s.body_bins}))
    takes = footprint(scheme, items, id_bytes, body_bytes)
    body = views[0].similarity
    return Plan(
        items,
        views,
        scheme.tables,
        bins,
        1.0 - math.prod(1.0 - view.recall for view in views),
        math.sqrt(body * (1.0 - body) / bins) if bins else 0.0,
        takes.record_bytes,
        body_bytes,
        takes.key_bytes,
        id_bytes,
        takes.bytes_per_item,
        math.ceil(items * takes.bytes_per_item),
        peak_bytes(items, takes),
        _candidates(views),
    )
