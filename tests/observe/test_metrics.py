"""Metrics: the effect of each event of the worker, in a separate registry."""

import gc
import re
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import stream_dedup.observe
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Evidence, Kind, Stage, Verdict
from stream_dedup.errors import BadItem, Stalled, TransactionFailed
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.observe.catalogue import CATALOGUE, DELAY, Spec
from stream_dedup.observe.collectors import BulkHistogram
from stream_dedup.observe.health import Status
from stream_dedup.observe.metrics import BAD_REASONS, Metrics
from stream_dedup.settings import Settings
from stream_dedup.worker import records as stream_records
from stream_dedup.worker.commit import CommitStep
from stream_dedup.worker.observer import BatchReport, TaskState
from tests.index.check import merge

NOW = 1_700_000_000.0
PACKAGE = Path(stream_dedup.observe.__path__[0]).parent


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(
        registry,
        version="1.2.3",
        clock=lambda: NOW,
        status=lambda: Status.OK,
        memory_limit=2**30,
    )


def item(name: str, age: float = 1.0) -> Item:
    return Item(name, "A headline", "A text", "host.example", int((NOW - age) * 1000))


def unique(name: str) -> Verdict:
    return Verdict(name, Kind.UNIQUE, Stage.NONE, True)


def bad(reason: str) -> Verdict:
    return Verdict("", Kind.BAD, Stage.NONE, False, reason=reason)


def report(
    items: list[Item | Tombstone | BadItem],
    verdicts: list[Verdict],
    task: str = "global",
    lag: dict[int, int] | None = None,
) -> BatchReport:
    return BatchReport(
        task=task,
        items=items,
        verdicts=verdicts,
        counts={kind: sum(verdict.kind is kind for verdict in verdicts) for kind in Kind},
        seconds={step: step / 100 for step in CommitStep if step != CommitStep.POLL},
        bytes_in=1000,
        bytes_out=1100,
        changelog_bytes=300,
        remembered=1,
        watermark=int((NOW - 1) * 1000),
        lag=lag or {},
    )


def test_a_batch_is_counted_by_verdict_and_stage(metrics: Metrics, registry: CollectorRegistry) -> None:
    verdicts = [
        unique("1"),
        unique("2"),
        Verdict("3", Kind.DUPLICATE, Stage.BODY, False),
        Verdict("4", Kind.UPDATE, Stage.BODY, True),
        Verdict("5", Kind.TOMBSTONE, Stage.NONE, True),
    ]
    metrics.batch(report([item(str(n)) for n in range(4)] + [Tombstone("5", int(NOW * 1000))], verdicts))

    def count(verdict: str, stage: str) -> float | None:
        return registry.get_sample_value("stream_dedup_items_total", {"verdict": verdict, "stage": stage})

    assert (count("unique", "none"), count("update", "body"), count("duplicate", "body")) == (2, 1, 1)
    assert count("tombstone", "none") == 1
    assert count("duplicate", "headline") == 0, "what may come stands at zero, so that a rate sees its first increase"
    assert registry.get_sample_value("stream_dedup_batch_items_sum") == 5
    assert registry.get_sample_value("stream_dedup_item_delay_seconds_count") == 5
    assert registry.get_sample_value("stream_dedup_received_bytes_total") == 1000
    assert registry.get_sample_value("stream_dedup_sent_bytes_total") == 1100
    assert registry.get_sample_value("stream_dedup_changelog_bytes_total") == 300
    assert registry.get_sample_value("stream_dedup_watermark_timestamp_seconds", {"task": "global"}) == NOW - 1


