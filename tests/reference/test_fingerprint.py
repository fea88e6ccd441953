"""The product's fingerprints are those of the specification, in every family and setting, bit for bit."""

import random
import unicodedata
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from stream_dedup.fingerprint.characters import TABLE_SIZE
from stream_dedup.fingerprint.fingerprint import Fingerprinter, Fingerprints
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings
from tests.reference.fingerprint import Print, fingerprint
from tests.reference.made_up import HEADLINES, PIECES, article, text_of

SALT = "correct horse battery staple"
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "exact": {"verify": "exact"},
    "letters": {"shingles": "letters"},
    "salt": {"salt": SALT},
    "salted letters": {"salt": SALT, "shingles": "letters", "verify": "exact"},
    "simhash": {"family": "simhash"},
    "near tables": {"family": "simhash", "hamming": 6, "salt": SALT},
    "compact": {"family": "compact"},
    "simhash of letters": {"family": "simhash", "shingles": "letters"},
    "given": {"family": "given"},
}
MAKE = {
    name: Fingerprinter(Scheme(FingerprintSettings.model_validate(settings))) for name, settings in SETTINGS.items()
}


FLAGS = "is_prose", "is_last", "is_marked"


def texts_of(prints: Fingerprints, n: int) -> dict[str, Any]:
    """What is not stored of item n, counted from its own first token."""
    texts = prints.texts
    if texts is None:
        return {}
    (first, number), (last, last_number) = texts.firsts[n].tolist(), texts.lasts[n].tolist()
    p, ends = texts.passages, texts.passages["end"].tolist()
    begin = ends[first - 1] if first else 0
    end = ends[last - 1] if last > first else begin
    numbers = texts.numbers[["value", "token"]].tolist()
    return {
        "places": texts.words[begin:end].tolist(),
        "numbers": [(value, token - begin) for value, token in numbers[number:last_number]],
        "headline_words": [h for h in texts.headline_words[n].tolist() if h],
        "headline_numbers": [h for h in texts.headline_numbers[n].tolist() if h],
        "passages": [
            (
                ends[k] - begin, int(p["hash"][k]), *(bool(p[flag][k]) for flag in FLAGS),
                texts.shingles[p["first_shingle"][k] : p["last_shingle"][k]].tolist(),
            )
            for k in range(first, last)
        ],
    }  # fmt: skip


def expected_texts(one: Print) -> dict[str, Any]:
    return {
        "places": one.places,
        "numbers": one.numbers,
        "headline_words": one.headline_words,
        "headline_numbers": one.headline_numbers,
        "passages": [
            (p.end, p.hash, p.is_prose, p.is_last, p.is_marked, one.shingles[p.first : p.last]) for p in one.passages
        ],
    }


def places_of(bits: np.ndarray) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist())


def check(make: Fingerprinter, items: list[Item]) -> None:
    prints = make(items)
    names = prints.signatures.dtype.names or ()
    for n, item in enumerate(items):
        one, signature = fingerprint(item, make.scheme), prints.signatures[n]
        stored = {name: signature[name] for name in names}
        filled = one.headline + [0] * (24 - len(one.headline))
        assert places_of(stored.pop("words", np.zeros(0, np.uint8))) == one.filter, item
        assert bytes(stored.pop("body", b"")) == one.body, item
        assert stored.pop("headline", np.array(filled)).tolist() == filled, item
        assert stored.pop("simhash", np.array([one.simhash])).tolist() == [one.simhash], item
        assert stored == {name: getattr(one, name) for name in stored}, item
        assert prints.keys[n].tolist() == one.keys, item
        assert places_of(prints.word_sets[n]) == one.word_set, item
        assert (prints.bodies[n] if prints.bodies else b"") == one.stored_body, item
        assert bool(prints.is_empty[n]) == one.is_empty, item
        if prints.texts is not None:
            assert texts_of(prints, n) == expected_texts(one), item


MARKS = [chr(c) for c in range(0x20000) if unicodedata.combining(chr(c)) or unicodedata.decomposition(chr(c))]
PIECE = st.sampled_from(PIECES) | st.text(max_size=12) | st.sampled_from(MARKS)
TEXT = st.lists(st.tuples(PIECE, st.sampled_from([" ", "", ". "])).map("".join), max_size=40).map("".join)
ITEM = st.builds(
    Item,
    st.text(max_size=5),
    st.sampled_from(HEADLINES) | TEXT,
    TEXT,
    st.sampled_from(["", "post.example"]),
    st.integers(-1, 2**40),
    st.integers(-1, 9),
    st.integers(-1, 2**40),
    st.integers(0, 2**64 - 1),
)


@pytest.mark.parametrize("name", SETTINGS)
@given(items=st.lists(ITEM, min_size=1, max_size=3))
@examples(max_examples=60)
def test_a_fingerprint_is_that_of_the_specification(name: str, items: list[Item]) -> None:
    check(MAKE[name], items)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_character_alone_and_between_letters() -> None:
    for start in range(0, TABLE_SIZE, 64):
        characters = [chr(code) for code in range(start, start + 64)]
        check(MAKE["simhash"], [Item("1", "", text, "", 0) for c in characters for text in (c, f"aé{c}ä")])


def test_a_batch_of_several_calls_of_the_core_is_joined() -> None:
    """Some texts are folded by Python, perhaps in a call of their own."""
    draw = random.Random(3)
    texts = [
        *(text_of(draw, draw.randrange(3)) for _ in range(500)),
        "Cafe\u0301 1,000",
        "",
        "x. " * 5_000,
        "e\u0301",
    ]
    draw.shuffle(texts)
    check(MAKE["default"], [Item(f"{n}", "", text, "", 0) for n, text in enumerate(texts)])


@pytest.mark.parametrize("name", SETTINGS)
def test_articles_and_pages_have_the_fingerprint_of_the_specification(name: str) -> None:
    draw = random.Random(name)
    check(MAKE[name], [article(draw, f"{n}", length=draw.choice([0, 1, 3, 8, 30])) for n in range(16)])


def test_the_exact_sets_are_those_of_the_specification() -> None:
    draw = random.Random(5)
    for name in ("default", "letters"):
        for item in [article(draw, f"{n}", length=4) for n in range(5)]:
            exact, one = MAKE[name].exact(item), fingerprint(item, MAKE[name].scheme)
            assert (exact.body, exact.tokens) == (set(one.members), len(one.places))
