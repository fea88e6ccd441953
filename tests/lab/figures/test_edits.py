"""An edit changes exactly what it says, equally for equal seeds, or is None. All texts are made up."""

import random
import re
from random import Random
from typing import Any

import pytest

from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from tests.lab.figures import edits, languages
from tests.lab.figures.edits import KINDS, NEWS, Edit, edited, judged
from tests.lab.figures.news_edits import Made
from tests.lab.figures.stories import PHRASES, Pool, Story, another_number, with_swapped

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


S = r"[^.\n]+\."  # a sentence
MILL_TITLE, _, MILL_TEXT = _BRIDGE.partition("\n")
OTHER_LINES = "\n".join(_BRIDGE.splitlines()[1:])


def swapped(old: str, new: str, name: str = "new") -> str:
    """A pattern of the story with other words, the same ones wherever the old ones stood. `name`: of its group."""
    first, *rest = re.escape(_BRIDGE).split(re.escape(old))
    return first + f"(?P<{name}>(?!{re.escape(old)}){new})" + f"(?P={name})".join(rest)


ALL, TITLE, TEXT = map(re.escape, (_BRIDGE, MILL_TITLE, MILL_TEXT))
FIRST, _, REST = TEXT.partition("\\\n")
# Kind, what the edited headline and text match, and the story, if it is another one: headline, text, language.
EDITS: list[tuple[str, str, tuple[str, ...]]] = [
    ("append_one", rf"{ALL}\n{S}", ()), ("append", rf"{ALL}\n{S} {S}", ()),
    ("lead", rf"The [^\n]+\n{S} {S}\n{TEXT}", ()),
    ("six_sentences", rf"{TITLE}\n{FIRST}\n{S} {S} {S} {S} {S} {S}\n{REST}", ()),
    ("figure", swapped("12", r"\d\d"), ()), ("figure_same_site", swapped("12", r"\d\d"), ()),
    ("figure_text", swapped("1,400", r"\d,\d00"), ()), ("date", swapped("Friday", r"\w+day"), ()),
    ("name", f"{swapped('Tarnow', '[A-Z][a-z]+')}|{swapped('Vessin', '[A-Z][a-z]+', 'other')}", ()),
    ("form", r"(?!(?s:.*)(Tarnow|Vessin|Mara|12|1,400|4\.25))[^\n]+\nA fire at the old mill in (?s:.*)", ()),
    ("order", r"Vessin defeats Tarnow in the last minute\nVessin won\. Tarnow lost to Vessin, and Tarnow wept\.(?s:.*)",
     ("Tarnow defeats Vessin in the last minute",
      "Tarnow won. Vessin lost to Tarnow, and Vessin wept.\n" + OTHER_LINES.replace("Mara ", ""))),
    ("negation", r"Baker Vessin was found not guilty of arson\nBaker Vessin was found not guilty of arson by (?s:.*)",
     ("Baker Vessin was found guilty of arson",
      "Baker Vessin was found guilty of arson by the jury on Monday.\n" + OTHER_LINES)),
    ("amount", r"Flour price rises by 4\.[^2]5 percent\n(?s:.*)",
     ("Flour price rises by 4.25 percent", "\n".join([*_BRIDGE.splitlines()[-1:], *_BRIDGE.splitlines()[1:-1]]))),
    ("affixes", rf"BREAKING: {TITLE} \| .*\n{TEXT}", ()), ("site_suffix", rf"{TITLE} - [\w. ]+\n{TEXT}", ()),
    ("teasers", rf"{ALL}\nRelated(\nThe [^.\n]+){{6}}", ()), ("byline", rf"{TITLE}\nBy [\w ,]+\n{TEXT}", ()),
    ("dateline", rf"{TITLE}\n[A-Z]+ \(\w+\) — {TEXT}", ()), ("read_more", rf"{ALL}\nRead more at other\.example", ()),
    ("doubled", rf"{ALL}\n{TEXT}", ()), ("credit", rf"{TITLE}\n{FIRST}\nPhoto: [^\n]+\n{REST}", ()),
    ("ellipsis", rf"{TITLE}\n{re.escape(MILL_TEXT[:-60])}[^\n]*…", ()),
    ("cut", rf"{TITLE}\n{re.escape(MILL_TEXT[: len(MILL_TEXT) // 2])}[^\n]*(\n[^\n]+)?", ()),
    ("headline", r"[Tt]?h?e? ?mill (of )?Tarnow burns (and )?(the )?Vessin rescue leads\n" + TEXT,
     ("The mill of Tarnow burns and the Vessin rescue leads", MILL_TEXT)),
    ("script", "-\nاحمد علي", ("-", "أحمد على", "ar")), ("script", "-\nمي كند", ("-", "می\u200cکند", "fa")),
    ("spelt_numbers", r"-\nThey met seven times and won 2-1\.", ("-", "They met 7 times and won 2-1.")),
    ("spelt_numbers", r"-\nThey met 7 times in all\.", ("-", "They met seven times in all.")),
    ("thousands", swapped("1,400", "1\u202f?400"), ()),
    ("honorifics", swapped("said Vessin to", r"said Mr\. Vessin to"), ()),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "pattern", "story"), EDITS)
