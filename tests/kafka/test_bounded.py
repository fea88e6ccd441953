"""P5: every wait for a call is bounded, and a stop ends it."""

import itertools
import threading
import time
from concurrent.futures import Future

import pytest

from stream_dedup.errors import Stalled
from stream_dedup.kafka.runtime import Bounded, Runtime


def test_a_call_returns_the_result_or_raises_the_error() -> None:
    calls = Bounded("test")
    assert calls.call("adding", 5, lambda: 1 + 1) == 2
    with pytest.raises(ZeroDivisionError):
        calls.call("dividing", 5, lambda: 1 // 0)
    with pytest.raises(TimeoutError, match="its own"):
        calls.call("waiting", 5, lambda: (_ for _ in ()).throw(TimeoutError("its own")))
    calls.end()


class Late(Future[int]):
    """A future that is done between the end of the first wait and the question whether it is; or after `waits`."""

    waits = 0

    def result(self, timeout: float | None = None) -> int:
        if self.done():
            return super().result(timeout)
        if not self.waits:
            self.set_result(7)
        self.waits -= 1
        raise TimeoutError


def test_a_call_that_ends_at_its_time_limit_has_ended() -> None:
    calls = Bounded("test")
    assert calls.wait("polling", 5, Late()) == 7
    calls.end()


def test_the_time_of_a_process_that_is_stopped_does_not_count() -> None:
    clock = itertools.count(step=100)  # a minute and more passes between any two lines
    calls, answer = Bounded("test", runtime=Runtime(monotonic=lambda: float(next(clock)))), Late()
    answer.waits = 3
    assert calls.wait("polling", 5, answer) == 7
    calls.end()


def test_after_a_call_that_hangs_the_next_is_refused() -> None:
    calls, release = Bounded("test"), threading.Event()
    began = time.monotonic()
    with pytest.raises(Stalled, match="committing did not end within its bound"):
        calls.call("committing", 0.3, lambda: release.wait(10))
    with pytest.raises(Stalled, match="flushing was not begun"):
        calls.call("flushing", 10, lambda: None)
    assert time.monotonic() - began < 2
    ended = threading.Event()
    calls.end(ended.set)
    release.set()
    assert ended.wait(5), "the last function did not run after the call had returned"


def test_a_stop_ends_the_wait() -> None:
    stop_at = [float("inf")]
    calls = Bounded("test", lambda: stop_at[0] - time.monotonic())
    threading.Timer(0.2, lambda: stop_at.__setitem__(0, time.monotonic() + 0.2)).start()
    began, release = time.monotonic(), threading.Event()
    with pytest.raises(Stalled):
        calls.call("committing", 30, lambda: release.wait(5))
    assert time.monotonic() - began < 2
    release.set()
    calls.end()
