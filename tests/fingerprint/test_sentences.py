"""Passages: which of them are prose, in any script, and how they cut a text and its shingles."""

from typing import NamedTuple

import numpy as np
import pytest

from tests.fingerprint.built import texts_of, tokens_of

ENGLISH = "The mayor opened the new bridge over the Elm on Monday."
CHINESE = "市长星期一上午在河边宣布新大桥正式通车。"
ARABIC = "هل يفتح رئيس البلدية الجسر الجديد فوق النهر صباح الاثنين؟"
HINDI = "महापौर ने सोमवार सुबह नदी पर बने नए पुल का उद्घाटन किया।"
RUSSIAN = "Мэр открыл в понедельник утром новый мост через широкую реку."


class Passage(NamedTuple):
    tokens: int
    hash: int
    is_prose: bool


def passages(text: str) -> list[Passage]:
    found = texts_of(text).passages
    tokens = np.diff(found["end"], prepend=0).tolist()
    return [*map(Passage, tokens, found["hash"].tolist(), found["is_prose"].tolist())]


def tokens_of_prose(text: str) -> int:
    return sum(one.tokens for one in passages(text) if one.is_prose)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (ENGLISH, 11),
        (RUSSIAN, 10),
        (ARABIC, 10),
        (HINDI, 12),
        (CHINESE, 19),
        ("मुख्यमंत्री ने आज शहर में नए पुल का उद्घाटन किया॥", 10),  # a double danda
        ("وزیر اعلیٰ نے آج شہر میں نئے پل کا افتتاح کیا۔", 11),  # the full stop of Urdu
        ("市長は月曜日の朝に川の新しい橋を開通させた｡", 21),  # a half-width stop
        ("Will the mayor open the new bridge on Monday?", 9),
        ("The mayor has opened the new bridge at last!", 9),
        ("新大桥今天上午终于通车了吗？市长说一切都准备好了吗", 0),  # thirteen characters, and an end without a mark
        ("He said: “The bridge opens on Monday at noon.”", 9),
        ("The mayor opened (in the rain) the new bridge (on Monday).", 11),
    ],
)
def test_a_sentence_of_any_script_is_prose(text: str, tokens: int) -> None:
    assert tokens_of_prose(text) == tokens


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
    assert tokens_of_prose(text) == 0
    assert tokens_of_prose(f"{text}\n{ENGLISH}\n{text}") == 11, "it does not affect the article"


@pytest.mark.parametrize(
    "text",
    [
        "On Monday evening old Mr. Miller opened a small bridge.",
        "At noon or 1 p.m. on Monday we all meet.",
        "The state of Gov. Miller has a new bridge.",
        "The old bridge was 3.5 miles long on the plans.",
        "Am Montag, dem 17. November, öffnet die neue Brücke.",
        "Send it to info.elm at bridge.example before Monday noon.",
        "Die Stadt hat auf bruecke.österreich am Montag alles erklärt.",
    ],
    ids=["title", "time", "office", "decimal", "ordinal", "address", "address beyond ASCII"],
)
def test_a_full_stop_inside_a_sentence_does_not_end_it(text: str) -> None:
    """If the sentence were cut there, neither part would be long enough."""
    assert tokens_of_prose(text) == len(tokens_of(text).hashes)


@pytest.mark.parametrize("text", ["Rates rose to 120. They had been at 90.", "We saw the bridge. It was very long."])
def test_a_full_stop_after_a_number_or_a_word_ends_a_sentence(text: str) -> None:
    assert tokens_of_prose(text) == 0


def test_a_passage_keeps_its_hash_if_another_sentence_changes() -> None:
    before, after = (
        [one.hash for one in passages(f"{ENGLISH} {text} {RUSSIAN}")]
        for text in (
            "The council meets again on Thursday to discuss the cost.",
            "Nobody was hurt when the old one fell.",
        )
    )
    assert (before[0], before[2]) == (after[0], after[2])
    assert before[1] != after[1]


WIRE = """     HARBOUR TOWN, Nov 23 - The council of the harbour town
said on Monday that the old ferry over the Elm will not return
to service before the spring of next year, because cracks were
found in its hull.
     Buses run every twenty minutes over the northern bridge,
a spokesman said, and the fare will stay the same.
"""


def test_a_line_break_of_a_wrapped_text_ends_no_sentence() -> None:
    """As texts of news wires have it: only a blank at the begin of a line, or an empty line, ends a sentence."""
    wrapped, flowing = (
        passages(text) for text in (WIRE, WIRE.replace("\n     ", "\n\n").replace("\n", " ").replace("  ", "\n"))
    )
    assert wrapped == flowing
    assert all(one.is_prose for one in wrapped)
    assert tokens_of_prose(WIRE.replace("\n", "\n\n")) < tokens_of_prose(WIRE) / 2, "these are lines of their own"
