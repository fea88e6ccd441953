"""Forge an id whose XXH3-64 is that of another one, as an adversary would who knows the code.

For 97 to 128 bytes, XXH3-64 adds up one term for each block of 16 bytes, and the last step can be inverted. So an id
with a given hash is a sum of eight terms with a given value, one from each of eight lists: the generalised birthday
problem. Wagner's tree (CRYPTO 2002) solves it for 64 bits with lists of 2^17, in a second.
"""

import numpy as np
import xxhash
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_LENGTH = 128
_BLOCKS = _LENGTH // 16
_LIST = 1 << 17
_LEVEL_BITS = 17
_MASK = 2**64 - 1
_LENGTH_FACTOR = 0x9E3779B185EBCA87  # XXH_PRIME64_1
_AVALANCHE_FACTOR = 0x165667919E3779F9  # XXH_PRIME_MX1
# The first 128 bytes of the secret that XXH3 has without a seed, as words.
_SECRET = np.frombuffer(
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
        "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
        "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
        "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    ),
    "<u8",
)
# Which block of the text each term of the sum is made of: the code works from both ends inwards.
_ORDER = [0, 7, 1, 6, 2, 5, 3, 4]


def forged_id(target: str) -> str:
    """An id of 128 hexadecimal digits with the XXH3-64 of `target`."""
    total = _before_avalanche(xxhash.xxh3_64_intdigest(target.encode()))
    missing = np.uint64((total - _LENGTH * _LENGTH_FACTOR) & _MASK)
    random = np.random.default_rng(1)
    while True:
        texts, terms = zip(*(_list_of(position, random) for position in range(_BLOCKS)), strict=True)
        chosen = _wagner(list(terms), missing)
        if chosen is not None:
            blocks = [b""] * _BLOCKS
            for position, row in enumerate(chosen):
                blocks[_ORDER[position]] = texts[position][row].tobytes()
            return b"".join(blocks).decode()


def _list_of(position: int, random: np.random.Generator) -> tuple[NDArray[np.uint8], Words]:
    """Random blocks of 16 hexadecimal digits, and their terms at this place of the sum."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    texts = digits[random.integers(0, 16, (_LIST, 16))]
    words = texts.view("<u8") ^ _SECRET[2 * position : 2 * position + 2]
    return texts, _folded_product(words[:, 0], words[:, 1])


def _folded_product(a: Words, b: Words) -> Words:
    """The lower half of the product of 128 bits, xor the upper half."""
    half, low_mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_low, a_high, b_low, b_high = a & low_mask, a >> half, b & low_mask, b >> half
    low, cross, other, high = a_low * b_low, a_high * b_low, a_low * b_high, a_high * b_high
    middle = (low >> half) + (cross & low_mask) + other
    upper: Words = high + (cross >> half) + (middle >> half)
    lower: Words = (middle << half) | (low & low_mask)
    return upper ^ lower


def _wagner(lists: list[Words], target: np.uint64) -> list[int] | None:
    """A position in each of eight lists such that the values add up to the target, modulo 2^64."""
    rows = [np.arange(len(one))[:, None] for one in lists]
    lists = [*lists[:-1], lists[-1] - target]  # then the sum must be 0
    for bits in (_LEVEL_BITS, 2 * _LEVEL_BITS, 64):
        merged = [
            _sums_of_zero_bits(lists[i], lists[i + 1], rows[i], rows[i + 1], bits) for i in range(0, len(lists), 2)
        ]
        lists, rows = [one for one, _ in merged], [one for _, one in merged]
    return rows[0][0].tolist() if len(rows[0]) else None


def _sums_of_zero_bits(
    a: Words, b: Words, a_rows: NDArray[np.int64], b_rows: NDArray[np.int64], bits: int
) -> tuple[Words, NDArray[np.int64]]:
    """The sums of a value of each list whose lower bits are 0, and the rows that they are made of."""
    mask = np.uint64((1 << bits) - 1)
    order = np.argsort(b & mask, kind="stable")
    wanted = (np.uint64(0) - a) & mask
    first = np.searchsorted((b & mask)[order], wanted, "left")
    last = np.searchsorted((b & mask)[order], wanted, "right")
    left = np.repeat(np.arange(len(a)), last - first)
    within = np.arange(len(left)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
    right = order[np.repeat(first, last - first) + within]
    return a[left] + b[right], np.concatenate([a_rows[left], b_rows[right]], axis=1)


def _before_avalanche(h: int) -> int:
    """Invert the last step of XXH3-64: x ^= x >> 37; x *= a prime; x ^= x >> 32."""
    h ^= h >> 32
    h = h * pow(_AVALANCHE_FACTOR, -1, 2**64) & _MASK
    return h ^ (h >> 37)
