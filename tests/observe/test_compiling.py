"""Whoever starts without compiled kernels is told why nothing happens."""

from numba import njit

from stream_dedup.observe.compiling import COMPILING, compiling_is_said


def test_the_first_compilation_is_said_and_what_is_compiled_already_is_not() -> None:
    said: list[str] = []

    @njit  # type: ignore[untyped-decorator]
    def twice(x: float) -> float:
        return x + x

    with compiling_is_said(said.append):
        twice(1)
        twice(1.5)
    assert said == [COMPILING]

    with compiling_is_said(said.append):
        twice(2)
    assert said == [COMPILING]
