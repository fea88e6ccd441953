"""Plan the tables of a SimHash: choose the Hamming distance k and a layout for a recall and a memory limit.

Pure; nothing is run. `stream-dedup plan` prints the result, and tests compare the predictions with a measured index.
`layout_plan` evaluates one layout, `advise` compares the present one with those that guarantee the same distance.

Recall and candidates follow from how far apart near-duplicates and unrelated fingerprints are: simhash_model.py.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from stream_dedup.errors import ConfigError
from stream_dedup.evaluate.planner import CANDIDATE_US, MOST_CANDIDATES, TABLE_US, WORTH, view_plan
from stream_dedup.evaluate.simhash_model import UNRELATED, bit_difference, kind_of, recall_at, within
from stream_dedup.fingerprint.layout import Layout
from stream_dedup.fingerprint.layout import layout as parse_layout
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import footprint, indexes, peak_bytes
from stream_dedup.settings import DecisionSettings, FingerprintSettings
from stream_dedup.settings.memory import sized

MOST_FINGERPRINTS = 2**34
"""The most that are planned: on paper, one layout for twice the largest collection in the literature (8 billion pages,
Manku et al. 2007)."""

# Keys of a near table that are read in a row: 150 cost less than two cache misses (index/probe.py).
_KEY_US = 0.001
_KEY_BITS = 32
_MOST_BITS = 128
# From here on longer keys hardly find fewer candidates: as many share the 32 bits of a key's hash by chance.
_LONG_KEY = 40
# Jaccards of the printed curve: below .7 hardly any pair is within a distance that tables can guarantee.
CURVE_AT = (0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """A layout with its Hamming distance, and what follows. `max_hamming`: the largest distance that it guarantees.

    key_bits: fewest and most bits that a table selects. recall: of a pair at the threshold; None if it is unknown.
    false_candidates: unrelated originals that the body's tables propose for an item, at most; other_candidates: those
    of lead and headline. keys_read: keys that an item reads in near tables. peak: most bytes, while tables merge.
    """

    hamming: int
    layout: str
    max_hamming: int
    body_tables: int
    tables: int
    key_bits: tuple[int, int]
    recall: float | None
    false_candidates: float
    other_candidates: float
    keys_read: float
    record_bytes: int
    table_bytes: float
    id_bytes: float
    bytes_per_item: float
    memory: int
    peak: int

    @property
    def price(self) -> float:
        """The cost of an item by its candidates, tables and keys read, in µs."""
        candidates = self.false_candidates + self.other_candidates
        return candidates * CANDIDATE_US + self.tables * TABLE_US + self.keys_read * _KEY_US

    def toml(self) -> str:
        """Return the settings as TOML."""
        return f'[fingerprint]\nhamming = {self.hamming}\nlayout = "{self.layout}"\n'

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {"settings": self.toml()}


@dataclass(frozen=True, slots=True)
class SimHashAdvice:
    """The present layout, and a better one; None: keep the present one.

    recall: as requested, or None. similarity: the body Jaccard at which recall counts. limit: of the peak in bytes.
    exceeded: no layout within the limit guarantees the distance, and the limit was not requested. layouts: those that
    guarantee the chosen distance, the cheapest first. distances: the cheapest layout for each distance. curve:
    (Jaccard, recall of the present distance, of the proposed one). indexes: how many processes hold the originals.
    """

    items: int
    recall: float | None
    similarity: float
    limit: int
    present: LayoutPlan
    proposed: LayoutPlan | None
    exceeded: bool
    layouts: list[LayoutPlan]
    distances: list[LayoutPlan]
    curve: list[tuple[float, float, float]]
    indexes: int

    @property
    def changes_scheme(self) -> bool:
        """Whether the proposal needs a migration: the distance alone is not part of the scheme."""
        return self.proposed is not None and self.proposed.layout != self.present.layout


def advise(
    items: int,
    fingerprint: FingerprintSettings,
    decision: DecisionSettings,
    *,
    recall: float | None = None,
    hamming: int | None = None,
    memory: int | None = None,
    id_bytes: float = 40.0,
) -> SimHashAdvice:
    """Evaluate the present layout, and propose another if it falls short or another is a quarter cheaper.

    `recall` at `decision.body` determines the distance; `hamming` gives it; by default it stays. Raises ConfigError
    that says what can be had.

    >>> settings = FingerprintSettings(family="simhash")
    >>> found = advise(1_000_000, settings, DecisionSettings(body=0.95), recall=0.9)
    >>> found.present.hamming, found.proposed.hamming, found.proposed.layout
    (3, 7, '10 choose 3')
    """
    given = fingerprint, decision, items, id_bytes
    now = layout_plan(fingerprint.hamming, fingerprint.layout, *given)
    wanted = now.hamming if hamming is None else hamming
    if recall is not None:
        wanted = least_hamming(recall, decision.body, fingerprint)
    layouts = sorted((layout_plan(wanted, name, *given) for name in layouts_of(wanted, fingerprint.bits)), key=_price)
    if not layouts:
        raise ConfigError(_out_of_reach(wanted, fingerprint.bits))
    limit = now.peak if memory is None else memory
    # More than the requested recall is enough, and another distance than the requested one is not.
    is_enough = now.peak <= limit and (now.hamming == wanted or (recall is not None and now.hamming > wanted))
    fitting = [made for made in layouts if made.peak <= (min(limit, now.peak) if is_enough else limit)]
    proposed, exceeded = None, False
    if fitting:
        proposed = fitting[0]
    elif not is_enough:
        most = max(MOST_CANDIDATES, 2 * layouts[0].false_candidates)
        bearable = [made for made in layouts if made.false_candidates <= most]
        smallest = min(bearable if memory is None else layouts, key=lambda made: made.peak)
        if memory is not None:
            raise ConfigError(
                f"{items:,} originals within {wanted} bits need at least {sized(smallest.peak)} while tables merge "
                f"(layout = {smallest.layout!r}), not {sized(memory)}; take a shorter window, a smaller distance or "
                "more memory"
            )
        proposed, exceeded = smallest, True
    if proposed and is_enough and now.price <= WORTH * proposed.price:
        proposed = None
    chosen = proposed or now
    curve = [
        (at, first, second)
        for at in CURVE_AT
        if (first := recall_at(at, now.hamming, fingerprint)) is not None
        and (second := recall_at(at, chosen.hamming, fingerprint)) is not None
    ]
    return SimHashAdvice(
        items, recall, decision.body, limit, now, proposed, exceeded, layouts,
        [cheapest(k, *given) for k in range(_largest(fingerprint.bits) + 1)], curve, indexes(items),
    )  # fmt: skip


def layout_plan(
    hamming: int,
    layout: str,
    fingerprint: FingerprintSettings,
    decision: DecisionSettings,
    items: int,
    id_bytes: float = 40.0,
) -> LayoutPlan:
    """Evaluate one layout with one distance for `items` originals. Raises ConfigError if it does not guarantee it.

    >>> settings = FingerprintSettings(family="simhash", views="body")
    >>> made = layout_plan(3, "4 choose 1", settings, DecisionSettings(), 1_000_000)
    >>> made.tables, made.key_bits, round(made.bytes_per_item), round(made.false_candidates, 2)
    (5, (16, 16), 155, 0.75)
    """
    scheme = Scheme(fingerprint.model_copy(update={"hamming": hamming, "layout": layout}))
    tables = scheme.layout
    if tables is None:
        raise ConfigError(f"family = {fingerprint.family!r} has no layout to plan")
    takes = footprint(scheme, items, id_bytes)
    selected = np.bitwise_count(tables.masks).sum(axis=1)
    false, read = _false_candidates(tables, hamming, UNRELATED[kind_of(fingerprint)])
    others = 0.0
    if not scheme.is_body_only:
        for name in ("lead", "headline"):
            bands, rows = getattr(fingerprint, f"{name}_bands"), getattr(fingerprint, f"{name}_rows")
            others += view_plan(name, 1.0, bands, rows, items).false_candidates
    return LayoutPlan(
        hamming=hamming,
        layout=layout,
        max_hamming=tables.max_hamming,
        body_tables=tables.tables,
        tables=scheme.key_columns,
        key_bits=(int(selected.min()), int(selected.max())),
        recall=recall_at(decision.body, hamming, fingerprint),
        false_candidates=items * false,
        other_candidates=others,
        keys_read=items * read,
        record_bytes=takes.record_bytes,
        table_bytes=takes.key_bytes,
        id_bytes=id_bytes,
        bytes_per_item=takes.bytes_per_item,
        memory=math.ceil(items * takes.bytes_per_item),
        peak=peak_bytes(items, takes),
    )


def layouts_of(hamming: int, bits: int) -> list[str]:
    """Return the layouts that guarantee this distance and no larger one (at distance 0: those for 1).

    >>> layouts_of(3, 64)
    ['4 choose 1', '5 choose 2', '6 choose 3', '7 choose 4', '8 choose 5', '4 x 4']
    >>> layouts_of(6, 64), layouts_of(17, 128)
    (['8 choose 2', '9 choose 3', '10 choose 4', '11 choose 5', '12 choose 6', '7 x 7'], [])
    """
    return list(_layouts(max(hamming, 1), bits))


@lru_cache
def _layouts(hamming: int, bits: int) -> tuple[str, ...]:
    found = []
    for chosen in range(1, bits - hamming):
        found.append(f"{hamming + chosen} choose {chosen}")
        if bits * chosen // (hamming + chosen) >= _LONG_KEY:
            break
    found.append(f"{hamming + 1} x {hamming + 1}")
    return tuple(name for name in found if _is_allowed(name, bits))


def _is_allowed(name: str, bits: int) -> bool:
    try:
        parse_layout(name, bits)
    except ConfigError:
        return False
    return True


def cheapest(
    hamming: int, fingerprint: FingerprintSettings, decision: DecisionSettings, items: int, id_bytes: float = 40.0
) -> LayoutPlan:
    """Return the layout that guarantees this distance with the least work. Raises ConfigError if there is none."""
    made = [
        layout_plan(hamming, name, fingerprint, decision, items, id_bytes)
        for name in layouts_of(hamming, fingerprint.bits)
    ]
    if not made:
        raise ConfigError(_out_of_reach(hamming, fingerprint.bits))
    return min(made, key=_price)


def least_hamming(recall: float, jaccard: float, fingerprint: FingerprintSettings) -> int:
    """Return the least distance with this recall. Raises ConfigError if no layout guarantees it.

    >>> least_hamming(0.9, 0.95, FingerprintSettings(family="simhash"))
    7
    """
    difference = bit_difference(jaccard, fingerprint)
    hamming = next(
        k for k in range(fingerprint.bits + 1) if within(k, fingerprint.bits, difference) >= min(recall, 1 - 1e-9)
    )
    most = _largest(fingerprint.bits)
    if hamming > most:
        wider = ""
        if fingerprint.bits < _MOST_BITS:
            wider = f" (with [fingerprint] bits = 128 {within(_largest(_MOST_BITS), _MOST_BITS, difference):.3f})"
        raise ConfigError(
            f"recall {recall:.4g} at body Jaccard {jaccard:g} takes {hamming} of {fingerprint.bits} bits, and no "
            f"layout guarantees more than {most}, with recall {within(most, fingerprint.bits, difference):.3f}{wider}. "
            "A SimHash finds near-identical bodies: ask for less, for a higher --threshold, or set family = 'minhash'"
        )
    return hamming


def _largest(bits: int) -> int:
    """Return the largest distance that an allowed layout guarantees.

    >>> _largest(64), _largest(128)
    (10, 16)
    """
    return max(k for k in range(1, bits) if k == 1 or _layouts(k, bits))


def _out_of_reach(hamming: int, bits: int) -> str:
    return (
        f"no layout of {bits} bits guarantees a distance of {hamming}: keys would be too short or tables too many; the "
        f"largest is {_largest(bits)}"
        + ("" if bits == _MOST_BITS else f", with [fingerprint] bits = {_MOST_BITS} {_largest(_MOST_BITS)}")
    )


def _false_candidates(layout: Layout, hamming: int, unrelated: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the probability that an unrelated fingerprint is proposed, and the keys read for it in near tables.

    Tables are taken as independent for a pair, which overstates the first: tables share bits.
    """
    proposed = read = 0.0
    tables = Counter(_tables(layout))  # by their bits, which differ by one or two
    for difference, share in unrelated:
        missed = 1.0
        for (selected, loose), count in tables.items():
            agrees = (1 - difference) ** selected
            if loose:
                read += count * share * agrees
                agrees *= within(min(hamming, loose), loose, difference)
            else:
                agrees = min(agrees + 2.0**-_KEY_BITS, 1.0)  # a long key is a hash
            missed *= (1 - agrees) ** count
        proposed += share * (1 - missed)
    return proposed, read


def _tables(layout: Layout) -> Iterator[tuple[int, int]]:
    """Yield selected bits and don't-care bits of each table."""
    yield from zip(np.bitwise_count(layout.masks).sum(axis=1).tolist(), layout.dont_care_bits, strict=True)


def _price(made: LayoutPlan) -> tuple[float, int]:
    return made.price, made.peak
