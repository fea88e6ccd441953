"""Is the worker well? Its events in; one word and a moment out, for /healthz.

    starting   it has not gone round its loop yet                                    503
    ok         it works on at least one task                                         200
    standby    it has none and waits to take over; that is its job, so it is well    200
    degraded   no broker answers, for less than the bound                            200; 503 if it never worked
    stalled    no sign of life, nothing but failures, or no broker, for longer       503

Degraded is no reason to restart, but a member that has not worked yet must not count as ready: a rolling update with a
wrong address would end the members that work.

A sign of life is a turn of the loop, a step of the protocol, or a piece of the changelog read back: so a long
batch or a long restore is not taken for a stall, and nobody restarts a worker that would have to begin again.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from stream_dedup.errors import StreamDedupError
from stream_dedup.settings import Settings
from stream_dedup.stream.observer import BatchReport, Observer
from stream_dedup.stream.transaction import CommitStep


class Status(StrEnum):
    """The words; see the module's first lines."""

    STARTING = "starting"
    OK = "ok"
    STANDBY = "standby"
    DEGRADED = "degraded"
    STALLED = "stalled"


@dataclass(frozen=True, slots=True)
class HealthState:
    """How the worker is, since when (seconds since 1970), and why if it is known; `worked`: it has at some time."""

    status: Status
    since: float
    reason: str = ""
    worked: bool = True

    @property
    def healthy(self) -> bool:
        return self.status in (Status.OK, Status.STANDBY) or (self.status is Status.DEGRADED and self.worked)

    def as_json(self) -> dict[str, str]:
        """
        >>> State(Status.OK, 0.0).as_json()
        {'status': 'ok', 'since': '1970-01-01T00:00:00Z'}
        """
        moment = datetime.fromtimestamp(self.since, UTC).isoformat(timespec="seconds")
        row = {"status": str(self.status), "since": moment.replace("+00:00", "Z")}
        return row | {"reason": self.reason} if self.reason else row


def bound_of(settings: Settings) -> float:
    """Seconds without a sign of life after which the worker counts as stalled.

    The longest silent wait that is in order is one step of a transaction, or asking the group for its offsets:
    each is given up after the transaction's time-out. Twice that leaves room for closing what hung.
    """
    return 2 * settings.worker.transaction_timeout.total_seconds()


class _Moment(NamedTuple):
    """One moment on two clocks: the steady one for bounds, since somebody may set the other; that one for people."""

    steady: float
    wall: float


class Health(Observer):
    """Keeps the last sign of life. The worker's thread replaces whole values, any other may call `state`."""

    def __init__(
        self,
        bound: float,
        *,
        steady: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._steady, self._clock, self._bound = steady, clock, bound
        self._seen = self._now()  # the last sign of life
        self._state = HealthState(Status.STARTING, self._seen.wall)
        self._failing: _Moment | None = None  # since when
        self._away: tuple[_Moment, str] | None = None  # since when no broker has answered, and why
        self._turned = False  # since the last failure

    def state(self) -> HealthState:
        """How the worker is now."""
        state, away, now = self._state, self._away, self._steady()
        worked = state.status is not Status.STARTING
        if away is not None:
            since, reason = away
            status = Status.STALLED if now - since.steady > self._bound else Status.DEGRADED
            return HealthState(status, since.wall, reason, worked)
        if not worked:
            return state
        for last in (self._seen, self._failing):
            if last is not None and now - last.steady > self._bound:
                return HealthState(Status.STALLED, last.wall)
        return state

    def _now(self) -> _Moment:
        return _Moment(self._steady(), self._clock())

    # -- hooks -------------------------------------------------------------------------------------------

    def turn(self, tasks: Sequence[str]) -> None:
        self._seen = self._now()
        status = Status.OK if tasks else Status.STANDBY
        if status is not self._state.status:
            self._state = HealthState(status, self._seen.wall)
        # After a failure the loop comes round once before it can fail at the same records again; when it comes
        # round a second time nothing failed in between.
        if self._turned:
            self._failing = None
        self._turned = True

    def step(self, step: CommitStep, task: str) -> None:
        self._seen = self._now()

    def restoring(self, task: str, done: int, total: int) -> None:
        self._seen = self._now()

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        self._seen = self._now()

    def batch(self, report: BatchReport) -> None:
        self._seen = self._now()
        self._failing = None
        self.brokers_back()  # one of them has committed it

    def brokers_away(self, seconds: float, reason: str) -> None:
        since = _Moment(self._steady() - seconds, self._clock() - seconds) if self._away is None else self._away[0]
        self._away = since, reason

    def brokers_back(self) -> None:
        if self._away is None:
            return
        self._away = None
        if self._state.status is not Status.STARTING:
            self._state = HealthState(self._state.status, self._clock())  # it was not well meanwhile

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        self._turned = False
        if self._failing is None:
            self._failing = self._now()
