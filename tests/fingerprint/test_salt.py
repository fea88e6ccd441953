"""With a secret salt, items that were made to collide do not; without one, nothing is other than it was."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import xxhash

from stream_dedup.errors import ConfigError, SchemeMismatch
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.script import Deduplicator
from stream_dedup.settings import FingerprintSettings, Settings, load_settings, secrets_of
from tests.fingerprint.built import tokens_of

SALT, OTHER = "correct horse battery staple", "Tr0ub4dor&3 Tr0ub4dor&3"


_FOURS = ["".join(four) for four in product("abcdefghijklmnopqrs", repeat=4)]


def salted(salt: str | None = SALT, **more: object) -> Scheme:
    return Scheme(FingerprintSettings(salt=salt, **more))  # type: ignore[arg-type]


def settings_of(salt: str | None) -> Settings:
    return load_settings(fingerprint={"salt": salt} if salt else {})


def item(name: str, text: str, title: str = "") -> Item:
    return Item(name, title, text, "", 0)


def hottest(scheme: Scheme, items: Sequence[Item]) -> int:
    """The most items that share a key of a table, that of exact texts and ids left out."""
    keys = Fingerprinter(scheme)(items).keys[:, :-2]
    return max(
        int(np.bincount(np.unique(column[column > 0], return_inverse=True)[1]).max())
        for column in keys.T
        if column.any()
    )


def one_hot_bucket(scheme: Scheme, n: int) -> list[Item]:
    """n headlines that share a key of a band, although they have 12 of 15 words of their own.

    A band's key is a hash of the minima of three functions. Whoever has the code knows the functions: he takes the word
    with the smallest value under each of them, of 130,000, and puts all three in every headline.
    """
    words, own = ([first + four for four in _FOURS] for first in "wo")  # the first five letters of a word count
    make = Fingerprinter(scheme)
    parts = [words[start : start + 10_000] for start in range(0, len(words), 10_000)]
    hashes = np.array([h for part in parts for h in tokens_of(" ".join(part), make).hashes], np.uint64)
    narrow = ((hashes | np.uint64(1)) >> np.uint64(20)).astype(np.uint32)
    rows = 3
    multiply, offset = scheme.permutations()[:, :rows]
    values = (narrow[:, None] ^ offset) * multiply  # of the first band
    chosen = [words[i] for i in np.argmin(values, axis=0)]
    return [item(str(k), "", " ".join([*chosen, *own[12 * k : 12 * k + 12]])) for k in range(n)]


def test_without_a_salt_nothing_changes() -> None:
    scheme = Scheme(FingerprintSettings())
    assert scheme.id == 0xA6C4584F2D4EA4A6
    assert scheme.token_seed == 1
    assert scheme.identity("a") == xxhash.xxh3_64_intdigest(b"a")
    prints = Fingerprinter(scheme)(
        [item("1", "The bridge over the Elm opened on Monday after internationalisation.", "Elm bridge")]
    )
    assert xxhash.xxh3_64_hexdigest(prints.keys.tobytes() + prints.signatures.tobytes()) == "9a971e2eeb09d94b"


@pytest.mark.parametrize("more", [{}, {"family": "simhash"}, {"verify": "exact"}, {"shingles": "letters"}])
def test_each_salt_has_a_scheme_of_its_own(more: dict[str, str]) -> None:
    schemes = [salted(None, **more), salted(SALT, **more), salted(OTHER, **more)]
    assert len({scheme.id for scheme in schemes}) == 3
    assert salted(**more).id == schemes[1].id


def test_a_key_that_is_hot_without_a_salt_is_not_with_one() -> None:
    """Headlines that share 3 of 15 words, chosen so that these decide a band."""
    items = one_hot_bucket(salted(None), 200)
    assert hottest(salted(None), items) == 200
    for salt in (SALT, OTHER):
        assert hottest(salted(salt), items) < 20


def test_the_shortest_salt_has_16_characters_and_no_message_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_DEDUP_FINGERPRINT__SALT", "hunter2")
    with pytest.raises(ConfigError, match=r"\[fingerprint\]: salt has fewer than 16") as caught:
        load_settings()
    assert "hunter2" not in str(caught.value)
    monkeypatch.setenv("STREAM_DEDUP_FINGERPRINT__SALT", SALT)
    settings = load_settings()
    assert SALT in secrets_of(settings)
    assert SALT not in f"{settings!r} {settings.model_dump_json()} {Scheme(settings.fingerprint)!r}"


def test_a_salt_in_a_file_is_the_same_salt(tmp_path: Path) -> None:
    path = tmp_path / "salt"
    path.write_text(SALT + "\n")
    settings = load_settings(fingerprint={"salt_file": path})
    assert Scheme(settings.fingerprint).id == salted().id
    assert SALT in secrets_of(settings)
    path.write_text("short")
    with pytest.raises(ConfigError, match="fewer than 16"):
        load_settings(fingerprint={"salt_file": path})


def test_a_saved_state_holds_no_salt_and_needs_the_same_one(tmp_path: Path) -> None:
    path = tmp_path / "state"
    news = [item("1", "The bridge over the Elm opened on Monday.", "Elm bridge opens")]
    with Deduplicator(settings_of(SALT)) as dedup:
        dedup.apply(dedup.judge(news))
        dedup.save(path)
    assert SALT.encode() not in path.read_bytes()
    with Deduplicator.load(path, settings_of(SALT)) as dedup:
        assert str(dedup.judge(news).verdicts[0].kind) == "duplicate"
    for salt in (None, OTHER):
        with pytest.raises(SchemeMismatch, match="salt"):
            Deduplicator.load(path, settings_of(salt))


VICTIM = "https://post.example/2026/11/22/elm-bridge"
# Found in a second by Wagner's algorithm for the generalised birthday problem (CRYPTO 2002): of 128 bytes, XXH3-64 is
# a sum of eight terms, whose last step can be inverted.
FORGED = (
    "8854fd104bff9d3dddb0863770d9c35ffea1e122b13cdcc0b2023f99ac89f93d"
    "1ff1d3b3f396e44f92d4f817d2c8a13fd36edeb9c4a880b3ff4e64da9cb84c85"
)


def test_an_id_forged_under_the_public_hash_is_its_own_id_under_a_salt() -> None:
    assert salted(None).identity(FORGED) == salted(None).identity(VICTIM)
    for salt in (SALT, OTHER):
        assert salted(salt).identity(FORGED) != salted(salt).identity(VICTIM)
