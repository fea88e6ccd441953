"""The events that a worker reports: to metrics, the status page, the demo's screen, and the fault tests.

The worker calls one `Observer` at each event; this base class ignores them all. Calls come from the worker's own
thread, with three exceptions: `step` from BEGIN on comes from the producer's thread while the worker judges the next
batch; the progress of a restore, `state_lost`, and `batch_stuck` of a process that ended, from the thread that opens
the task; and the events of brokers from the thread that probes them (cluster_watch.py). The worker waits for each call,
so it must be short. An exception in it ends the worker; `ObserverGroup` (observe/watch.py) logs those of its observers
instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import BadItem, StreamDedupError
from stream_dedup.kafka.cluster import Wait
from stream_dedup.news.item import Item, Tombstone


class CommitStep(IntEnum):
    """The steps of the commit protocol, by which a batch becomes one transaction (pipeline.py)."""

    POLL = 1
    JUDGE = 2
    APPLY = 3
    BEGIN = 4
    OFFSETS = 5
    SEND = 6
    CHANGELOG = 7
    FLUSH = 8
    COMMIT = 9


@dataclass(frozen=True, slots=True)
class BatchReport:
    """A batch. Observers get it once it is committed."""

    task: str
    items: Sequence[Item | Tombstone | BadItem]  # in the order of `records`
    verdicts: Sequence[Verdict]  # in the same order
    counts: Mapping[Kind, int]
    seconds: Mapping[CommitStep, float]
    remembered: int  # originals in the index
    watermark: int  # of the stream, ms; 0: none yet
    lag: Mapping[int, int]  # input partition -> records not yet read, as of the last fetch
    odd_times: Mapping[str, int] = field(default_factory=dict)  # kind (judge.py) -> items
    records: Sequence[Any] = ()  # Kafka's
    shapes: Mapping[str, int] = field(default_factory=dict)  # shape -> records decoded since the last batch

    @property
    def count(self) -> int:
        """The number of items."""
        return len(self.items)


class TaskState(StrEnum):
    """The state of a task that is assigned to this member."""

    OPEN = "open"
    OPENING = "opening"
    FAILING = "failing"  # it failed, and waits for a retry or is being reopened


class Observer:
    """Ignores every event; override the methods of those that you need."""

    def heartbeat(self) -> None:
        """The worker begins an iteration of its loop, whatever became of the last one."""

    def step(self, step: CommitStep, task: str) -> None:
        """The step is about to begin."""

    def batch(self, report: BatchReport) -> None:
        """A batch was committed."""

    def loop_completed(self, tasks: Sequence[str]) -> None:
        """The worker has completed an iteration of its loop with these tasks open; empty: it is a standby."""

    def positions_advanced(self, task: str, lag: Mapping[int, int]) -> None:
        """The task advanced past control records without a batch, or more was written that cannot be read yet.

        `lag`: input partition -> offsets not yet read.
        """

    def restore_progress(self, task: str, done: int, total: int) -> None:
        """The task is restoring its index: it has read `done` of `total` changelog offsets."""

    def rebalanced(self, partitions: Sequence[int]) -> None:
        """The group has assigned exactly these partitions to this member."""

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        """The task is open. `remembered`: originals in its index; `seconds`: how long it took to open."""

    def task_lost(self, task: str, reason: str) -> None:
        """The task was closed: its partitions moved to another member, or it must be reopened."""

    def state_lost(self, reason: str) -> None:
        """Part of the changelog is gone; `reason` is a message for people."""

    def tasks(self, states: Mapping[str, TaskState]) -> None:
        """The set of this member's tasks, or the state of one, has changed."""

    def standby_progress(self, task: str, seconds: float) -> None:
        """A standby follows the task's changelog: it has read what was written up to `seconds` ago."""

    def batch_stuck(self, task: str) -> None:
        """A batch has failed at least three times in a row with the same records. Called at each further failure."""

    def brokers_unreachable(self, seconds: float, reason: str) -> None:
        """No broker has answered for `seconds`; `reason` is a message for people. Called repeatedly while it lasts."""

    def brokers_reachable(self) -> None:
        """A broker has answered after `brokers_unreachable`."""

    def brokers_distrusted(self, problems: Mapping[str, str]) -> None:
        """The refused certificates have changed. `problems`: address of the broker -> what is wrong; empty: none is."""

    def waiting(self, wait: Wait, seconds: float, reason: str) -> None:
        """The worker has waited for this for so long; 0: no more. `reason`: a message for people, once it is long."""

    def registry_away(self, task: str, reason: str) -> None:
        """Records of the task wait for the schema registry, until its next batch. Called at each try."""

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        """Something failed. The worker retries it in `retry_in` seconds; None: the worker ends."""
