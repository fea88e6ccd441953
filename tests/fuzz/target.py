"""`Target`: a decoder, and what its inputs look like."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A decoder. `call` raises nothing but `errors`; `share`: its share of the inputs of a run."""

    name: str
    seeds: Sequence[bytes]
    tokens: Sequence[bytes]
    call: Callable[[bytes], object]
    errors: tuple[type[BaseException], ...] = ()
    share: float = 1.0
