"""The predictions for SimHash tables agree with measurements on a real index."""

import tomllib

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_dedup.errors import ConfigError
from stream_dedup.evaluate.planner import MOST_FINGERPRINTS, UNRELATED, Plan, Traffic, advise, evaluate, layouts_of
from stream_dedup.evaluate.scurve import bit_difference, recall_at, within
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.fingerprint.simhash import distances, layout
from stream_dedup.index.footprint import ROWS_OF_AN_INDEX, table_bytes
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.news.item import Item
from stream_dedup.settings import DecisionSettings, FingerprintSettings, load_settings

SIMHASH = FingerprintSettings(family="simhash")
FEW_TABLES = SIMHASH.model_copy(update={"layout": "4 choose 1"})
GIVEN = FingerprintSettings(family="given")
NEAR_IDENTICAL = DecisionSettings(body=0.95)
MILLION = Traffic(1_000_000)


def layout_plan(hamming: int, name: str, settings: FingerprintSettings, items: int) -> Plan:
    chosen = settings.model_copy(update={"hamming": hamming, "layout": name})
    return evaluate(Traffic(items), chosen, DecisionSettings())


def fingerprints_around_the_last(count: int, difference: float) -> NDArray[np.uint64]:
    """Fingerprints that differ from the last one in each bit with this probability."""
    bits = np.random.default_rng(5).random((count, 64)) < difference
    bits[-1] = False
    # Not around 0: keys of zeros match one bit further (Nearness).
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint64) ^ np.uint64(0x9E3779B97F4A7C15)


def uniform_fingerprints(count: int) -> NDArray[np.uint64]:
    return np.random.default_rng(5).integers(0, 2**64, (count, 1), np.uint64)


def proposed_by_the_index(prints: NDArray[np.uint64], name: str, hamming: int, queries: int) -> float:
    """Distinct rows an index of these fingerprints proposes for one of `queries` others, on average."""
    tables = layout(name, 64)
    index = HybridIndex(
        range(tables.tables), background=False, dont_care_bits=tables.dont_care_bits, max_hamming=hamming
    )
    rows = len(prints) - queries
    index.add(tables.keys(prints[:rows]), np.zeros(rows, np.int64))
    found = index.lookup(tables.keys(prints[rows:]), np.zeros(queries, np.int64), limit=rows)[1]
    index.close()
    return len(found) / queries


@pytest.mark.parametrize(
    ("name", "hamming"), [("4 choose 1", 3), ("4 choose 1", 0), ("8 choose 2", 6), ("8 choose 2", 2)]
)
def test_an_index_proposes_as_many_candidates_as_planned(name: str, hamming: int) -> None:
    rows, queries = 60_000, 4_000
    made = layout_plan(hamming, name, GIVEN, rows)
    measured = proposed_by_the_index(uniform_fingerprints(rows + queries), name, hamming, queries)
    # Five standard errors of a count of candidates, and what tables that share bits propose twice.
    assert measured == pytest.approx(made.false_candidates, rel=0.03, abs=5 * (made.false_candidates / queries) ** 0.5)


def test_pairs_that_are_alike_give_the_candidates_of_their_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, difference = 40_000, 0.25
    prints = fingerprints_around_the_last(rows + 1, difference)
    monkeypatch.setitem(UNRELATED, "shingles", ((difference, 1.0),))
    made = layout_plan(3, "4 choose 1", SIMHASH, rows)
    assert made.false_candidates > 10_000 * layout_plan(3, "4 choose 1", GIVEN, rows).false_candidates
    measured = proposed_by_the_index(prints, "4 choose 1", 3, 1)
    # Tables share bits, so a pair that matches in one matches in others more often: the plan overstates a little.
    assert 0.8 * made.false_candidates < measured < 1.05 * made.false_candidates


@pytest.mark.parametrize("jaccard", [0.8, 0.95])
def test_bodies_of_a_jaccard_are_as_far_apart_as_planned(jaccard: float) -> None:
    """Bodies of random words, of which the last ones are replaced: the shingles of these alone differ."""
    random = np.random.default_rng(2)
    words = 300
    changed = round((words - 2) * (1 - jaccard) / (1 + jaccard))
    firsts, seconds = [], []
    for n in range(400):
        first = [f"w{number}" for number in random.integers(0, 10**9, words)]
        second = first[: words - changed] + [f"x{number}" for number in random.integers(0, 10**9, changed)]
        firsts.append(Item(f"a{n}", "", " ".join(first), "", 0))
        seconds.append(Item(f"b{n}", "", " ".join(second), "", 0))
    make = Fingerprinter(Scheme(SIMHASH))
    apart = distances(make(firsts).signatures["simhash"], make(seconds).signatures["simhash"])
    assert apart.mean() / 64 == pytest.approx(bit_difference(jaccard, SIMHASH), abs=0.01)
    for hamming in (3, 6, 8):
        assert (apart <= hamming).mean() == pytest.approx(recall_at(jaccard, hamming, SIMHASH), abs=0.08)