def test_an_edit_changes_what_it_says(kind: str, pattern: str, story: tuple[str, ...], mill: Story, pool: Pool) -> None:
    edit = made(kind, Story.of(record("other", *story)) if story else mill, pool)
    assert re.fullmatch(pattern, f"{edit.title}\n{edit.text}")
    assert edit.same_site == (kind == "figure_same_site")


def test_a_correction_changes_a_number_and_says_so(mill: Story, pool: Pool) -> None:
    edit = made("correction", mill, pool)
    *_, note = edit.text.splitlines()
    old, new = re.findall(r"\d[\d.,]*\d", note)
    assert note == PHRASES["en"]["correction"].format(old=old, new=new)
    assert edit.text == mill.text.replace(old, new) + "\n" + note


def test_another_story_comes_before_or_behind(mill: Story, pool: Pool) -> None:
    half = made("half", mill, pool)
    [other] = [other for other in pool.stories if other.title == half.title]
    assert half.text == " ".join(mill.prose[:3]) + "\n" + " ".join(other.prose[5:])
    swallow = made("swallow", mill, pool)
    [(title, page)] = swallow.earlier
    assert swallow.title == title == mill.title
    assert mill.text.startswith(swallow.text.split(".")[0])
    assert sum(other.text in page for other in pool.stories) == 9
    unmarked = made("unmarked", mill, pool)
    [(_, before)] = unmarked.earlier
    assert unmarked.text.startswith(before)
    assert not re.search(r"[.,\n]", unmarked.text)
    assert len(unmarked.text.split()) > 1.2 * len(before.split())


def test_a_quotation_stands_in_the_middle(mill: Story, pool: Pool) -> None:
    assert NEWS["quote"](mill, pool, Random(1)) is None, "no other story has a quotation"
    quoted = [made_up(n, f'"We have seen {n} of these in all our lives," said the baker.\n') for n in range(60)]
    first, added, last = made("quote", mill, Pool([dict(mill.record), *quoted])).text.splitlines()
    assert re.fullmatch(r'"We have seen \d+ of these .* said the baker\.', added)
    assert f"{first} {last}" == mill.text.replace("\n", " ")


def test_an_earlier_page_has_the_headline_or_the_text_alone(mill: Story, pool: Pool) -> None:
    paywall, alone = made("paywall", mill, pool), made("headline_alone", mill, pool)
    assert paywall.earlier == ((mill.title, PHRASES["en"]["newsletter"]),)
    assert (paywall.title != mill.title, paywall.text, paywall.same_site) == (True, PHRASES["en"]["newsletter"], True)
    assert alone.earlier == ((f"{mill.title} - The Elm Gazette", ""),)
    assert (alone.title, alone.text) == (f"BREAKING: {mill.title}", "")


def test_pages_of_random_words_come_before_an_article(mill: Story, pool: Pool) -> None:
    fillers = [made("filler", mill, pool, seed) for seed in range(12)]
    assert {(edit.title, edit.text) for edit in fillers} == {(mill.title, mill.text)}
    assert {title for edit in fillers for title, _ in edit.earlier} == {mill.title}
    sizes = {len(text.split()) for edit in fillers for _, text in edit.earlier}
    assert len(sizes) > 1
    assert sizes <= {300, 2_000, 9_000, 60_000}
    footer, end = made("footer", mill, pool), PHRASES["en"]["newsletter"]
    assert (footer.text, len(footer.earlier)) == (f"{mill.text}\n{end}", 12)
    make = Fingerprinter(Scheme(load_settings().fingerprint))
    keys = make([Item("", "", text, "", 0) for text in (end, *(page for _, page in footer.earlier))]).keys
    assert (keys[1:, 0] == keys[0, 0]).all(), "the pages have the footer's anchor"


