"""Packed sets: unpacking gives the members, truncated to 24 bits, and common members are counted exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.packed_sets import HASH_BITS, MAX_MEMBERS, count_common, expected_bytes, pack, unpack
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings, load_settings
from tests.evaluate.news import words

CUT = 64 - HASH_BITS
# Any hashes, and clusters of hashes at both ends of the range: long runs of zeros, equal truncated hashes, no gaps.
HASHES = st.integers(0, 2**64 - 1) | st.integers(0, 40).map(lambda n: n << CUT)
HASHES |= st.integers(0, 40).map(lambda n: 2**64 - 1 - (n << CUT))
SETS = st.lists(HASHES, unique=True, max_size=80)


@given(st.lists(SETS, max_size=5))
def test_unpacking_gives_the_packed_set(sets: list[list[int]]) -> None:
    for one, string in zip(sets, pack(sets), strict=True):
        assert unpack(string, len(one)) == sorted(h >> CUT for h in one)


@pytest.mark.parametrize("size", [1, 2, 63, 64, 1000, 40_000, 200_000])
def test_sets_of_any_size_survive_packing_in_the_expected_bytes(size: int) -> None:
    members = np.random.default_rng(size).integers(0, 2**64, size, np.uint64)
    (string,) = pack([members.tolist()])
    assert unpack(string, size) == np.sort(members >> np.uint64(CUT)).tolist()[:MAX_MEMBERS]
    assert len(string) < 80_000
    if size > 500:
        assert len(string) == pytest.approx(expected_bytes(size), rel=0.02)


@given(st.lists(st.lists(st.integers(0, 60), unique=True, max_size=40), min_size=1, max_size=6), st.data())
def test_common_members_are_counted_as_python_s_sets_count_them(sets: list[list[int]], data: st.DataObject) -> None:
    packed = pack([[n << CUT for n in one] for one in sets])
    places = st.integers(0, len(sets) - 1)
    pairs = data.draw(st.lists(st.tuples(places, places), min_size=1, max_size=20))
    left, right = np.array(pairs).T
    sizes = np.array([len(one) for one in sets])
    found = count_common(packed, packed, left, right, sizes[left], sizes[right])
    assert found[:, 0].tolist() == [len(set(sets[i]) & set(sets[j])) for i, j in pairs]
    assert np.array_equal(found[:, 1:], sizes[np.array(pairs)])


def test_members_that_truncation_makes_equal_are_counted_separately() -> None:
    one, two = [5 << CUT, 5 << CUT | 1, 5 << CUT | 2], [5 << CUT, 5 << CUT | 1]
    found = count_common(pack([one]), pack([two]), np.array([0]), np.array([0]), np.array([3]), np.array([2]))
    assert found.tolist() == [[2, 3, 2]]


@pytest.mark.parametrize(("large", "small"), [(180_000, 180_000), (180_000, 100_000), (90_000, 40_000)])
def test_very_large_sets_are_compared_on_a_fair_sample(large: int, small: int) -> None:
    members = np.random.default_rng(large).integers(0, 2**64, large + small // 5, np.uint64)
    one, two = members[:large], members[large + small // 5 - small :]  # they share four fifths of the small one
    left, right = pack([one.tolist(), two.tolist()])
    sizes = np.array([large]), np.array([small])
    ((shared, n, m),) = count_common([left], [right], np.array([0]), np.array([0]), *sizes).tolist()
    assert 0 < n <= MAX_MEMBERS
    assert 0 < m <= MAX_MEMBERS
    jaccard = 0.8 * small / (large + small - 0.8 * small)
    assert shared / (n + m - shared) == pytest.approx(jaccard, abs=0.015)


@given(SETS.filter(len), st.data())
def test_a_truncated_string_gives_only_the_members_it_contains(members: list[int], data: st.DataObject) -> None:
    (string,) = pack([members])
    short = string[: data.draw(st.integers(0, len(string) - 1))]
    assert len(unpack(short, len(members))) <= len(members)
    assert unpack(b"", len(members)) == []


def test_a_fingerprint_packs_the_distinct_shingles_of_its_text() -> None:
    make = Fingerprinter(Scheme(FingerprintSettings(verify="exact")))
    texts = ["", "one", "two words", " ".join(words(3000)), "新しい橋が月曜日に開通しました。" * 3, "a a a a a a a"]
    items = [Item(str(n), "", text, "", 0) for n, text in enumerate(texts)]
    prints = make(items)
    for item, size, string in zip(items, prints.signatures["body_size"].tolist(), prints.bodies, strict=True):
        exact = make.exact(item).body
        assert size == len(exact)
        assert unpack(string, size) == sorted(h >> CUT for h in exact)
    alone = [make([item]).bodies[0] for item in items]
    assert alone == prints.bodies


def test_exact_verification_is_a_scheme_of_its_own_without_a_sketch() -> None:
    sketch, exact = (Scheme(FingerprintSettings(verify=v)) for v in ("sketch", "exact"))
    assert sketch.id != exact.id
    assert exact.id == Scheme(FingerprintSettings(verify="exact", body_bins=512)).id
    assert sketch.signature_dtype.itemsize - exact.signature_dtype.itemsize == sketch.body_bytes == 64
    assert not Fingerprinter(sketch)([Item("1", "", "some words", "", 0)]).bodies


@pytest.mark.parametrize("family", ["simhash", "given"])
def test_only_minhash_can_be_verified_exactly(family: str) -> None:
    with pytest.raises(ConfigError, match="verify = 'exact' needs family = 'minhash'"):
        load_settings(fingerprint={"family": family, "verify": "exact"})
