"""A start without compiled kernels logs the reason of the delay; a single kernel that was missing is no news."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from numba import njit
from numba.core import event

from stream_dedup.precompile import compilations
from stream_dedup.precompile.compilations import COMPILING, count_compilations, report_long_compilation


class Timer:
    """Stands for threading.Timer; `run` is called when its time has come, unless it was cancelled."""

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:
        self.seconds, self._function, self.daemon, self.is_cancelled = seconds, function, False, False
        TIMERS.append(self)

    def start(self) -> None:
        pass

    def cancel(self) -> None:
        self.is_cancelled = True

    def run(self) -> None:
        if not self.is_cancelled:
            self._function()


TIMERS: list[Timer] = []
NOW = [0.0]


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> None:
    TIMERS.clear()
    monkeypatch.setattr(compilations, "threading", SimpleNamespace(Timer=Timer))
    monkeypatch.setattr(compilations, "time", SimpleNamespace(monotonic=lambda: NOW[0]))


def compile_for(seconds: float) -> None:
    """Announce a compilation, as numba does, that takes this long, and another within it."""
    details = {"dispatcher": SimpleNamespace(py_func=compile_for)}
    for status in (event.EventStatus.START, event.EventStatus.START):
        event.broadcast(event.Event("numba:compile", status, details))
    NOW[0] += seconds
    if seconds >= TIMERS[-1].seconds:
        TIMERS[-1].run()
    for status in (event.EventStatus.END, event.EventStatus.END):
        event.broadcast(event.Event("numba:compile", status, details))


def test_a_long_compilation_is_logged_once() -> None:
    messages: list[str] = []
    with report_long_compilation(messages.append):
        compile_for(30)
        compile_for(30)
    assert messages == [COMPILING]
    assert "a minute or more" in COMPILING


def test_a_single_kernel_that_is_missing_is_not_logged_and_many_are() -> None:
    messages: list[str] = []
    with report_long_compilation(messages.append):
        compile_for(0.7)
        TIMERS[-1].run()
        assert not messages
        compile_for(0.7)
        compile_for(0.7)
    assert messages == [COMPILING]


def test_nothing_is_logged_after_the_work() -> None:
    messages: list[str] = []
    with report_long_compilation(messages.append):
        event.broadcast(event.Event("numba:compile", event.EventStatus.START, {}))
    TIMERS[-1].run()
    assert not messages


def test_a_kernel_is_counted_and_a_compiled_one_is_not() -> None:
    @njit  # type: ignore[untyped-decorator]
    def twice(x: float) -> float:
        return x + x

    with count_compilations() as names:
        twice(1)
        twice(1.5)
        twice(2)
    assert len(names) == 2
