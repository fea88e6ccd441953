"""Edits do what they say, equally for equal seeds, and say None where they do not apply. All texts are made up."""

import random
import re
from random import Random
from typing import Any

import pytest

from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from tests.figures import edits
from tests.figures.copy_edits import COPIES
from tests.figures.edits import KINDS, NEWS, Edit, Judged, edited, judged
from tests.figures.news_edits import Made
from tests.figures.stories import PHRASES, Pool, Story, another_number, with_swapped

_HEADS = ["ba", "ke", "li", "mo", "nu", "ra", "se", "ti", "vo", "zu", "pra", "gle"]
_TAILS = ["dan", "mer", "lok", "sti", "fen", "gur", "hal"]
_BRIDGE = """Fire at Tarnow mill kills 12 workers on Friday as Vessin leads rescue
A fire at the old mill in Tarnow killed 12 workers on Friday, said chief Mara Vessin of the rescue service.
Vessin said that 1,400 people had left their homes, and two streets were closed for the night.
"We will rebuild the mill before the winter comes," said Vessin to the people of Tarnow.
The mill was built ninety years ago and burned once before, when a lamp fell into the straw.
The owner of the mill did not answer the questions that reporters asked him in the evening.
The price of flour rose by 4.25 percent in the valley, as dealers feared that none would be left."""


def record(name: str, title: str, text: str, lang: str = "en") -> dict[str, Any]:
    return {"id": name, "title": title, "text": text, "source": f"{name}.example", "lang": lang}


def made_up(number: int, quote: str = "") -> dict[str, Any]:
    """A story of words that no other has, beside some that all have."""
    chance = random.Random(number)
    own = ["".join((chance.choice(_HEADS), chance.choice(_TAILS), chance.choice(_TAILS))) for _ in range(60)]
    names = [word.title() + "o" for word in own]

    def said() -> str:
        words = " ".join(chance.sample(own, 7))
        return f"The {own[0]} of {chance.choice(names[:4])} and the {words} for {chance.randrange(20, 99)} of them."

    title = f"The {own[0]} of {names[0]} and {own[2]} {own[3]}"
    text = "\n".join(
        [f"{quote}The {own[0]} of {names[0]} and the {own[2]} {own[3]} are there.", *(said() for _ in range(9))]
    )
    return record(f"m{number}", title, text)


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    title, _, text = _BRIDGE.partition("\n")
    return [record("mill", title, text), *map(made_up, range(60))]


@pytest.fixture(scope="module")
def pool(records: list[dict[str, Any]]) -> Pool:
    return Pool(records)


@pytest.fixture(scope="module")
def mill(pool: Pool) -> Story:
    return pool.stories[0]


def made(kind: str, story: Story, pool: Pool, seed: int = 1) -> Made:
    edit = KINDS[kind](story, pool, Random(seed))
    assert edit is not None
    return edit


# -- news -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "count"), [("append_one", 1), ("append", 2)])
def test_sentences_of_one_other_story_are_appended(kind: str, count: int, mill: Story, pool: Pool) -> None:
    edit = made(kind, mill, pool)
    assert edit.title == mill.title
    added = edit.text.removeprefix(mill.text + "\n")
    assert added.count(".") == count
    assert sum(added in " ".join(other.prose[:5]) for other in pool.stories) == 1


def test_a_lead_brings_its_headline(mill: Story, pool: Pool) -> None:
    edit = made("lead", mill, pool)
    lead, _, rest = edit.text.partition("\n")
    assert rest == mill.text
    assert [lead in " ".join(other.prose[:5]) for other in pool.stories if other.title == edit.title] == [True]


def test_a_figure_changes_in_headline_and_text(mill: Story, pool: Pool) -> None:
    edit = made("figure", mill, pool)
    [new] = re.findall(r"kills (\d\d) workers", edit.title)
    assert new != "12"
    assert edit.text == mill.text.replace("12", new)
    assert not edit.same_site
    assert made("figure_same_site", mill, pool).same_site


