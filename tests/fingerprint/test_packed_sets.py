"""Packed sets: unpacking gives the members, truncated to 24 bits, and common members are counted exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_dedup.core import INT64, POINTER, Struct, arena, call
from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint.packed_sets import HASH_BITS, MAX_MEMBERS, expected_bytes
from stream_dedup.settings import load_settings
from tests.evaluate.news import words
from tests.fingerprint.built import items, maker, scheme

CUT = 64 - HASH_BITS
# Any hashes, and clusters of hashes at both ends of the range: long runs of zeros, equal truncated hashes, no gaps.
HASHES = st.integers(0, 2**64 - 1) | st.integers(0, 40).map(lambda n: n << CUT)
HASHES |= st.integers(0, 40).map(lambda n: 2**64 - 1 - (n << CUT))
SETS = st.lists(HASHES, unique=True, max_size=80)


def pack(members: list[int]) -> bytes:
    out = np.empty(4 * len(members) + 8, np.uint8)
    return out[: call("pack_set", arena(), np.array(members, np.uint64), len(members), out)].tobytes()


def decoded(string: bytes, size: int) -> NDArray[np.uint32]:
    out = np.empty(min(size, MAX_MEMBERS), np.uint32)
    return out[: call("decode_set", np.frombuffer(string, np.uint8), len(string), size, out)]


class StoredSet(Struct, name="stored_set"):
    _fields_ = (("members", POINTER), ("count", INT64), ("size", INT64))


class SharedMembers(Struct, name="shared_members"):
    _fields_ = (("both", INT64), ("of_left", INT64), ("of_right", INT64))


def stored(members: list[int]) -> StoredSet:
    found = decoded(pack(members), len(members))
    return StoredSet(members=found, count=len(found), size=len(members))


def in_common(one: list[int], two: list[int]) -> tuple[int, int, int]:
    found = SharedMembers()
    assert call("count_shared", stored(one), stored(two), found) == found.both
    return found.both, found.of_left, found.of_right


@given(SETS)
def test_unpacking_gives_the_packed_set(members: list[int]) -> None:
    assert decoded(pack(members), len(members)).tolist() == sorted(h >> CUT for h in members)


@pytest.mark.parametrize("size", [1, 2, 63, 64, 1000, 40_000, 200_000])
def test_sets_of_any_size_survive_packing_in_the_expected_bytes(size: int) -> None:
    members = np.random.default_rng(size).integers(0, 2**64, size, np.uint64)
    string = pack(members.tolist())
    assert decoded(string, size).tolist() == np.sort(members >> np.uint64(CUT)).tolist()[:MAX_MEMBERS]
    assert len(string) < 80_000
    if size > 500:
        assert len(string) == pytest.approx(expected_bytes(size), rel=0.02)


MEMBERS = st.lists(st.integers(0, 60), unique=True, max_size=40)


@given(MEMBERS, MEMBERS)
def test_common_members_are_counted_as_python_s_sets_count_them(one: list[int], two: list[int]) -> None:
    found = in_common([n << CUT for n in one], [n << CUT for n in two])
    assert found == (len(set(one) & set(two)), len(one), len(two))


def test_members_that_truncation_makes_equal_are_counted_separately() -> None:
    assert in_common([5 << CUT, 5 << CUT | 1, 5 << CUT | 2], [5 << CUT, 5 << CUT | 1]) == (2, 3, 2)


@pytest.mark.parametrize(("large", "small"), [(180_000, 180_000), (180_000, 100_000), (90_000, 40_000)])
def test_very_large_sets_are_compared_on_a_fair_sample(large: int, small: int) -> None:
    members = np.random.default_rng(large).integers(0, 2**64, large + small // 5, np.uint64).tolist()
    # They share four fifths of the small one.
    shared, n, m = in_common(members[:large], members[large + small // 5 - small :])
    assert 0 < n <= MAX_MEMBERS
    assert 0 < m <= MAX_MEMBERS
    jaccard = 0.8 * small / (large + small - 0.8 * small)
    assert shared / (n + m - shared) == pytest.approx(jaccard, abs=0.015)


@given(SETS.filter(len), st.data())
def test_a_truncated_string_gives_only_the_members_it_contains(members: list[int], data: st.DataObject) -> None:
    string = pack(members)
    short = string[: data.draw(st.integers(0, len(string) - 1))]
    assert len(decoded(short, len(members))) <= len(members)
    assert len(decoded(b"", len(members))) == 0


def test_a_fingerprint_packs_the_distinct_shingles_of_its_text() -> None:
    make = maker(verify="exact")
    texts = ["", "one", "two words", " ".join(words(3000)), "新しい橋が月曜日に開通しました。" * 3, "a a a a a a a"]
    news = items(*texts)
    prints = make(news)
    for item, size, string in zip(news, prints.signatures["body_size"].tolist(), prints.bodies, strict=True):
        exact = make.exact(item).body
        assert size == len(exact)
        assert decoded(string, size).tolist() == sorted(h >> CUT for h in exact)
    alone = [make([item]).bodies[0] for item in news]
    assert alone == prints.bodies


def test_exact_verification_is_a_scheme_of_its_own_without_a_sketch() -> None:
    sketch, exact = (scheme(verify=v) for v in ("sketch", "exact"))
    assert sketch.id != exact.id
    assert exact.id == scheme(verify="exact", body_bins=512).id
    assert sketch.signature_dtype.itemsize - exact.signature_dtype.itemsize == sketch.body_bytes == 64
    assert not maker()(items("some words")).bodies


@pytest.mark.parametrize("family", ["simhash", "given"])
def test_only_minhash_can_be_verified_exactly(family: str) -> None:
    with pytest.raises(ConfigError, match="verify = 'exact' needs family = 'minhash'"):
        load_settings(fingerprint={"family": family, "verify": "exact"})
