"""Mutate bytes: a seeded loop around the decoders, some hundred times as fast as a search by hypothesis.

In: seeds, that is valid inputs of a decoder, and tokens, the words of its format. Out: mutants, most of them almost
valid, so that they get past the first check. Equal seeds give equal mutants on every machine.
"""

import random
from collections.abc import Sequence

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
