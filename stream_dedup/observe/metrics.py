"""Update the catalogue's metrics from the worker's events.

`Metrics` observes the worker and fills the metrics of catalogue.py in a given registry, so that two workers or two
tests never share one. The deduplicator knows nothing of metrics; collectors.py reads its index at each scrape.
"""

import platform
import time
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from stream_dedup.dedup.clocks import Odd
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Evidence, Kind, Stage
from stream_dedup.errors import BadItem, Fenced, Outdated, Refused, Stalled, StreamDedupError, TransactionFailed
from stream_dedup.news.decode import TEXT
from stream_dedup.news.fields import PRESETS
from stream_dedup.news.item import Item
from stream_dedup.observe import catalogue
from stream_dedup.observe.catalogue import Spec
from stream_dedup.observe.collectors import BulkHistogram, IndexCollector, StateCollector
from stream_dedup.observe.health import Status
from stream_dedup.observe.sources import SourceCounter
from stream_dedup.settings import Settings
from stream_dedup.worker.commit import CommitStep
from stream_dedup.worker.judge import SECONDS
from stream_dedup.worker.observer import BatchReport, Observer, TaskState

# The first words of a bad item's reason; a test compares them with the code. Any other word counts as "other", so that
# no input can add a label value.
BAD_REASONS = frozenset(
    {"json", "type", "encoding", "compressed", "no-key", "id", "fingerprint", "empty", "too-large", "refused", "header"}
    | {"internal"}
)
OTHER = "other"

# Kinds of verdict with evidence about a closest candidate.
_COMPARED = (Kind.DUPLICATE, Kind.UPDATE, Kind.UNIQUE)
# Errors after which the worker retries (worker.py), so that a scrape can see them.
_RETRIED = (TransactionFailed, Refused, Stalled, Fenced, Outdated)

# The pairs that occur. They start at 0, so that a rate includes the first increase.
_OUTCOMES = (
    *((kind, stage) for kind in (Kind.DUPLICATE, Kind.UPDATE) for stage in (Stage.HEADLINE, Stage.BODY, Stage.PROSE)),
    (Kind.UNIQUE, Stage.NONE), (Kind.DUPLICATE, Stage.ID), (Kind.DUPLICATE, Stage.EXACT), (Kind.UPDATE, Stage.POLICY),
    (Kind.BAD, Stage.NONE), (Kind.TOMBSTONE, Stage.NONE), (Kind.TOMBSTONE, Stage.POLICY),
)  # fmt: skip
_FIELDS = ("title", "text", "source")
_TRANSACTION = tuple(step for step in CommitStep if CommitStep.BEGIN <= step <= CommitStep.COMMIT)
_TIMED = tuple(step for step in CommitStep if step != CommitStep.POLL)  # polling is waiting, not work


