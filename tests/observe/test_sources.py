"""Duplicates by source: few labels whatever the feed sends, and counts that never decrease."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from stream_dedup.observe.catalogue import SOURCES
from stream_dedup.observe.sources import MAX_SOURCES, OTHER, SourceCounter


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def counts_by_source(registry: CollectorRegistry) -> dict[str, float]:
    [family] = registry.collect()
    return {sample.labels["source"]: sample.value for sample in family.samples}


def test_each_source_has_its_count(registry: CollectorRegistry) -> None:
    SourceCounter(SOURCES, registry).count(["Post.example", "post.example", "gazette.example", ""])
    assert counts_by_source(registry) == {"post.example": 2, "gazette.example": 1, "none": 1, OTHER: 0}


def test_a_thousand_sources_make_few_series_with_the_frequent_ones(registry: CollectorRegistry) -> None:
    counter = SourceCounter(SOURCES, registry)
    counter.count(f"quiet{n}.example" for n in range(1000))
    counter.count(["loud.example"] * 50)
    counts = counts_by_source(registry)
    assert len(counts) == MAX_SOURCES + 1
    assert counts["loud.example"] >= 48, "all but those before it was noticed"
    assert counts[OTHER] >= 980


def test_a_formerly_frequent_source_makes_room(registry: CollectorRegistry) -> None:
    counter = SourceCounter(SOURCES, registry)
    for n in range(MAX_SOURCES):
        counter.count([f"old{n}.example"] * 100)
    for round_ in range(8):
        counter.count(f"one{round_}-{n}.example" for n in range(10_001))
    counter.count(["new.example"] * 20)
    assert "new.example" in counts_by_source(registry)


@given(st.lists(st.text(max_size=6) | st.sampled_from(["a", "b", OTHER, "none", "\ud800"]), max_size=200))
def test_any_source_name_can_be_exported(names: list[str]) -> None:
    registry = CollectorRegistry()
    SourceCounter(SOURCES, registry).count(names)
    [family] = registry.collect()
    labels = [sample.labels["source"] for sample in family.samples]
    assert len(labels) == len(set(labels)), "no series twice"
    if len({name.lower() for name in names}) <= MAX_SOURCES // 2:
        assert sum(counts_by_source(registry).values()) == len(names)
    assert generate_latest(registry)


@given(st.lists(st.integers(0, 60), max_size=400))
def test_no_series_decreases(numbers: list[int]) -> None:
    registry = CollectorRegistry()
    counter, previous = SourceCounter(SOURCES, registry), Counter[str]()
    for n in numbers:
        counter.count([f"s{n}"])
        current = Counter(counts_by_source(registry))
        new_names = {name for name in current if name not in previous}
        assert all(current[name] >= previous[name] for name in current.keys() - new_names)
        previous = current
