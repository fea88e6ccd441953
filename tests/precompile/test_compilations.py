"""A start without compiled kernels logs the reason of the delay; a single kernel that was missing is no news."""

from types import SimpleNamespace

import pytest
from numba import njit
from numba.core import event

from stream_dedup.precompile import compilations
from stream_dedup.precompile.compilations import compiling, count_compilations, report_long_compilation

NOW = [0.0]


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilations, "time", SimpleNamespace(monotonic=lambda: NOW[0]))


def compile_for(seconds: float) -> None:
    """Announce a compilation, as numba does, and another within it after this time."""
    details = {"dispatcher": SimpleNamespace(py_func=compile_for)}
    event.broadcast(event.Event("numba:compile", event.EventStatus.START, details))
    NOW[0] += seconds
    for status in (event.EventStatus.START, event.EventStatus.END, event.EventStatus.END):
        event.broadcast(event.Event("numba:compile", status, details))


@pytest.mark.parametrize(("times", "said"), [([30, 30], 1), ([0.7], 0), ([0.7, 0.7, 0.7], 1)])
def test_a_long_compilation_is_logged_once_and_a_single_kernel_is_not(times: list[float], said: int) -> None:
    messages: list[str] = []
    with report_long_compilation(messages.append):
        for seconds in times:
            compile_for(seconds)
            NOW[0] += 100  # of other work
    assert messages == [compiling()] * said


def test_a_kernel_is_counted_and_a_compiled_one_is_not() -> None:
    @njit  # type: ignore[untyped-decorator]
    def twice(x: float) -> float:
        return x + x

    with count_compilations() as names:
        twice(1)
        twice(1.5)
        twice(2)
    assert len(names) == 2