def test_a_figure_of_the_text_changes_there_alone(mill: Story, pool: Pool) -> None:
    edit = made("figure_text", mill, pool)
    assert edit.title == mill.title
    assert re.fullmatch(re.escape(mill.text).replace("1,400", r"\d,\d00"), edit.text)
    assert edit.text != mill.text


def test_a_form_is_filled_in_anew(mill: Story, pool: Pool) -> None:
    edit = made("form", mill, pool)
    assert not re.search("Tarnow|Vessin|Mara|12|1,400|4.25", edit.title + edit.text)
    assert "A fire at the old mill in" in edit.text


def test_a_name_is_swapped_throughout(mill: Story, pool: Pool) -> None:
    edit = made("name", mill, pool)
    gone = [name for name in ("Tarnow", "Vessin") if name not in edit.title + edit.text]
    assert len(gone) == 1
    assert edit.text.count("Tarnow") + edit.text.count("Vessin") in (2, 3), "the other name stays"


def test_two_names_change_places() -> None:
    title, text = "Tarnow defeats Vessin in the last minute", "Tarnow won. Vessin lost to Tarnow, and Vessin wept."
    story = Story.of(record("cup", title, "\n".join([text, *_BRIDGE.splitlines()[1:]]).replace("Mara ", "")))
    crowd = Pool([dict(story.record), *map(made_up, range(60))])
    edit = made("order", story, crowd)
    assert edit.title == "Vessin defeats Tarnow in the last minute"
    assert edit.text.startswith("Vessin won. Tarnow lost to Vessin, and Tarnow wept.")


def test_a_day_changes_in_headline_and_text(mill: Story, pool: Pool) -> None:
    edit = made("date", mill, pool)
    assert "Friday" not in edit.title + edit.text
    day = re.search(r"\w+day", edit.title)
    assert day
    assert f"on {day[0]}, said" in edit.text


def test_a_verdict_is_negated_in_headline_and_text(pool: Pool) -> None:
    title, lead = (
        "Baker Vessin was found guilty of arson",
        "Baker Vessin was found guilty of arson by the jury on Monday.",
    )
    story = Story.of(record("jury", title, "\n".join([lead, *_BRIDGE.splitlines()[1:]])))
    edit = made("negation", story, pool)
    assert edit.title == "Baker Vessin was found not guilty of arson"
    assert edit.text == story.text.replace("found guilty", "found not guilty")


def test_a_correction_changes_a_number_and_says_so(mill: Story, pool: Pool) -> None:
    edit = made("correction", mill, pool)
    *_, note = edit.text.splitlines()
    old, new = re.findall(r"\d[\d.,]*\d", note)
    assert note == PHRASES["en"]["correction"].format(old=old, new=new)
    assert edit.text == mill.text.replace(old, new) + "\n" + note


def test_an_amount_keeps_its_first_digit(pool: Pool) -> None:
    text = "\n".join([*_BRIDGE.splitlines()[-1:], *_BRIDGE.splitlines()[1:-1]])
    story = Story.of(record("rise", "Flour price rises by 4.25 percent", text))
    assert re.search(r"by 4\.[^2]5 percent", made("amount", story, pool).title)


def test_half_of_another_story_follows_under_its_headline(mill: Story, pool: Pool) -> None:
    edit = made("half", mill, pool)
    [other] = [other for other in pool.stories if other.title == edit.title]
    assert edit.text == " ".join(mill.prose[:3]) + "\n" + " ".join(other.prose[5:])


def test_a_page_of_nine_others_comes_before_a_short_story(mill: Story, pool: Pool) -> None:
    edit = made("swallow", mill, pool)
    [(title, page)] = edit.earlier
    assert edit.title == title == mill.title
    assert mill.text.startswith(edit.text.split(".")[0])
    assert sum(other.text in page for other in pool.stories) == 9


def test_a_quotation_stands_in_the_middle(mill: Story, pool: Pool) -> None:
    assert NEWS["quote"](mill, pool, Random(1)) is None, "no other story has a quotation"
    quoted = [made_up(n, f'"We have seen {n} of these in all our lives," said the baker.\n') for n in range(60)]
    first, added, last = made("quote", mill, Pool([dict(mill.record), *quoted])).text.splitlines()
    assert re.fullmatch(r'"We have seen \d+ of these .* said the baker\.', added)
    assert f"{first} {last}" == mill.text.replace("\n", " ")