def test_a_copy_keeps_its_words(mill: Story, pool: Pool) -> None:
    before, after = mill.text.splitlines(), made("paragraphs", mill, pool).text.splitlines()
    assert (before[0] == after[0], before != after, sorted(before) == sorted(after)) == (True, True, True)
    edit = made("typography", mill, pool)
    assert edit.text != mill.text
    assert re.findall(r"\w+", edit.text) == re.findall(r"\w+", mill.text)
    assert edit.title.lower() == mill.title.lower().replace(" 12 ", "\u00a012\u00a0")
    added = [line for line in made("newsletter", mill, pool).text.splitlines() if line not in mill.text]
    assert added == [PHRASES["en"]["newsletter"]]


_NOTHING = "\n".join(f"they say that the {word} of the valley seems as good as ever and more." for word in _TAILS)
NOT_APPLICABLE = [
    *((kind, "all seems as good as ever in the valley", _NOTHING) for kind in (
        "figure", "figure_text", "amount", "name", "order", "date", "negation", "correction", "spelt_numbers",
        "thousands",
    )),
    ("spelt_numbers", "A title", "It rose by 7 % on 7 May."),
    # Numbers that count nothing.
    *(("figure", title, MILL_TEXT) for title in (
        "Watch Season 12 of Tarnow", "12 Best Mills of Tarnow", "Tarnow wins on A12 road", "Tarnow in 2012",
        "It is 12:30",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "title", "text"), NOT_APPLICABLE)
def test_an_edit_that_has_nothing_to_change_is_none(kind: str, title: str, text: str, pool: Pool) -> None:
    assert KINDS[kind](Story.of(record("none", title, text)), pool, Random(1)) is None


def test_equal_seeds_make_equal_edits_of_another_site(records: list[dict[str, Any]]) -> None:
    quick = [kind for kind in KINDS if kind != "footer"]
    found, again, other = (list(edited(records, quick, seed, 2, "made up")) for seed in (7, 7, 8))
    assert found == again != other
    of_one_site = {"figure_same_site", "figure_version", "own_version", "paywall"}
    for edit in found:
        source, name = edit.earlier[0]["source"], edit.earlier[0]["id"]
        assert (edit.later["id"] == name) is (edit.kind in ("figure_version", "own_version"))
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


def test_quality_and_promises_count_news_alone_by_row() -> None:
    """A language without a row of its own stands in the last one."""
    counts = {"en": [1, 2], "de": [0, 1], "zh": [0, 1], "ne": [1, 1], "it": [1, 4], "ar": [0, 1], "fa": [0, 1]}
    counted = {name: {"figure": counts, "cut": {"en": [9, 9]}} for name in edits.EDITED}
    rate = {"missed": 0.02, "repeated": 0.1}
    assert edits.held_of_news(counted["balanced"]) == 3 / 11
    assert edits.quality(dict.fromkeys(edits.LANGUAGES, rate), counted["balanced"]).splitlines()[2:] == [
        "| English | .020 | .100 | .50 |",
        "| German | .020 | .100 | .00 |",
        "| Chinese | .020 | .100 | .00 |",
        "| Nepali | .020 | .100 | 1.0 |",
        "| Italian | .020 | .100 | .25 |",
        "| Arabic | .020 | .100 | .00 |",
        "| seven others | .020 | .100 | .00 |",
    ]
    rows = edits.names(dict.fromkeys(edits.EDITED, rate), counted).splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == ["| `cautious`", "| `balanced`", "| `eager`"]
    assert all(row.endswith(". | .27 | – | .27 | – | – | .020 | .100 |") and "Measured" not in row for row in rows)


@pytest.mark.parametrize("language", languages.REPORTS)
def test_a_made_up_report_has_what_its_edits_replace(language: str) -> None:
    one = languages.REPORTS[language]
    assert all(one["rest"].count(one[kind][0]) == 1 and one[kind][1] not in one["rest"] for kind in ("number", "turn"))
    assert one["lead"].count("14") == one["title"].count("14") == 1 == one["title"].count("3")
    edits = languages.NEWS | languages.COPIES
    made = [edits[name](one) for name in edits if name not in ("wrong encoding", "no accents")]
    assert all(len({*reports}) == len(reports) for reports in made)
