"""What the worker tells whoever watches: metrics, the live screen, the fault tests.

The worker knows one `Observer` and calls it at each event; this base class does nothing. Calls come from the
worker's own thread; `step` from BEGIN on from its task's committer, while the worker is busy with the next batch,
`restoring` from the thread that opens the task, and what is said of the brokers from the one that
asks them (broker_watch.py). They stand between the steps, so they must be short; what they raise ends the worker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import BadItem, StreamDedupError
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.stream.transaction import CommitStep


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One committed batch. `items` and `verdicts` are in the order of the records, which are Kafka's."""

    task: str
    items: Sequence[Item | Tombstone | BadItem]
    verdicts: Sequence[Verdict]
    counts: Mapping[Kind, int]
    seconds: Mapping[CommitStep, float]
    bytes_in: int
    bytes_out: int  # outputs, duplicates, dead letters
    changelog_bytes: int
    remembered: int  # originals in the index
    watermark: int  # the event time that the stream has reached, ms; 0: none yet
    lag: Mapping[int, int]  # input partition -> records not yet read, as the last fetch knew
    odd_times: Mapping[str, int] = field(default_factory=dict)  # kind (odd_times.py) -> items
    records: Sequence[Any] = ()


class TaskState(StrEnum):
    """How a task is that this member has."""

    OPEN = "open"
    OPENING = "opening"
    FAILING = "failing"  # it has failed, and waits or is opened anew


class Observer:
    """Does nothing; override what is wanted."""

    def step(self, step: CommitStep, task: str) -> None:
        """The step is about to be done."""

    def batch(self, report: BatchReport) -> None:
        """A batch is committed."""

    def turn(self, tasks: Sequence[str]) -> None:
        """The worker went once round its loop, with these tasks open: it lives. None: it stands by."""

    def stands(self, task: str, lag: Mapping[int, int]) -> None:
        """The task has come further without a record, past markers: input partition -> what is left there."""

    def restoring(self, task: str, done: int, total: int) -> None:
        """The task reads its memory back: changelog offsets read so far, of all."""

    def rebalanced(self, partitions: Sequence[int]) -> None:
        """The group gave this member these partitions, and no others."""

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        """The task works from now on."""

    def task_lost(self, task: str, reason: str) -> None:
        """The task is no longer ours, or has to be opened anew."""

    def state_lost(self, reason: str) -> None:
        """The changelog no longer holds what it should; `reason` is for a person."""

    def tasks(self, states: Mapping[str, TaskState]) -> None:
        """Each task that this member has, and how it is. Called when that changes."""

    def following(self, task: str, offsets: int, seconds: float) -> None:
        """A standby's memory follows the task's changelog: so many committed offsets behind its end, and so many
        seconds ago it was not behind at all.
        """

    def gave_up(self) -> None:
        """No task could be opened here for long; the member leaves the group for a while."""

    def stuck(self, task: str) -> None:
        """A batch has failed three times in a row with the same records, or once more after that."""

    def brokers_away(self, seconds: float, reason: str) -> None:
        """No broker has answered for so long; `reason` is for a person. Called again and again while it lasts."""

    def brokers_back(self) -> None:
        """They were away, and one has answered."""

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        """Something failed. It is tried again in so many seconds; None: the worker ends."""
