"""Plan the keys of bodies: choose anchors, bands or a layout for a recall and a memory limit; predict work and bytes.

Pure; nothing is run. `stream-dedup plan` prints the result, and tests compare the predictions with a measured index.
`evaluate` says what follows from settings, `advise` proposes others where the present ones fall short, or where others
are a quarter cheaper.

MinHash: the fewest anchors with a recall, or for each number of rows the fewest bands; curve.py has both curves. Bands
are planned where the settings have no anchors. SimHash and given fingerprints: the layouts that guarantee a Hamming
distance, and the least distance with a recall; simhash_model.py has how far apart pairs are.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_dedup.errors import ConfigError
from stream_dedup.evaluate.curve import anchored, lengthened, predicted, proposed
from stream_dedup.evaluate.simhash_model import (
    KEY_BITS,
    false_candidates,
    largest_hamming,
    layouts_of,
    least_hamming,
    out_of_reach,
    recall_at,
)
from stream_dedup.fingerprint.packed_sets import expected_bytes
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import BODY_SHINGLES, Footprint, footprint, indexes, peak_bytes
from stream_dedup.settings import DecisionSettings, FingerprintSettings
from stream_dedup.settings.judging import MOST_BANDS
from stream_dedup.settings.memory import sized

MOST_FINGERPRINTS = 2**34
"""The most that are planned: on paper, one layout for twice the largest collection in the literature (8 billion pages,
Manku et al. 2007)."""
# Probability that a key of an unrelated pair agrees: of one anchor, and of a band of r = 1..8 rows (mean of J^r, of the
# body and of the headline). Pairs with J < .5; the bands from 1.1 M pairs of English web news, the anchor from 40 M
# pairs each of Reuters' wire (.7e-5) and a German paper (1.9 to 3.1e-5). A site that fills in templates has more:
# English web news 26e-5, Nepali bulletins 30e-5. Chinese with characters gives 10 to 300 times as much.
_UNRELATED_ANCHOR = 2e-5
_UNRELATED_BODY = (6.2e-4, 3.5e-5, 5.3e-6, 1.1e-6, 3.0e-7, 1.0e-7, 4.0e-8, 1.7e-8)
_UNRELATED_HEADLINE = (1.5e-2, 9.5e-4, 7.5e-5, 8.6e-6, 1.5e-6, 3.9e-7, 1.3e-7, 4.5e-8)
# Costs in µs: a false candidate takes 4 to 10 (fetch and compare); a key .2, the rest stands for its 9 bytes an
# original; 150 keys of a near table that are read in a row cost less than two cache misses (index/probe.py).
_CANDIDATE_US, _KEY_US, _KEY_READ_US = 4.0, 1.0, 0.001
_BODY_END = 4  # bytes that store the end of a packed body
# The most false candidates an item that a proposal may have (2 ms of work), however little memory it takes; or twice as
# many as the best choice, or as many as now.
_MOST_CANDIDATES = 500.0
_MOST_ANCHORS = 64
# Propose other settings only if they are this much cheaper: a migration judges a whole window again.
_WORTH = 1.25
# Jaccards of the printed curve. Below .7 hardly any SimHashes are within a distance that tables can guarantee.
_CURVE_AT, _SIMHASH_CURVE_AT = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), (0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is planned for: originals remembered at a time, and the mean length of an id and of a body in shingles."""

    items: int
    id_bytes: float = 40.0
    body_shingles: float = BODY_SHINGLES


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings of [fingerprint] and what follows.

    recall: of a pair at the threshold; None for given fingerprints. false_candidates: unrelated originals that the keys
    propose for an item, at most. keys_read: keys that an item reads in near tables. key_bits: fewest and most bits that
    a table of a layout selects. memory: bytes of all originals at rest; peak: at most, while tables merge.
    """

    settings: dict[str, Any]
    recall: float | None
    takes: Footprint
    body_bytes: float
    false_candidates: float
    keys_read: float
    key_bits: tuple[int, int] | None
    memory: int
    peak: int

    @property
    def price(self) -> float:
        """The cost of an item by its candidates, keys, and keys read, in µs."""
        work = self.false_candidates * _CANDIDATE_US + self.keys_read * _KEY_READ_US
        return work + self.takes.keys * _KEY_US

    def toml(self) -> str:
        """The settings as TOML."""
        lines = [
            f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}"
            for name, value in self.settings.items()
        ]
        return "\n".join(["[fingerprint]", *lines]) + "\n"

    def as_json(self) -> dict[str, Any]:
        row = {name: getattr(self, name) for name in self.__slots__ if name != "takes"}
        return row | {name: getattr(self.takes, name) for name in Footprint.__slots__}


@dataclass(frozen=True, slots=True)
class Advice:
    """The plan of the present settings, and a better one; None: keep the present ones.

    recall, hamming: what is asked for; None for a family without it. threshold: the body Jaccard at which recall
    counts. limit: of the peak in bytes. exceeded: nothing within the limit does it, and the limit was not requested.
    choices: what does it, the cheapest first. distances: the cheapest layout for each Hamming distance. curve: for each
    Jaccard the probabilities under `curve_of`. indexes: how many processes hold the originals.
    """

    recall: float | None
    hamming: int | None
    threshold: float
    limit: int
    present: Plan
    proposed: Plan | None
    exceeded: bool
    choices: list[Plan]
    distances: list[Plan]
    curve: list[tuple[float, dict[str, float]]]
    indexes: int

    @property
    def changes_scheme(self) -> bool:
        """Whether the proposal needs a migration: a Hamming distance alone is not part of the scheme."""
        if self.proposed is None:
            return False
        now = self.present.settings
        return any(now.get(name) != value for name, value in self.proposed.settings.items() if name != "hamming")


def advise(
    traffic: Traffic,
    fingerprint: FingerprintSettings,
    decision: DecisionSettings,
    *,
    recall: float | None = None,
    hamming: int | None = None,
    memory: int | None = None,
) -> Advice:
    """Evaluate the present settings, and propose others if they fall short or if others are a quarter cheaper.

    `recall` counts at `decision.body`; unset, it stays as it is. A layout is planned for `hamming`, or for the least
    distance with this recall. `memory` bounds the peak; unset: what the present settings take, or more if the recall
    needs it. Raises ConfigError that says what can be had.

    >>> found = advise(Traffic(1_000_000), FingerprintSettings(), DecisionSettings())
    >>> round(found.present.recall, 3), found.proposed is None
    (0.998, True)
    >>> simhash = FingerprintSettings(family="simhash")
    >>> advise(Traffic(1_000_000), simhash, DecisionSettings(body=0.95), recall=0.9).proposed.settings
    {'hamming': 7, 'layout': '10 choose 3'}
    """
    now = evaluate(traffic, fingerprint, decision)
    if fingerprint.family == "minhash":
        has = now.recall or 0.0
        recall = has if recall is None else recall
        choices = _minhash_choices(traffic, fingerprint, decision, recall)
        does_it, distances = has >= recall, list[Plan]()
    else:
        hamming = fingerprint.hamming if hamming is None else hamming
        if recall is not None:
            hamming = least_hamming(recall, decision.body, fingerprint)
        choices = _layout_choices(hamming, traffic, fingerprint, decision)
        # More than the requested recall is enough, and another distance than the requested one is not.
        does_it = fingerprint.hamming == hamming or (recall is not None and fingerprint.hamming > hamming)
        distances = [cheapest(k, fingerprint, decision, traffic) for k in range(largest_hamming(fingerprint.bits) + 1)]
    limit = now.peak if memory is None else memory
    is_enough = does_it and now.peak <= limit
    most = max(_MOST_CANDIDATES, 2 * choices[0].false_candidates, now.false_candidates)
    bearable = [made for made in choices if made.false_candidates <= most]
    fitting = [made for made in bearable if made.peak <= (min(limit, now.peak) if is_enough else limit)]
    chosen, exceeded = fitting[0] if fitting else None, False
    if chosen is None and not is_enough:
        chosen, exceeded = min(bearable, key=lambda made: made.peak), True
        if memory is not None:
            raise ConfigError(_too_much(traffic.items, chosen, memory))
    if chosen and is_enough and now.price <= _WORTH * chosen.price:
        chosen = None
    curve = curve_of(fingerprint, now, chosen or now)
    held_by = indexes(traffic.items, max(Counter(Scheme(fingerprint).table_of).values()))
    return Advice(recall, hamming, decision.body, limit, now, chosen, exceeded, choices, distances, curve, held_by)


def evaluate(traffic: Traffic, fingerprint: FingerprintSettings, decision: DecisionSettings) -> Plan:
    """Say what follows from settings. Raises ConfigError if a layout does not guarantee its distance.

    >>> settings = FingerprintSettings(family="simhash", layout="4 choose 1")
    >>> made = evaluate(Traffic(1_000_000), settings, DecisionSettings())
    >>> made.takes.keys, made.key_bits, round(made.takes.bytes_per_item), round(made.false_candidates, 2)
    (6, (16, 16), 161, 0.75)
    """
    scheme = Scheme(fingerprint)
    tables, keys_read, key_bits, body_bytes = scheme.layout, 0.0, None, 0.0
    recall: float | None
    if tables:
        settings: dict[str, Any] = {"hamming": fingerprint.hamming, "layout": fingerprint.layout}
        selected = np.bitwise_count(tables.masks).sum(axis=1)
        key_bits = int(selected.min()), int(selected.max())
        false, read = false_candidates(tables, fingerprint)
        keys_read = traffic.items * read
        recall = recall_at(decision.body, fingerprint.hamming, fingerprint)
    else:
        settings = {"anchors": fingerprint.anchors}
        if fingerprint.body_bands:
            settings |= {"body_bands": fingerprint.body_bands, "body_rows": fingerprint.body_rows}
        false = fingerprint.anchors * _UNRELATED_ANCHOR
        for view, shares in (("body", _UNRELATED_BODY), ("headline", _UNRELATED_HEADLINE)):
            bands, rows = getattr(fingerprint, f"{view}_bands"), getattr(fingerprint, f"{view}_rows")
            false += bands * (shares[min(rows, len(shares)) - 1] + 2.0**-KEY_BITS)  # an upper bound for more rows
        recall = float(proposed(decision.body, scheme))
        body_bytes = expected_bytes(traffic.body_shingles) + _BODY_END if scheme.is_exact else 0.0
    takes = footprint(scheme, traffic.items, traffic.id_bytes, body_bytes)
    return Plan(
        settings, recall, takes, body_bytes, traffic.items * false, keys_read, key_bits,
        math.ceil(traffic.items * takes.bytes_per_item), peak_bytes(traffic.items, takes),
    )  # fmt: skip


def curve_of(fingerprint: FingerprintSettings, now: Plan, chosen: Plan) -> list[tuple[float, dict[str, float]]]:
    """What the keys find by body Jaccard: probabilities by kind of key, of the present settings and of the chosen ones.

    Anchors have two curves: for words changed one by one, and for a text that a longer one holds, whose share of the
    longer one is then the Jaccard. Bands depend on the Jaccard alone.
    """
    plans = {"": now} | ({" (proposed)": chosen} if chosen is not now else {})
    if fingerprint.family == "minhash":
        return [(at, _chances(at, fingerprint, plans)) for at in _CURVE_AT]
    rows = []
    for at in _SIMHASH_CURVE_AT if fingerprint.family == "simhash" else ():
        recalls = {name: recall_at(at, one.settings["hamming"], fingerprint) for name, one in plans.items()}
        rows.append((at, {f"recall{name}": recall for name, recall in recalls.items() if recall is not None}))
    return rows


def _chances(jaccard: float, fingerprint: FingerprintSettings, plans: Mapping[str, Plan]) -> dict[str, float]:
    scheme = Scheme(fingerprint)
    times = scheme.anchor_words / scheme.shingle_widths.words
    row = {}
    for name, plan in plans.items():
        anchors, bands = plan.settings["anchors"], plan.settings.get("body_bands")
        if anchors:
            row[f"words changed{name}"] = float(anchored(lengthened(jaccard, times), anchors))
            row[f"one holds the other{name}"] = float(anchored(jaccard, anchors, split=0.0))
        if bands:
            row[f"bands{name}"] = float(predicted(jaccard, bands, plan.settings["body_rows"]))
    row["headline bands"] = float(predicted(jaccard, fingerprint.headline_bands, fingerprint.headline_rows))
    return row


def _too_much(items: int, smallest: Plan, memory: int) -> str:
    # Fewer originals take a little more each (.2 % at half the number): subtract 3 %, and round down to two digits.
    fit = int(0.97 * items * memory / smallest.peak)
    fit -= fit % 10 ** max(len(str(fit)) - 2, 0)
    what = ", ".join(f"{name} = {value}" for name, value in smallest.settings.items())
    return (
        f"{items:,} originals need at least {sized(smallest.peak)} while tables merge ({what}), not {sized(memory)}, "
        f"which hold about {fit:,}; take a shorter window, less recall or a smaller distance, or more memory"
    )


# -- MinHash ----------------------------------------------------------------------------------------------------------


def _minhash_choices(
    traffic: Traffic, fingerprint: FingerprintSettings, decision: DecisionSettings, recall: float
) -> list[Plan]:
    """The fewest anchors with this recall, or the fewest bands for each number of rows; the cheapest first."""
    options: list[dict[str, int]] = []
    if fingerprint.anchors:
        for anchors in range(1, _MOST_ANCHORS + 1):
            options = [{"anchors": anchors}]
            if float(proposed(decision.body, Scheme(fingerprint.model_copy(update=options[0])))) >= recall:
                break
        else:
            options = []
    else:
        for rows in range(1, len(_UNRELATED_BODY) + 1):
            agree = decision.body**rows
            bands = 1 if agree >= 1 else math.ceil(math.log1p(-recall) / math.log1p(-agree) - 1e-9)
            if bands <= MOST_BANDS:
                options.append({"body_bands": max(bands, 1), "body_rows": rows})
    if not options:
        what = f"{_MOST_ANCHORS} anchors" if fingerprint.anchors else f"{MOST_BANDS} bands"
        raise ConfigError(
            f"recall {recall:.4g} cannot be had at body Jaccard {decision.body:g} with {what}; ask for less"
        )
    made = [evaluate(traffic, fingerprint.model_copy(update=option), decision) for option in options]
    return sorted(made, key=_price)


# -- layouts ----------------------------------------------------------------------------------------------------------


def cheapest(hamming: int, fingerprint: FingerprintSettings, decision: DecisionSettings, traffic: Traffic) -> Plan:
    """The layout that guarantees this distance with the least work. Raises ConfigError if there is none."""
    return _layout_choices(hamming, traffic, fingerprint, decision)[0]


def _layout_choices(
    hamming: int, traffic: Traffic, fingerprint: FingerprintSettings, decision: DecisionSettings
) -> list[Plan]:
    made = [
        evaluate(traffic, fingerprint.model_copy(update={"hamming": hamming, "layout": name}), decision)
        for name in layouts_of(hamming, fingerprint.bits)
    ]
    if not made:
        raise ConfigError(out_of_reach(hamming, fingerprint.bits))
    return sorted(made, key=_price)


def _price(made: Plan) -> tuple[float, int]:
    return made.price, made.peak
