"""What the worker tells whoever watches: metrics, the live screen, the fault tests.

The worker knows one `Observer` and calls it at each event; this base class does nothing. Calls come from the
worker's own thread; `step` from BEGIN on from its lane's committer, while the worker is busy with the next batch,
`restoring` from the thread that opens the lane, and what is said of the brokers from the one that
asks them (reach.py). They stand between the steps, so they must be short; what they raise ends the worker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import BadItem, StreamDedupError
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.stream.transaction import Step


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One committed batch. `items` and `verdicts` are in the order of the records, which are Kafka's."""

    lane: str
    items: Sequence[Item | Tombstone | BadItem]
    verdicts: Sequence[Verdict]
    counts: Mapping[Kind, int]
    seconds: Mapping[Step, float]
    bytes_in: int
    bytes_out: int  # outputs, duplicates, dead letters
    changelog_bytes: int
    remembered: int  # originals in the index
    watermark: int  # the event time that the stream has reached, ms; 0: none yet
    lag: Mapping[int, int]  # input partition -> records not yet read, as the last fetch knew
    odd_times: Mapping[str, int] = field(default_factory=dict)  # kind (oddities.py) -> items
    records: Sequence[Any] = ()


class LaneState(StrEnum):
    """How a lane is that this member has."""

    OPEN = "open"
    OPENING = "opening"
    FAILING = "failing"  # it has failed, and waits or is opened anew


class Observer:
    """Does nothing; override what is wanted."""

    def step(self, step: Step, lane: str) -> None:
        """The step is about to be done."""

    def batch(self, report: BatchReport) -> None:
        """A batch is committed."""

    def turn(self, lanes: Sequence[str]) -> None:
        """The worker went once round its loop, with these lanes open: it lives. None: it stands by."""

    def stands(self, lane: str, lag: Mapping[int, int]) -> None:
        """The lane has come further without a record, past markers: input partition -> what is left there."""

    def restoring(self, lane: str, done: int, total: int) -> None:
        """The lane reads its memory back: changelog offsets read so far, of all."""

    def rebalanced(self, partitions: Sequence[int]) -> None:
        """The group gave this member these partitions, and no others."""

    def lane_opened(self, lane: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        """The lane works from now on."""

    def lane_lost(self, lane: str, reason: str) -> None:
        """The lane is no longer ours, or has to be opened anew."""

    def memory_lost(self, reason: str) -> None:
        """The changelog no longer holds what it should; `reason` is for a person."""

    def lanes(self, states: Mapping[str, LaneState]) -> None:
        """Each lane that this member has, and how it is. Called when that changes."""

    def following(self, lane: str, offsets: int, seconds: float) -> None:
        """A standby's memory follows the lane's changelog: so many committed offsets behind its end, and so many
        seconds ago it was not behind at all.
        """

    def gave_up(self) -> None:
        """No lane could be opened here for long; the member leaves the group for a while."""

    def stuck(self, lane: str) -> None:
        """A batch has failed three times in a row with the same records, or once more after that."""

    def brokers_away(self, seconds: float, reason: str) -> None:
        """No broker has answered for so long; `reason` is for a person. Called again and again while it lasts."""

    def brokers_back(self) -> None:
        """They were away, and one has answered."""

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        """Something failed. It is tried again in so many seconds; None: the worker ends."""
