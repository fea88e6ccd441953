"""Metrics: the effect of each event of the worker, in a separate registry."""

import gc
import re
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import stream_dedup.observe
from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.errors import BadItem, Stalled, TransactionFailed
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.observe.catalogue import BAD_REASONS, CATALOGUE, OTHER, Spec
from stream_dedup.observe.health import HealthState, Status
from stream_dedup.observe.metrics import MAX_SOURCES, BulkHistogram, Metrics, SourceCounter
from stream_dedup.settings import Settings, load_settings
from stream_dedup.worker import outgoing as stream_records
from stream_dedup.worker.observer import BatchReport, CommitStep, TaskState
from tests.index.check import merge
from tests.observe.watched import START as NOW
from tests.observe.watched import bad, unique
from tests.observe.watched import report as full_report

PACKAGE = Path(stream_dedup.observe.__path__[0]).parent


class World:
    """Metrics in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        settings, state = load_settings(worker={"memory": 2**30}), HealthState(Status.OK, 0.0)
        self.metrics = Metrics(self.registry, settings, "1.2.3", lambda: state, lambda: NOW)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"stream_dedup_{name}", labels)

    def values(self, name: str, label: str, *values: str) -> list[float | None]:
        return [self.value(name, **{label: value}) for value in values]


@pytest.fixture
def world() -> World:
    return World()


def item(name: str, age: float = 1.0, **fields: str) -> Item:
    words = {"title": "A headline", "text": "A text", "source": "host.example"} | fields
    return Item(name, **words, time=int((NOW - age) * 1000))


def report(
    items: list[Item | Tombstone | BadItem],
    verdicts: list[Verdict],
    task: str = "global",
    lag: dict[int, int] | None = None,
) -> BatchReport:
    seconds = {step: step / 100 for step in CommitStep if step != CommitStep.POLL}
    return replace(full_report(items, verdicts), task=task, lag=lag or {}, seconds=seconds)


def test_a_batch_is_counted_by_verdict_and_stage(world: World) -> None:
    held_back = Verdict("3", Kind.DUPLICATE, Stage.BODY, False), Verdict("4", Kind.UPDATE, Stage.BODY, True)
    verdicts = [unique("1"), unique("2"), *held_back, Verdict("5", Kind.TOMBSTONE, Stage.NONE, True)]
    world.metrics.batch(report([item(str(n)) for n in range(4)] + [Tombstone("5", int(NOW * 1000))], verdicts))
    counts = {
        (kind, stage): world.value("items_total", verdict=kind, stage=stage)
        for kind, stage in (("unique", "none"), ("update", "body"), ("duplicate", "body"), ("tombstone", "none"))
    }
    assert list(counts.values()) == [2, 1, 1, 1]
    # What may come is there at zero, so that a rate includes the first increase.
    assert world.value("items_total", verdict="duplicate", stage="headline") == 0
    assert world.value("source_duplicates_total", source="host.example") == 1
    assert world.value("item_delay_seconds_count") == 5
    assert world.value("watermark_timestamp_seconds", task="global") == NOW
    assert world.value("transaction_seconds_sum") == pytest.approx((4 + 5 + 6 + 7 + 8 + 9) / 100), "BEGIN to COMMIT"
    assert world.values("step_seconds_total", "step", "apply", "poll") == [pytest.approx(0.03), None]


def test_a_record_from_the_future_is_not_late(world: World) -> None:
    world.metrics.batch(report([item("1", age=-3600), item("2", age=7)], [unique("1"), unique("2")]))
    assert world.value("item_delay_seconds_sum") == pytest.approx(7)
    assert world.value("item_delay_seconds_bucket", le="0.02") == 1


def test_an_unknown_reason_is_counted_as_other(world: World) -> None:
    reasons = ["json: at byte 7", "empty: no letter", "surprise: \x00\n", "no colon", ""]
    world.metrics.batch(report([BadItem("x", "y")] * len(reasons), [bad(reason) for reason in reasons]))
    assert world.values("bad_items_total", "reason", "json", "empty", OTHER, "surprise") == [1, 1, 3, None]
    assert world.value("item_delay_seconds_count") == 0, "a bad item has no time"


def test_missing_fields_and_shapes_are_counted(world: World) -> None:
    own = Item("4", "", "", "host.example", int(NOW * 1000), fingerprint=7)
    items = [item("1"), item("2", text="", source=""), item("3", title="", text=""), own, Tombstone("t", 0)]
    verdicts = [unique("1"), unique("2"), bad("empty: no letter"), unique("4"), unique("t")]
    world.metrics.batch(replace(report(items, verdicts), shapes={"plain": 3}))
    counts = world.values("missing_fields_total", "field", "title", "text", "source")
    assert counts == [0, 1, 1], "bad items and those with their own fingerprint do not count"
    assert world.values("input_shapes_total", "shape", "plain", "rss", "text") == [3, 0, 0]


def test_every_reason_in_the_code_is_documented() -> None:
    """Files and the polling of feeds have reasons of their own, which the worker never meets."""
    files = [
        path
        for path in PACKAGE.rglob("*.py")
        if PACKAGE / "tools" not in path.parents and path.parent != PACKAGE / "inputs"
    ]
    source = "\n".join(path.read_text("utf-8") for path in files)
    literal = set(re.findall(r'\bBadItem\(\s*"([a-z-]+)"', source)) | set(
        re.findall(r'_bad\([^"\n]*"([a-z-]+): ', source)
    )
    named = {getattr(stream_records, name) for name in re.findall(r"\bBadItem\(\s*([A-Z_]+),", source)}
    assert literal | named == set(BAD_REASONS)


def test_what_a_task_reports_ends_with_it(world: World) -> None:
    metrics = world.metrics
    metrics.restore_progress("0", 30, 40)
    assert world.value("restore_progress_ratio", task="0") == 0.75
    metrics.task_opened("0", [0], 12, 3.0)
    assert world.value("restore_progress_ratio", task="0") == 1
    assert world.value("stuck_batches_total", task="0") == 0
    metrics.batch_stuck("0")
    assert world.value("stuck_batches_total", task="0") == 1
    metrics.batch(report([item("1")], [unique("1")], task="0", lag={0: 5, 2: 4}))
    metrics.batch(report([item("2")], [unique("2")], task="1", lag={1: 7}))
    metrics.positions_advanced("0", {0: 0})
    assert world.values("lag_records", "partition", *"012") == [0, 7, 4], "markers alone can end a lag"
    assert world.values("watermark_timestamp_seconds", "task", *"01") == [NOW - 1, NOW - 1]
    for _ in range(2):  # the second time without a batch in between
        metrics.task_lost("0", "rebalance")
        assert world.values("lag_records", "partition", *"012") == [None, 7, None]
        assert world.values("watermark_timestamp_seconds", "task", *"01") == [None, NOW - 1]
        assert world.value("restore_progress_ratio", task="0") is None


def test_role_tasks_and_errors(world: World) -> None:
    metrics, states = world.metrics, [*TaskState]
    assert world.values("role", "role", "active", "standby") == [0, 0], "neither, before the loop has turned"
    metrics.loop_completed([])
    assert world.values("role", "role", "active", "standby") == [0, 1]
    metrics.loop_completed(["global"])
    assert world.values("role", "role", "active", "standby") == [1, 0]

    assert world.values("tasks", "state", *states) == [0, 0, 0]
    metrics.standby_progress("1", 3.5)
    metrics.restore_progress("2", 30, 40)
    assert world.value("standby_behind_seconds", task="1") == 3.5
    metrics.tasks({"0": TaskState.OPEN, "1": TaskState.FAILING, "2": TaskState.OPENING, "3": TaskState.OPEN})
    assert world.values("tasks", "state", *states) == [2, 1, 1]
    assert world.value("standby_behind_seconds", task="1") is None, "it stands by no more"
    assert world.value("restore_progress_ratio", task="2") == 0.75
    metrics.tasks({"0": TaskState.OPEN})
    assert world.value("restore_progress_ratio", task="2") is None, "its opening was cut"

    for error, retry_in in ((TransactionFailed("x"), 0.2), (TransactionFailed("y"), 0.4), (Stalled("z"), None)):
        metrics.error(error, retry_in)
    assert world.value("errors_total", kind="TransactionFailed", fate="retried") == 2
    assert world.value("errors_total", kind="Stalled", fate="fatal") == 1
    assert world.value("errors_total", kind="Stalled", fate="retried") == 0
    assert world.value("state_lost_timestamp_seconds") == 0
    metrics.state_lost("the changelog was deleted and created anew")
    assert world.value("state_lost_timestamp_seconds") == NOW
    assert world.values("status", "status", "ok", "stalled") == [1, 0]


# -- what is read at the scrape, or takes a batch at once -------------------------------------------------


def remember_items(decider: Decider, count: int) -> None:
    """Let the decider remember distinct items."""
    for n in range(count):
        words = " ".join(f"w{n}x{m}" for m in range(40))
        batch = decider.judge([Item(str(n), words[:40], words, f"h{n}.example", n)])
        decider.apply(batch)


def test_the_index_is_read_at_the_scrape_and_summed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert world.value("index_rows") == 0
    first = world.metrics.decider(Settings())
    second = world.metrics.decider(Settings())
    remember_items(first, 12)
    remember_items(second, 2)
    first.evicted = second.evicted = 8
    assert (world.value("index_rows"), world.value("index_runs")) == (14, 0)
    merge(first.index)
    assert world.value("index_runs") == 1
    sizes = world.values("memory_bytes", "part", "signatures", "keys", "ids")
    assert all(size and size > 0 for size in sizes), sizes
    assert world.value("memory_limit_bytes") == 2**30
    assert world.value("window_age_seconds") == pytest.approx(0.007), "the median of the last nine times"
    assert world.value("evicted_originals_total") == 16
    first.close()
    second.close()
    del first
    gc.collect()
    assert world.value("index_rows") == 2, "a closed decider is gone"
    assert world.value("evicted_originals_total") == 16, "but what it did counts"


def test_scrapes_do_not_disturb_the_worker(world: World) -> None:
    """Scrape from another thread while tasks open, work and close."""
    done, failures = threading.Event(), []

    def scrape() -> None:
        try:
            while not done.is_set():
                list(world.registry.collect())
        except Exception as error:  # noqa: BLE001 - the test reports any error
            failures.append(error)

    thread = threading.Thread(target=scrape)
    thread.start()
    for n in range(20):
        decider = world.metrics.decider(Settings())
        remember_items(decider, 5)
        world.metrics.batch(report([item("1")], [unique("1")], task=str(n), lag={n: 1}))
        world.metrics.task_lost(str(n), "over")
        decider.close()
    done.set()
    thread.join()
    assert not failures


def test_a_bulk_histogram_counts_as_prometheus_does() -> None:
    registry, buckets = CollectorRegistry(), (0.1, 1.0, 10.0)
    bulk = BulkHistogram(Spec("ours", "histogram", "h", buckets=buckets), registry)
    theirs = Histogram("theirs", "h", buckets=buckets, registry=registry)
    values = np.concatenate([np.random.default_rng(1).exponential(3.0, 500), [0.0, 0.1, 1.0, 10.0, 1e9]])
    bulk.observe(values[:200])
    bulk.observe(values[200:])
    for value in values:
        theirs.observe(value)
    for bound in ("0.1", "1.0", "10.0", "+Inf"):
        ours = registry.get_sample_value("ours_bucket", {"le": bound})
        assert ours == registry.get_sample_value("theirs_bucket", {"le": bound})
    assert registry.get_sample_value("ours_count") == 505
    assert registry.get_sample_value("ours_sum") == pytest.approx(registry.get_sample_value("theirs_sum"))


# -- duplicates by source: few labels whatever the feed sends ---------------------------------------------


class Sources(SourceCounter):
    """A counter in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        super().__init__(self.registry)

    @property
    def series(self) -> dict[str, float]:
        [family] = self.registry.collect()
        return {sample.labels["source"]: sample.value for sample in family.samples}


