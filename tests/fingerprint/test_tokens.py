"""Tokens: no script is dropped, and neither typography nor the letters that writers exchange make a difference.

Also the numbers of a text, the words of its filter, and what is cut off headlines.
"""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.dedup.decider import Decider
from stream_dedup.fingerprint.characters import same_letters
from stream_dedup.fingerprint.headlines import cut_label, cut_site_suffix
from stream_dedup.fingerprint.kernel import word_spans
from stream_dedup.fingerprint.scheme import FILTER_BITS
from stream_dedup.news.item import Item
from tests.fingerprint.built import texts_of, tokens_of

ALIKE = {
    "apostrophes": ("The Mayor's plan", "the mayor’s PLAN"),
    "hyphens and dashes": ("co-operate — now…", "co operate now"),
    "full width": ("ＡＢＣ １２３", "abc 123"),
    "sharp s": ("STRASSE", "straße"),
    "zero width": ("zero\u200bwidth so\u00adft", "zerowidth soft"),
    "a separate accent": ("Café", "Cafe\u0301"),
    "quotes": ("« Bonjour »", '"bonjour"'),
    "Arabic forms": ("\ufedf\ufee0", "لل"),
    "an Arabic ligature": ("\ufefb", "لا"),
    "half-width Katakana": ("ｶﾞ", "ガ"),
    "conjoining Hangul": ("\u1112\u1161\u11ab", "한"),
    "nukta": ("\u0958", "क\u093c"),
    "emoji": ("news 🚀👩\u200d🚀 today", "news today"),
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
    one, two = tokens_of(first), tokens_of(second)
    assert one.hashes == two.hashes
    for text, tokens in ((first, one), (second, two)):
        assert len(word_spans(text)) == len(tokens.hashes)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("قلب", "كلب"),
        ("ש", "ס"),
        ("кот", "кит"),
        ("क", "ख"),
        ("台灣", "台北"),
        ("auf\u200clage", "auf lage"),  # only behind Arabic letters it is a space
    ],
)
def test_other_words_stay_others(first: str, second: str) -> None:
    assert tokens_of(first).hashes != tokens_of(second).hashes


def test_a_letter_stands_for_itself() -> None:
    """So that a text that is folded twice is folded once."""
    letters = same_letters()
    assert all(ord(letter) not in letters for folded in letters.values() for letter in folded)
    assert len(letters) > 4000


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("one two three", 3),
        ("新闻联播 2024 ok", 6),  # four characters, two words
        ("ニュース", 4),
        ("ข่าว", 3),  # Thai: by character, with its marks
        ("뉴스 속보", 2),  # Korean writes words apart
        ("हिन्दी समाचार", 2),  # vowel signs are no separators
        ("أخبار اليوم", 2),
        ("новости дня", 2),
        ("iPhone17发布 ok", 4),  # a word, two characters, a word
        ("ภาษาไทย 5G", 8),
        ("12명 40عاما 200μs", 6),  # letters behind a digit are a word of their own, but not those of ASCII
        ("१७ईको 5th", 3),
        ("½", 2),
        ("தமிழ் செய்தி", 2),
        ("...!? —", 0),
        ("", 0),
    ],
)
def test_every_script_has_its_tokens(text: str, count: int) -> None:
    assert len(word_spans(text)) == len(tokens_of(text).hashes) == count


@pytest.mark.parametrize("text", ["ត្រូវបានចាប់ខ្លួន", "ที่นี่", "ຊື່ສັດ", "ကျွန်ုပ်", "བོད་ཡིག", "か\u3099き"])
def test_marks_of_scripts_without_spaces_belong_to_the_character_before(text: str) -> None:
    spans = [text[start:end] for start, end in word_spans(text)]
    assert len(spans) == len(tokens_of(text).hashes) < len(text)
    assert not any(unicodedata.category(part[0])[0] == "M" for part in spans[1:])


# -- words and numbers -------------------------------------------------------------------------------------------------


def words_of(text: str) -> list[int]:
    return [h for h in texts_of(text).words.tolist() if h < FILTER_BITS]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("investigating", "investigated", True),
        ("bridge", "bridges", True),
        ("gesperrte", "gesperrten", True),
        ("मन्त्रालयले", "मन्त्रालयमा", True),
        ("министерство", "министерства", True),
        ("bank", "banks", False),  # four letters, and five
        ("price", "pride", False),
        ("1234567", "1234568", False),
        ("2026-11-23", "2026-11-24", False),
        ("123456", "12345", False),
    ],
)
def test_a_word_counts_by_its_first_letters_and_a_number_as_a_whole(one: str, other: str, alike: bool) -> None:
    assert (words_of(one) == words_of(other)) == alike


@given(st.text("abcdeéßжяक", min_size=1, max_size=12), st.text("abcжक", max_size=8))
def test_an_ending_changes_no_word(word: str, ending: str) -> None:
    begin = f"{word}xxxxx"[:5]
    assert words_of(begin + ending) == words_of(begin)


ZEROS = {"Arabic": 0x0660, "Persian": 0x06F0, "Devanagari": 0x0966, "Bengali": 0x09E6, "full width": 0xFF10}


