"""The worker's health: a status for people, whether it is ready (/healthz), and whether it is alive (/livez).

    starting   the worker has committed no batch yet, and its input is not known     /healthz 503
               to be empty; for ten seconds after a task is open if nothing comes
    ok         it works on at least one task                                         200
    standby    it has no task and waits to take over, as it should                   200
    degraded   no broker answers, for less than the bound, or the certificate        200; 503 if it never worked
               of one is refused; or the worker waits for something else:
               the schema registry, a coordinator, a leader, a producer
    stalled    no sign of life, only failures, or no broker, for longer              503

A degraded worker needs no restart. But a member that has never worked must not count as ready: otherwise a rolling
update with a wrong address would replace the members that work. Signs of life are a round of the loop, a step of the
commit protocol, and progress of a restore.

/livez tells whether a restart would help: it is 503 for a process that is **stuck**, whatever its status. A process is
stuck if its loop begins no round for the bound, or if a restore reads nothing for as long. It is not stuck while every
round fails. While no broker answers, silence does not count. Work on a batch may take ten minutes longer: a restart
would begin the same batch again. Besides, a record may take so long that the member loses its place in the group, after
five minutes; the search for that record needs a process that lives.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from stream_dedup.errors import StreamDedupError
from stream_dedup.kafka.cluster import Wait
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import BatchReport, CommitStep, Observer


class Status(StrEnum):
    """The statuses; the docstring of the module explains them."""

    STARTING = "starting"
    OK = "ok"
    STANDBY = "standby"
    DEGRADED = "degraded"
    STALLED = "stalled"


@dataclass(frozen=True, slots=True)
class HealthState:
    """The worker's health at a moment."""

    status: Status
    since: float  # seconds since 1970
    reason: str = ""  # if known
    worked: bool = True  # the worker has been ok before
    alive: bool = True  # the process is not stuck
    some_work: bool = False  # only some brokers cause trouble

    @property
    def healthy(self) -> bool:
        return self.status in (Status.OK, Status.STANDBY) or (self.status is Status.DEGRADED and self.worked)

    def as_json(self) -> dict[str, str]:
        """Return the body of /healthz and /livez.

        >>> HealthState(Status.OK, 0.0).as_json()
        {'status': 'ok', 'since': '1970-01-01T00:00:00Z'}
        """
        moment = datetime.fromtimestamp(self.since, UTC).isoformat(timespec="seconds")
        row = {"status": str(self.status), "since": moment.replace("+00:00", "Z")}
        return row | {"reason": self.reason} if self.reason else row


def stall_seconds(settings: Settings) -> float:
    """Return the seconds without a sign of life after which the worker counts as stalled.

    The longest silent wait in normal operation is one step of a transaction, or the request for the group's offsets.
    Both end after the transaction timeout. Twice that leaves time to close the client that hung.
    """
    return 2 * settings.worker.transaction_timeout.total_seconds()


# After this time without records the worker is ok: a producer's open transaction may hold them back for long. A first
# fetch takes a second at most, and no round ends while the first batch is judged.
_FIRST_ROUNDS_SECONDS = 10.0
_JUDGING_SECONDS = 600.0


class _Moment(NamedTuple):
    """One moment on two clocks: monotonic for bounds, because the wall clock may be set, and wall for display."""

    monotonic: float
    wall: float