def test_each_source_has_its_count_up_to_a_bound() -> None:
    counter = Sources()
    counter.count(["Post.example", "post.example", "gazette.example", ""])
    assert counter.series == {"post.example": 2, "gazette.example": 1, "none": 1, OTHER: 0}
    counter.count(f"quiet{n}.example" for n in range(1000))
    counter.count(["loud.example"] * 50)
    assert len(counter.series) == MAX_SOURCES + 1
    assert counter.series["loud.example"] >= 46, "all but those before it was noticed"
    assert counter.series[OTHER] >= 980


def test_a_formerly_frequent_source_makes_room() -> None:
    counter = Sources()
    for n in range(MAX_SOURCES):
        counter.count([f"old{n}.example"] * 100)
    for round_ in range(8):
        counter.count(f"one{round_}-{n}.example" for n in range(10_001))
    counter.count(["new.example"] * 20)
    assert "new.example" in counter.series


@given(st.lists(st.text(max_size=6) | st.sampled_from(["a", "b", OTHER, "none", "\ud800"]), max_size=200))
def test_any_source_name_can_be_exported(names: list[str]) -> None:
    counter = Sources()
    counter.count(names)
    if len({name.lower() for name in names}) <= MAX_SOURCES // 2:
        assert sum(counter.series.values()) == len(names)
    assert generate_latest(counter.registry)


@given(st.lists(st.integers(0, 60), max_size=400))
def test_no_series_decreases(numbers: list[int]) -> None:
    counter, previous = Sources(), Counter[str]()
    for n in numbers:
        counter.count([f"s{n}"])
        current = Counter(counter.series)
        assert all(current[name] >= previous[name] for name in current.keys() & previous.keys())
        previous = current


# -- the catalogue ---------------------------------------------------------------------------------------


def test_exported_metrics_match_the_catalogue(world: World) -> None:
    metrics = world.metrics
    metrics.standby_progress("global", 0.5)
    metrics.task_opened("global", [0], 0, 0.1)
    metrics.batch(report([item("1")], [unique("1")], lag={0: 3}))
    shown = {}
    for family in world.registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        shown[name] = (family.type, labels, family.documentation)
    assert shown == {spec.name: (spec.kind, set(spec.labels), spec.help) for spec in CATALOGUE}
    exposition = text_string_to_metric_families(generate_latest(world.registry).decode())
    [info] = {family.name: family for family in exposition}["stream_dedup_build_info"].samples
    assert (info.value, info.labels["version"]) == (1, "1.2.3")
