"""A start without compiled kernels logs the reason of the delay."""

from numba import njit

from stream_dedup.precompile.compilations import COMPILING, report_first_compilation


def test_the_first_compilation_is_logged_and_a_compiled_kernel_is_not() -> None:
    messages: list[str] = []

    @njit  # type: ignore[untyped-decorator]
    def twice(x: float) -> float:
        return x + x

    with report_first_compilation(messages.append):
        twice(1)
        twice(1.5)
    assert messages == [COMPILING]

    with report_first_compilation(messages.append):
        twice(2)
    assert messages == [COMPILING]
