"""What the worker did lately, in numbers a person can take in: events in, `Snapshot` out, for the status page.

Prometheus keeps history and the page needs none of it; but whoever is called at night may have only this page, so
half an hour of rates is kept here: ninety pieces of twenty seconds.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import StreamDedupError
from stream_dedup.stream.observer import BatchReport, Observer, TaskState
from stream_dedup.stream.transaction import CommitStep

SECONDS = 20
"""Length of a piece of the history."""
TIME_SLICES = 90
_ERRORS = 10
_TRANSACTION = tuple(step for step in CommitStep if CommitStep.BEGIN <= step <= CommitStep.COMMIT)


@dataclass(slots=True)
class TimeSlice:
    """Twenty seconds: items committed and held back, the slowest transaction (s; None: none), the lag at its end."""

    items: int = 0
    held: int = 0
    slowest: float | None = None
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task that is open."""

    name: str
    partitions: tuple[int, ...]
    remembered: int
    opened: float  # seconds since 1970
    restored_in: float  # seconds


@dataclass(frozen=True, slots=True)
class ErrorView:
    """Something that failed. `retry_in` None: the worker ended."""

    at: float
    kind: str
    text: str
    retry_in: float | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All of it at one moment. `pieces`: PIECES of them, oldest first, the last one still running."""

    now: float
    started: float
    tasks: list[TaskView]
    restoring: dict[str, tuple[int, int]]  # task -> changelog offsets read, of all
    failing: list[str]  # tasks that failed, and wait or are opened anew
    behind: dict[str, tuple[int, float]]  # task it stands by for -> offsets not read, seconds since none were
    lag: dict[int, int]
    watermark: dict[str, int]
    counts: Counter[Kind]
    held: int
    pieces: list[TimeSlice]
    last_batch: float | None
    errors: list[ErrorView]


@dataclass(slots=True)
class _Shown:
    """What goes when its task goes."""

    watermark: int
    lag: dict[int, int] = field(default_factory=dict)


class Board(Observer):
    """Keeps the numbers. Any thread may ask for a `snapshot`; `clock` gives seconds since 1970.

    >>> board = Board(clock=lambda: 100.0)
    >>> board.turn(["global"]); board.snapshot().counts.total()
    0
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskView] = {}
        self._shown: dict[str, _Shown] = {}
        self._restoring: dict[str, tuple[int, int]] = {}
        self._failing: list[str] = []
        self._behind: dict[str, tuple[int, float]] = {}
        self._counts: Counter[Kind] = Counter()
        self._held = 0
        self._last_batch: float | None = None
        self._pieces: dict[int, TimeSlice] = {}  # by the piece's number since 1970
        self._errors: deque[ErrorView] = deque(maxlen=_ERRORS)

    def snapshot(self) -> Snapshot:
        """Everything, copied."""
        with self._lock:
            now = self._clock()
            last = int(now) // SECONDS
            return Snapshot(
                now,
                self._started,
                list(self._tasks.values()),
                dict(self._restoring),
                list(self._failing),
                dict(self._behind),
                dict(sorted(pair for one in self._shown.values() for pair in one.lag.items())),
                {name: one.watermark for name, one in self._shown.items()},
                Counter(self._counts),
                self._held,
                [self._pieces.get(number) or TimeSlice() for number in range(last - TIME_SLICES + 1, last + 1)],
                self._last_batch,
                list(reversed(self._errors)),
            )

    # -- hooks -------------------------------------------------------------------------------------------

    def batch(self, report: BatchReport) -> None:
        held = sum(not one.forward and one.kind is not Kind.BAD for one in report.verdicts)
        seconds = sum(report.seconds.get(step, 0.0) for step in _TRANSACTION)
        with self._lock:
            now = self._clock()
            piece = self._piece(int(now) // SECONDS)
            piece.items += len(report.verdicts)
            piece.held += held
            piece.slowest = max(seconds, piece.slowest or 0.0)
            self._counts.update(report.counts)
            self._held += held
            self._last_batch = now
            shown = self._shown.setdefault(report.task, _Shown(report.watermark))
            shown.watermark = report.watermark
            shown.lag.update(report.lag)
            piece.lag = sum(sum(one.lag.values()) for one in self._shown.values())

    def stands(self, task: str, lag: Mapping[int, int]) -> None:
        with self._lock:
            if task in self._shown:
                self._shown[task].lag.update(lag)

    def restoring(self, task: str, done: int, total: int) -> None:
        with self._lock:
            self._restoring[task] = (done, total)

    def tasks(self, states: Mapping[str, TaskState]) -> None:
        with self._lock:
            self._failing = sorted(name for name, state in states.items() if state is TaskState.FAILING)
            self._restoring = {name: one for name, one in self._restoring.items() if name in states}
            self._behind = {name: one for name, one in self._behind.items() if name not in states}

    def following(self, task: str, offsets: int, seconds: float) -> None:
        with self._lock:
            self._behind[task] = (offsets, seconds)

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        with self._lock:
            self._restoring.pop(task, None)
            self._tasks[task] = TaskView(task, tuple(partitions), remembered, self._clock(), seconds)

    def task_lost(self, task: str, reason: str) -> None:
        with self._lock:
            self._restoring.pop(task, None)
            self._tasks.pop(task, None)
            self._shown.pop(task, None)  # another member shows these now

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        with self._lock:
            self._restoring.clear()
            self._errors.append(ErrorView(self._clock(), type(error).__name__, str(error), retry_in))

    def _piece(self, number: int) -> TimeSlice:
        if number not in self._pieces:
            self._pieces[number] = TimeSlice()
            for old in [one for one in self._pieces if one <= number - TIME_SLICES]:
                del self._pieces[old]
        return self._pieces[number]
