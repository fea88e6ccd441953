"""What writers of a script use for one another is one word; so are headlines with another label."""

import pytest

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.passages import word_key, word_spans
from stream_dedup.fingerprint.fingerprint import cut_label
from stream_dedup.fingerprint.letters import same_letters
from stream_dedup.news.item import Item
from tests.fingerprint.built import maker

MAKE = maker()
ALIKE = {
    "Arabic vowel signs": ("أعلنت الوزارة إغلاق المدرسة", "أَعْلَنَتِ الوِزارَةُ إِغْلاقَ المَدْرَسَةِ"),
    "Arabic tatweel": ("خبر عاجل", "خبـــــر عاجـل"),
    "Arabic alef, yeh and teh marbuta": ("إلى أن آثار القاهرة", "الي ان اثار القاهره"),
    "hamza behind its letter": ("رأي مسؤول", "ر\u0627\u0654ي مس\u0648\u0654ول"),
    "Persian yeh and kaf": ("کتاب فارسی", "كتاب فارسي"),
    "a space in a Persian word": ("می\u200cرود به خانه\u200cها", "می رود به خانه ها"),
    "Persian heh with hamza": ("خانهٔ ما", "خانه ما"),
    "Urdu heh": ("ہے کیا", "ھے كيا"),
    "digits": ("in 1962, 1,500", "in ۱۹۶۲, ١٬٥٠٠"),
    "Devanagari digits": ("१५ मार्च", "15 मार्च"),
    "Thai digits": ("ปี ๒๕๖๗", "ปี 2567"),
    "Hebrew points": ("הגשר נפתח", "הַגֶּשֶׁר נִפְתַּח"),
    "geresh": ("ג'ורג' צ'ק", "ג׳ורג׳ צ׳ק"),
    "Turkish capitals": ("İstanbul'da yangın çıktı", "İSTANBUL’DA YANGIN ÇIKTI"),
    "a Turkish i without language": ("İstanbul", "İstanbul".lower()),
    "Hindi dots": ("फ़िल्म में चाँद", "फिल्म में चांद"),
    "Romanian cedillas": ("Şcoala și țara", "școala şi ţara"),
    "Russian yo": ("Ёлка ещё", "елка еще"),
    "Greek capitals": ("Αθήνα, ΐ", "ΑΘΗΝΑ, ι"),
    "traditional Chinese": ("臺灣新聞報導說", "台湾新闻报导说"),
    "compatibility Chinese": ("\uf9dc", "隆"),
    "the colour of an emoji": ("sun ☀\ufe0f today", "sun ☀ today"),
}


@pytest.mark.parametrize(("first", "second"), ALIKE.values(), ids=list(ALIKE))
def test_other_letters_for_the_same_word(first: str, second: str) -> None:
    one, two = MAKE.tokens(first), MAKE.tokens(second)
    assert one.hashes.tolist() == two.hashes.tolist()
    for text, tokens in ((first, one), (second, two)):
        assert len(word_spans(text)) == len(tokens.hashes)
    keys = [[word_key(text[start:end]) for start, end in word_spans(text)] for text in (first, second)]
    assert keys[0] == keys[1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("قلب", "كلب"),
        ("ש", "ס"),
        ("кот", "кит"),
        ("й", "и"),
        ("für", "fur"),
        ("क", "ख"),
        ("台灣", "台北"),
        ("auf\u200clage", "auf lage"),  # only behind Arabic letters it is a space
    ],
)
def test_other_words_stay_others(first: str, second: str) -> None:
    assert MAKE.tokens(first).hashes.tolist() != MAKE.tokens(second).hashes.tolist()


def test_a_letter_stands_for_itself() -> None:
    """So that a text that is folded twice is folded once."""
    letters = same_letters()
    assert all(ord(letter) not in letters for letter in letters.values() if letter)
    assert len(letters) > 4000


def forwarded(*headlines: str) -> list[bool]:
    """Which of these headlines, each alone and of another site, are let through."""
    items = [Item(str(n), one, "", f"{n}.example", 1_700_000_000_000 + n) for n, one in enumerate(headlines)]
    with Deduplicator() as dedup:
        return [verdict.forward for verdict in dedup.judge(items).verdicts if verdict]


@pytest.mark.parametrize(
    "headline",
    [
        "Opinion | Who pays for the new harbour wall - The Lindra Times",
        "Op-Ed: Who pays for the new harbour wall",
        "Guest essay: Who pays for the new harbour wall",
        "KOMMENTAR: Who pays for the new harbour wall",
        "Money and work | Who pays for the new harbour wall",
        "Who pays for the new harbour wall | Opinion",
    ],
)
def test_a_headline_alone_is_the_same_under_another_label(headline: str) -> None:
    assert forwarded("Who pays for the new harbour wall", headline) == [True, False]
    assert forwarded(headline, "Who pays for the new harbour wall") == [True, False]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Lindra: ferry to the islands stops for a week", "Elmport: ferry to the islands stops for a week"),
        ("Opinion: we must act", "Analysis: the bank"),
    ],
)
def test_what_stands_before_a_colon_is_news(first: str, second: str) -> None:
    assert forwarded(first, second) == [True, True]


@pytest.mark.parametrize(
    "headline", ["Rate 4.75 | the bank decides again on Thursday", "Opinion | Elm bridge", "a: b c d e"]
)
def test_figures_and_short_headlines_stay_whole(headline: str) -> None:
    assert cut_label(headline) == headline