class Metrics(Observer):
    """Fills the metrics from the worker's events.

    `version` is the program's, `group` that of the consumers; `clock` returns the wall time in
    seconds, `status` the status of /healthz; `memory_limit` is in bytes, None if unknown.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        version: str = "",
        group: str = "",
        clock: Callable[[], float] = time.time,
        status: Callable[[], str] = lambda: Status.STARTING,
        memory_limit: int | None = None,
    ) -> None:
        self._clock = clock
        self._items = _counter(catalogue.ITEMS, registry)
        self._bad = _counter(catalogue.BAD, registry)
        self._missing = _counter(catalogue.MISSING_FIELDS, registry)
        self._shapes = _counter(catalogue.SHAPES, registry)
        compared = [kind.value for kind in _COMPARED]
        self._similarity = BulkHistogram(catalogue.SIMILARITY, registry, compared)
        self._containment = BulkHistogram(catalogue.CONTAINMENT, registry, compared)
        self._sources = SourceCounter(catalogue.SOURCES, registry)
        self._batch_items = _histogram(catalogue.BATCH_ITEMS, registry)
        self._decision = _histogram(catalogue.DECISION, registry)
        self._transaction = _histogram(catalogue.TRANSACTION, registry)
        self._transactions = _counter(catalogue.TRANSACTIONS, registry)
        self._step_seconds = _counter(catalogue.STEP_SECONDS, registry)
        self._delay = BulkHistogram(catalogue.DELAY, registry)
        self._lag = _gauge(catalogue.LAG, registry)
        self._bytes_in = _counter(catalogue.BYTES_IN, registry)
        self._bytes_out = _counter(catalogue.BYTES_OUT, registry)
        self._bytes_changelog = _counter(catalogue.BYTES_CHANGELOG, registry)
        self._errors = _counter(catalogue.ERRORS, registry)
        self._stuck = _counter(catalogue.STUCK, registry)
        self._rebalances = _counter(catalogue.REBALANCES, registry)
        self._openings = _counter(catalogue.OPENINGS, registry)
        self._losses = _counter(catalogue.LOSSES, registry)
        self._restore = _histogram(catalogue.RESTORE, registry)
        self._restore_progress = _gauge(catalogue.RESTORE_PROGRESS, registry)
        self._state_lost = _gauge(catalogue.STATE_LOST, registry)
        self._foreign = _counter(catalogue.FOREIGN, registry)
        self._role = _gauge(catalogue.ROLE, registry)
        self._behind = _gauge(catalogue.BEHIND_BLOCKS, registry), _gauge(catalogue.BEHIND_SECONDS, registry)
        self._tasks = _gauge(catalogue.TASKS, registry)
        self._given_up = _counter(catalogue.GIVEN_UP, registry)
        self._away = _gauge(catalogue.BROKERS_AWAY, registry)
        self._distrusted = _gauge(catalogue.BROKERS_DISTRUSTED, registry)
        self._watermark = _gauge(catalogue.WATERMARK, registry)
        self._odd_times = _counter(catalogue.ODD_TIMES, registry)
        self._index = IndexCollector(registry)
        self._state = StateCollector(registry, status, list(Status), memory_limit)
        _gauge(catalogue.BUILD, registry).labels(version, platform.python_version(), group).set(1)
        self._in_transaction: set[str] = set()  # tasks
        self._restored: set[str] = set()  # tasks with a restore progress
        self._followed: set[str] = set()  # tasks that this standby follows
        self._lag_partitions: dict[str, set[int]] = {}  # task -> partitions with a lag
        self._start_at_zero()

    def deduplicator(self, settings: Settings) -> Deduplicator:
        """Make an empty deduplicator that the metrics cover: the factory for `Worker(..., deduplicator=...)`."""
        deduplicator = Deduplicator(settings)
        self._index.watch(deduplicator)
        return deduplicator

    # -- hooks -------------------------------------------------------------------------------------------

    def step(self, step: CommitStep, task: str) -> None:
        if step is CommitStep.BEGIN:
            self._in_transaction.add(task)

    def batch(self, report: BatchReport) -> None:
        self._in_transaction.discard(report.task)
        self._transactions.labels("committed").inc()
        self._count_items(report)
        self._batch_items.observe(report.count)
        seconds = report.seconds
        self._decision.observe(seconds.get(CommitStep.JUDGE, 0.0))
        self._transaction.observe(sum(seconds.get(step, 0.0) for step in _TRANSACTION))
        for step in _TIMED:
            self._step_seconds.labels(step.name.lower()).inc(seconds.get(step, 0.0))
        self._bytes_in.inc(report.bytes_in)
        self._bytes_out.inc(report.bytes_out)
        self._bytes_changelog.inc(report.changelog_bytes)
        if report.watermark:
            self._watermark.labels(report.task).set(report.watermark / 1000)
        for reason, count in report.odd_times.items():
            self._odd_times.labels(reason).inc(count)
        self.positions_advanced(report.task, report.lag)

    def positions_advanced(self, task: str, lag: Mapping[int, int]) -> None:
        partitions = self._lag_partitions.setdefault(task, set())
        for partition, records in lag.items():
            self._lag.labels(partition).set(records)
            partitions.add(partition)

    def state_lost(self, reason: str) -> None:
        self._state_lost.set(self._clock())

    def loop_completed(self, tasks: Sequence[str]) -> None:
        self._role.labels("active").set(bool(tasks))
        self._role.labels("standby").set(not tasks)

    def rebalanced(self, partitions: Sequence[int]) -> None:
        self._rebalances.inc()

    def tasks(self, states: Mapping[str, TaskState]) -> None:
        tally = Tally(states.values())
        for state in TaskState:
            self._tasks.labels(state).set(tally[state])
        for task in self._restored - states.keys():  # its opening was interrupted
            self._restored.discard(task)
            self._restore_progress.remove(task)
        for task in self._followed & states.keys():
            self._followed.discard(task)
            for gauge in self._behind:
                gauge.remove(task)

    def standby_progress(self, task: str, offsets: int, seconds: float) -> None:
        self._followed.add(task)
        for gauge, value in zip(self._behind, (offsets, seconds), strict=True):
            gauge.labels(task).set(value)

    def changelog_record_skipped(self) -> None:
        self._foreign.inc()

    def gave_up_role(self) -> None:
        self._given_up.inc()

    def restore_progress(self, task: str, done: int, total: int) -> None:
        self._restore_progress.labels(task).set(done / total if total else 1.0)
        self._restored.add(task)

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        self.restore_progress(task, 1, 1)
        self._stuck.labels(task)  # at 0, so that a rate includes the first increase
        self._openings.inc()
        self._restore.observe(seconds)

    def task_lost(self, task: str, reason: str) -> None:
        self._losses.inc()
        if task in self._in_transaction:
            self._in_transaction.discard(task)
            self._transactions.labels("failed").inc()
        if task in self._restored:
            self._restored.discard(task)
            self._restore_progress.remove(task)
        # Another member reports these now; here they would never change again.
        if task in self._lag_partitions:
            with suppress(KeyError):  # it may not have committed a batch
                self._watermark.remove(task)
            for partition in self._lag_partitions.pop(task):
                self._lag.remove(partition)

    def batch_stuck(self, task: str) -> None:
        self._stuck.labels(task).inc()

    def brokers_unreachable(self, seconds: float, reason: str) -> None:
        self._away.set(seconds)

    def brokers_reachable(self) -> None:
        self._away.set(0)

    def brokers_distrusted(self, problems: Mapping[str, str]) -> None:
        self._distrusted.set(len(problems))

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        self._errors.labels(type(error).__name__, "fatal" if retry_in is None else "retried").inc()

    # -- help --------------------------------------------------------------------------------------------

    def _count_items(self, report: BatchReport) -> None:
        self._count_fields(report)
        self._count_verdicts(report)
        times = [item.time for item in report.items if not isinstance(item, BadItem)]
        if times:
            # A timestamp may be ahead of our clock; a negative delay is not possible.
            self._delay.observe(np.maximum(self._clock() - np.array(times, np.float64) / 1000, 0.0))

    def _count_fields(self, report: BatchReport) -> None:
        judged = [
            item
            for item, verdict in zip(report.items, report.verdicts, strict=True)
            if isinstance(item, Item) and item.fingerprint is None and verdict.kind is not Kind.BAD
        ]
        for name in _FIELDS:
            self._missing.labels(name).inc(sum(not getattr(item, name) for item in judged))
        for shape, count in report.shapes.items():
            self._shapes.labels(shape).inc(count)

    def _count_verdicts(self, report: BatchReport) -> None:
        for (kind, stage), count in Tally((verdict.kind, verdict.stage) for verdict in report.verdicts).items():
            self._items.labels(kind.value, stage.value).inc(count)
        sources, evidence = [], {kind: list[Evidence]() for kind in _COMPARED}
        for item, verdict in zip(report.items, report.verdicts, strict=True):
            if verdict.kind is Kind.BAD:
                reason = verdict.reason.partition(":")[0]
                self._bad.labels(reason if reason in BAD_REASONS else OTHER).inc()
            elif verdict.kind is Kind.DUPLICATE and isinstance(item, Item):
                sources.append(item.source)
            if verdict.evidence is not None and verdict.kind in evidence:
                evidence[verdict.kind].append(verdict.evidence)
        self._sources.count(sources)
        for kind, comparisons in evidence.items():
            for histogram, values in (
                (self._similarity, [comparison.body for comparison in comparisons]),
                (self._containment, [comparison.containment for comparison in comparisons]),
            ):
                histogram.observe(np.array([x for x in values if x is not None], np.float64), kind.value)

    def _start_at_zero(self) -> None:
        for kind, stage in _OUTCOMES:
            self._items.labels(kind.value, stage.value)
        for reason in sorted(BAD_REASONS | {OTHER}):
            self._bad.labels(reason)
        for name in _FIELDS:
            self._missing.labels(name)
        for shape in (*PRESETS, TEXT):
            self._shapes.labels(shape)
        for error in _RETRIED:
            self._errors.labels(error.__name__, "retried")
        for outcome in ("committed", "failed"):
            self._transactions.labels(outcome)
        for step in _TIMED:
            self._step_seconds.labels(step.name.lower())
        for role in ("active", "standby"):
            self._role.labels(role)
        for odd in Odd:
            if odd is not Odd.NOTHING:
                self._odd_times.labels(odd.name.lower())
        self._odd_times.labels(SECONDS)
        for state in TaskState:
            self._tasks.labels(state)


def _counter(spec: Spec, registry: CollectorRegistry) -> Counter:
    return Counter(spec.name, spec.help, list(spec.labels), registry=registry)


def _gauge(spec: Spec, registry: CollectorRegistry) -> Gauge:
    return Gauge(spec.name, spec.help, list(spec.labels), registry=registry)


def _histogram(spec: Spec, registry: CollectorRegistry) -> Histogram:
    return Histogram(spec.name, spec.help, list(spec.labels), buckets=spec.buckets, registry=registry)
