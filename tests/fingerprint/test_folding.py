"""Folding by table gives the same tokens as Python's Unicode functions."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_dedup.fingerprint.characters import (
    TABLE_SIZE,
    Folds,
    character_classes,
    fold_with_python,
    folding_table,
    identity_table,
)
from stream_dedup.fingerprint.kernel import Tables, tokens_of

FOLDED = identity_table(character_classes())


def tokens(text: bytes, folds: Folds) -> list[tuple[int, int]] | None:
    """Hashes and kinds of the tokens; None if the table cannot fold the text."""
    found = tokens_of(text, Tables.of(character_classes(), folds, 1))
    return list(zip(*(column.tolist() for column in found.tokens), strict=True)) if found.is_folded else None


def by_table(text: str) -> list[tuple[int, int]] | None:
    return tokens(text.encode("utf-8", "replace"), folding_table())


def by_python(text: str) -> list[tuple[int, int]] | None:
    return tokens(fold_with_python(text), FOLDED)


@pytest.mark.slow
def test_every_character_alone_and_between_letters() -> None:
    for code in range(TABLE_SIZE):
        for text in (chr(code), f"aé{chr(code)}ä"):
            found = by_table(text)
            assert found is None or found == by_python(text), hex(code)


_MARKS = st.sampled_from([chr(c) for c in range(0x20000) if unicodedata.combining(chr(c))])
_DECOMPOSING = st.sampled_from([chr(c) for c in range(0x30000) if unicodedata.decomposition(chr(c))])
_HANGUL = st.characters(min_codepoint=0x1100, max_codepoint=0x11FF) | st.characters(
    min_codepoint=0xAC00, max_codepoint=0xD7A3
)
_INDIC = st.characters(min_codepoint=0x0900, max_codepoint=0x0DFF)


@given(st.lists(st.one_of(st.characters(), _MARKS, _DECOMPOSING, _HANGUL, _INDIC), max_size=8).map("".join))
@example("İ\u0307")
@example("ﷺ½…ﬃ")
@example("\U000e0041é")
def test_folding_by_table_equals_folding_by_python(text: str) -> None:
    found = by_table(text)
    assert found is None or found == by_python(text)


@pytest.mark.parametrize(
    "text",
    [
        "The “Mayor’s” plan — now…",
        "Straße, naïve, ½ ﬁn",
        "新闻联播ＡＢＣ",
        "новости ЁЛКА",
        "뉴스 속보",
        "समाचार आज",
        "أخبار اليوم",
        "أَعْلَنَتِ الوِزارَةُ إغلاق ـــ ١٩٦٢",
        "می\u200cبندد خانهٔ",
        "הַגֶּשֶׁר נִפְתַּח",
        "फ़िल्म में चाँद \u095c\u094d",
        "İSTANBUL'DA YANGIN",
        "臺灣新聞",
    ],
)
def test_ordinary_news_is_folded_by_table(text: str) -> None:
    assert by_table(text) == by_python(text) != None  # noqa: E711
