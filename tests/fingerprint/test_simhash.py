"""SimHash: an unbiased estimate of the angle, idf weights, and layouts: all pairs within the distance share a key."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint import simhash
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.simhash import layout
from stream_dedup.index.probe import nearness_of
from tests.fingerprint.built import distances, items
from tests.fingerprint.built import maker as make_of


def maker(**settings: object) -> Fingerprinter:
    return make_of(**{"family": "simhash"} | settings)


def simhashes(make: Fingerprinter, *texts: str) -> NDArray[np.uint64]:
    found: NDArray[np.uint64] = make(items(*texts)).signatures["simhash"]
    return found


TEXT = "the ferry was old and the ferry was slow but the ferry was loved by the town and by the ferry man"


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("shared", [0.3, 0.6, 0.9, 0.97])
def test_the_distance_estimates_the_angle_without_bias(bits: int, shared: float) -> None:
    """Each bit differs with probability angle / pi (Charikar 2002): the mean of many lies within four standard errors,
    and the errors have the standard deviation of a binomial."""
    random = np.random.default_rng(bits)
    make = maker(bits=bits, features="tokens", weights="uniform")
    pairs, total = 150, 400
    common = int(shared * total)
    texts, cosine = [], common / total  # of two sets of equal size
    for _ in range(pairs):
        head = [f"w{n}" for n in random.integers(0, 10**12, common)]
        texts += [" ".join(head + [f"w{n}" for n in random.integers(0, 10**12, total - common)]) for _ in range(2)]
    found = simhashes(make, *texts)
    share = distances(found[::2], found[1::2]) / bits
    expected = np.arccos(cosine) / np.pi
    deviation = np.sqrt(expected * (1 - expected) / bits)
    assert abs(share.mean() - expected) < 4 * deviation / np.sqrt(pairs)
    assert 0.75 * deviation < share.std() < 1.25 * deviation


# -- weights -----------------------------------------------------------------------------------------------


def built(make: Fingerprinter, texts: list[str]) -> simhash.Weights:
    return simhash.build_weights(make.scheme.features_id, (make.features(text) for text in texts))


def test_rare_words_count_more(tmp_path: Path) -> None:
    corpus = [f"the of and w{n % 10}" for n in range(100)]
    path = tmp_path / "idf"
    path.write_bytes(built(maker(features="tokens"), corpus).to_bytes())
    table = simhash.read_weights(path, maker(features="tokens").scheme.features_id)
    common, rare = maker(features="tokens").features("the w3").tolist()
    weight = dict(zip(table.hashes.tolist(), table.values.tolist(), strict=True))
    assert (weight[common], weight[rare], table.unseen) == (1, round(256 * np.log(10)), round(256 * np.log(100)))


@given(st.dictionaries(st.integers(1, 2**64 - 1), st.integers(1, 0xFFFF), max_size=50), st.integers(0, 10**9))
def test_a_table_survives_its_file(tmp_path_factory: pytest.TempPathFactory, of: dict[int, int], n: int) -> None:
    hashes = np.array(sorted(of), np.uint64)
    made = simhash.Weights(7, n, hashes, np.array([of[h] for h in sorted(of)], np.uint16))
    path = tmp_path_factory.mktemp("idf") / "table"
    path.write_bytes(made.to_bytes())
    back = simhash.read_weights(path, 7)
    assert (back.documents, back.digest) == (n, made.digest)
    assert (back.hashes == made.hashes).all()
    assert (back.values == made.values).all()
    keys, values = back.table
    assert {k: v for k, v in zip(keys.tolist(), values.tolist(), strict=True) if k} == of


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[:-1], "changed or truncated"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "changed or truncated"),
        (lambda data: b"", "not a table"),
        (lambda data: b"PK" + data[2:], "not a table"),
        (lambda data: data[:4] + b"\x09" + data[5:], "version 9"),
    ],
)
def test_a_damaged_table_is_rejected(tmp_path: Path, damage, why: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "idf"
    path.write_bytes(damage(built(maker(), [TEXT, TEXT]).to_bytes()))
    with pytest.raises(ConfigError, match=why):
        maker(weights="idf", idf=path)


def test_a_table_of_other_features_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "idf"
    path.write_bytes(built(maker(), [TEXT, TEXT]).to_bytes())
    for other in ({"features": "tokens"}, {"shingle_words": 4}):
        with pytest.raises(ConfigError, match="other features"):
            maker(weights="idf", idf=path, **other)
    with pytest.raises(ConfigError, match="cannot read"):
        maker(weights="idf", idf=tmp_path / "none")


# -- layouts ----------------------------------------------------------------------------------------------

LAYOUTS = ["4 choose 1", "5 choose 2", "6 choose 3", "4 x 4", "8 choose 2"]


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
@pytest.mark.parametrize("text", LAYOUTS[:4])
def test_all_flips_of_up_to_three_bits_share_a_key(text: str, bits: int) -> None:
    for fingerprint in random_fingerprints(bits, 3 if bits == 64 else 1, seed=bits):
        for count in range(1, 4):
            flipped = fingerprint ^ flips(bits, count)
            assert shares_a_key(text, bits, fingerprint[None], flipped).all(), count
    assert layout(text, bits).max_hamming == 3


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("text", LAYOUTS)
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


def test_a_distance_beyond_the_layout_s_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"hamming = 4.*3 bits or fewer"):
        maker(hamming=4)
    assert maker(hamming=6, layout="8 choose 2").scheme.key_columns == 28 + 2
