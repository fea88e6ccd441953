"""Virtual time, and tasks that take turns in it: the ground on which the model stands.

In: a seed, functions to run as tasks. Out: one interleaving of them, the same for the same seed. A task runs until it
sleeps or waits; then the one whose time comes first goes on, and the clock jumps there. Nothing runs in parallel and
nobody reads the machine's clock, so a failure can be run again.

Tasks are greenlets: the worker is written for threads that block in the middle of a call, and may switch there, which
generators cannot. A switch takes half a microsecond, one between threads seven to thirty.
"""

import heapq
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ALL_COMPLETED, Future
from typing import Any

from greenlet import getcurrent, greenlet

from stream_dedup.errors import Stalled

EPOCH = 1_700_000_000.0  # the wall clock's time when a simulation begins, s


class Killed(BaseException):
    """The process that this task belongs to is dead: unwind, and do nothing on the way."""


class Overdue(BaseException):
    """A bounded call has come to its bound; it is left behind there."""

    def __init__(self, deadline: "Deadline") -> None:
        self.deadline = deadline


class Deadline:
    """Until when the call that a task is in may last."""

    def __init__(self, at: float) -> None:
        self.at = at


class Process:
    """What dies and freezes together: the tasks of one worker, or of nobody."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead_since: float | None = None
        self.frozen_until = 0.0


class Task:
    """One line of execution. Made by `Simulation.spawn`."""

    def __init__(self, name: str, process: Process, function: Callable[[], object]) -> None:
        self.name, self.process, self.function = name, process, function
        self.greenlet: Any = None
        self.ticket = 0  # counts its sleeps: an older entry of the queue counts for nothing
        self.parked = False
        self.done = False
        self.deadlines: list[Deadline] = []


class Simulation:
    """A clock, a queue of tasks, and chance. `now` in seconds since the beginning."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.failure: BaseException | None = None
        self.switches = 0
        self._queue: list[tuple[float, float, int, Any, int]] = []
        self._count = 0
        self._hub = getcurrent()
        self._current: Task | None = None
        self._tasks: set[Task] = set()

    def wall(self) -> float:
        """The wall clock, seconds since 1970."""
        return EPOCH + self.now

    # -- tasks -------------------------------------------------------------------------------------------

    def spawn(self, name: str, process: Process, function: Callable[[], object]) -> Task:
        task = Task(name, process, function)
        task.greenlet = greenlet(lambda: self._run(task), parent=self._hub)
        self._tasks.add(task)
        self._push(self.now, task)
        return task

    def call_at(self, moment: float, function: Callable[[], object]) -> None:
        """Calls a function that does not wait."""
        self._count += 1
        heapq.heappush(self._queue, (max(moment, self.now), self.rng.random(), self._count, function, 0))

    def _push(self, moment: float, task: Task) -> None:
        task.ticket += 1
        self._count += 1
        heapq.heappush(self._queue, (moment, self.rng.random(), self._count, task, task.ticket))

    def _run(self, task: Task) -> None:
        try:
            if task.process.dead_since is None:
                task.function()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - it ends the simulation
            self.failure = self.failure or error
        finally:
            task.done = True
            self._tasks.discard(task)

    # -- what a task may do ------------------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        """Lets the others run for so long. Raises Killed if the process has died, Overdue at a bound."""
        task = self._current
        assert task is not None
        until = self.now + seconds
        overdue = min((one for one in task.deadlines if one.at < until), key=lambda one: one.at, default=None)
        self._push(until if overdue is None else max(overdue.at, self.now), task)
        self._hub.switch()
        if task.process.dead_since is not None:
            raise Killed
        if overdue is not None and self.now >= overdue.at:
            raise Overdue(overdue)

    def park(self, seconds: float) -> None:
        """Sleeps, but `wake` may cut it short."""
        task = self._current
        assert task is not None
        task.parked = True
        try:
            self.sleep(seconds)
        finally:
            task.parked = False

    def wake(self, task: Task) -> None:
        if task.parked:
            task.parked = False
            self._push(self.now, task)

    @property
    def current(self) -> Task:
        assert self._current is not None
        return self._current

    # -- the loop ----------------------------------------------------------------------------------------

    def run(self, until: Callable[[], bool], limit: float) -> bool:
        """Runs until the condition holds, asked at each switch, or to the limit; whether it came to hold."""
        while not until():
            if self.failure is not None:
                raise self.failure
            if not self._queue or self._queue[0][0] > limit:
                self.now = max(self.now, limit)
                return until()
            moment, _, _, what, ticket = heapq.heappop(self._queue)
            if not isinstance(what, Task):
                self.now = moment
                what()
                continue
            if what.done or ticket != what.ticket:
                continue
            if what.process.frozen_until > moment:
                self._push(what.process.frozen_until, what)
                continue
            self.now = moment
            self.switches += 1
            self._current = what
            what.greenlet.switch()
            self._current = None
        return True

    def end(self) -> None:
        """Unwinds every task."""
        for task in list(self._tasks):
            task.process.dead_since = self.now
            if task.greenlet:
                self._current = task
                task.greenlet.throw(Killed)
        self._current = None


