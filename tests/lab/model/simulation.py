"""Virtual time, and fibers that take turns in it: the base of the model.

A fiber runs until it sleeps or waits; then the fiber whose time comes first goes on, and the clock jumps there. Nothing
runs in parallel and nothing reads the machine's clock, so a seed always gives the same interleaving, and a failure can
be reproduced.

Fibers are greenlets, because the worker's code is written for threads, which may switch in the middle of a call. A
switch takes half a microsecond; between threads it takes seven to thirty.
"""

import heapq
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ALL_COMPLETED, Future
from typing import Any

from greenlet import getcurrent, greenlet

EPOCH = 1_700_000_000.0  # wall time at the start of a simulation, s


class Killed(BaseException):
    """The process of this fiber is dead: unwind, and do nothing on the way."""


class Process:
    """Fibers that die and freeze together: those of one worker, of the broker, or of a test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead_since: float | None = None
        self.frozen_until = 0.0
        self.hung_until = 0.0  # a call of it hangs


class Fiber:
    """One thread of execution in virtual time, started by `Simulation.spawn`."""

    def __init__(self, name: str, process: Process, function: Callable[[], object]) -> None:
        self.name, self.process, self.function = name, process, function
        self.greenlet: Any = None
        self.ticket = 0  # counts its sleeps; queue entries with an older ticket are void
        self.parked = False
        self.done = False


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
        """Let other fibers run for this long. Raises Killed if the process has died."""
        fiber = self.current
        if fiber.process.dead_since is None:
            self._push(self.now + seconds, fiber)
            self._hub.switch()
        if fiber.process.dead_since is not None:
            raise Killed

    def park(self, seconds: float) -> None:
        """Sleep until `wake`, for this long at most."""
        fiber = self.current
        fiber.parked = True
        try:
            self.sleep(seconds)
        finally:
            fiber.parked = False

    def wake(self, fiber: Fiber) -> None:
        if fiber.parked:
            fiber.parked = False
            self._push(self.now, fiber)

    def wait_for(self, condition: Callable[[], bool], seconds: float | None, every: float) -> bool:
        """Sleep until the condition holds, for this long at most (None: without end); return whether it does."""
        end = self.now + (1e9 if seconds is None else seconds)
        while not condition():
            if self.now >= end:
                return False
            self.sleep(min(every, end - self.now))
        return True

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


def waiter(simulation: Simulation) -> Callable[..., Any]:
    """`concurrent.futures.wait` in virtual time."""

    def wait(futures: Iterable[Result], timeout: float | None = None, return_when: str = ALL_COMPLETED) -> Any:
        waited = list(futures)
        enough = len(waited) if return_when == ALL_COMPLETED else min(1, len(waited))
        simulation.wait_for(lambda: sum(one.done() for one in waited) >= enough, timeout, 0.05)
        done = {one for one in waited if one.done()}
        return done, set(waited) - done

    return wait


class Queue:
    """`queue.SimpleQueue` in virtual time, for one reader."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._items: deque[Any] = deque()
        self._reader: Fiber | None = None

    def put(self, item: Any) -> None:
        self._items.append(item)
        if self._reader is not None:
            self._simulation.wake(self._reader)
        if self._simulation.rng.random() < 0.5:  # a real reader may have the item before this call returns
            self._simulation.sleep(0)

    def get(self) -> Any:
        self._reader = self._simulation.current
        while not self._items:
            self._simulation.park(1e9)
        return self._items.popleft()


class Stop(threading.Event):
    """An event whose waiters wait in virtual time."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation

    def wait(self, timeout: float | None = None) -> bool:
        return self._simulation.wait_for(self.is_set, timeout, 0.2)
