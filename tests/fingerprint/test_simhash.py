"""SimHash: an unbiased estimate of the angle, and layouts: all pairs within the distance share a key."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.simhash import Layout, layout
from stream_dedup.index.runs import nearness_of
from tests.fingerprint.built import distances, items
from tests.fingerprint.built import maker as make_of


def maker(**settings: object) -> Fingerprinter:
    return make_of(**{"family": "simhash"} | settings)


def simhashes(make: Fingerprinter, *texts: str) -> NDArray[np.uint64]:
    found: NDArray[np.uint64] = make(items(*texts)).signatures["simhash"]
    return found


@pytest.mark.parametrize("shared", [0.3, 0.6, 0.9, 0.97])
def test_the_distance_estimates_the_angle_without_bias(shared: float) -> None:
    """Each bit differs with probability angle / pi (Charikar 2002): the mean of many lies within four standard errors,
    and the errors have the standard deviation of a binomial."""
    random = np.random.default_rng(64)
    make = maker()
    pairs, total = 150, 400
    common = int(shared * total)
    texts = []
    for _ in range(pairs):
        head = [f"w{n}" for n in random.integers(0, 10**12, common)]
        texts += [" ".join(head + [f"w{n}" for n in random.integers(0, 10**12, total - common)]) for _ in range(2)]
    found = simhashes(make, *texts)
    share = distances(found[::2], found[1::2]) / 64
    expected = np.arccos((common - 2) / (total - 2)) / np.pi  # shingles of three words
    deviation = np.sqrt(expected * (1 - expected) / 64)
    assert abs(share.mean() - expected) < 4 * deviation / np.sqrt(pairs)
    assert 0.75 * deviation < share.std() < 1.25 * deviation


# -- layouts ----------------------------------------------------------------------------------------------

COMPACT = layout(3, is_compact=True)
LAYOUTS = [layout(3), layout(6), COMPACT]


def flips(count: int) -> NDArray[np.uint64]:
    """All ways to flip exactly `count` bits, as XOR masks."""
    return np.array([sum(1 << bit for bit in bits) for bits in combinations(range(64), count)], np.uint64)


def random_fingerprints(count: int, seed: int) -> NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def hamming_of(tested: Layout) -> int:
    blocks, chosen = map(int, tested.name.split(" choose "))
    return blocks - chosen


def shares_a_key(tested: Layout, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.bool_]:
    near = nearness_of(tested.dont_care_bits, range(tested.tables), hamming_of(tested))
    keys_a, keys_b = (keys.copy() for keys in np.broadcast_arrays(tested.keys(a), tested.keys(b)))
    shared: NDArray[np.bool_] = near.matches(keys_a, keys_b).any(axis=1)
    return shared


@pytest.mark.parametrize("tested", LAYOUTS, ids=lambda one: one.name)
def test_all_flips_of_up_to_three_bits_share_a_key(tested: Layout) -> None:
    for fingerprint in random_fingerprints(3, seed=64):
        for count in range(1, 4):
            assert shares_a_key(tested, fingerprint[None], fingerprint ^ flips(count)).all(), count


@pytest.mark.parametrize("tested", LAYOUTS, ids=lambda one: one.name)
def test_the_pigeonhole_block_by_block(tested: Layout) -> None:
    """Bits that the same tables select form a block: flipping one of them has the effect of flipping all of them.

    So testing all choices of k blocks tests all choices of k bits.
    """
    hamming = hamming_of(tested)
    blocks = {tuple(((tested.masks & bit) != 0).tolist()) for bit in flips(1)}
    for count in range(hamming + 1):
        for touched in combinations(sorted(blocks), count):
            missed = np.any(np.array(touched or [[False] * tested.tables]), axis=0)
            assert not missed.all(), f"{count} blocks touch every table"
    beyond = combinations(sorted(blocks), hamming + 1)
    assert any(np.any(np.array(touched), axis=0).all() for touched in beyond), "the distance could be larger"


def test_unrelated_fingerprints_seldom_share_a_key() -> None:
    """Ten keys of 25 or 26 bits: .2 of a million."""
    a, b = random_fingerprints(10**6, seed=1), random_fingerprints(10**6, seed=2)
    assert shares_a_key(layout(3), a, b).sum() <= 3


@pytest.mark.parametrize("bit", [0, 15, 31, 32, 47, 48, 63])
def test_a_fingerprint_with_a_key_of_zero_is_found_within_the_distance_too(bit: int) -> None:
    """A key of 0 is stored as 1, which differs in one bit: the only case that could reduce recall."""
    fingerprint = np.array([1 << bit], np.uint64)
    for count in range(1, 4):
        assert shares_a_key(COMPACT, fingerprint, fingerprint ^ flips(count)).all()
        assert shares_a_key(COMPACT, np.zeros(1, np.uint64), flips(count)).all()
