"""Sampling: strata by stage and distance from the threshold, unbiased weights, and records as lines of a corpus."""

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.evaluate.sampling import Strata, _as_line, allocate, stratum_of
from tests.news.test_presets import IDS, RECORDS

SETTINGS = Settings()
SIMHASH = {"fingerprint": {"family": "simhash", "hamming": 3}}


def held(stage: str, **evidence: Any) -> dict[str, Any]:
    return {"verdict": "duplicate", "stage": stage, "evidence": evidence}


@pytest.mark.parametrize(
    ("decision", "stratum", "tables"),
    [
        (held("body", novelty=0.36, body=0.9), "body, at", {}),
        (held("headline", novelty=0.3), "headline, near", {}),
        (held("prose", novelty=0.01), "prose, clear", {}),
        (held("exact", body=1.0), "exact, clear", {}),
        (held("id", body=0.5), "id, clear", {}),
        ({"verdict": "update", "stage": "body", "evidence": {"novelty": 0.5}}, "update body, near", {}),
        ({"verdict": "update", "stage": "policy", "evidence": None}, "update policy, clear", {}),
        ({"verdict": "unique", "stage": "none", "evidence": {"novelty": 0.44}}, "unique none, at", {}),
        ({"verdict": "unique", "stage": "none", "evidence": {}}, "unique none, clear", {}),
        # Where plain similarity decides its threshold counts.
        (held("body", body=0.83), "body, at", {"decision": {"jaccard": 0.8}}),
        # A SimHash's margin is counted in bits.
        (held("body", body=0.9, distance=3), "body, at", SIMHASH),
        (held("body", body=0.9, distance=2), "body, near", SIMHASH),
        (held("body", body=0.9, distance=0), "body, clear", SIMHASH),
    ],
)
def test_a_stratum_is_a_stage_and_how_near_its_number_came(
    decision: dict[str, Any], stratum: str, tables: dict[str, Any]
) -> None:
    assert stratum_of(decision, load_settings(**tables)) == stratum


def test_the_allocation_is_all_that_was_asked_for_and_prefers_what_is_near() -> None:
    sizes = {"body, at": 400, "body, near": 400, "body, clear": 400, "exact, clear": 1, "unique none, at": 400}
    given = allocate(sizes, 101)
    assert sum(given.values()) == 101
    assert given["body, at"] > given["body, near"] > given["body, clear"] >= 2
    assert given["body, at"] > given["unique none, at"]
    assert given["exact, clear"] == 1
    assert allocate(sizes, 10_000) == sizes
    assert sum(allocate(sizes, 3).values()) == 3


@pytest.mark.slow
def test_the_weighted_precision_of_samples_is_that_of_all_decisions() -> None:
    """Errors are near the thresholds, where more is drawn, so an unweighted mean over the sample would be too low."""
    chance = random.Random(5)
    novelties = chance.choices([0.39, 0.35, 0.25, 0.1, 0.05, 0.0, 0.0], k=4000)
    population = [(one, chance.random() < {0.39: 0.6, 0.35: 0.7}.get(one, 0.98)) for one in novelties]
    truth = sum(right for _, right in population) / len(population)
    weighted, plain = [], []
    for seed in range(300):
        strata = Strata[bool](60, seed, SETTINGS)
        for novelty, right in population:
            strata.add(held("body", novelty=novelty), right)
        drawn = strata.draw()
        assert sum(draw.weight for draw in drawn) == pytest.approx(4000)
        weighted.append(sum(one.weight * one.content for one in drawn) / 4000)
        plain.append(sum(one.content for one in drawn) / len(drawn))
    assert sum(weighted) / 300 == pytest.approx(truth, abs=0.01)
    assert sum(plain) / 300 < truth - 0.05


def drawn(decisions: int, count: int, seed: int) -> list[int]:
    strata = Strata[int](count, seed, SETTINGS)
    for n in range(decisions):
        strata.add(held("exact"), n)
    return [draw.content for draw in strata.draw()]


def test_each_decision_of_a_stratum_is_drawn_equally_often() -> None:
    counts: Counter[int] = Counter()
    for seed in range(2000):
        counts.update(drawn(12, 3, seed))
    assert all(abs(counts[n] - 500) < 100 for n in range(12)), counts


def test_a_seed_makes_the_sample() -> None:
    assert drawn(100, 5, seed=1) == drawn(100, 5, seed=1) != drawn(100, 5, seed=2)


@pytest.mark.parametrize(("name", "shape", "record", "id"), RECORDS, ids=IDS)
def test_a_line_is_read_as_the_record_was(name: str, shape: str, record: dict[str, Any], id: str) -> None:
    """Its own fields contain what key and timestamp said."""
    settings = load_settings()
    decode = Decoder(settings.item)
    value = msgspec.json.encode(record)
    item = decode(value, b"key", 1_700_000_000_000)
    assert isinstance(item, Item)
    line = _as_line(SimpleNamespace(value=value, headers=()), item, settings)
    assert decode(line, None, None) == item
    assert decode.read(line).shape == shape
