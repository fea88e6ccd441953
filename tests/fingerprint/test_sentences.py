"""Prose: which parts of a text count as prose, in any script, and how passages consist of the body's shingles."""

import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stream_dedup.fingerprint.fingerprint as module
from stream_dedup.fingerprint.fingerprint import Fingerprinter, Fingerprints
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.fingerprint.sentences import MAX_PASSAGE_SHINGLES
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings

MAKE = Fingerprinter(Scheme(FingerprintSettings()))
ENGLISH = "The mayor opened the new bridge over the Elm on Monday."
CHINESE = "市长星期一上午在河边宣布新大桥正式通车。"
ARABIC = "هل يفتح رئيس البلدية الجسر الجديد فوق النهر صباح الاثنين؟"
HINDI = "महापौर ने सोमवार सुबह नदी पर बने नए पुल का उद्घाटन किया।"
RUSSIAN = "Мэр открыл в понедельник утром новый мост через широкую реку."
SCRIPTS = [ENGLISH, CHINESE, ARABIC, HINDI, RUSSIAN]


def fingerprints(*texts: str) -> Fingerprints:
    return MAKE([Item(str(n), "", text, "", 0) for n, text in enumerate(texts)])


def passages(prints: Fingerprints, text: int = 0) -> list[tuple[list[int], int, float]]:
    """Shingles, hash and length in words of each passage of one text."""
    prose = prints.prose
    return [
        (prose.shingles[prose.starts[p] : prose.stops[p]].tolist(), int(prose.hashes[p]), float(prose.units[p]))
        for p in range(prose.firsts[text], prose.lasts[text])
    ]


def words_of_prose(text: str) -> float:
    return sum(words for _, _, words in passages(fingerprints(text)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ENGLISH, 11),
        (RUSSIAN, 10),
        (ARABIC, 10),
        (HINDI, 12),
        (CHINESE, 9.5),  # 19 characters
        ("मुख्यमंत्री ने आज शहर में नए पुल का उद्घाटन किया॥", 10),  # a double danda
        ("وزیر اعلیٰ نے آج شہر میں نئے پل کا افتتاح کیا۔", 11),  # the full stop of Urdu
        ("市長は月曜日の朝に川の新しい橋を開通させた｡", 10.5),  # a half-width stop
        ("Will the mayor open the new bridge on Monday?", 9),
        ("The mayor has opened the new bridge at last!", 9),
        ("新大桥今天上午终于通车了吗？市长说一切都准备好了吗", 0),  # thirteen characters, and an end without a mark
        ("He said: “The bridge opens on Monday at noon.”", 9),
        ("The mayor opened (in the rain) the new bridge (on Monday).", 11),
    ],
)
def test_a_sentence_of_any_script_is_prose(text: str, words: float) -> None:
    assert words_of_prose(text) == words


@pytest.mark.parametrize(
    "text",
    [
        "Home\nNews\nSport\nWeather\nCulture and entertainment\nContact\nImprint\n",
        "Home News Sport Weather Politics Business Culture Travel Health Science Opinion Letters",
        "Ferry stopped after cracks were found in its old hull\nAsteroid turns in ninety seconds say the astronomers\n",
        "Your name\nYour e-mail address\nI agree to the terms of use and to the privacy policy of this site\nSend\n",
        "The mayor at the opening of the new bridge over the Elm on Monday\n",
        "首页 新闻 体育 天气 财经 娱乐 文化 旅游 健康 科学 评论 读者来信",
        "होम समाचार खेल मौसम राजनीति व्यापार संस्कृति यात्रा स्वास्थ्य विज्ञान",
        "الرئيسية أخبار رياضة طقس سياسة اقتصاد ثقافة سفر صحة علوم",
        "Read more. Share. Print. Subscribe now! Log in?",
        "",
    ],
    ids=["menu", "menu in a line", "links", "form", "caption", "Chinese", "Hindi", "Arabic", "panel", "nothing"],
)
def test_short_sentences_and_lines_without_a_sentence_mark_are_not_prose(text: str) -> None:
    assert words_of_prose(text) == 0
    assert words_of_prose(f"{text}\n{ENGLISH}\n{text}") == 11, "it does not affect the article"


@pytest.mark.parametrize(("words", "counts"), [(7, False), (8, True)])
def test_eight_words_are_a_sentence(words: int, counts: bool) -> None:
    assert (words_of_prose(" ".join(["Bridge"] * words) + ".") > 0) == counts


