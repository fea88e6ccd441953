"""A decoder as a `Target`, mutants of its inputs, and the loop that stops at the first that it does not handle.

Mutants are made of seeds (valid inputs of the decoder) and tokens (the words of its format). They are almost valid, so
that they get past the first check, and come some hundred times as fast as from a search by hypothesis. Equal seeds give
equal mutants on every machine. The slowest time is counted too, because a mutant that takes long is a hang in the
making. To repeat a failure: `python -m tests.fuzz TARGET SEED`; the failure names both, and the bytes.
"""

import random
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

JSON = [
    b"{", b"}", b"[", b"]", b",", b":", b'"', b'""', b"null", b"true", b"-", b"0", b"1e999", b"-1e-999", b"NaN",
    b"9" * 25, b"9" * 400, b"18446744073709551616", b'"id":', b'"title":', b'"text":', b'"url":', b'"published":',
    b'"source":', b'"content":', b'"description":', b'"\\ud800"', b"\\ud800", b"\\u0000", b"\\", b"\xed\xa0\x80",
    b"\xff", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80", b"{}", b"[]", b'{"#text":"x"}', b'["x"]', b"[+9 chars]", b" ",
]  # fmt: skip


@cache
def scratch() -> Path:
    """A directory for temporary files."""
    return Path(tempfile.mkdtemp(prefix="stream-dedup-fuzz-"))


def scratch_file(name: str, data: bytes) -> Path:
    """A file with this content."""
    path = scratch() / name
    path.write_bytes(data)
    return path


@dataclass(frozen=True)
class Target:
    """A decoder. `call` raises nothing but `errors`; `share`: its share of the inputs of a run."""

    name: str
    seeds: Sequence[bytes]
    tokens: Sequence[bytes]
    call: Callable[[bytes], object]
    errors: tuple[type[BaseException], ...] = ()
    share: float = 1.0


# Lengths and offsets that programs get wrong, in both byte orders.
_EDGES = [
    value.to_bytes(size, order, signed=True)
    for size in (1, 2, 4, 8)
    for value in (0, 1, -1, 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)))
    for order in ("little", "big")
]
_MOST_CHANGES = 4
_LONGEST_COPY = 64
# Rarely, since such a mutant costs as much as a hundred others.
_MOST_REPEATS = 300
LONGEST = 4096
"""Longer mutants are cut: the named cases test size, the loop tests forms."""


class Mutator:
    """Makes mutants of `seeds`, with the help of `tokens`."""

    def __init__(self, seed: int, seeds: Sequence[bytes], tokens: Sequence[bytes]) -> None:
        self._random = random.Random(seed)
        self._seeds = list(seeds)
        self._pieces = [*tokens, *_EDGES]

    def __call__(self) -> bytes:
        pick = self._random.random
        data = bytearray(self._seeds[int(pick() * len(self._seeds))])
        for _ in range(1 + int(pick() * _MOST_CHANGES)):
            self._change(data)
        return bytes(data[:LONGEST])

    def _change(self, data: bytearray) -> None:
        pick = self._random.random
        kind, at = int(pick() * 9), int(pick() * (len(data) + 1))
        if kind == 0 and at < len(data):
            data[at] ^= 1 << int(pick() * 8)
        elif kind == 1 and at < len(data):
            data[at] = int(pick() * 256)
        elif kind == 2:
            del data[at : at + 1 + int(pick() * _LONGEST_COPY)]
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            copy = data[at : at + 1 + int(pick() * _LONGEST_COPY)]
            data[at:at] = copy * (int(pick() * _MOST_REPEATS) if pick() < 0.02 else 1)
        elif kind == 5:
            other = self._seeds[int(pick() * len(self._seeds))]
            start = int(pick() * (len(other) + 1))
            data[at : at + _LONGEST_COPY] = other[start : start + 1 + int(pick() * _LONGEST_COPY)]
        else:
            piece = self._pieces[int(pick() * len(self._pieces))]
            data[at : at + len(piece) * (kind == 6)] = piece


class Run(NamedTuple):
    """A run of one target: inputs, those it took without an error, and the slowest one (processor seconds)."""

    inputs: int
    accepted: int
    slowest: float


def run(target: Target, seed: int, inputs: int) -> Run:
    """Put `inputs` mutants in. Raises AssertionError at the first that raises anything but the documented errors."""
    mutant = Mutator(seed ^ zlib.crc32(target.name.encode()), target.seeds, target.tokens)
    accepted, slowest = 0, 0.0
    call, errors, clock = target.call, target.errors, time.process_time
    for seed_input in target.seeds:
        try:
            call(seed_input)  # what is valid is accepted
        except Exception as error:
            raise AssertionError(f"{target.name}: {type(error).__name__} for a seed: {error!s:.200}") from error
    for number in range(inputs):
        data = mutant()
        start = clock()
        try:
            call(data)
            accepted += 1
        except errors:
            pass
        except Exception as error:
            raise AssertionError(
                f"{target.name}, seed {seed}, input {number}: {type(error).__name__}: {error!s:.200}\n{data[:2000]!r}"
            ) from error
        slowest = max(slowest, clock() - start)
    return Run(inputs, accepted, slowest)