def numbers(text: str) -> list[int]:
    values: list[int] = texts_of(text).numbers["value"].tolist()
    return values


@pytest.mark.parametrize("zero", ZEROS.values(), ids=ZEROS)
@given(number=st.from_regex(r"[1-9][0-9]{0,2}([.,/:-][0-9]{1,3}){0,3}", fullmatch=True))
def test_a_number_is_the_same_in_every_script(zero: int, number: str) -> None:
    other = "".join(chr(zero + int(c)) if c.isdigit() else c for c in number)
    assert len(numbers(number)) == 1
    assert numbers(f"The price is {number} today") == numbers(f"क्या {other}।") == numbers(f"ثمن {other}؟")


@pytest.mark.parametrize(
    "same",
    [
        ("1,000", "1.000", "1000", "१,०००", "१०००", "١٠٠٠", "１，０００"),
        ("3:1", "3-1", "३-१"),
        ("2026-11-23", "2026/11/23", "2026.11.23"),
        ("38 percent", "$38", "38 dollars", "38%", "(38)", "38."),
    ],
)
def test_separators_and_units_make_no_difference(same: tuple[str, ...]) -> None:
    assert len({tuple(numbers(text)) for text in same}) == 1
    assert len(numbers(same[0])) == 1


@pytest.mark.parametrize(("one", "other"), [("1,000", "1,001"), ("38", "83"), ("3:1", "1:3"), ("0.5", "5"), ("०", "१")])
def test_other_values_are_other_numbers(one: str, other: str) -> None:
    assert numbers(one) != numbers(other)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("no number, none at all - here: nothing.", 0),
        ("The G7 met in Room B12 for the 2nd time", 3),
        ("Flight L4471B, a 4x4, 3pm, 12명", 4),
        ("On 3 May, 40 of 1,200 fans came at 10:30; it was 3-1.", 5),
        ("a 12-year deal of 1 000 crowns", 3),
        ("38 39,40 - 41", 3),  # a mark with spaces joins nothing
        ("有38万人参加，增长3.5%", 2),
        ("नेपाल १२३ र ४५६।", 2),
        ("9" * 5000 + " and 1", 2),
    ],
)
def test_numbers_are_counted(text: str, count: int) -> None:
    assert len(numbers(text)) == count


# -- headlines ---------------------------------------------------------------------------------------------------------


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
        ("两城之间的大桥今天终于通车了-新闻网", "两城之间的大桥今天终于通车了"),
        ("Bridge over the Elm opens at last - Elmside", "Bridge over the Elm opens at last"),
        ("Bridge over the Elm opens at last - police", "Bridge over the Elm opens at last"),
        ("Bridge over the Elm opens at last - called off", "Bridge over the Elm opens at last - called off"),
        ("Bridge over the Elm: traffic jam - Resolved", "Bridge over the Elm: traffic jam - Resolved"),
        ("Elm bridge opens at last | 3 hurt", "Elm bridge opens at last | 3 hurt"),
    ],
)
def test_a_site_s_name_is_cut_and_news_stays(headline: str, kept: str) -> None:
    assert cut_site_suffix(headline, "elmside.example") == kept


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["x | y - ", " ", "|", " - "])
def test_a_headline_of_megabytes_is_read_in_linear_time(piece: str) -> None:
    headline = "Bridge" + piece * (4 * 2**20 // len(piece)) + "| Post"  # quadratic, this would take minutes
    assert headline.startswith(cut_site_suffix(headline)[:1000])


def forwarded(*headlines: str) -> list[bool]:
    """Which of these headlines, each alone and of another site, are let through."""
    items = [Item(str(n), one, "", f"{n}.example", 1_700_000_000_000 + n) for n, one in enumerate(headlines)]
    with Decider() as dedup:
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
        "BREAKING - Who pays for the new harbour wall | The Lindra Times",
        "SON DAKİKA! Who pays for the new harbour wall",
        "[속보] Who pays for the new harbour wall",
        "#Lindra #Harbour Who pays for the new harbour wall",
        "Who pays for the new harbour wall | Who pays for the new harbour wall",
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
        ("Ferry to the islands stops for a week", "Lifted: ferry to the islands stops for a week"),
        ("Ferry to the islands stops for a week", "Ferry to the islands stops for a week - called off"),
        ("Banker Jonas Weil found guilty of forgery", "Banker Jonas Weil found not guilty of forgery"),
        ("Bus crash near Lindra kills 3 and injures 14", "Bus crash near Lindra kills 14 and injures 3"),
        ("Ferry outage in Lindra - Investigating", "Ferry outage in Lindra - Resolved"),
    ],
)
def test_in_a_headline_alone_every_word_is_news(first: str, second: str) -> None:
    assert forwarded(first, second) == [True, True]


@pytest.mark.parametrize(
    "headline", ["Rate 4.75 | the bank decides again on Thursday", "Opinion | Elm bridge", "a: b c d e"]
)
def test_figures_and_short_headlines_stay_whole(headline: str) -> None:
    assert cut_label(headline) == headline
