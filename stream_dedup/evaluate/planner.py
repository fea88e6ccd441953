"""What to set, and what it will cost: thresholds, items, recall and memory in, bands × rows and bytes out.

Pure: nothing is run. `stream-dedup plan` prints it, and the tests compare its predictions with a measured index.

A view's S-curve is 1 - (1 - s^r)^b (`curve.predicted`). A copy that is only just alike in every view must be
proposed with the wanted recall; the views use different hash functions, so they miss independently, and each may
miss the V-th root of what all V may. For each number of rows that gives the fewest bands; more rows press the curve
down where unlike pairs lie, and need more bands, so memory buys fewer false candidates. Of all choices that fit the
memory the one with the lowest price is taken.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stream_dedup.errors import ConfigError
from stream_dedup.evaluate.curve import predicted
from stream_dedup.fingerprint.packed import expected_bytes
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.run import directory_bits
from stream_dedup.settings import DecisionSettings, FingerprintSettings

AMPLIFICATION = (
    "AND: a table's key is made of `rows` values that must all agree, s becomes s^rows, so unlike pairs all but "
    "vanish. OR: any of `bands` tables suffices, the miss becomes (1 - s^rows)^bands, so alike pairs are found again."
)

# Mean of J^r over pairs of unrelated items, r = 1..8: 1.1 M pairs of English web news, those with J >= .5 left out.
# Times bands it is the chance that such a pair becomes a candidate. Reuters' wire is about the same for bodies;
# Chinese by character 5-grams has 10 to 300 times as many: let `evaluate` measure on your own corpus.
UNRELATED = {
    "body": (6.2e-4, 3.5e-5, 5.3e-6, 1.1e-6, 3.0e-7, 1.0e-7, 4.0e-8, 1.7e-8),
    "lead": (2.1e-4, 1.4e-5, 3.2e-6, 1.1e-6, 4.2e-7, 1.7e-7, 7.3e-8, 3.1e-8),
    "headline": (1.5e-2, 9.5e-4, 7.5e-5, 8.6e-6, 1.5e-6, 3.9e-7, 1.3e-7, 4.5e-8),
}
# Price of a false candidate, µs: measured 4 to 10 a candidate (fetch, compare, look at it).
_CANDIDATE = 4.0
# Price of a table: .2 µs an item, measured, and the rest for its 9 bytes an original: worth it from 1 µs on.
_TABLE = 1.0
_MOST_BANDS = 64  # the setting's bound
_KEY_BITS = 32
# Beside record and tables: 8 bytes of time in the index, and 4 that say where its id ends in the store. Room to grow
# is not written to, so it is no memory.
BOOKKEEPING = 12
# Where a packed body ends in the store.
_BODY_END = 4
# More false candidates an item than this (2 ms of work) are no plan, however little memory it would take; where the
# best plan has more than half as many, twice what it has.
_MOST_CANDIDATES = 500.0
_SMALLEST_BINS = 64


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """One view's tables. `similarity`: the Jaccard of a pair that only just counts.

    recall: the view's own chance of proposing such a pair; recall_above: of one alike by .1 more;
    false_candidates: unrelated originals that it proposes an item, at the planned number of originals.
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
    """What to set and what follows from it. `memory`: all originals, at rest; a merge holds its tables twice.

    body_bins: 0 where bodies are kept whole; body_bytes: of those, mean, beside the record; 0 with a sketch.
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
    false_candidates: float

    def curve(self) -> list[tuple[float, list[float]]]:
        """(similarity, chance of being proposed by each view) from 0 to 1 in tenths."""
        return [(k / 10, [float(predicted(k / 10, view.bands, view.rows)) for view in self.views]) for k in range(11)]

    def toml(self) -> str:
        """The settings to paste."""
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


def plan(
    items: int,
    recall: float,
    fingerprint: FingerprintSettings,
    decision: DecisionSettings,
    memory: int | None = None,
    id_bytes: float = 40.0,
    body_shingles: float = 500.0,
) -> Plan:
    """The cheapest tables with this recall for a copy that only just counts, within `memory` bytes if given.

    `items`: originals remembered at a time, i.e. those let through in a window. `body_shingles`: distinct ones of a
    body, on average; they count where bodies are kept whole (verify = "exact"). A sketch is halved down to 64 bins
    before memory counts as too small. Raises ConfigError with what would fit.

    >>> made = plan(100_000, 0.95, FingerprintSettings(), DecisionSettings())
    >>> [(view.name, view.bands, view.rows) for view in made.views if view.name == "body"]
    [('body', 16, 4)]
    >>> made.recall >= 0.95
    True
    """
    if fingerprint.family != "minhash":
        raise ConfigError(
            f"plan chooses the bands of family = 'minhash'; of {fingerprint.family!r} there is nothing to choose by "
            "recall: a layout finds everything within its bits for certain ([fingerprint] layout)"
        )
    views = _thresholds(decision)
    each = 1.0 - (1.0 - recall) ** (1.0 / len(views))
    choices = [list(_choices(name, s, each, items)) for name, s in views]
    for (name, s), some in zip(views, choices, strict=True):
        if not some:
            raise ConfigError(
                f"recall {recall:g} cannot be had in the {name} at Jaccard {s:g} with {_MOST_BANDS} bands; ask for less"
            )
    combinations = sorted(itertools.product(*choices), key=_price)
    most = max(_MOST_CANDIDATES, 2 * _candidates(combinations[0]))
    combinations = [chosen for chosen in combinations if _candidates(chosen) <= most]
    exact = fingerprint.verify == "exact"
    body_bytes = expected_bytes(body_shingles) + _BODY_END if exact else 0.0
    halved = [fingerprint.body_bins]
    while halved[-1] > _SMALLEST_BINS:
        halved.append(halved[-1] // 2)
    cheapest = math.inf
    for bins in [0] if exact else halved:
        for chosen in combinations:
            made = _made(list(chosen), items, bins, fingerprint, id_bytes, body_bytes)
            if memory is None or made.memory <= memory:
                return made
            cheapest = min(cheapest, made.memory)
    raise ConfigError(
        f"{items:,} originals at recall {recall:g} need at least {cheapest:,.0f} bytes, not {memory:,}; "
        "take a shorter window, a lower recall or more memory"
    )


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes an original takes: of its record, in each of the tables, of its id, and of all with the bookkeeping."""

    record_bytes: int
    tables: int
    table_bytes: float
    id_bytes: float
    bytes_per_item: float


