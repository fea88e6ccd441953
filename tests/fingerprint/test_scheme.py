"""The id of a scheme: settings that change fingerprints change it, others do not; and packed sets of exact ones."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_dedup.core import call
from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint.packed_sets import HASH_BITS, MAX_MEMBERS
from stream_dedup.fingerprint.simhash import build_weights
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
    (body,), (with_set,) = (maker(verify=v)(items("some words")).bodies for v in ("sketch", "exact"))
    assert with_set[: len(body)] == body, "the sequence stands before the set"
    assert with_set[len(body) :]


@pytest.mark.parametrize("family", ["simhash", "given"])
def test_only_minhash_can_be_verified_exactly(family: str) -> None:
    with pytest.raises(ConfigError, match="verify = 'exact' needs family = 'minhash'"):
        load_settings(fingerprint={"family": family, "verify": "exact"})


def test_settings_that_change_fingerprints_change_the_scheme(tmp_path: Path) -> None:
    of_minhash = {
        "body_bands": 17,
        "anchors": 15,
        "shingle_words": 4,
        "body_bins": 512,
        "shingle_letters": 5,
    }
    of_minhash |= {"chinese": "words", "verify": "exact"}
    of_simhash = {"bits": 128, "features": "tokens", "weights": "uniform", "layout": "4 choose 1"}
    ids = [scheme().id, *(scheme(**{name: value}).id for name, value in of_minhash.items())]
    ids += [
        scheme(family="simhash").id,
        *(scheme(family="simhash", **{name: value}).id for name, value in of_simhash.items()),
    ]
    ids += [scheme(family="given").id, scheme(family="given", layout="4 choose 1").id]
    make = maker(family="simhash")
    for n, texts in enumerate((["some words are here"] * 2, ["some words are here"] * 3, ["other words are here"] * 2)):
        table = build_weights(make.scheme.features_id, (make.features(text) for text in texts))
        (tmp_path / str(n)).write_bytes(table.to_bytes())
        ids.append(scheme(family="simhash", weights="idf", idf=tmp_path / str(n)).id)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("minhash", {"hamming": 1, "bits": 128}),
        ("simhash", {"hamming": 2, "body_bands": 20}),
        ("given", {"shingle_words": 4}),
    ],
)
def test_settings_that_do_not_change_fingerprints_keep_the_scheme(family: str, changes: dict[str, int]) -> None:
    assert scheme(family=family, **changes).id == scheme(family=family).id
