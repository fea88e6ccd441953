"""The model of `plan --rate` agrees with measurement, with the code's limits, and with itself."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.changelog.block import encode
from stream_dedup.dedup.candidates import MAX_CANDIDATES
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import ConfigError
from stream_dedup.evaluate import capacity as model
from stream_dedup.evaluate import costs
from stream_dedup.evaluate.capacity import UTILISATION, Capacity, Load, capacity, judge_memory
from stream_dedup.evaluate.costs import (
    CHANGELOG_BYTES,
    CORES_USED,
    FINGERPRINT_BYTES,
    VERDICT_BYTES,
    candidates,
    judge_us,
    restore_seconds,
    role_costs,
)
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import Settings, load_settings
from stream_dedup.settings.window import WindowSettings
from tests.benchmarks import corpus
from tests.benchmarks.capacity import NEWS_SIZES, SIZES, label, measure_size, off_by, predict

RESULTS = json.loads(
    (Path(__file__).parents[1] / "benchmarks" / "results" / "amd-epyc-2-cores.json").read_text("utf-8")
)["sections"]
SETTINGS = load_settings()
HOUR, DAY = 3600.0, 86400.0
SMALL = Load(rate=200, window=6 * HOUR)
LARGE = Load(rate=100_000, window=13_334.0)  # 10^9 originals


def settings_with(**fingerprint: Any) -> Settings:
    return load_settings(fingerprint=fingerprint)


# -- measurement ----------------------------------------------------------------------------------------------

STATED = 1.5  # which UTILISATION leaves room for
ON_ANY_MACHINE = 3.0  # another processor, and other programs on it


FIGURES = RESULTS["capacity"]["figures"]
RECORDED = [size for size in SIZES if f"capacity_fresh_us_{label(size)}" in FIGURES]


def recorded(size: int) -> dict[str, float]:
    names = {name: f"capacity_{name}_{label(size)}" for name in predict(size)}
    return {name: FIGURES[figure] for name, figure in names.items() if figure in FIGURES}


@pytest.mark.parametrize("size", RECORDED)
def test_the_judge_costs_what_the_benchmark_measured(size: int) -> None:
    factors = off_by(size, recorded(size))
    assert {"fresh_us", "crowded_us", "saturated_us", "held_us", "apply_us", "restore_s"} <= factors.keys()
    assert max(factors.values()) < STATED, factors


def test_the_benchmark_reaches_a_million_originals() -> None:
    assert {10**4, 10**5, 10**6} <= set(RECORDED)
    assert {"bytes", "peak_bytes"} <= off_by(10**6, recorded(10**6)).keys()


NEWS = [size for size in NEWS_SIZES if f"capacity_news_found_{label(size)}" in FIGURES]


@pytest.mark.skipif(not NEWS, reason="no corpora were measured")
@pytest.mark.parametrize("size", NEWS)
def test_news_have_the_candidates_that_the_benchmark_counted(size: int) -> None:
    found, compared = candidates(0.75 * size, SETTINGS)  # on average between half of them and all
    assert 1 / 1.3 < found / FIGURES[f"capacity_news_found_{label(size)}"] < 1.3
    assert 1 / 1.3 < compared / FIGURES[f"capacity_news_compared_{label(size)}"] < 1.3


@pytest.mark.soak
def test_the_judge_costs_now_what_the_model_says() -> None:
    factors = off_by(10**5, measure_size(10**5))
    assert max(factors.values()) < ON_ANY_MACHINE, factors


@pytest.mark.skipif("webz_en" not in RESULTS["worker"]["kind"], reason="the worker was measured on other texts")
@pytest.mark.parametrize(("figure", "held_back", "unrelated"), [("unique", 0.0, False), ("news", 0.23, True)])
def test_the_worker_costs_what_the_benchmark_measured(figure: str, held_back: float, unrelated: bool) -> None:
    figures = RESULTS["worker"]["figures"]
    originals = figures[f"worker_items_{figure}"] / 2  # on average over the run, the index being empty at first
    found, compared = candidates(originals, SETTINGS) if unrelated else (0.0, 0.0)
    cost = role_costs(4236, sum(judge_us(originals, compared, held_back, found))).worker
    measured = figures[f"worker_cpu_us_ours_{figure}"]
    assert 1 / 1.3 < cost / measured < 1.3
    rate = CORES_USED * 1e6 / cost
    assert 1 / 1.3 < rate / figures[f"worker_items_per_second_ours_{figure}"] < 1.3


@pytest.mark.parametrize(("text_bytes", "name"), [(200, "200b"), (1000, "1k"), (4000, "4k"), (20_000, "20k")])
def test_a_fingerprint_costs_what_the_benchmark_measured(text_bytes: int, name: str) -> None:
    predicted = costs._FINGERPRINT + costs._FINGERPRINT_KB * text_bytes / 1000
    assert 1 / 1.4 < predicted / RESULTS["fingerprint"]["figures"][f"fingerprint_us_ours_{name}"] < 1.4


def test_a_restore_takes_what_the_benchmark_measured() -> None:
    figures = RESULTS["restore"]["figures"]
    for changelog in ("trickle", "flood"):
        assert restore_seconds(10**6).total == pytest.approx(figures[f"restore_kafka_{changelog}_open_s"], rel=0.4)
        assert restore_seconds(10**6).total - restore_seconds(0).total == pytest.approx(
            figures[f"restore_kafka_{changelog}_s"], rel=0.4
        )


def test_an_original_takes_the_bytes_of_the_changelog_that_were_planned() -> None:
    items = [item for _, item in corpus.all_unique(corpus.news([], 400))]
    with Deduplicator() as dedup:
        batch = dedup.judge(items)
        block = encode(batch.delta, dedup.scheme_id)
    assert len(batch.delta) > 350
    assert 1 / 1.4 < len(block) / len(batch.delta) / CHANGELOG_BYTES < 1.4


# -- the judge by originals -----------------------------------------------------------------------------------


def test_an_item_costs_more_the_more_originals_there_are() -> None:
    grown = [sum(judge_us(10.0**n, 0.0, 0.25)) for n in range(4, 10)]
    assert grown == sorted(grown)
    assert grown[-1] < 10 * grown[0]


def test_candidates_grow_with_the_originals_up_to_the_limits_of_the_index() -> None:
    counts = [candidates(10**n, SETTINGS) for n in (3, 4, 5, 6, 7, 8, 9)]
    assert counts == sorted(counts)
    assert all(compared <= found for found, compared in counts)
    assert counts[-1] == (28 * SETTINGS.index.bucket_limit, MAX_CANDIDATES)
    fewer = load_settings(index={"bucket_limit": 4})
    assert candidates(10**9, fewer) == (28 * 4, MAX_CANDIDATES)


def test_longer_keys_find_fewer_candidates_and_so_a_judge_is_faster() -> None:
    longer = settings_with(headline_rows=4, lead_rows=3)
    assert candidates(10**6, longer)[0] < 0.5 * candidates(10**6, SETTINGS)[0]
    load = Load(rate=5000, window=300.0)
    usual, faster = capacity(load, SETTINGS), capacity(load, longer)
    assert faster.split.roles[1].rate > usual.split.roles[1].rate
    assert faster.fastest_judge == usual.fastest_judge > usual.split.roles[1].rate


def test_more_tables_cost_more_lookups_and_inserts() -> None:
    few, many = judge_us(10**6, 0.0, 0.0, tables=15), judge_us(10**6, 0.0, 0.0, tables=60)
    assert many.apply == pytest.approx(4 * few.apply)
    assert many.judge - costs._JUDGE == pytest.approx(4 * (few.judge - costs._JUDGE))
    load = Load(rate=5000, window=300.0)
    twice = capacity(load, settings_with(body_bands=46))
    assert twice.fastest_judge < capacity(load, SETTINGS).fastest_judge


def test_a_family_without_bands_is_planned_at_the_bounds() -> None:
    simhash = settings_with(family="simhash", layout="4 choose 1", views="body")
    assert candidates(10**4, simhash) == (4 * SETTINGS.index.bucket_limit, MAX_CANDIDATES)
    assert judge_memory(SMALL, simhash) < judge_memory(SMALL, SETTINGS)
    assert "is not known for these [fingerprint] settings" in warnings(capacity(SMALL, simhash))


# -- choice, processes, limits --------------------------------------------------------------------------------


def test_split_mode_pays_where_a_single_worker_has_no_headroom_left() -> None:
    border = capacity(SMALL, SETTINGS).split_from
    below, above = (capacity(replace(SMALL, rate=border * factor), SETTINGS) for factor in (0.99, 1.01))
    assert (below.choice, above.choice) == ("single", "split")
    assert below.single.roles[0].load == pytest.approx(UTILISATION, rel=0.02)
    assert above.deployment is above.split
    assert above.split.cores > above.single.cores  # what it costs: texts are read twice


@pytest.mark.parametrize("rate", [10, 1000, 30_000, 100_000])
@pytest.mark.parametrize("peak", [1.0, 4.0])
def test_no_scaling_role_is_busier_than_its_headroom_allows_and_none_is_idle(rate: float, peak: float) -> None:
    made = capacity(Load(rate=rate, window=600.0, peak=peak), SETTINGS)
    for role in (made.split.roles[0], made.split.roles[2]):
        assert role.load <= UTILISATION
        assert role.processes == 1 or role.load * role.processes / (role.processes - 1) > UTILISATION
        assert role.processes <= made.partitions or made.choice == "single"
    judge = made.split.roles[1]
    assert (judge.processes, judge.standbys) == (1, 1)


def test_each_limit_holds_up_to_the_rate_that_it_names() -> None:
    for limit in capacity(SMALL, SETTINGS).limits:
        assert limit.rate is not None
        for factor, exceeded in ((0.99, False), (1.01, True)):
            at = capacity(replace(SMALL, rate=limit.rate * factor), SETTINGS)
            assert next(one for one in at.limits if one.name == limit.name).is_exceeded == exceeded


def warnings(made: Capacity) -> str:
    return "\n".join(made.warnings)


def test_a_small_stream_has_no_warning_beside_that_of_the_window() -> None:
    made = capacity(replace(SMALL, window=7 * DAY, rate=20), SETTINGS)
    assert (made.choice, made.warnings) == ("single", [])
    assert warnings(capacity(SMALL, SETTINGS)) == "[window] length is 168 h in the settings, not 6 h"


def test_it_warns_of_each_limit_of_one_judge() -> None:
    made = capacity(LARGE, SETTINGS)
    assert made.originals == pytest.approx(1e9, rel=0.001)
    assert made.choice == "none"
    assert "one judge needs" in warnings(made)
    assert "GiB, in the standby too, more than 64 GiB" in warnings(made)
    assert "a restore of the index takes 47 minutes" in warnings(made)
    few = SETTINGS.model_copy(update={"window": WindowSettings(max_originals=20_000)})
    assert "set it to at least 1,000,0" in "\n".join(capacity(LARGE, few).warnings)
    longer = capacity(replace(LARGE, window=DAY), SETTINGS)
    assert "than [window] max_originals may be (2,147,483,648)" in warnings(longer)
    assert "whole bodies" in warnings(capacity(SMALL, settings_with(verify="exact")))


def test_a_busy_judge_is_no_warning_where_a_single_worker_does() -> None:
    assert "one judge" not in warnings(capacity(replace(SMALL, rate=1), SETTINGS))


def test_the_limits_are_those_of_the_code() -> None:
    assert Scheme(SETTINGS.fingerprint).tables == costs._TABLES
    bounds = [bound.le for bound in WindowSettings.model_fields["max_originals"].metadata if hasattr(bound, "le")]
    assert bounds == [model._MOST_ORIGINALS]


def test_the_estimates_are_named() -> None:
    assert all(isinstance(getattr(costs, name), int | float) for name in costs.ESTIMATED)


# -- brokers, outages -----------------------------------------------------------------------------------------


def test_every_byte_is_counted_once_where_it_is_written() -> None:
    load = Load(rate=1000, window=DAY, item_bytes=2000, held_back=0.5, replicas=3, retention=HOUR)
    made = capacity(load, SETTINGS)
    split = {flow.topic: flow for flow in made.split.flows}
    assert list(split) == ["input", "fingerprints", "verdicts", "changelog", "output", "duplicates"]
    assert (split["input"].written, split["input"].read) == (2e6, 4e6)  # by fingerprint and publish
    assert split["fingerprints"].replicated == 2 * split["fingerprints"].written == 2 * 1000 * FINGERPRINT_BYTES
    assert split["verdicts"].disk == 3 * HOUR * 1000 * VERDICT_BYTES
    assert split["output"].written + split["duplicates"].written > 2e6  # all items, with headers
    single = {flow.topic: flow for flow in made.single.flows}
    assert (single["input"].read, set(single)) == (2e6, set(split) - {"fingerprints", "verdicts"})
    one = capacity(replace(load, replicas=1), SETTINGS).split.flows
    assert all(flow.replicated == 0 for flow in one)


def test_an_outage_is_caught_up_with_what_the_average_leaves() -> None:
    made = capacity(replace(SMALL, peak=1.0, outage=100.0), SETTINGS)
    for outage, role in zip(made.split.outages, made.split.roles, strict=True):
        assert outage.items == 200 * 100
        assert outage.catch_up is not None
        # What arrived meanwhile and during the catching up is worked off by then.
        assert outage.catch_up * role.rate * role.processes == pytest.approx(200 * (100 + outage.catch_up))
    judge = capacity(LARGE, SETTINGS).split.outages[1]
    assert (judge.role, judge.catch_up) == ("judge", None)


# -- loads that are none --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": 0.0}, "--rate must be more than 0"),
        ({"rate": math.nan}, "--rate must be"),
        ({"rate": math.inf}, "--rate must be"),
        ({"window": 0.0}, "--window must be longer than 0s"),
        ({"peak": 0.5}, "--peak must be at least 1: the peak is not below the average"),
        ({"item_bytes": 0.0}, "--item-bytes must be at least 1"),
        ({"held_back": 1.0}, "--held-back must be from 0 to less than 1"),
        ({"held_back": -0.1}, "--held-back must be"),
        ({"replicas": 0}, "--replicas must be at least 1"),
        ({"outage": 0.0}, "--outage must be longer than 0s"),
        ({"retention": -1.0}, "--retention must be longer than 0s"),
        ({"memory": 0.0}, "--memory must be more than 0"),
    ],
)
def test_a_load_that_is_none_is_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        capacity(replace(SMALL, **changes), SETTINGS)  # type: ignore[arg-type]


# -- the page -------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text("utf-8")
SECTION = PAGE.partition("## How far one judge goes")[2].partition("\n## ")[0]


def test_the_page_has_the_deployment_for_a_billion_originals() -> None:
    made = capacity(LARGE, SETTINGS)
    fingerprint, judge, publish = made.split.roles
    words = " ".join(SECTION.split())
    assert f"{fingerprint.processes} fingerprint and {publish.processes} publish processes" in words
    assert f"{made.partitions} partitions" in words
    assert f"The judge would need {judge.load:.0f} cores" in words
    assert f"{sum(flow.written for flow in made.split.flows) / 1e9:.1f} GB/s written by clients" in words
