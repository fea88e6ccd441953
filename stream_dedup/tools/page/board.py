"""What the status page shows of the recent past: numbers (`Board`), charts of them, and items (`Recent`, at
most as many as [observe] recent_items says).

`Board` counts the worker's events, and `charts` draws SVG paths of the last half hour. `Recent` retains items by id,
and the last held-back items and updates with their originals (retained.py). Prometheus keeps a longer history, but a
person on call may have only this page. Returned values never change, so any thread may read them. All ends with the
process; older items are in the topics.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import StreamDedupError
from stream_dedup.tools.page.retained import ITEM_BYTES, ItemPair, JudgedItem, Retained
from stream_dedup.worker.observer import BatchReport, CommitStep, Observer, TaskState

SLICE_SECONDS = 20
"""Length of a time slice."""
TIME_SLICES = 90
_ERRORS = 10
_TRANSACTION = tuple(step for step in CommitStep if CommitStep.BEGIN <= step <= CommitStep.COMMIT)

WIDTH, HEIGHT = 360, 90
"""The size of a chart, in the units of its SVG paths."""
_MARGIN = 4  # above the highest bar


@dataclass(slots=True)
class TimeSlice:
    """Twenty seconds: items committed, items held back, the slowest transaction (s), and the lag at the end."""

    items: int = 0
    held_back: int = 0
    slowest_transaction: float = 0.0
    lag: int = 0


@dataclass(slots=True)
class TaskView:
    """An open task, when it was opened (seconds since 1970), and how far its input has been processed."""

    opened: float
    restored_in: float  # seconds
    remembered: int  # when it was opened
    watermark: int = 0  # 0: none yet
    lag: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Numbers:
    """All numbers at one moment, `now`. The last slice is incomplete."""

    started: float
    now: float
    tasks: dict[str, TaskView] = field(default_factory=dict)
    restoring: dict[str, tuple[int, int]] = field(default_factory=dict)  # task -> changelog offsets read, all offsets
    failing: list[str] = field(default_factory=list)  # tasks that failed and wait for a retry or reopen
    standby_lag: dict[str, float] = field(default_factory=dict)  # followed task -> seconds behind the changelog
    counts: Counter[Kind] = field(default_factory=Counter)
    held_back: int = 0
    last_batch: float | None = None
    errors: deque[tuple[float, str, str, float | None]] = field(  # when, kind, text, seconds until the retry
        default_factory=lambda: deque(maxlen=_ERRORS)
    )
    slices: deque[TimeSlice] = field(
        default_factory=lambda: deque((TimeSlice() for _ in range(TIME_SLICES)), TIME_SLICES)
    )

    @property
    def lag(self) -> dict[int, int]:
        """Input partition -> records not yet committed."""
        return dict(sorted(pair for task in self.tasks.values() for pair in task.lag.items()))


class Board(Observer):
    """Numbers of the last half hour. Any thread may call `snapshot`; `clock` returns seconds since 1970.

    >>> board = Board(clock=lambda: 100.0)
    >>> board.loop_completed(["global"]); board.snapshot().counts.total()
    0
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._numbers = Numbers(clock(), clock())
        self._lock = threading.Lock()

    def snapshot(self) -> Numbers:
        """Return a copy of all numbers."""
        with self._lock:
            self._turn_to_now()
            return deepcopy(self._numbers)

    def _turn_to_now(self) -> Numbers:
        """Append the time slices that have begun since the last event."""
        numbers, former = self._numbers, self._numbers.now
        numbers.now = self._clock()
        for _ in range(min(int(numbers.now) // SLICE_SECONDS - int(former) // SLICE_SECONDS, TIME_SLICES)):
            numbers.slices.append(TimeSlice(lag=numbers.slices[-1].lag))
        return numbers

    # -- hooks -------------------------------------------------------------------------------------------

    def batch(self, report: BatchReport) -> None:
        held_back = sum(not verdict.forward and verdict.kind is not Kind.BAD for verdict in report.verdicts)
        seconds = sum(report.seconds.get(step, 0.0) for step in _TRANSACTION)
        with self._lock:
            numbers = self._turn_to_now()
            current = numbers.slices[-1]
            current.items += report.count
            current.held_back += held_back
            current.slowest_transaction = max(seconds, current.slowest_transaction)
            numbers.counts.update(report.counts)
            numbers.held_back += held_back
            numbers.last_batch = numbers.now
            if report.task in numbers.tasks:
                numbers.tasks[report.task].watermark = report.watermark
        self.positions_advanced(report.task, report.lag)

    def positions_advanced(self, task: str, lag: Mapping[int, int]) -> None:
        with self._lock:
            if task in self._numbers.tasks:
                self._numbers.tasks[task].lag.update(lag)
                self._turn_to_now().slices[-1].lag = sum(self._numbers.lag.values())

    def restore_progress(self, task: str, done: int, total: int) -> None:
        with self._lock:
            self._numbers.restoring[task] = (done, total)

    def tasks(self, states: Mapping[str, TaskState]) -> None:
        with self._lock:
            numbers = self._numbers
            numbers.failing = sorted(name for name, state in states.items() if state is TaskState.FAILING)
            numbers.restoring = {task: offsets for task, offsets in numbers.restoring.items() if task in states}
            numbers.standby_lag = {task: lag for task, lag in numbers.standby_lag.items() if task not in states}

    def standby_progress(self, task: str, seconds: float) -> None:
        with self._lock:
            self._numbers.standby_lag[task] = seconds

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        with self._lock:
            self._numbers.restoring.pop(task, None)
            self._numbers.tasks[task] = TaskView(self._clock(), seconds, remembered)

    def task_lost(self, task: str, reason: str) -> None:
        with self._lock:
            self._numbers.restoring.pop(task, None)
            self._numbers.tasks.pop(task, None)  # another member reports it now

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        with self._lock:
            self._numbers.restoring.clear()
            self._numbers.errors.appendleft((self._clock(), type(error).__name__, str(error), retry_in))


@dataclass(frozen=True, slots=True)
class Chart:
    """A bar chart. `bars`: name and SVG path of each series, from the bottom. They contain no text from items."""

    title: str
    now: str
    highest: str
    bars: list[tuple[str, str]]


def charts(numbers: Numbers) -> list[Chart]:
    """Draw the last half hour. The current value is that of the last complete slice."""
    slices = numbers.slices
    through = [(part.items - part.held_back) / SLICE_SECONDS for part in slices]
    held_back = [part.held_back / SLICE_SECONDS for part in slices]
    return [
        _chart("Items a second", "{:,.1f}", {"let through": through, "held back": held_back}),
        _chart("Slowest transaction", "{:,.0f} ms", {"time": [1000 * part.slowest_transaction for part in slices]}),
        _chart("Lag", "{:,.0f} records", {"lag": [part.lag for part in slices]}, now=sum(numbers.lag.values())),
    ]


def _chart(title: str, form: str, series: Mapping[str, Sequence[float]], now: float | None = None) -> Chart:
    """Stack the series, all of one length, as bars."""
    heights = [sum(column) for column in zip(*series.values(), strict=True)]
    scale = (HEIGHT - _MARGIN) / (max(heights) or 1.0)
    width = WIDTH / len(heights)
    bars, low = [], [0.0] * len(heights)
    for label, values in series.items():
        high = [bottom + value * scale for bottom, value in zip(low, values, strict=True)]
        bars.append((label, "".join(
            f"M{i * width:.1f},{HEIGHT - low[i]:.1f}h{width:.1f}V{HEIGHT - high[i]:.1f}h-{width:.1f}z"
            for i in range(len(heights)) if high[i] > low[i]
        )))  # fmt: skip
        low = high
    return Chart(title, form.format(heights[-2] if now is None else now), form.format(max(heights)), bars)


PAIRS = 50
"""Held-back items retained with their originals, and the same number of updates."""
DEAD_LETTERS = 10
"""Dead letters retained."""
_MOST = {"held back": PAIRS, "updates": PAIRS, "dead letters": DEAD_LETTERS}
TEXT_CHARS = 1500
"""Characters retained of a text: its first paragraphs are enough to recognise an article."""


class Recent(Observer):
    """The last `limit` items (0: none) by id, in at most `limit` times ITEM_BYTES bytes; lists show some of them."""

    def __init__(self, limit: int, *, clock: Callable[[], float] = time.time) -> None:
        self.limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._retained = Retained(limit, limit * ITEM_BYTES, TEXT_CHARS)
        self._latest = {name: deque[ItemPair](maxlen=most if limit else 0) for name, most in _MOST.items()}

    def __len__(self) -> int:
        return len(self._retained)

    @property
    def nbytes(self) -> int:
        """The estimate of the bytes in use that the bound applies to."""
        return self._retained.nbytes

    def find(self, item_id: str) -> JudgedItem | None:
        """Return the last item of this id."""
        with self._lock:
            return self._retained.find(item_id)

    def latest(self, name: str) -> list[ItemPair]:
        """Return the last items "held back", "updates" (let through) or "dead letters", newest first."""
        with self._lock:
            return list(reversed(self._latest[name]))

    def since(self) -> float | None:
        """Return when the oldest retained item was judged."""
        with self._lock:
            return self._retained.since()

    def batch(self, report: BatchReport) -> None:
        if not self.limit:
            return
        now = self._clock()
        with self._lock:  # once for the batch: a page waits a millisecond for a large batch
            for item, verdict in zip(report.items, report.verdicts, strict=True):
                if pair := self._retained.add(item, verdict, now):
                    is_bad, is_update = verdict.kind is Kind.BAD, verdict.forward
                    self._latest["dead letters" if is_bad else "updates" if is_update else "held back"].append(pair)
