"""The id of a scheme: settings that change fingerprints change it, others do not; and packed sets of exact ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_dedup.core import call
from stream_dedup.errors import ConfigError
from stream_dedup.index.footprint import HASH_BITS, MAX_MEMBERS
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
    assert sketch.signature_dtype.itemsize - exact.signature_dtype.itemsize == 64
    (body,), (with_set,) = (maker(verify=v)(items("some words")).bodies for v in ("sketch", "exact"))
    assert with_set[: len(body)] == body, "the sequence stands before the set"
    assert with_set[len(body) :]


@pytest.mark.parametrize("family", ["simhash", "compact", "given"])
def test_only_minhash_can_be_verified_exactly(family: str) -> None:
    with pytest.raises(ConfigError, match="verify = 'exact' needs family = 'minhash'"):
        load_settings(fingerprint={"family": family, "verify": "exact"})


def test_settings_that_change_fingerprints_change_the_scheme() -> None:
    changes: list[dict[str, object]] = [
        {}, {"shingles": "letters"}, {"verify": "exact"}, {"family": "simhash"}, {"family": "given"},
        {"family": "simhash", "hamming": 4}, {"family": "given", "hamming": 4},
        {"family": "simhash", "shingles": "letters"}, {"family": "compact"},
    ]  # fmt: skip
    assert len({scheme(**changed).id for changed in changes}) == len(changes)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("minhash", {"hamming": 6}),
        ("simhash", {"hamming": 2}),
        ("given", {"shingles": "letters"}),
    ],
)
def test_settings_that_do_not_change_fingerprints_keep_the_scheme(family: str, changes: dict[str, object]) -> None:
    assert scheme(family=family, **changes).id == scheme(family=family).id


def test_schemes_have_kept_their_ids() -> None:
    """Another id would refuse every changelog."""
    kept: dict[str, dict[str, object]] = {
        "a6c4584f2d4ea4a6": {},
        "ed401fdbf29f36da": {"verify": "exact"},
        "398f12c850650246": {"shingles": "letters"},
        "cb22d9ec05458bb5": {"family": "simhash"},
        "16d43678d3d9629c": {"family": "simhash", "hamming": 6},
        "e5f3d1897405f206": {"family": "compact"},
        "42481661c64a5bb4": {"family": "given"},
    }
    assert [f"{scheme(**settings).id:016x}" for settings in kept.values()] == list(kept)
