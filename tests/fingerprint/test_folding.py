"""Folding by table gives the very bytes that Python's Unicode functions give."""

import unicodedata

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_dedup.fingerprint.characters import TABLE_SIZE
from stream_dedup.fingerprint.folding import GROWTH, fold_utf8, folding_tables
from stream_dedup.fingerprint.views import fold, fold_slowly


def by_table(text: str) -> bytes | None:
    data = np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
    out = np.empty(GROWTH * len(data) + 1, np.uint8)
    size = fold_utf8(data, *folding_tables(), out)
    return None if size < 0 else out[:size].tobytes()


def test_every_character_alone_and_between_letters() -> None:
    for code in range(TABLE_SIZE):
        for text in (chr(code), f"aé{chr(code)}ä"):
            found = by_table(text)
            assert found is None or found == fold_slowly(text), hex(code)


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
def test_folding_by_table_equals_the_slow_way(text: str) -> None:
    found = by_table(text)
    assert found is None or found == fold_slowly(text)
    assert fold(text).lower() == fold_slowly(text), "bytes.lower: ASCII is left to the kernel"


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
    ],
)
def test_ordinary_news_is_folded_by_table(text: str) -> None:
    assert by_table(text) == fold_slowly(text)