class Result(Future):  # type: ignore[type-arg]
    """A future that is waited for in virtual time."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation
        self._waiting: list[Task] = []

    def result(self, timeout: float | None = None) -> Any:
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        end = self._simulation.now + (1e9 if timeout is None else timeout)
        while not self.done() and self._simulation.now < end:
            self._waiting.append(self._simulation.current)
            self._simulation.park(end - self._simulation.now)

    def settle(self, function: Callable[[], Any]) -> None:
        try:
            self.set_result(function())
        except (Killed, Overdue):
            raise
        except BaseException as error:  # noqa: BLE001 - it belongs to the one who waits
            self.set_exception(error)
        for task in self._waiting:
            self._simulation.wake(task)


def waiter(simulation: Simulation) -> Callable[..., Any]:
    """What stands in for `concurrent.futures.wait`."""

    def wait(futures: Iterable[Result], timeout: float | None = None, return_when: str = ALL_COMPLETED) -> Any:
        end = simulation.now + (1e9 if timeout is None else timeout)
        waited = list(futures)
        enough = len(waited) if return_when == ALL_COMPLETED else min(1, len(waited))
        while sum(one.done() for one in waited) < enough and simulation.now < end:
            simulation.sleep(min(0.05, end - simulation.now))
        done = {one for one in waited if one.done()}
        return done, set(waited) - done

    return wait


class Calls:
    """`stream/bounded.py`'s Bounded in virtual time: the same promises, without a thread.

    A call that is waited for runs in the caller's own task, as nothing else of the two could happen meanwhile; at its
    bound it is left behind. What is only begun runs in a task of its own.
    """

    def __init__(self, simulation: Simulation, name: str, left: Callable[[], float] = lambda: float("inf")) -> None:
        self._simulation, self._name, self._left = simulation, name, left
        self._process = simulation.current.process
        self._jobs: deque[tuple[Result | None, Callable[[], Any]]] = deque()
        self._task: Task | None = None
        self._busy = False
        self._line: deque[Task] = deque()
        self._given_up = False

    def call(self, what: str, seconds: float, function: Callable[[], Any]) -> Any:
        simulation = self._simulation
        if self._given_up:
            raise Stalled(f"{self._name}: {what} was not begun, an earlier call has not come back")
        deadline = Deadline(simulation.now + max(0.0, min(seconds, self._left())))
        task = simulation.current
        task.deadlines.append(deadline)
        try:
            return self._in_turn(function)
        except Overdue as overdue:
            if overdue.deadline is not deadline:
                raise
            self._given_up = True
            raise Stalled(f"{self._name}: {what} did not end within its bound of {seconds:.0f} s") from None
        finally:
            task.deadlines.remove(deadline)

    def _in_turn(self, function: Callable[[], Any]) -> Any:
        """One after the other, first come, first served."""
        if self._busy:
            task = self._simulation.current
            self._line.append(task)
            try:
                while task in self._line:
                    self._simulation.park(1e9)
            except BaseException:
                if task in self._line:
                    self._line.remove(task)
                else:
                    self._pass_on()
                raise
        self._busy = True
        try:
            return function()
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """Who waits first is next; until it comes nobody else gets between."""
        self._busy = bool(self._line)
        if self._line:
            self._simulation.wake(self._line.popleft())

    def start(self, what: str, function: Callable[[], Any]) -> Result:
        if self._given_up:
            raise Stalled(f"{self._name}: {what} was not begun, an earlier call has not come back")
        result = Result(self._simulation)
        if self._task is None and what in _ONLY_COMPUTES and self._simulation.rng.random() < 0.5:
            result.settle(function)  # it may as well have been as quick
            return result
        self._put(result, function)
        return result

    def end(self, last: Callable[[], object] | None = None) -> None:
        self._given_up = True
        if last is not None:
            self._put(None, last)

    def _put(self, result: Result | None, function: Callable[[], Any]) -> None:
        self._jobs.append((result, function))
        if self._task is None:
            self._task = self._simulation.spawn(self._name, self._process, self._work)

    def _work(self) -> None:
        try:
            while self._jobs:
                result, function = self._jobs.popleft()
                settle = (result or Result(self._simulation)).settle
                self._in_turn(lambda settle=settle, function=function: settle(function))
        finally:
            self._task = None


# Jobs that no other part of the worker could tell from having been done at once.
_ONLY_COMPUTES = ("packing", "fingerprinting")


class Time:
    """Stands in for the module `time`."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def monotonic(self) -> float:
        return self._simulation.now

    perf_counter = monotonic

    def time(self) -> float:
        return self._simulation.wall()

    def time_ns(self) -> int:
        return int(self._simulation.wall() * 1e9)

    def sleep(self, seconds: float) -> None:
        self._simulation.sleep(seconds)


class Stop(threading.Event):
    """An event that is waited for in virtual time."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation

    def wait(self, timeout: float | None = None) -> bool:
        end = self._simulation.now + (1e9 if timeout is None else timeout)
        while not self.is_set() and self._simulation.now < end:
            self._simulation.sleep(min(0.2, end - self._simulation.now))
        return self.is_set()