def test_six_sentences_follow_the_lead(mill: Story, pool: Pool) -> None:
    first, added, *rest = made("six_sentences", mill, pool).text.splitlines()
    assert [first, *rest] == mill.text.splitlines()
    assert added.count(".") == 6


def test_half_of_another_story_follows_without_marks(mill: Story, pool: Pool) -> None:
    edit = made("unmarked", mill, pool)
    [(_, before)] = edit.earlier
    assert edit.text.startswith(before)
    assert not re.search(r"[.,\n]", edit.text)
    assert len(edit.text.split()) > 1.2 * len(before.split())


def test_a_site_has_two_headlines_over_one_invitation(mill: Story, pool: Pool) -> None:
    edit = made("paywall", mill, pool)
    [(title, text)] = edit.earlier
    assert title == mill.title != edit.title
    assert text == edit.text == PHRASES["en"]["newsletter"]
    assert edit.same_site


def test_pages_of_random_words_come_before_an_article(mill: Story, pool: Pool) -> None:
    sizes = set()
    for seed in range(12):
        edit = made("filler", mill, pool, seed)
        assert (edit.title, edit.text) == (mill.title, mill.text)
        assert {title for title, _ in edit.earlier} == {mill.title}
        sizes |= {len(text.split()) for _, text in edit.earlier}
    assert len(sizes) > 1
    assert sizes <= {300, 2_000, 9_000, 60_000}


def test_pages_of_random_words_have_the_anchors_of_a_footer(mill: Story, pool: Pool) -> None:
    edit = made("footer", mill, pool)
    end = PHRASES["en"]["newsletter"]
    assert edit.text == f"{mill.text}\n{end}"
    assert len(edit.earlier) == 12
    make = Fingerprinter(Scheme(load_settings().fingerprint))
    keys = make([Item("", "", text, "", 0) for text in (end, *(page for _, page in edit.earlier))]).keys
    assert (keys[1:, 0] == keys[0, 0]).all()


# -- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        ("affixes", r"BREAKING: {title} \| .*\n{text}"),
        ("site_suffix", r"{title} - [\w. ]+\n{text}"),
        ("teasers", r"{title}\n{text}\nRelated(\nThe [^.\n]+){{6}}"),
        ("byline", r"{title}\nBy [\w ,]+\n{text}"),
        ("dateline", r"{title}\n[A-Z]+ \(\w+\) — {text}"),
        ("read_more", r"{title}\n{text}\nRead more at other\.example"),
        ("doubled", r"{title}\n{text}\n{text}"),
    ],
)
def test_what_surrounds_a_copy_leaves_it_whole(kind: str, pattern: str, mill: Story, pool: Pool) -> None:
    edit = made(kind, mill, pool)
    whole = pattern.format(title=re.escape(mill.title), text=re.escape(mill.text))
    assert re.fullmatch(whole, f"{edit.title}\n{edit.text}")


@pytest.mark.parametrize(("kind", "lines"), [("credit", 1), ("newsletter", 1)])
def test_a_line_inside_a_copy_is_all_that_is_added(kind: str, lines: int, mill: Story, pool: Pool) -> None:
    added = [line for line in made(kind, mill, pool).text.splitlines() if line not in mill.text]
    assert added == [PHRASES["en"][kind]]


def test_the_last_quarter_is_cut(mill: Story, pool: Pool) -> None:
    edit = made("cut", mill, pool)
    assert mill.text.startswith(edit.text)
    assert 0.5 * len(mill.text) < len(edit.text) <= 0.75 * len(mill.text)


def test_the_last_sentence_breaks_off(mill: Story, pool: Pool) -> None:
    edit = made("ellipsis", mill, pool)
    assert edit.text.endswith("…")
    assert mill.text.startswith(edit.text.removesuffix("…"))


