"""SimHash: the majority of votes, an unbiased estimate of the angle, and idf weights."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint import simhash
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.news.item import Item
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


def test_an_item_without_a_text_is_found_by_its_words_and_id_alone() -> None:
    make = maker()
    prints = make([Item("1", "Only a headline", "", "", 0)])
    assert (prints.keys[0] != 0).tolist() == [False] * 10 + [True, True]


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
    for other in ({"features": "tokens"}, {"seed": 2}, {"shingle_words": 4}):
        with pytest.raises(ConfigError, match="other features"):
            maker(weights="idf", idf=path, **other)
    with pytest.raises(ConfigError, match="cannot read"):
        maker(weights="idf", idf=tmp_path / "none")


# -- the scheme --------------------------------------------------------------------------------------------


def test_settings_that_change_fingerprints_change_the_scheme(tmp_path: Path) -> None:
    changes: list[dict[str, object]] = [
        {}, {"bits": 128}, {"features": "tokens"}, {"weights": "uniform"}, {"seed": 2}, {"layout": "4 choose 1"},
        {"family": "minhash"}, {"family": "given"}, {"family": "given", "layout": "4 choose 1"},
    ]  # fmt: skip
    ids = [maker(**change).scheme.id for change in changes]
    for n, texts in enumerate(([TEXT] * 2, [TEXT] * 3, ["other words are here"] * 2)):
        path = tmp_path / str(n)
        path.write_bytes(built(maker(), texts).to_bytes())
        ids.append(maker(weights="idf", idf=path).scheme.id)
    assert len(set(ids)) == len(ids)


def test_settings_that_do_not_change_fingerprints_keep_the_scheme() -> None:
    assert maker(hamming=2).scheme.id == maker(hamming=3).scheme.id == maker(body_bands=20).scheme.id
    assert maker(family="minhash", hamming=1, bits=128).scheme.id == maker(family="minhash").scheme.id
    assert maker(family="given", shingle_words=4).scheme.id == maker(family="given").scheme.id


def test_a_distance_beyond_the_layout_s_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"hamming = 4.*3 bits or fewer"):
        maker(hamming=4)
    assert maker(hamming=6, layout="8 choose 2").scheme.key_columns == 28 + 2
