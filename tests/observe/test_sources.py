"""Duplicates by source: few labels whatever the feed sends, and no count that goes down."""

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


def shown(registry: CollectorRegistry) -> dict[str, float]:
    [family] = registry.collect()
    return {one.labels["source"]: one.value for one in family.samples}


def test_each_source_has_its_count(registry: CollectorRegistry) -> None:
    SourceCounter(SOURCES, registry).count(["Post.example", "post.example", "gazette.example", ""])
    assert shown(registry) == {"post.example": 2, "gazette.example": 1, "none": 1, OTHER: 0}


def test_a_thousand_sources_make_few_series_and_the_loud_ones_are_seen(registry: CollectorRegistry) -> None:
    counter = SourceCounter(SOURCES, registry)
    counter.count(f"quiet{n}.example" for n in range(1000))
    counter.count(["loud.example"] * 50)
    counts = shown(registry)
    assert len(counts) == MAX_SOURCES + 1
    assert counts["loud.example"] >= 48, "all but those before it was noticed"
    assert counts[OTHER] >= 980


def test_who_was_loud_long_ago_makes_room(registry: CollectorRegistry) -> None:
    counter = SourceCounter(SOURCES, registry)
    for n in range(MAX_SOURCES):
        counter.count([f"old{n}.example"] * 100)
    for round_ in range(8):
        counter.count(f"one{round_}-{n}.example" for n in range(10_001))
    counter.count(["new.example"] * 20)
    assert "new.example" in shown(registry)


@given(st.lists(st.text(max_size=6) | st.sampled_from(["a", "b", OTHER, "none", "\ud800"]), max_size=200))
def test_whatever_stands_in_the_field_can_be_shown(names: list[str]) -> None:
    registry = CollectorRegistry()
    SourceCounter(SOURCES, registry).count(names)
    [family] = registry.collect()
    labels = [one.labels["source"] for one in family.samples]
    assert len(labels) == len(set(labels)), "no series twice"
    if len({name.lower() for name in names}) <= MAX_SOURCES // 2:
        assert sum(shown(registry).values()) == len(names)
    assert generate_latest(registry)


@given(st.lists(st.integers(0, 60), max_size=400))
def test_no_series_goes_down(numbers: list[int]) -> None:
    registry = CollectorRegistry()
    counter, before = SourceCounter(SOURCES, registry), Counter[str]()
    for n in numbers:
        counter.count([f"s{n}"])
        now = Counter(shown(registry))
        came_anew = {name for name in now if name not in before}
        assert all(now[name] >= before[name] for name in now.keys() - came_anew)
        before = now
