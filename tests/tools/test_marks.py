"""The marks of two items: the words that only one of them has, by the diff that decides, in any script and length."""

import random

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings, load_settings
from stream_dedup.tools.marks import MOST_SEQUENCE, Comparison, Side, compare_items
from tests.reference.fingerprint import fingerprint
from tests.reference.made_up import article, edited
from tests.reference.sequence import diff_of

FERRY = (
    "The old ferry between the two banks of the Elm was taken out of service on Monday morning. "
    "Engineers had found deep cracks in its hull, and the repair costs the town 38 million crowns. "
)
BUS = "The mayor said that the council will pay for a bus over the northern bridge until spring. "
FARMERS = "Farmers from the villages do not believe that the crossing opens again before the harvest. "


def compared(first: str, second: str, titles: tuple[str, str] = ("", "")) -> tuple[Comparison, Comparison]:
    return compare_items(*(Item("", title, text, "", 0) for title, text in zip(titles, (first, second), strict=True)))


def marked(first: str, second: str) -> tuple[list[str], ...]:
    """What is marked in either text."""
    return tuple([words.strip() for words, differs in side if differs] for side in compared(first, second)[1].sides())


def test_a_word_in_the_place_of_another_is_marked_in_both_texts() -> None:
    assert marked(FERRY, FERRY.replace("38", "83")) == (["38"], ["83"])
    assert marked(FERRY, FERRY.replace("taken out of", "back in")) == (["taken out of"], ["back in"])


def test_new_and_lost_sentences_are_marked() -> None:
    assert marked(FERRY + FARMERS, FERRY + BUS + FARMERS) == ([], [BUS.strip()])
    assert marked(FERRY + BUS + FARMERS, FERRY + FARMERS) == ([BUS.strip()], [])


def test_a_moved_paragraph_is_in_both() -> None:
    assert marked(FERRY + BUS + FARMERS, FARMERS + FERRY + BUS) == ([], [])
    first, second = FERRY + BUS + FARMERS, FARMERS.replace("not ", "") + BUS + FERRY
    assert marked(first, second) == (["not"], []), "what is lost in it is marked at its place"
    of_first, of_second = compared(first, second)[1].sides()
    assert ("".join(words for words, _ in of_first), "".join(words for words, _ in of_second)) == (first, second)


def test_case_typography_and_punctuation_are_no_difference() -> None:
    assert marked("“Don’t worry,” she SAID — twice", "don't WORRY she said: ｔｗｉｃｅ") == ([], [])


def test_chinese_goes_by_character() -> None:
    assert marked("新华社北京今天电讯上海消息", "新华社北京昨天电讯上海消息") == (["今"], ["昨"])


def test_texts_without_a_run_of_four_words_have_nothing_in_common() -> None:
    texts = "The price of the corn rose to a height of two crowns", "A mayor of some town in the north said to us"
    assert [p.where for p in compared(*texts)[1].passages] == [Side.FIRST, Side.SECOND]


def test_headlines_are_compared_by_their_words() -> None:
    headlines = compared(FERRY, FERRY, ("Elm ferry stopped: 38 million", "Ferry stopped on the Elm, 38 million"))[0]
    assert [[words for words, differs in side if differs] for side in headlines.sides()] == [[], ["on the "]]


def test_words_of_the_earlier_headline_are_known() -> None:
    headline = "Council of Lindra pays for a new bus"
    found = compared(FERRY, f"{headline}. {FERRY}", (headline, headline))[1]
    assert [(p.where, bool(p.first), p.words) for p in found.passages] == [(Side.BOTH, False, 8), (Side.BOTH, True, 35)]


def test_a_last_line_that_names_the_site_is_part_of_the_word_before_it() -> None:
    item = Item("", "", f"{FERRY}\nRead more on Harbor Post.", "harborpost.example", 0)
    (passage,) = compare_items(Item("", "", FERRY, "", 0), item)[1].passages
    assert (passage.where, passage.words, passage.second) == (Side.BOTH, 35, item.text)