def test_the_requested_recall_determines_the_distance() -> None:
    found = advise(MILLION, SIMHASH, NEAR_IDENTICAL, recall=0.8)
    assert found.proposed is not None
    hamming = found.proposed.settings["hamming"]
    recall, one_less = (recall_at(0.95, hamming - less, SIMHASH) for less in (0, 1))
    assert recall is not None
    assert one_less is not None
    assert recall >= 0.8 > one_less
    assert {layout(made.settings["layout"], 64).max_hamming for made in found.choices} == {hamming}
    settings = load_settings(fingerprint={"family": "simhash", **tomllib.loads(found.proposed.toml())["fingerprint"]})
    assert Scheme(settings.fingerprint).layout is not None


def test_another_distance_than_the_present_is_proposed_if_asked_for() -> None:
    found = advise(MILLION, FEW_TABLES, DecisionSettings(), hamming=2)
    assert found.proposed is not None
    assert found.proposed.settings["hamming"] == 2
    kept = advise(MILLION, FEW_TABLES, DecisionSettings(), hamming=3)
    assert (kept.proposed, kept.changes_scheme) == (None, False)


def test_memory_bounds_the_proposal_or_says_what_would_fit() -> None:
    limit = 500 * 2**20
    tight = advise(MILLION, SIMHASH, DecisionSettings(body=0.98), recall=0.8, memory=limit)
    assert tight.proposed is not None
    assert tight.proposed.peak <= limit
    with pytest.raises(ConfigError, match=r"need at least [\d,]+ MiB while tables merge"):
        advise(MILLION, SIMHASH, NEAR_IDENTICAL, recall=0.8, memory=10 * 2**20)


def test_a_recall_out_of_reach_names_the_cures() -> None:
    with pytest.raises(ConfigError, match=r"takes 2\d of 64 bits.*bits = 128.*--threshold.*minhash"):
        advise(MILLION, SIMHASH, DecisionSettings(body=0.5), recall=0.9)
    with pytest.raises(ConfigError, match=r"no layout of 64 bits guarantees a distance of 11.*bits = 128 16"):
        advise(MILLION, SIMHASH, DecisionSettings(), hamming=11)


def test_fingerprints_of_others_have_no_recall() -> None:
    found = advise(MILLION, GIVEN, DecisionSettings(), hamming=6)
    assert found.proposed is not None
    assert (found.proposed.recall, found.curve) == (None, [])


@pytest.mark.parametrize("bits", [64, 128])
def test_every_layout_that_is_offered_is_allowed_and_guarantees_its_distance(bits: int) -> None:
    for hamming in range(17):
        for name in layouts_of(hamming, bits):
            assert layout(name, bits).max_hamming == max(hamming, 1)


def test_the_plan_goes_to_2_34_fingerprints() -> None:
    made = [advise(Traffic(items), SIMHASH, DecisionSettings(), hamming=3) for items in (10**6, MOST_FINGERPRINTS)]
    few, many = (one.choices[0] for one in made)
    assert many.takes.keys > few.takes.keys
    assert many.key_bits > few.key_bits
    # 32 bits of a hash and 2^34 others: each table proposes four by chance alone.
    assert many.false_candidates > 4 * (many.takes.keys - 2)
    assert table_bytes(ROWS_OF_AN_INDEX) == pytest.approx(8.5, abs=0.5)
    more = 8.5 * (many.takes.keys - few.takes.keys)
    assert many.takes.bytes_per_item == pytest.approx(few.takes.bytes_per_item + more, rel=0.02)


def test_the_distance_is_binomial_and_its_mixture_is_complete() -> None:
    assert within(64, 64, 0.3) == pytest.approx(1.0)
    assert within(0, 64, 0.5) == pytest.approx(2.0**-64)
    for shares in UNRELATED.values():
        assert sum(share for _, share in shares) == pytest.approx(1.0, abs=0.03)
