"""Tokens and views: no script is dropped, and typography makes no difference."""

import pytest

from stream_dedup.fingerprint.fingerprint import cut_site_suffix
from tests.fingerprint.built import items, maker

MAKE = maker()


def tokens_of(text: str) -> list[tuple[int, int]]:
    tokens = MAKE.tokens(text)
    return list(zip(tokens.hashes.tolist(), tokens.kinds.tolist(), strict=True))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Mayor's plan", "the mayor’s PLAN"),
        ("co-operate — now…", "co operate now"),
        ("ＡＢＣ １２３", "abc 123"),
        ("STRASSE", "straße"),
        ("zero\u200bwidth so\u00adft", "zerowidth soft"),
        ("Café", "Cafe\u0301"),
        ("« Bonjour »", '"bonjour"'),
        ("\ufedf\ufee0", "لل"),  # Arabic presentation forms: lam initial, lam medial
        ("\ufefb", "لا"),  # a ligature
        ("ｶﾞ", "ガ"),  # half-width Katakana with its voicing mark
        ("\u1112\u1161\u11ab", "한"),  # conjoining Hangul
        ("\u0958", "क\u093c"),  # Devanagari with nukta, in one character and in two
        ("news 🚀👩\u200d🚀 today", "news today"),
    ],
)
def test_typography_makes_no_difference(one: str, other: str) -> None:
    assert tokens_of(one) == tokens_of(other)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("one two three", 3),
        ("新闻联播 2024 ok", 6),  # four characters, two words
        ("ニュース", 4),
        ("ข่าว", 4),  # Thai: by character
        ("뉴스 속보", 2),  # Korean writes words apart
        ("हिन्दी समाचार", 2),  # vowel signs are no separators
        ("أخبار اليوم", 2),
        ("новости дня", 2),
        ("iPhone17发布 ok", 4),  # a word, two characters, a word
        ("ภาษาไทย 5G", 8),
        ("தமிழ் செய்தி", 2),
        ("...!? —", 0),
        ("", 0),
    ],
)
def test_every_script_has_its_tokens(text: str, count: int) -> None:
    assert len(tokens_of(text)) == count


def test_a_character_differs_from_the_word_whose_bytes_are_its_code_point() -> None:
    assert b"te"[::-1] == ord("整").to_bytes(2, "big")
    assert tokens_of("整")[0][0] != tokens_of("te")[0][0]


def test_every_byte_of_a_long_word_affects_its_hash() -> None:
    word = "abcdefghijklmnopqrstuvwxyz"
    others = {word[:i] + "0" + word[i + 1 :] for i in range(len(word))} | {word[:i] for i in range(1, len(word))}
    assert len({tokens_of(one)[0] for one in others | {word}}) == 2 * len(word)


@pytest.mark.parametrize(
    ("headline", "kept"),
    [
        ("Bridge over the Elm opens at last | News | Harbor Post", "Bridge over the Elm opens at last"),
        ("Bridge over the Elm opens at last - Harbor Post", "Bridge over the Elm opens at last"),
        (
            "Elm bridge - a story of two towns and of their river",
            "Elm bridge - a story of two towns and of their river",
        ),
        ("Harbor Post", "Harbor Post"),
        ("", ""),
        ("两城之间的大桥今天终于通车了_新闻网", "两城之间的大桥今天终于通车了"),
    ],
)
def test_the_site_s_name_is_cut_by_structure(headline: str, kept: str) -> None:
    assert cut_site_suffix(headline) == kept


@pytest.mark.parametrize(
    ("text", "count"), [("one two three four", 2), ("一二三四五六", 2), ("one", 1), ("one two", 1), ("一 one", 1)]
)
def test_a_shingle_spans_three_words_or_five_characters(text: str, count: int) -> None:
    assert len(MAKE.exact(items(text)[0]).body) == count


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["x | y - ", " ", "|", " - "])
def test_a_headline_of_megabytes_is_read_in_linear_time(piece: str) -> None:
    headline = "Bridge" + piece * (4 * 2**20 // len(piece)) + "| Post"  # quadratic, this would take minutes
    assert headline.startswith(cut_site_suffix(headline)[:1000])