@pytest.mark.parametrize(("characters", "counts"), [(14, False), (15, True)])
def test_fifteen_characters_are_a_sentence(characters: int, counts: bool) -> None:
    assert (words_of_prose(CHINESE[:characters] + "。") > 0) == counts


@pytest.mark.parametrize(
    "text",
    [
        "On Monday evening old Mr. Miller opened a small bridge.",
        "At noon or 1 p.m. on Monday we all meet.",
        "The state of Gov. Miller has a new bridge.",
        "The old bridge was 3.5 miles long on the plans.",
        "Send it to info.elm at bridge.example before Monday noon.",
        "Die Stadt hat auf bruecke.österreich am Montag alles erklärt.",
    ],
    ids=["title", "time", "office", "decimal", "address", "address beyond ASCII"],
)
def test_a_full_stop_inside_a_sentence_does_not_end_it(text: str) -> None:
    """If the sentence were cut there, neither part would be long enough."""
    assert words_of_prose(text) == len(MAKE.tokens(text)[0])


@pytest.mark.parametrize("text", ["Some rates rose to 12. They had been at 9.", "We saw the bridge. It was very long."])
def test_a_full_stop_after_a_number_or_a_word_ends_a_sentence(text: str) -> None:
    assert words_of_prose(text) == 0


def test_a_long_sentence_is_cut_into_passages_without_a_short_rest() -> None:
    for words in range(18, 80):
        text = " ".join(f"word{n}" for n in range(words)) + "."
        found = passages(fingerprints(text))
        sizes = [len(shingles) for shingles, _, _ in found]
        assert sum(sizes) == words - 2
        assert all(
            MAX_PASSAGE_SHINGLES // 2 <= size < MAX_PASSAGE_SHINGLES + MAX_PASSAGE_SHINGLES // 2 for size in sizes
        )
        assert sum(length for _, _, length in found) == words


def test_a_passage_keeps_its_hash_if_another_sentence_changes() -> None:
    before, after = (
        [h for _, h, _ in passages(fingerprints(f"{ENGLISH} {text} {RUSSIAN}"))]
        for text in (
            "The council meets again on Thursday to discuss the cost.",
            "Nobody was hurt when the old one fell.",
        )
    )
    assert (before[0], before[2]) == (after[0], after[2])
    assert before[1] != after[1]


SENTENCES = st.lists(
    st.sampled_from([*SCRIPTS, "Mr. Miller", "\n", "首页", "ガ", "ｶﾞ", "Cafe\u0301", "\u0958", "3.5", "ok 新闻", "?!"])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    max_size=8,
).map(" ".join)


@given(SENTENCES)
def test_passages_consist_of_the_body_s_shingles(text: str) -> None:
    body = MAKE.exact(Item("0", "", text, "", 0)).body
    for shingles, least, words in passages(fingerprints(text)):
        assert shingles
        assert set(shingles) <= body
        assert least == min(shingles) >> 32 | 1
        assert words > 0


@given(st.lists(SENTENCES, min_size=2, max_size=5))
def test_a_text_s_prose_does_not_depend_on_its_neighbours(texts: Sequence[str]) -> None:
    together = fingerprints(*texts)
    for n, text in enumerate(texts):
        assert passages(together, n) == passages(fingerprints(text))


def test_a_text_s_prose_does_not_depend_on_the_way_it_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table folds precomposed letters; Python folds separate accents."""
    folded, fold_with_python = [], module.fold_with_python

    def counted(text: str) -> bytes:
        folded.append(text)
        return fold_with_python(text)

    monkeypatch.setattr(module, "fold_with_python", counted)
    menu = "Café\nÀ propos\nContact\n"
    article = (
        f"{menu}{ENGLISH} Le maire a inauguré lundi matin le nouveau pont sur l’Orne à Évrecy. {HINDI}\n{menu}{CHINESE}"
    )
    composed = unicodedata.normalize("NFC", article)
    apart = unicodedata.normalize("NFD", article)
    plain = passages(fingerprints(composed))
    assert not any("Orne" in text for text in folded)
    between = fingerprints(ENGLISH, apart, CHINESE, apart)
    assert any("Orne" in text for text in folded)
    assert len(plain) == 4
    assert passages(between, 1) == passages(between, 3) == plain
    assert passages(between, 2) == passages(fingerprints(CHINESE))