def footprint(scheme: Scheme, items: int, id_bytes: float = 40.0, body_bytes: float = 0.0) -> Footprint:
    """What an original takes under any scheme, at rest; `body_bytes`: its packed body, if kept.

    The benchmark measures the same as resident memory.

    >>> round(footprint(Scheme(FingerprintSettings()), 10_000_000).bytes_per_item)
    609
    """
    record, each = scheme.record_dtype.itemsize, table_bytes(items)
    total = record + body_bytes + scheme.tables * each + id_bytes + BOOKKEEPING
    return Footprint(record, scheme.tables, each, id_bytes, total)


def table_bytes(rows: int, key_bytes: int = 4) -> float:
    """Bytes a row takes in one table of a full run of `rows`: its key, its number, its share of the directory.

    >>> table_bytes(1_000_000)
    8.52
    """
    directory = 4 * ((1 << directory_bits(rows)) + 1)
    return round(key_bytes + 4 + directory / max(rows, 1), 2)


def _thresholds(d: DecisionSettings) -> list[tuple[str, float]]:
    """Each view that decides, and the Jaccard of a pair that only just counts in it.

    The lead's threshold is a containment c: two leads of one length then have J = c / (2 - c).
    """
    if d.rule == "jaccard":
        return [("body", d.body)]
    return [("body", d.body), ("lead", d.lead / (2.0 - d.lead)), ("headline", d.headline)]


def _choices(name: str, similarity: float, recall: float, items: int) -> Iterator[ViewPlan]:
    """For each number of rows the fewest bands with this recall."""
    for rows, unrelated in enumerate(UNRELATED[name], 1):
        agree = similarity**rows
        bands = 1 if agree >= 1 else math.ceil(math.log1p(-recall) / math.log1p(-agree) - 1e-9) if agree else math.inf
        if bands > _MOST_BANDS:
            return
        bands = max(int(bands), 1)
        above = min(similarity + 0.1, 1.0)
        yield ViewPlan(
            name,
            round(similarity, 4),
            bands,
            rows,
            float(predicted(similarity, bands, rows)),
            float(predicted(above, bands, rows)),
            items * bands * (unrelated + 2.0**-_KEY_BITS),
        )


def _candidates(views: tuple[ViewPlan, ...]) -> float:
    return sum(view.false_candidates for view in views)


def _price(views: tuple[ViewPlan, ...]) -> float:
    return _candidates(views) * _CANDIDATE + sum(view.bands for view in views) * _TABLE


def _made(
    views: list[ViewPlan], items: int, bins: int, s: FingerprintSettings, id_bytes: float, body_bytes: float
) -> Plan:
    bands = {f"{view.name}_{part}": getattr(view, part) for view in views for part in ("bands", "rows")}
    scheme = Scheme(s.model_copy(update={**bands, "body_bins": bins}))
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
        takes.table_bytes,
        id_bytes,
        takes.bytes_per_item,
        math.ceil(items * takes.bytes_per_item),
        _candidates(tuple(views)),
    )