def test_times_of_a_batch(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.batch(report([item("1")], [unique("1")]))
    assert registry.get_sample_value("stream_dedup_decision_seconds_sum") == pytest.approx(0.02)
    transaction = registry.get_sample_value("stream_dedup_transaction_seconds_sum")
    assert transaction == pytest.approx((4 + 5 + 6 + 7 + 8 + 9) / 100), "from BEGIN to COMMIT"
    apply = registry.get_sample_value("stream_dedup_step_seconds_total", {"step": "apply"})
    assert apply == pytest.approx(0.03)
    assert registry.get_sample_value("stream_dedup_step_seconds_total", {"step": "poll"}) is None


def test_a_record_from_the_future_is_not_late(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.batch(report([item("1", age=-3600), item("2", age=7)], [unique("1"), unique("2")]))
    assert registry.get_sample_value("stream_dedup_item_delay_seconds_sum") == pytest.approx(7)
    assert registry.get_sample_value("stream_dedup_item_delay_seconds_bucket", {"le": "0.02"}) == 1


def test_an_unknown_reason_is_counted_as_other(metrics: Metrics, registry: CollectorRegistry) -> None:
    reasons = ["json: at byte 7", "empty: no letter", "surprise: \x00\n", "no colon", ""]
    metrics.batch(report([BadItem("x", "y")] * len(reasons), [bad(reason) for reason in reasons]))

    def count(reason: str) -> float | None:
        return registry.get_sample_value("stream_dedup_bad_items_total", {"reason": reason})

    assert (count("json"), count("empty"), count("other"), count("surprise")) == (1, 1, 3, None)
    assert registry.get_sample_value("stream_dedup_item_delay_seconds_count") == 0, "a bad item has no time"


def test_fields_that_judged_items_lack_are_counted(metrics: Metrics, registry: CollectorRegistry) -> None:
    bare = Item("2", "A headline", "", "", int(NOW * 1000))
    wordless = Item("3", "", "", "", int(NOW * 1000))
    own = Item("4", "", "", "host.example", int(NOW * 1000), fingerprint=7)
    verdicts = [unique("1"), unique("2"), bad("empty: no letter"), unique("4"), unique("t")]
    metrics.batch(report([item("1"), bare, wordless, own, Tombstone("t", int(NOW * 1000))], verdicts))
    counts = {
        field: registry.get_sample_value("stream_dedup_missing_fields_total", {"field": field})
        for field in ("title", "text", "source")
    }
    assert counts == {"title": 0, "text": 1, "source": 1}, "bad items and those with their own fingerprint do not count"


def test_shapes_are_counted_and_start_at_zero(metrics: Metrics, registry: CollectorRegistry) -> None:
    def count(shape: str) -> float | None:
        return registry.get_sample_value("stream_dedup_input_shapes_total", {"shape": shape})

    assert (count("plain"), count("rss"), count("text")) == (0, 0, 0), "a jump from zero counts as an increase"
    shapes: list[dict[str, int]] = [{"plain": 3, "rss": 1}, {"rss": 2}]
    for some in shapes:
        metrics.batch(replace(report([item("1")], [unique("1")]), shapes=some))
    assert (count("plain"), count("rss"), count("text")) == (3, 3, 0)


def test_every_reason_in_the_code_is_documented() -> None:
    """Each reason in the code must be in BAD_REASONS and in the catalogue.

    Files have another reason, a table row that does not fit, which the worker never meets.
    """
    files = [path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE / "batch"]
    source = "\n".join(path.read_text("utf-8") for path in files)
    literal = set(re.findall(r'\bBadItem\(\s*"([a-z-]+)"', source)) | set(
        re.findall(r'_bad\([^"\n]*"([a-z-]+): ', source)
    )
    named = {getattr(stream_records, name) for name in re.findall(r"\bBadItem\(\s*([A-Z_]+),", source)}
    assert literal | named == BAD_REASONS


def test_a_stuck_batch_is_counted_from_zero(metrics: Metrics, registry: CollectorRegistry) -> None:
    def batch_stuck() -> float | None:
        return registry.get_sample_value("stream_dedup_stuck_batches_total", {"task": "global"})

    metrics.task_opened("global", [0], 0, 0.1)
    assert batch_stuck() == 0
    metrics.batch_stuck("global")
    assert batch_stuck() == 1


def test_a_transaction_that_ends_in_a_lost_task_has_failed(metrics: Metrics, registry: CollectorRegistry) -> None:
    def outcomes() -> tuple[float | None, ...]:
        name = "stream_dedup_transactions_total"
        return tuple(registry.get_sample_value(name, {"outcome": outcome}) for outcome in ("committed", "failed"))

    assert outcomes() == (0, 0)
    for step in CommitStep:
        metrics.step(step, "global")
    metrics.batch(report([item("1")], [unique("1")]))
    assert outcomes() == (1, 0)
    metrics.step(CommitStep.JUDGE, "global")
    metrics.task_lost("global", "went to another member before the transaction began")
    assert outcomes() == (1, 0)
    metrics.step(CommitStep.BEGIN, "global")
    metrics.step(CommitStep.SEND, "global")
    metrics.task_lost("global", "the broker is gone")
    assert outcomes() == (1, 1)
    assert registry.get_sample_value("stream_dedup_task_losses_total") == 2


def test_a_lost_task_removes_its_lag_and_watermark(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.batch(report([item("1")], [unique("1")], task="0", lag={0: 5}))
    metrics.batch(report([item("2")], [unique("2")], task="1", lag={1: 7}))

    def shown() -> tuple[float | None, ...]:
        lag = [registry.get_sample_value("stream_dedup_lag_records", {"partition": partition}) for partition in "01"]
        name = "stream_dedup_watermark_timestamp_seconds"
        return (*lag, *(registry.get_sample_value(name, {"task": task}) for task in "01"))

    assert shown() == (5, 7, NOW - 1, NOW - 1)
    metrics.task_lost("0", "rebalance")
    assert shown() == (None, 7, None, NOW - 1)
    metrics.task_lost("0", "again, without a batch in between")


def test_a_lag_ends_without_a_batch_when_only_markers_were_left(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.batch(report([item("a")], [unique("a")], lag={0: 1, 1: 4}))
    metrics.positions_advanced("global", {0: 0})
    assert registry.get_sample_value("stream_dedup_lag_records", {"partition": "0"}) == 0
    assert registry.get_sample_value("stream_dedup_lag_records", {"partition": "1"}) == 4
    metrics.task_lost("global", "another member has it")
    metrics.positions_advanced("7", {7: 0})
    metrics.task_lost("7", "it never committed a batch")
    assert registry.get_sample_value("stream_dedup_lag_records", {"partition": "7"}) is None


def test_lost_state_has_a_timestamp(metrics: Metrics, registry: CollectorRegistry) -> None:
    assert registry.get_sample_value("stream_dedup_state_lost_timestamp_seconds") == 0
    metrics.state_lost("the changelog was deleted and created anew")
    metrics.changelog_record_skipped()
    assert registry.get_sample_value("stream_dedup_changelog_foreign_records_total") == 1
    assert registry.get_sample_value("stream_dedup_state_lost_timestamp_seconds") == NOW


def test_role_tasks_and_errors(metrics: Metrics, registry: CollectorRegistry) -> None:
    def role() -> tuple[float | None, ...]:
        return tuple(registry.get_sample_value("stream_dedup_role", {"role": role}) for role in ("active", "standby"))

    assert role() == (0, 0), "neither, before the loop has turned"
    metrics.loop_completed([])
    assert role() == (0, 1)
    metrics.task_opened("global", [0, 1], 12, 3.0)
    metrics.loop_completed(["global"])
    assert role() == (1, 0)
    metrics.error(TransactionFailed("x"), 0.2)
    metrics.error(TransactionFailed("y"), 0.4)
    metrics.error(Stalled("z"), None)

    def errors(kind: str, fate: str) -> float | None:
        return registry.get_sample_value("stream_dedup_errors_total", {"kind": kind, "fate": fate})

    assert errors("TransactionFailed", "retried") == 2
    assert (errors("Stalled", "fatal"), errors("Stalled", "retried")) == (1, 0)
    assert registry.get_sample_value("stream_dedup_task_openings_total") == 1
    assert registry.get_sample_value("stream_dedup_restore_seconds_bucket", {"le": "5.0"}) == 1


def evidence(body: float | None, containment: float | None = None) -> Evidence:
    return Evidence(body=body, containment=containment, candidates=1)


def test_similarity_of_the_closest_candidates(metrics: Metrics, registry: CollectorRegistry) -> None:
    verdicts = [
        Verdict("1", Kind.DUPLICATE, Stage.BODY, False, evidence=evidence(0.97, 1.0)),
        Verdict("2", Kind.DUPLICATE, Stage.HEADLINE, False, evidence=evidence(0.3)),
        Verdict("3", Kind.UNIQUE, Stage.NONE, True, evidence=evidence(0.6, 0.8)),
        Verdict("4", Kind.UNIQUE, Stage.NONE, True, evidence=evidence(None)),
        Verdict("5", Kind.UNIQUE, Stage.NONE, True, evidence=evidence(0.6, 0.8)),
    ]
    metrics.batch(report([item(verdict.id) for verdict in verdicts], verdicts))

    def upto(name: str, verdict: str, bound: str) -> float | None:
        return registry.get_sample_value(f"stream_dedup_{name}_ratio_bucket", {"verdict": verdict, "le": bound})

    assert [upto("similarity", "duplicate", bound) for bound in ("0.2", "0.3", "0.95", "1.0")] == [0, 1, 1, 2]
    assert [upto("similarity", "unique", bound) for bound in ("0.5", "0.6", "+Inf")] == [0, 2, 2]
    assert [upto("containment", "duplicate", "+Inf"), upto("containment", "update", "+Inf")] == [1, 0]


def test_progress_of_a_restore(metrics: Metrics, registry: CollectorRegistry) -> None:
    def progress() -> float | None:
        return registry.get_sample_value("stream_dedup_restore_progress_ratio", {"task": "global"})

    assert progress() is None, "no task, no progress"
    metrics.restore_progress("global", 30, 40)
    assert progress() == 0.75
    metrics.task_opened("global", [0], 12, 3.0)
    assert progress() == 1
    metrics.task_lost("global", "went to another member")
    assert progress() is None


def test_a_standby_reports_its_lag(metrics: Metrics, registry: CollectorRegistry) -> None:
    def behind() -> list[float | None]:
        names = ("stream_dedup_standby_behind_blocks", "stream_dedup_standby_behind_seconds")
        return [registry.get_sample_value(name, {"task": "global"}) for name in names]

    assert behind() == [None, None]
    metrics.standby_progress("global", 12, 3.5)
    assert behind() == [12, 3.5]
    metrics.tasks({"global": TaskState.OPENING})
    assert behind() == [None, None], "it stands by no more"


def test_tasks_by_state_and_roles_given_up(metrics: Metrics, registry: CollectorRegistry) -> None:
    def tasks() -> list[float | None]:
        return [registry.get_sample_value("stream_dedup_tasks", {"state": state}) for state in TaskState]

    assert tasks() == [0, 0, 0]
    metrics.restore_progress("2", 30, 40)
    metrics.tasks({"0": TaskState.OPEN, "1": TaskState.FAILING, "2": TaskState.OPENING, "3": TaskState.OPEN})
    assert tasks() == [2, 1, 1]
    metrics.tasks({"0": TaskState.OPEN})
    assert tasks() == [1, 0, 0]
    progress = registry.get_sample_value("stream_dedup_restore_progress_ratio", {"task": "2"})
    assert progress is None, "its opening was cut"
    metrics.gave_up_role()
    assert registry.get_sample_value("stream_dedup_roles_given_up_total") == 1


# -- state read at the scrape -----------------------------------------------------------------------------


def remember_items(deduplicator: Deduplicator, count: int, start: int = 0) -> None:
    """Let the deduplicator remember distinct items."""
    for n in range(start, start + count):
        words = " ".join(f"w{n}x{m}" for m in range(40))
        batch = deduplicator.judge([Item(str(n), words[:40], words, f"h{n}.example", n)])
        deduplicator.apply(batch)


def test_the_index_is_read_at_the_scrape_and_summed(metrics: Metrics, registry: CollectorRegistry) -> None:
    def value(name: str) -> float | None:
        return registry.get_sample_value(f"stream_dedup_index_{name}")

    assert (value("rows"), value("merges_total")) == (0, 0)
    first, second = metrics.deduplicator(Settings()), metrics.deduplicator(Settings())
    try:
        remember_items(first, 12)
        remember_items(second, 2)
        assert (value("rows"), value("recent_rows"), value("runs")) == (14, 14, 0)
        assert (value("filter_keys_total") or 0) > (value("filter_passed_total") or 0)
        merge(first.index)
        assert (value("recent_rows"), value("runs")) == (2, 1)
        parts = ("signatures", "keys", "ids", "process")
        sizes = [registry.get_sample_value("stream_dedup_memory_bytes", {"part": part}) for part in parts]
        assert all(size and size > 0 for size in sizes), sizes
        assert sizes[3] > sum(sizes[:3]), "the process holds them all"
        assert registry.get_sample_value("stream_dedup_memory_limit_bytes") == 2**30
        assert registry.get_sample_value("stream_dedup_window_age_seconds") == pytest.approx(0.007), (
            "the median of the last nine times"
        )
    finally:
        first.close()
        second.close()


def test_a_closed_deduplicator_is_removed_but_its_merges_count(metrics: Metrics, registry: CollectorRegistry) -> None:
    deduplicator = metrics.deduplicator(Settings())
    for round_ in range(2):
        remember_items(deduplicator, 2, start=2 * round_)
        merge(deduplicator.index)
    merges = registry.get_sample_value("stream_dedup_index_merges_total")
    assert merges
    assert merges == deduplicator.index.stats().merges
    deduplicator.close()
    del deduplicator
    gc.collect()
    assert registry.get_sample_value("stream_dedup_index_rows") == 0
    assert registry.get_sample_value("stream_dedup_index_merges_total") == merges


def test_scrapes_do_not_disturb_the_worker(metrics: Metrics, registry: CollectorRegistry) -> None:
    """Scrape from another thread while tasks open, work and close."""
    done, failures = threading.Event(), []

    def scrape() -> None:
        try:
            while not done.is_set():
                list(registry.collect())
        except Exception as error:  # noqa: BLE001 - the test reports any error
            failures.append(error)

    thread = threading.Thread(target=scrape)
    thread.start()
    for n in range(20):
        deduplicator = metrics.deduplicator(Settings())
        remember_items(deduplicator, 5)
        metrics.batch(report([item("1")], [unique("1")], task=str(n), lag={n: 1}))
        metrics.task_lost(str(n), "over")
        deduplicator.close()
    done.set()
    thread.join()
    assert not failures


# -- bulk updates -----------------------------------------------------------------------------------------


def test_a_bulk_histogram_counts_as_prometheus_does(registry: CollectorRegistry) -> None:
    from prometheus_client import Histogram

    buckets = (0.1, 1.0, 10.0)
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


# -- the catalogue ---------------------------------------------------------------------------------------


def report_all_events(metrics: Metrics) -> None:
    metrics.loop_completed(["global"])
    metrics.standby_progress("global", 1, 0.5)
    metrics.rebalanced([0])
    metrics.task_opened("global", [0], 0, 0.1)
    metrics.batch(report([item("1")], [unique("1")], lag={0: 3}))
    metrics.error(Stalled("x"), 0.2)


def test_exported_metrics_match_the_catalogue(metrics: Metrics, registry: CollectorRegistry) -> None:
    report_all_events(metrics)
    shown = {}
    for family in registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        shown[name] = (family.type, labels, family.documentation)
    assert shown == {spec.name: (spec.kind, set(spec.labels), spec.help) for spec in CATALOGUE}


@pytest.mark.parametrize("spec", CATALOGUE, ids=lambda spec: spec.name)
def test_names_follow_the_conventions(spec: Spec) -> None:
    assert re.fullmatch(r"stream_dedup_[a-z_]+", spec.name)
    assert spec.name.endswith("_total") == (spec.kind == "counter")
    assert not re.search(r"_(ms|millis|milliseconds|minutes|kb|mb|count|sum|bucket)(_total)?$", spec.name)
    assert bool(spec.buckets) == (spec.kind == "histogram")
    assert list(spec.buckets) == sorted(set(spec.buckets))
    assert spec.help.endswith(".")


def test_the_largest_batch_has_a_bucket() -> None:
    bounds = Settings.model_fields["worker"].annotation.model_fields["batch_items"].metadata  # type: ignore[union-attr]
    [batch_items] = [spec for spec in CATALOGUE if spec.name == "stream_dedup_batch_items"]
    assert batch_items.buckets[-1] == next(bound.le for bound in bounds if hasattr(bound, "le"))


def test_the_exposition_is_well_formed(metrics: Metrics, registry: CollectorRegistry) -> None:
    from prometheus_client import generate_latest

    report_all_events(metrics)
    families = {family.name: family for family in text_string_to_metric_families(generate_latest(registry).decode())}
    assert families["stream_dedup_items"].type == "counter"
    assert families[DELAY.name].type == "histogram"
    [info] = families["stream_dedup_build_info"].samples
    assert info.value == 1
    assert info.labels["version"] == "1.2.3"
