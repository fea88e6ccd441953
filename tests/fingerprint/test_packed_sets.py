"""Exact verification is a scheme of its own; of a packed set that is cut, only what is there is read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_dedup.core import call
from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint.packed_sets import HASH_BITS, MAX_MEMBERS
from stream_dedup.settings import load_settings
from tests.fingerprint.built import items, maker, scheme
from tests.reference.fingerprint import packed

CUT = 64 - HASH_BITS
# Any hashes, and clusters of hashes at both ends of the range: long runs of zeros, equal truncated hashes, no gaps.
HASHES = st.integers(0, 2**64 - 1) | st.integers(0, 40).map(lambda n: n << CUT)
HASHES |= st.integers(0, 40).map(lambda n: 2**64 - 1 - (n << CUT))
SETS = st.lists(HASHES, unique=True, max_size=80)


def decoded(string: bytes, size: int) -> NDArray[np.uint32]:
    out = np.empty(min(size, MAX_MEMBERS), np.uint32)
    return out[: call("decode_set", np.frombuffer(string, np.uint8), len(string), size, out)]


@given(SETS.filter(len), st.data())
def test_a_truncated_string_gives_only_the_members_it_contains(members: list[int], data: st.DataObject) -> None:
    string = packed(members)
    short = string[: data.draw(st.integers(0, len(string) - 1))]
    assert len(decoded(short, len(members))) <= len(members)
    assert len(decoded(b"", len(members))) == 0


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
