"""Virtual time, and fibers that take turns in it: the base of the model.

In: a seed, and functions to run as fibers. Out: one interleaving of them, the same for the same seed. A fiber runs
until it sleeps or waits; then the one whose time comes first goes on, and the clock jumps there. Nothing runs in
parallel and nothing reads the machine's clock, so a failure can be reproduced.

Fibers are greenlets: the worker's code is written for threads, which may switch in the middle of a call, and generators
cannot do that. A switch takes half a microsecond; between threads it takes seven to thirty.
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

EPOCH = 1_700_000_000.0  # wall time at the start of a simulation, s


class Killed(BaseException):
    """The process of this fiber is dead: unwind, and do nothing on the way."""


class Overdue(BaseException):
    """A call has reached its time limit and is abandoned."""

    def __init__(self, deadline: "Deadline") -> None:
        self.deadline = deadline


class Deadline:
    """The time limit of the call that a fiber is in."""

    def __init__(self, at: float) -> None:
        self.at = at


class Process:
    """Fibers that die and freeze together: those of one worker, of the broker, or of a test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead_since: float | None = None
        self.frozen_until = 0.0


class Fiber:
    """One thread of execution in virtual time, started by `Simulation.spawn`."""

    def __init__(self, name: str, process: Process, function: Callable[[], object]) -> None:
        self.name, self.process, self.function = name, process, function
        self.greenlet: Any = None
        self.ticket = 0  # counts its sleeps; queue entries with an older ticket are void
        self.parked = False
        self.done = False
        self.deadlines: list[Deadline] = []


class Simulation:
    """A clock, a queue of fibers, and a random generator. `now`: seconds since the beginning."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.failure: BaseException | None = None
        self.switches = 0
        self._queue: list[tuple[float, float, int, Any, int]] = []
        self._count = 0
        self._hub = getcurrent()
        self._current: Fiber | None = None
        self._fibers: set[Fiber] = set()

    def wall(self) -> float:
        """The wall clock, seconds since 1970."""
        return EPOCH + self.now

    # -- fibers -------------------------------------------------------------------------------------------

    def spawn(self, name: str, process: Process, function: Callable[[], object]) -> Fiber:
        fiber = Fiber(name, process, function)
        fiber.greenlet = greenlet(lambda: self._run(fiber), parent=self._hub)
        self._fibers.add(fiber)
        self._push(self.now, fiber)
        return fiber

    def call_at(self, moment: float, function: Callable[[], object]) -> None:
        """Call a function, which must not wait, at that moment."""
        self._count += 1
        heapq.heappush(self._queue, (max(moment, self.now), self.rng.random(), self._count, function, 0))

    def _push(self, moment: float, fiber: Fiber) -> None:
        fiber.ticket += 1
        self._count += 1
        heapq.heappush(self._queue, (moment, self.rng.random(), self._count, fiber, fiber.ticket))

    def _run(self, fiber: Fiber) -> None:
        try:
            if fiber.process.dead_since is None:
                fiber.function()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - it ends the simulation
            self.failure = self.failure or error
        finally:
            fiber.done = True
            self._fibers.discard(fiber)

    # -- calls for fibers ------------------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        """Let other fibers run for this long. Raises Killed if the process has died, Overdue at a time limit."""
        fiber = self._current
        assert fiber is not None
        until = self.now + seconds
        overdue = min((one for one in fiber.deadlines if one.at < until), key=lambda one: one.at, default=None)
        self._push(until if overdue is None else max(overdue.at, self.now), fiber)
        self._hub.switch()
        if fiber.process.dead_since is not None:
            raise Killed
        if overdue is not None and self.now >= overdue.at:
            raise Overdue(overdue)

    def park(self, seconds: float) -> None:
        """Sleep until `wake`, for this long at most."""
        fiber = self._current
        assert fiber is not None
        fiber.parked = True
        try:
            self.sleep(seconds)
        finally:
            fiber.parked = False

    def wake(self, fiber: Fiber) -> None:
        if fiber.parked:
            fiber.parked = False
            self._push(self.now, fiber)

    @property
    def current(self) -> Fiber:
        assert self._current is not None
        return self._current

    # -- the loop ----------------------------------------------------------------------------------------

    def run(self, until: Callable[[], bool], limit: float) -> bool:
        """Run until the condition holds, checked at each switch, or the time limit; return whether it holds."""
        while not until():
            if self.failure is not None:
                raise self.failure
            if not self._queue or self._queue[0][0] > limit:
                self.now = max(self.now, limit)
                return until()
            moment, _, _, entry, ticket = heapq.heappop(self._queue)
            if not isinstance(entry, Fiber):
                self.now = moment
                entry()
                continue
            if entry.done or ticket != entry.ticket:
                continue
            if entry.process.frozen_until > moment:
                self._push(entry.process.frozen_until, entry)
                continue
            self.now = moment
            self.switches += 1
            self._current = entry
            entry.greenlet.switch()
            self._current = None
        return True

    def end(self) -> None:
        """Unwind every fiber."""
        for fiber in list(self._fibers):
            fiber.process.dead_since = self.now
            if fiber.greenlet:
                self._current = fiber
                fiber.greenlet.throw(Killed)
        self._current = None


class Result(Future):  # type: ignore[type-arg]
    """A future whose waiters wait in virtual time."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation
        self._waiting: list[Fiber] = []

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

    def set_result(self, result: Any) -> None:
        super().set_result(result)
        self._wake()

    def set_exception(self, exception: BaseException | None) -> None:
        super().set_exception(exception)
        self._wake()

    def _wake(self) -> None:
        for fiber in self._waiting:
            self._simulation.wake(fiber)

    def resolve(self, function: Callable[[], Any]) -> None:
        try:
            self.set_result(function())
        except (Killed, Overdue):
            raise
        except BaseException as error:  # noqa: BLE001 - raised in the waiting fiber
            self.set_exception(error)


