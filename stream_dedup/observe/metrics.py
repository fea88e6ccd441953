"""Fill the catalogue's metrics from the worker's events.

`Metrics` observes the worker and keeps its metrics in the registry that it is given, so two workers or two tests never
share one. The decider knows nothing of metrics: `_IndexCollector` reads its index at each scrape, on a thread of
the HTTP server, while the worker goes on. It reads only counters and lengths: each is consistent in itself, but two of
them may be a batch apart.
"""

import platform
import threading
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.source_rules import count_rules
from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import BadItem, StreamDedupError
from stream_dedup.kafka.cluster import Wait
from stream_dedup.news.item import Item
from stream_dedup.observe import catalogue
from stream_dedup.observe.catalogue import BAD_REASONS, CATALOGUE, FIELDS, OTHER, STEPS, Spec
from stream_dedup.observe.health import HealthState, Status
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import BatchReport, CommitStep, Observer, TaskState

_TRANSACTION = tuple(step for step in CommitStep if CommitStep.BEGIN <= step <= CommitStep.COMMIT)


class Metrics(Observer):
    """Fills the metrics from the worker's events.

    `version` is the program's; `clock` returns the wall time in seconds, `health` the state behind /healthz.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        settings: Settings,
        version: str,
        health: Callable[[], HealthState],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._index = _IndexCollector(registry)
        self._sources = SourceCounter(registry)
        self._delay = BulkHistogram(catalogue.DELAY, registry)
        elsewhere = {*_IndexCollector.SPECS, catalogue.SOURCES, catalogue.DELAY}
        self._metrics = {spec: _make(spec, registry) for spec in CATALOGUE if spec not in elsewhere}
        for status in Status:
            self._child(catalogue.STATUS, status).set_function(lambda status=status: health().status is status)
        self._child(catalogue.BUILD, version, platform.python_version(), settings.kafka.group_id).set(1)
        self._child(catalogue.MEMORY_LIMIT).set(settings.worker.memory)
        self._lag_partitions: dict[str, set[int]] = {}  # task -> partitions with a lag
        self._restored: set[str] = set()  # tasks with a restore progress

    def _child(self, spec: Spec, *labels: object) -> Any:
        """Return the metric, or its series with these labels, which begins now if there is none."""
        metric = self._metrics[spec]
        return metric.labels(*labels) if labels else metric

    def _remove(self, spec: Spec, label: object) -> None:
        """End a series, if there is one."""
        with suppress(KeyError):
            self._metrics[spec].remove(label)

    def decider(self, settings: Settings) -> Decider:
        """Make an empty decider that the metrics cover: the factory for `Worker(..., decider=...)`."""
        decider = Decider(settings)
        self._index.watch(decider)
        return decider

    # -- hooks -------------------------------------------------------------------------------------------

    def batch(self, report: BatchReport) -> None:
        self._count_items(report)
        self._child(catalogue.TRANSACTION).observe(sum(report.seconds.get(step, 0.0) for step in _TRANSACTION))
        for step in STEPS:
            self._child(catalogue.STEP_SECONDS, step.name.lower()).inc(report.seconds.get(step, 0.0))
        for reason, count in report.odd_times.items():
            self._child(catalogue.ODD_TIMES, reason).inc(count)
        for shape, count in report.shapes.items():
            self._child(catalogue.SHAPES, shape).inc(count)
        if report.watermark:
            self._child(catalogue.WATERMARK, report.task).set(report.watermark / 1000)
        self.positions_advanced(report.task, report.lag)

    def positions_advanced(self, task: str, lag: Mapping[int, int]) -> None:
        for partition, records in lag.items():
            self._child(catalogue.LAG, partition).set(records)
        self._lag_partitions.setdefault(task, set()).update(lag)

    def state_lost(self, reason: str) -> None:
        self._child(catalogue.STATE_LOST).set(self._clock())

    def loop_completed(self, tasks: Sequence[str]) -> None:
        self._child(catalogue.ROLE, "active").set(bool(tasks))
        self._child(catalogue.ROLE, "standby").set(not tasks)

    def rebalanced(self, partitions: Sequence[int]) -> None:
        self._child(catalogue.REBALANCES).inc()

    def tasks(self, states: Mapping[str, TaskState]) -> None:
        tally = Tally(states.values())
        for state in TaskState:
            self._child(catalogue.TASKS, state).set(tally[state])
        for task in states:
            self._remove(catalogue.BEHIND_SECONDS, task)  # this member no longer follows it
        for task in self._restored - states.keys():  # its opening was interrupted
            self._restored.discard(task)
            self._remove(catalogue.RESTORE_PROGRESS, task)

    def standby_progress(self, task: str, seconds: float) -> None:
        self._child(catalogue.BEHIND_SECONDS, task).set(seconds)

    def restore_progress(self, task: str, done: int, total: int) -> None:
        self._child(catalogue.RESTORE_PROGRESS, task).set(done / total if total else 1.0)
        self._restored.add(task)

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        self.restore_progress(task, 1, 1)
        self._child(catalogue.STUCK, task)  # at 0, so that a rate includes the first increase

    def task_lost(self, task: str, reason: str) -> None:
        # Another member reports these now; here they would stay as they are.
        self._remove(catalogue.RESTORE_PROGRESS, task)
        self._remove(catalogue.WATERMARK, task)
        for partition in self._lag_partitions.pop(task, ()):
            self._remove(catalogue.LAG, partition)

    def batch_stuck(self, task: str) -> None:
        self._child(catalogue.STUCK, task).inc()

    def brokers_unreachable(self, seconds: float, reason: str) -> None:
        self._child(catalogue.BROKERS_AWAY).set(seconds)

    def brokers_reachable(self) -> None:
        self._child(catalogue.BROKERS_AWAY).set(0)

    def brokers_distrusted(self, problems: Mapping[str, str]) -> None:
        self._child(catalogue.BROKERS_DISTRUSTED).set(len(problems))

    def waiting(self, wait: Wait, seconds: float, reason: str) -> None:
        self._child(catalogue.WAITING, wait).set(seconds)

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        self._child(catalogue.ERRORS, type(error).__name__, "fatal" if retry_in is None else "retried").inc()

    # -- help --------------------------------------------------------------------------------------------

    def _count_items(self, report: BatchReport) -> None:
        for (kind, stage), count in Tally((verdict.kind, verdict.stage) for verdict in report.verdicts).items():
            self._child(catalogue.ITEMS, kind.value, stage.value).inc(count)
        for rule, count in count_rules(verdict.reason for verdict in report.verdicts).items():
            self._child(catalogue.SOURCE_RULES, rule).inc(count)
        judged, sources = [], []
        for item, verdict in zip(report.items, report.verdicts, strict=True):
            if verdict.kind is Kind.BAD:
                reason = verdict.reason.partition(":")[0]
                self._child(catalogue.BAD, reason if reason in BAD_REASONS else OTHER).inc()
            elif isinstance(item, Item):
                if item.fingerprint is None:
                    judged.append(item)
                if verdict.kind is Kind.DUPLICATE:
                    sources.append(item.source)
        for name in FIELDS:
            self._child(catalogue.MISSING_FIELDS, name).inc(sum(not getattr(item, name) for item in judged))
        self._sources.count(sources)
        pairs = zip(report.items, report.records, strict=True)
        times = [record.timestamp for item, record in pairs if not isinstance(item, BadItem)]
        # A timestamp may be ahead of our clock; a delay is never negative.
        self._delay.observe(np.maximum(self._clock() - np.array(times, np.float64) / 1000, 0.0))


def _make(spec: Spec, registry: CollectorRegistry) -> Any:
    labels = list(spec.labels)
    if spec.kind == "histogram":
        return Histogram(spec.name, spec.help, labels, buckets=spec.buckets, registry=registry)
    metric = (Counter if spec.kind == "counter" else Gauge)(spec.name, spec.help, labels, registry=registry)
    only = next((values for values in spec.labels.values() if not isinstance(values, str)), ())
    for values in spec.known or [(value,) for value in only]:
        metric.labels(*values)
    return metric


class _IndexCollector(Collector):
    """Sums over all live deciders. Its references are weak, so the decider of a closed task disappears."""

    SPECS = (
        catalogue.ROWS, catalogue.RUNS, catalogue.WINDOW_AGE, catalogue.MEMORY, catalogue.MERGE_SECONDS,
        catalogue.CROWDED, catalogue.EVICTED,
    )  # fmt: skip

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lock = threading.Lock()  # the worker adds, scrapes read
        # The sums of merge seconds, crowded keys and evicted originals must not fall when a decider disappears. So
        # each scrape adds what has grown since the last one.
        self._counted: WeakKeyDictionary[Decider, NDArray[np.float64]] = WeakKeyDictionary()
        self._totals = np.zeros(3)
        registry.register(self)

    def watch(self, decider: Decider) -> None:
        """Include this decider in the sums from now on."""
        with self._lock:
            self._counted[decider] = np.zeros(3)

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            live = [(dedup, dedup.index.stats()) for dedup in list(self._counted)]
            for dedup, stats in live:
                now = np.array([stats.merge_seconds, stats.crowded, dedup.evicted])
                self._totals = self._totals + now - self._counted[dedup]
                self._counted[dedup] = now
            totals = self._totals.tolist()
        ages = [(dedup.watermark - stats.oldest) / 1000 for dedup, stats in live if stats.oldest is not None]
        yield _family(catalogue.ROWS, {"": sum(len(dedup) for dedup, _ in live)})
        yield _family(catalogue.RUNS, {"": sum(stats.runs for _, stats in live)})
        yield _family(catalogue.WINDOW_AGE, {"": max([0.0, *ages])})
        for spec, total in zip((catalogue.MERGE_SECONDS, catalogue.CROWDED, catalogue.EVICTED), totals, strict=True):
            yield _family(spec, {"": total})
        sizes = np.array([(*dedup.rows.parts(), stats.bytes, dedup.boilerplate.nbytes) for dedup, stats in live])
        parts = ("signatures", "ids", "bodies", "keys", "boilerplate")
        sums = sizes.reshape(-1, len(parts)).sum(0).tolist()
        yield _family(catalogue.MEMORY, dict(zip(parts, sums, strict=True)))


def _family(spec: Spec, values: Mapping[str, float]) -> Metric:
    """Return a metric at a scrape. `values`: value of its label -> number, or "" -> number without a label."""
    kind = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
    family = kind(spec.name, spec.help, labels=list(spec.labels))
    for label, value in values.items():
        family.add_metric([label] if label else [], value)
    return family


class BulkHistogram(Collector):
    """A histogram that takes a whole batch at once.

    prometheus_client takes one value at a time, at 3 µs each in a backlog (measured); a verdict takes some 60 µs. This
    class takes 9 µs for a thousand values.
    """

    def __init__(self, spec: Spec, registry: CollectorRegistry) -> None:
        self._spec = spec
        self._bounds = np.array(spec.buckets)
        self._counts = np.zeros(len(spec.buckets) + 1, np.int64)
        self._sum = 0.0
        self._lock = threading.Lock()  # a scrape must not see counts without their sum
        registry.register(self)

    def observe(self, values: NDArray[np.float64]) -> None:
        """Count each value in the first bucket whose bound is not below it."""
        counts = np.bincount(np.searchsorted(self._bounds, values, side="left"), minlength=len(self._counts))
        with self._lock:
            self._counts += counts
            self._sum += float(values.sum())

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            cumulative, total = np.cumsum(self._counts).tolist(), self._sum
        buckets = list(zip([*map(repr, self._spec.buckets), "+Inf"], cumulative, strict=True))
        yield HistogramMetricFamily(self._spec.name, self._spec.help, buckets=buckets, sum_value=total)


MAX_SOURCES = 20
# Sources in the tally at which it is halved; one of the busiest twenty of ten thousand survives many halvings.
_MAX_TALLY = 10_000
# A source replaces another one when it has twice as many duplicates: otherwise two equals would swap all day.
_REPLACE_FACTOR = 2
# The longest host name; the field may contain anything.
_MAX_CHARS = 253


class SourceCounter(Collector):
    """Counter of duplicates by source, with a bounded number of series. The worker counts while scrapes read.

    Each of the `MAX_SOURCES` busiest sources has a series, and "other" counts the rest. The number of sources has no
    bound, so a tally estimates which are busiest. It is halved when it grows too long, so that sources that were busy
    long ago lose their series. A source counts as "other" until it has a series, which begins at 0; a source that loses
    its rank loses its series. So no series ever falls, and the sum of their rates is the rate of all duplicates.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tally: Tally[str] = Tally()
        self._series = {OTHER: 0}
        self._lock = threading.Lock()
        registry.register(self)

    def count(self, sources: Iterable[str]) -> None:
        """Count one duplicate of each source. O(1) each, O(MAX_SOURCES) for a source without a series."""
        with self._lock:
            for source in sources:
                # In lower case, as hosts are, and without lone surrogates, which have no UTF-8.
                name = source[:_MAX_CHARS].lower().encode("utf-8", "replace").decode() or "none"
                self._tally[name] += 1
                self._series[name if name in self._series or self._add_series(name) else OTHER] += 1
            if len(self._tally) > _MAX_TALLY:
                self._tally = Tally({name: count // 2 for name, count in self._tally.items() if count > 1})

    def _add_series(self, name: str) -> bool:
        if len(self._series) > MAX_SOURCES:
            weakest = min((source for source in self._series if source != OTHER), key=self._tally.__getitem__)
            if self._tally[name] < _REPLACE_FACTOR * max(self._tally[weakest], 1):
                return False
            del self._series[weakest]
        self._series[name] = 0
        return True

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            yield _family(catalogue.SOURCES, self._series)