NEWS = {
    "a sentence": FERRY + BUS + FARMERS + "Two dozen fishermen blocked a road near Alder because nobody asked them.",
    "words in the place of others": (FERRY + BUS + FARMERS).replace("northern bridge", "old town hall"),
    "a figure": (FERRY + BUS + FARMERS).replace("38 million", "83 million"),
    "letters behind a digit": FERRY + BUS + FARMERS + "ويكلف الجسر الجديد 40عاما من العمل حتى الان بحسب المجلس.",
}


@pytest.mark.parametrize("text", NEWS.values(), ids=NEWS)
def test_what_an_update_adds_is_marked(text: str) -> None:
    items = [
        Item(str(n), f"Elm ferry {n}", one, f"{n}.example", 1_700_000_000_000 + n)
        for n, one in enumerate((FERRY + BUS + FARMERS, text))
    ]
    with Decider(load_settings(decision={"novelty": 0.0})) as dedup:
        verdict = dedup.judge(items).verdicts[1]
    assert verdict.evidence is not None
    assert verdict.evidence.adds
    (new,) = marked(items[0].text, text)[1]
    assert new.rstrip(".") in verdict.evidence.adds


@pytest.mark.parametrize("seed", range(40))
def test_the_partners_are_those_of_the_specification(seed: int) -> None:
    draw, scheme = random.Random(seed), Scheme(FingerprintSettings())
    first = article(draw, "a", length=draw.randrange(1, 12))
    second = edited(draw, first, "b", 0) if seed % 4 else article(draw, "b")
    known, own = fingerprint(first, scheme), fingerprint(second, scheme)
    diff, passages = diff_of(own, known), compare_items(first, second)[1].passages
    partners, start, known_start = (diff.partners, diff.start, diff.known_start) if diff else ({}, 0, 0)
    places = [p.at + k if p.first else None for p in passages if p.second for k in range(p.words)]
    expected = [partners.get(i, -1) - known_start for i in range(start, len(own.codes))]
    assert places == [place if place >= 0 else None for place in expected]
    is_new = [p.where is Side.SECOND for p in passages if p.second for _ in range(p.words)]
    assert is_new == [i not in partners for i in range(start, len(own.codes))]
    lost = [p.at + k for p in passages if p.where is Side.FIRST for k in range(p.words)]
    used = {place - known_start for place in partners.values()}
    assert sorted(lost) == [j for j in range(len(known.codes) - known.headline_codes) if j not in used]


@pytest.mark.parametrize("seed", range(20))
def test_segments_joined_are_the_texts(seed: int) -> None:
    draw = random.Random(seed)
    letters = [
        "one",
        "two",
        "the",
        " ",
        ", ",
        "\n",
        "“",
        "新",
        "ไ",
        "\u200b",
        "\x1b[1m",
        "’s",
        "é",
        "\ud800",
        "🚢",
        "½",
    ]
    texts = ["x" + "".join(draw.choices(letters, k=60)) for _ in range(2)]
    for found in compared(texts[0], texts[1], (texts[0], texts[1])):
        assert ["".join(words for words, _ in side) for side in found.sides()] == texts


def test_long_texts_are_compared_whole_and_of_huge_ones_the_beginning() -> None:
    words = [f"w{n}" for n in range(3000)]
    first, second = (random.Random(seed).choices(words, k=5_000) for seed in (1, 2))
    assert not compared(" ".join(first), " ".join(second))[1].cut
    huge = compared(" ".join(first * 4), " ".join(first * 4 + second))[1]
    assert huge.cut
    assert [(p.where, p.words) for p in huge.passages] == [(Side.BOTH, MOST_SEQUENCE)]


@pytest.mark.parametrize("text", ["?!", "ﷺ" * 20_000], ids=["no words", "more words than seen"])
def test_a_text_without_a_sequence_is_shown_and_marked(text: str) -> None:
    assert marked(FERRY, text) == ([FERRY.strip()], [text])