def waiter(simulation: Simulation) -> Callable[..., Any]:
    """The replacement of `concurrent.futures.wait`."""

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
    """The replacement of `stream.bounded.Bounded`: the same behaviour in virtual time, without a thread.

    `call` runs in the caller's own fiber, as both could do nothing else meanwhile; at its time limit it is abandoned.
    `start` runs in a fiber of its own.
    """

    def __init__(self, simulation: Simulation, name: str, left: Callable[[], float] = lambda: float("inf")) -> None:
        self._simulation, self._name, self._left = simulation, name, left
        self._process = simulation.current.process
        self._jobs: deque[tuple[Result | None, Callable[[], Any]]] = deque()
        self._fiber: Fiber | None = None
        self._busy = False
        self._waiting: deque[Fiber] = deque()
        self.is_given_up = False

    def call(self, what: str, seconds: float, function: Callable[[], Any]) -> Any:
        simulation = self._simulation
        if self.is_given_up:
            raise Stalled(f"{self._name}: {what} was not begun, an earlier call has not come back")
        deadline = Deadline(simulation.now + max(0.0, min(seconds, self._left())))
        fiber = simulation.current
        fiber.deadlines.append(deadline)
        try:
            return self._in_turn(function)
        except Overdue as overdue:
            if overdue.deadline is not deadline:
                raise
            self.is_given_up = True
            raise Stalled(f"{self._name}: {what} did not end within its bound of {seconds:.0f} s") from None
        finally:
            fiber.deadlines.remove(deadline)

    def wait(self, what: str, seconds: float, future: Result) -> Any:
        try:
            return future.result(max(0.0, min(seconds, self._left())))
        except TimeoutError:
            if future.done():
                raise
            self.is_given_up = True
            raise Stalled(f"{self._name}: {what} did not end within its bound of {seconds:.0f} s") from None

    def _in_turn(self, function: Callable[[], Any]) -> Any:
        """Run one call at a time, first come, first served."""
        if self._busy:
            fiber = self._simulation.current
            self._waiting.append(fiber)
            try:
                while fiber in self._waiting:
                    self._simulation.park(1e9)
            except BaseException:
                if fiber in self._waiting:
                    self._waiting.remove(fiber)
                else:
                    self._pass_on()
                raise
        self._busy = True
        try:
            return function()
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """Hand over to the first waiting fiber; no other call gets in between."""
        self._busy = bool(self._waiting)
        if self._waiting:
            self._simulation.wake(self._waiting.popleft())

    def start(self, what: str, function: Callable[[], Any]) -> Result:
        if self.is_given_up:
            raise Stalled(f"{self._name}: {what} was not begun, an earlier call has not come back")
        result = Result(self._simulation)
        if self._fiber is None and what in _ONLY_COMPUTES and self._simulation.rng.random() < 0.5:
            result.resolve(function)  # a real thread may be as fast as that
            return result
        self._put(result, function)
        return result

    def end(self, last: Callable[[], object] | None = None) -> None:
        self.is_given_up = True
        if last is not None:
            self._put(None, last)

    def _put(self, result: Result | None, function: Callable[[], Any]) -> None:
        self._jobs.append((result, function))
        if self._fiber is None:
            self._fiber = self._simulation.spawn(self._name, self._process, self._work)

    def _work(self) -> None:
        try:
            while self._jobs:
                result, function = self._jobs.popleft()
                resolve = (result or Result(self._simulation)).resolve
                self._in_turn(lambda resolve=resolve, function=function: resolve(function))
        finally:
            self._fiber = None


# Jobs without side effects: the worker cannot tell when they run.
_ONLY_COMPUTES = ("packing", "fingerprinting")


class Time:
    """The replacement of the module `time`."""

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
    """An event whose waiters wait in virtual time."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation

    def wait(self, timeout: float | None = None) -> bool:
        end = self._simulation.now + (1e9 if timeout is None else timeout)
        while not self.is_set() and self._simulation.now < end:
            self._simulation.sleep(min(0.2, end - self._simulation.now))
        return self.is_set()