class Health(Observer):
    """Health from the worker's events. The worker's thread replaces whole values; any thread may call `state`."""

    def __init__(
        self, bound: float, *, monotonic: Callable[[], float] = time.monotonic, clock: Callable[[], float] = time.time
    ) -> None:
        self._monotonic, self._clock, self._bound = monotonic, clock, bound
        self._last_sign = self._now()  # the last sign of life
        self._state = HealthState(Status.STARTING, self._last_sign.wall)
        self._failing: _Moment | None = None  # since when
        self._outage: tuple[_Moment, str] | None = None  # since when no broker answers, and the reason
        self._distrusted: tuple[_Moment, str] | None = None  # since when, and what is wrong with which certificate
        # Task that waits for the schema registry, or what else is waited for -> since when, and why.
        self._waiting: dict[str, tuple[_Moment, str]] = {}
        self._last_error = ""  # of no meaning while nothing fails
        self._finished_round = False  # since the last failure
        self._unread: dict[str, tuple[float, set[int]]] = {}  # open task -> since when, partitions that may have more
        self._heartbeat = monotonic()  # the last sign that the process is not stuck
        self._is_judging = False
        self._restores: dict[str, tuple[int, float]] = {}  # task -> offsets read, since when no more

    def state(self) -> HealthState:
        """Return the current status, and whether the process is alive."""
        return replace(self._status(), alive=self._is_alive())

    def _is_alive(self) -> bool:
        if self._outage is not None:
            return True
        moved = [self._heartbeat, *(begin for _, begin in self._restores.copy().values())]
        return self._monotonic() - min(moved) <= self._bound + self._is_judging * _JUDGING_SECONDS

    def _status(self) -> HealthState:
        state, outage, now = self._state, self._outage, self._monotonic()
        worked = state.status is not Status.STARTING
        if outage is not None:
            since, reason = outage
            status = Status.STALLED if now - since.monotonic > self._bound else Status.DEGRADED
            return HealthState(status, since.wall, reason, worked)
        if self._distrusted is not None:
            since, reason = self._distrusted
            state = HealthState(Status.DEGRADED, since.wall, reason, worked, some_work=worked)
        # However long it waits: neither a restart nor another member would help.
        for since, reason in self._waiting.copy().values():
            return HealthState(Status.DEGRADED, since.wall, reason, worked)
        if worked:
            for last in (self._last_sign, self._failing):
                if last is not None and now - last.monotonic > self._bound:
                    return HealthState(Status.STALLED, last.wall, state.reason or self._error)
        return state if worked else replace(state, reason=self._error)

    @property
    def _error(self) -> str:
        return self._last_error if self._failing is not None else ""

    def _now(self) -> _Moment:
        return _Moment(self._monotonic(), self._clock())

    # -- hooks -------------------------------------------------------------------------------------------

    def heartbeat(self) -> None:
        self._heartbeat = self._monotonic()

    def _lives(self) -> None:
        """Note a sign of life, of the loop or of another thread."""
        self._last_sign = self._now()
        self._heartbeat = self._last_sign.monotonic

    def loop_completed(self, tasks: Sequence[str]) -> None:
        self._lives()
        status = Status.OK if tasks else Status.STANDBY
        first = [since for since, partitions in self._unread.values() if partitions]
        if self._state.status is Status.STARTING and first and self._monotonic() - max(first) < _FIRST_ROUNDS_SECONDS:
            status = Status.STARTING
        if status is not self._state.status:
            self._state = HealthState(status, self._last_sign.wall)
        # After a failure the loop finishes one round before the same records can fail again. So the failure is over
        # after a second round without one.
        if self._finished_round:
            self._failing = None
        self._finished_round = True

    def step(self, step: CommitStep, task: str) -> None:
        self._lives()
        # The producer's thread announces the steps from BEGIN on, while the loop judges the next batch.
        if step in (CommitStep.POLL, CommitStep.JUDGE, CommitStep.APPLY):
            self._is_judging = step is CommitStep.JUDGE

    def restore_progress(self, task: str, done: int, total: int) -> None:
        self._last_sign = self._now()
        if done >= total:
            self._restores.pop(task, None)
        elif task not in self._restores or self._restores[task][0] != done:
            self._restores[task] = done, self._last_sign.monotonic

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        self._lives()
        self._restores.pop(task, None)
        self._unread[task] = self._monotonic(), set(partitions)

    def task_lost(self, task: str, reason: str) -> None:
        self._restores.pop(task, None)
        self._unread.pop(task, None)

    def positions_advanced(self, task: str, lag: Mapping[int, int]) -> None:
        if task in self._unread:
            self._unread[task][1].difference_update(partition for partition, left in lag.items() if not left)

    def rebalanced(self, partitions: Sequence[int]) -> None:
        self._restores.clear()  # one that is cancelled reports no end; the others report again at once
        self._waiting = {key: value for key, value in self._waiting.items() if isinstance(key, Wait)}

    def batch(self, report: BatchReport) -> None:
        self._lives()
        self._failing = None
        self._unread.pop(report.task, None)
        self._waiting.pop(report.task, None)
        self.brokers_reachable()  # a broker has committed it

    def brokers_unreachable(self, seconds: float, reason: str) -> None:
        since = (
            _Moment(self._monotonic() - seconds, self._clock() - seconds) if self._outage is None else self._outage[0]
        )
        self._outage = since, reason

    def brokers_reachable(self) -> None:
        if self._outage is None:
            return
        self._heartbeat = self._monotonic()  # silence counts from now on
        self._restores.clear()
        self._outage = None
        if self._state.status is not Status.STARTING:
            self._state = HealthState(self._state.status, self._clock())  # the status begins anew

    def brokers_distrusted(self, problems: Mapping[str, str]) -> None:
        since = self._now() if self._distrusted is None else self._distrusted[0]
        self._distrusted = (since, "; ".join(problems.values())) if problems else None

    def waiting(self, wait: Wait, seconds: float, reason: str) -> None:
        if not reason:
            self._waiting.pop(wait, None)
            return
        since = _Moment(self._monotonic() - seconds, self._clock() - seconds)
        self._waiting[wait] = self._waiting.get(wait, (since, ""))[0], reason

    def registry_away(self, task: str, reason: str) -> None:
        since = self._waiting[task][0] if task in self._waiting else self._now()
        self._waiting[task] = since, reason

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        self._heartbeat = self._monotonic()
        self._is_judging = False
        self._restores.clear()
        self._finished_round = False
        self._last_error = str(error)
        if self._failing is None:
            self._failing = self._now()
