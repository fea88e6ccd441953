"""The worker's recent history for the status page: half an hour of rates, tasks, lag and errors.

`Board` observes the worker; `Board.snapshot` returns a copy of its numbers. Prometheus keeps a longer history, but
a person on call may have only this page. So the board keeps ninety time slices of twenty seconds.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import StreamDedupError
from stream_dedup.worker.commit import CommitStep
from stream_dedup.worker.observer import BatchReport, Observer, TaskState

SLICE_SECONDS = 20
"""Length of a time slice."""
TIME_SLICES = 90
_ERRORS = 10
_TRANSACTION = tuple(step for step in CommitStep if CommitStep.BEGIN <= step <= CommitStep.COMMIT)


@dataclass(slots=True)
class TimeSlice:
    """Twenty seconds: items committed and held back, slowest transaction (s; None: no transaction), lag at the end."""

    items: int = 0
    held_back: int = 0
    slowest_transaction: float | None = None
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class TaskView:
    """An open task."""

    name: str
    partitions: tuple[int, ...]
    remembered: int
    opened: float  # seconds since 1970
    restored_in: float  # seconds


@dataclass(frozen=True, slots=True)
class ErrorView:
    """A failure. `retry_in`: seconds until the retry; None: the worker ended."""

    at: float
    kind: str
    text: str
    retry_in: float | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All numbers at one moment. `slices`: TIME_SLICES of them, oldest first; the last one is incomplete."""

    now: float
    started: float
    tasks: list[TaskView]
    restore_progress: dict[str, tuple[int, int]]  # task -> changelog offsets read, all offsets
    failing: list[str]  # tasks that failed and wait for a retry or reopen
    standby_lag: dict[str, tuple[int, float]]  # followed task -> offsets unread, seconds since there were none
    lag: dict[int, int]
    watermark: dict[str, int]
    counts: Counter[Kind]
    held_back: int
    slices: list[TimeSlice]
    last_batch: float | None
    errors: list[ErrorView]


@dataclass(slots=True)
class _Position:
    """How far a task's input has been processed; dropped when the task is lost."""

    watermark: int
    lag: dict[int, int] = field(default_factory=dict)


class Board(Observer):
    """Numbers of the last half hour. Any thread may call `snapshot`; `clock` returns seconds since 1970.

    >>> board = Board(clock=lambda: 100.0)
    >>> board.loop_completed(["global"]); board.snapshot().counts.total()
    0
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskView] = {}
        self._positions: dict[str, _Position] = {}
        self._restoring: dict[str, tuple[int, int]] = {}
        self._failing: list[str] = []
        self._standby_lag: dict[str, tuple[int, float]] = {}
        self._counts: Counter[Kind] = Counter()
        self._held_back = 0
        self._last_batch: float | None = None
        self._slices: dict[int, TimeSlice] = {}  # by number of slices since 1970
        self._errors: deque[ErrorView] = deque(maxlen=_ERRORS)

    def snapshot(self) -> Snapshot:
        """Copy everything."""
        with self._lock:
            now = self._clock()
            last = int(now) // SLICE_SECONDS
            return Snapshot(
                now,
                self._started,
                list(self._tasks.values()),
                dict(self._restoring),
                list(self._failing),
                dict(self._standby_lag),
                dict(sorted(pair for position in self._positions.values() for pair in position.lag.items())),
                {task: position.watermark for task, position in self._positions.items()},
                Counter(self._counts),
                self._held_back,
                [self._slices.get(number) or TimeSlice() for number in range(last - TIME_SLICES + 1, last + 1)],
                self._last_batch,
                list(reversed(self._errors)),
            )

    # -- hooks -------------------------------------------------------------------------------------------

    def batch(self, report: BatchReport) -> None:
        held_back = sum(not verdict.forward and verdict.kind is not Kind.BAD for verdict in report.verdicts)
        seconds = sum(report.seconds.get(step, 0.0) for step in _TRANSACTION)
        with self._lock:
            now = self._clock()
            current = self._slice(int(now) // SLICE_SECONDS)
            current.items += report.count
            current.held_back += held_back
            current.slowest_transaction = max(seconds, current.slowest_transaction or 0.0)
            self._counts.update(report.counts)
            self._held_back += held_back
            self._last_batch = now
            position = self._positions.setdefault(report.task, _Position(report.watermark))
            position.watermark = report.watermark
            position.lag.update(report.lag)
            current.lag = sum(sum(position.lag.values()) for position in self._positions.values())

    def positions_advanced(self, task: str, lag: Mapping[int, int]) -> None:
        with self._lock:
            if task in self._positions:
                self._positions[task].lag.update(lag)

    def restore_progress(self, task: str, done: int, total: int) -> None:
        with self._lock:
            self._restoring[task] = (done, total)

    def tasks(self, states: Mapping[str, TaskState]) -> None:
        with self._lock:
            self._failing = sorted(name for name, state in states.items() if state is TaskState.FAILING)
            self._restoring = {task: offsets for task, offsets in self._restoring.items() if task in states}
            self._standby_lag = {task: lag for task, lag in self._standby_lag.items() if task not in states}

    def standby_progress(self, task: str, offsets: int, seconds: float) -> None:
        with self._lock:
            self._standby_lag[task] = (offsets, seconds)

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        with self._lock:
            self._restoring.pop(task, None)
            self._tasks[task] = TaskView(task, tuple(partitions), remembered, self._clock(), seconds)

    def task_lost(self, task: str, reason: str) -> None:
        with self._lock:
            self._restoring.pop(task, None)
            self._tasks.pop(task, None)
            self._positions.pop(task, None)  # another member reports these now

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        with self._lock:
            self._restoring.clear()
            self._errors.append(ErrorView(self._clock(), type(error).__name__, str(error), retry_in))

    def _slice(self, number: int) -> TimeSlice:
        if number not in self._slices:
            self._slices[number] = TimeSlice()
            for old in [known for known in self._slices if known <= number - TIME_SLICES]:
                del self._slices[old]
        return self._slices[number]
