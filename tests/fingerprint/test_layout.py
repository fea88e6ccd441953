"""Layouts: all pairs within the maximum Hamming distance share a key, tested exhaustively."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint.simhash import layout
from stream_dedup.index.probe import nearness_of

TABLES = {"4 choose 1": 4, "5 choose 2": 10, "6 choose 3": 20, "4 x 4": 16, "8 choose 2": 28}


def words(values: list[int], bits: int) -> NDArray[np.uint64]:
    """Integers as (n, bits / 64) uint64."""
    return np.array([[v >> 64 * w & (2**64 - 1) for w in range(bits // 64)] for v in values], np.uint64)


def flips(bits: int, count: int) -> NDArray[np.uint64]:
    """All ways to flip exactly `count` bits, as XOR masks."""
    single = words([1 << bit for bit in range(bits)], bits)
    places = np.array(list(combinations(range(bits), count)), np.int64).reshape(-1, count)
    return np.bitwise_or.reduce(single[places], axis=1)


def random_fingerprints(bits: int, count: int, seed: int) -> NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, 2**64, (count, bits // 64), np.uint64)


def shares_a_key(text: str, bits: int, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.bool_]:
    tested = layout(text, bits)
    near = nearness_of(tested.dont_care_bits, range(tested.tables), tested.max_hamming)
    keys_a, keys_b = (keys.copy() for keys in np.broadcast_arrays(tested.keys(a), tested.keys(b)))
    shared: NDArray[np.bool_] = near.matches(keys_a, keys_b).any(axis=1)
    return shared


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("text", [name for name in TABLES if name != "8 choose 2"])
def test_all_flips_of_up_to_three_bits_share_a_key(text: str, bits: int) -> None:
    for fingerprint in random_fingerprints(bits, 3 if bits == 64 else 1, seed=bits):
        for count in range(1, 4):
            flipped = fingerprint ^ flips(bits, count)
            assert shares_a_key(text, bits, fingerprint[None], flipped).all(), count
    assert layout(text, bits).max_hamming == 3


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("text", TABLES)
def test_the_pigeonhole_block_by_block(text: str, bits: int) -> None:
    """Bits that the same tables select form a block: flipping one of them has the effect of flipping all of them.

    So testing all choices of k blocks tests all choices of k bits.
    """
    tested = layout(text, bits)
    single = words([1 << bit for bit in range(bits)], bits)
    blocks = {tuple(((tested.masks & bit).any(axis=1)).tolist()) for bit in single}
    for count in range(tested.max_hamming + 1):
        for touched in combinations(sorted(blocks), count):
            missed = np.any(np.array(touched or [[False] * tested.tables]), axis=0)
            assert not missed.all(), f"{count} blocks touch every table"
    beyond = combinations(sorted(blocks), tested.max_hamming + 1)
    assert any(np.any(np.array(touched), axis=0).all() for touched in beyond), "max_hamming could be larger"


@pytest.mark.parametrize("text", TABLES)
def test_the_number_of_tables_and_the_length_of_their_keys(text: str) -> None:
    tested = layout(text, 64)
    assert tested.tables == TABLES[text]
    shortest = {"4 choose 1": 16, "5 choose 2": 25, "6 choose 3": 31, "4 x 4": 28, "8 choose 2": 16}
    assert int(np.bitwise_count(tested.masks).sum(axis=1).min()) == shortest[text]
    assert len({tuple(mask) for mask in tested.masks.tolist()}) == tested.tables


def test_unrelated_fingerprints_seldom_share_a_key() -> None:
    """16 equal bits and at most 3 of the next 16 that differ: 697 in 2^32 a table, .65 of a million in all four."""
    a, b = random_fingerprints(64, 10**6, seed=1), random_fingerprints(64, 10**6, seed=2)
    assert shares_a_key("4 choose 1", 64, a, b).sum() <= 5


@pytest.mark.parametrize("bit", [0, 15, 31, 32, 47, 48, 63])
def test_a_fingerprint_with_a_key_of_zero_is_found_within_the_distance_too(bit: int) -> None:
    """A key of 0 is stored as 1, which differs in one bit: the only case that could reduce recall."""
    fingerprint = words([1 << bit], 64)
    for count in range(1, 4):
        assert shares_a_key("4 choose 1", 64, fingerprint, fingerprint ^ flips(64, count)).all()
        assert shares_a_key("4 choose 1", 64, words([0], 64), flips(64, count)).all()


@pytest.mark.parametrize(
    "text", ["", "5 of 2", "5 choose 5", "1 choose 1", "16 choose 8", "16 choose 1", "65 x 2", "-4 x 4", "0 x 1"]
)
def test_an_impossible_or_useless_layout_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="layout"):
        layout(text, 64)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20), st.sampled_from(sorted(TABLES)))
def test_no_key_is_zero_which_means_no_key_in_the_index(values: list[int], text: str) -> None:
    assert layout(text, 64).keys(words([*values, 0], 64)).all()