def test_paragraphs_change_places_behind_the_first(mill: Story, pool: Pool) -> None:
    before, after = mill.text.splitlines(), made("paragraphs", mill, pool).text.splitlines()
    assert before[0] == after[0]
    assert before != after
    assert sorted(before) == sorted(after)


def test_a_headline_loses_small_words_alone(mill: Story, pool: Pool) -> None:
    title = "The mill of Tarnow burns and the Vessin rescue leads"
    left = made("headline", Story.of(record("h", title, mill.text)), pool).title.split()
    lost = [word for word in title.split() if word not in left]
    assert left != title.split()
    assert not set(lost) - {"the", "of", "and"}


def test_typography_changes_marks_and_capitals_alone(mill: Story, pool: Pool) -> None:
    edit = made("typography", mill, pool)
    assert edit.text != mill.text
    assert re.findall(r"\w+", edit.text) == re.findall(r"\w+", mill.text)
    assert edit.title.lower() == mill.title.lower().replace(" 12 ", "\u00a012\u00a0")


@pytest.mark.parametrize(("lang", "text", "written"), [("ar", "أحمد على", "احمد علي"), ("fa", "می\u200cکند", "مي كند")])
def test_letters_are_written_in_another_way(lang: str, text: str, written: str, pool: Pool) -> None:
    assert made("script", Story.of(record("s", "-", text, lang)), pool).text == written


def test_a_headline_without_a_text_gets_other_affixes(mill: Story, pool: Pool) -> None:
    edit = made("headline_alone", mill, pool)
    assert edit.earlier == ((f"{mill.title} - The Elm Gazette", ""),)
    assert (edit.title, edit.text) == (f"BREAKING: {mill.title}", "")


def test_numbers_are_spelt(pool: Pool) -> None:
    def spelt(text: str) -> str | None:
        edit = COPIES["spelt_numbers"](Story.of(record("n", "A title", text)), pool, Random(1))
        return edit and edit.text

    assert spelt("They met 7 times and won 2-1.") == "They met seven times and won 2-1."
    assert spelt("They met seven times in all.") == "They met 7 times in all."
    assert spelt("It rose by 7 % on 7 May.") is None


def test_thousands_are_set_apart_otherwise(mill: Story, pool: Pool) -> None:
    assert re.fullmatch(re.escape(mill.text).replace("1,400", "1\u202f?400"), made("thousands", mill, pool).text)


def test_a_surname_gets_a_title(mill: Story, pool: Pool) -> None:
    edit = made("honorifics", mill, pool)
    assert edit.text == mill.text.replace("said Vessin to", "said Mr. Vessin to")


# -- where an edit does not apply ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "figure",
        "figure_text",
        "amount",
        "name",
        "order",
        "date",
        "negation",
        "correction",
        "spelt_numbers",
        "thousands",
    ],
)
def test_an_edit_that_has_nothing_to_change_is_none(kind: str, pool: Pool) -> None:
    text = "\n".join(f"they say that the {word} of the valley seems as good as ever and more." for word in _TAILS)
    assert (
        KINDS[kind](Story.of(record("none", "all seems as good as ever in the valley", text)), pool, Random(1)) is None
    )


@pytest.mark.parametrize(
    "title",
    [
        "Watch Season 12 of Tarnow",
        "12 Best Mills of Tarnow",
        "Tarnow wins on A12 road",
        "Tarnow in 2012",
        "It is 12:30",
    ],
)
def test_numbers_that_count_nothing_are_no_figures(title: str, mill: Story, pool: Pool) -> None:
    assert NEWS["figure"](Story.of(record("t", title, mill.text)), pool, Random(1)) is None


# -- all together -----------------------------------------------------------------------------------------------------


def test_equal_seeds_make_equal_edits_of_another_site(records: list[dict[str, Any]]) -> None:
    found = list(edited(records, KINDS, 7, 2, "made up"))
    assert found == list(edited(records, KINDS, 7, 2, "made up"))
    assert found != list(edited(records, KINDS, 8, 2, "made up"))
    of_one_site = {"figure_same_site", "figure_version", "paywall"}
    for edit in found:
        source, name = edit.earlier[0]["source"], edit.earlier[0]["id"]
        assert (edit.later["id"] == name) is (edit.kind == "figure_version")
        assert (edit.later["source"] == source) is (edit.kind in of_one_site)
        assert edit.truth == ("news" if edit.kind in NEWS else "copy")
        assert edit.source_corpus == "made up"
    assert {edit.kind for edit in found} >= {"append", "lead", "half", "figure_text", "form", "cut", "doubled"}
    assert max(sum(edit.kind == kind for edit in found) for kind in KINDS) == 2


def test_scripts_without_capitals_have_names_that_recur() -> None:
    text = "पोखरा नगरमा आगो लाग्यो भन्ने खबर आज बिहान सबैले थाहा पाए। पोखरा नगरका १२ जना घाइते भए भनी प्रहरीले जनायो।"
    story = Story.of(record("ne", "पोखरा नगरमा आगो, १२ घाइते", text, "nepali"))
    crowd = Pool([dict(story.record)])
    assert "पोखरा" in crowd.names(story)
    assert with_swapped(text, {"पोखरा": "धरान"}).count("धरान") == 2
    assert re.fullmatch("[०-९]{2}", another_number("१२", Random(1)))


def test_edits_are_judged_apart_from_each_other(records: list[dict[str, Any]], pool: Pool) -> None:
    copies = list(edited(records, ["doubled", "site_suffix"], 1, 3))
    news = [
        Edit("other", "news", "en", [records[0]], {**records[n], "id": f"n{n}", "source": "other.example"}, "")
        for n in (5, 5)
    ]
    settings = {"no": load_settings(decision={"novelty": 0.0}), "yes": load_settings(decision={"novelty": 0.4})}
    found = list(judged(pool, [*copies, *news], settings))
    assert [one.held["yes"] for one in found] == [True] * 6 + [False] * 2
    assert sum(one.held["no"] for one in found) < 6, "equal words alone are held at a novelty of 0"


def test_counts_are_rendered_by_kind_and_language() -> None:
    def one(kind: str, language: str, *, is_held: bool) -> Judged:
        return Judged(Edit(kind, "", language, [], {}, ""), {"balanced": is_held, "eager": True}, None)

    found = [one("figure", "en", is_held=True), one("figure", "de", is_held=False), one("cut", "en", is_held=True)]
    counted = edits.counts(found)
    assert counted["balanced"] == {"figure": {"en": [1, 1], "de": [0, 1]}, "cut": {"en": [1, 1]}}
    what = "A number of the headline changed, there and in the text"
    assert f"| {what} | news | 2 | .50 | 1.0 |" in edits.by_name(counted)
    assert edits.by_language(counted["balanced"]).splitlines()[2:] == [
        "| figure | 1.0 | .00 |",
        "| cut | 1.0 | – |",
        "| **all news** | 1.0 | .00 |",
        "| **all copies** | 1.0 | – |",
    ]


def test_quality_and_promises_count_news_alone_by_row() -> None:
    """A language without a row of its own stands in the last one."""
    counts = {"en": [1, 2], "de": [0, 1], "zh": [0, 1], "ne": [1, 1], "it": [1, 4], "fa": [0, 1]}
    counted = {name: {"figure": counts, "cut": {"en": [9, 9]}} for name in edits.EDITED}
    rate = {"missed": 0.02, "repeated": 0.1}
    assert edits.held_of_news(counted["balanced"]) == 0.3
    assert edits.quality(dict.fromkeys(edits.LANGUAGES, rate), counted["balanced"]).splitlines()[2:] == [
        "| English | .020 | .100 | .50 |",
        "| German | .020 | .100 | .00 |",
        "| Chinese | .020 | .100 | .00 |",
        "| Nepali | .020 | .100 | 1.0 |",
        "| nine others | .020 | .100 | .20 |",
    ]
    rows = edits.names(dict.fromkeys(edits.EDITED, rate), counted).splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == ["| `cautious`", "| `balanced`", "| `eager`"]
    assert all(row.endswith(". | .30 | – | .30 | – | – | .020 | .100 |") and "Measured" not in row for row in rows)
