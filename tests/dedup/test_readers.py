"""What a reader of a feed expects, story by story; articles have the length of real ones."""

import pytest

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.news.item import Item
from tests.dedup import world
from tests.dedup.world import HOUR, START, told

TITLE = "Harbour Town closes its old ferry after cracks are found in the hull"
STORY = [
    "The old ferry between the two banks of the Elm was taken out of service on Monday morning, after engineers had "
    "found 7 cracks in its hull during a routine check.",
    "Some 400 people use the crossing every day to reach the market and the school, according to the town hall.",
    'Mayor Ruth Ferrer said that safety came first. "Nobody wants to explain to parents why a boat with cracks was '
    'still running," she told reporters on the quay.',
    "Until a replacement arrives from the coast, buses will run every 20 minutes over the northern bridge, and the "
    "fare will stay the same.",
    "Shopkeepers on the eastern bank fear for their Christmas trade and ask for free parking near the market.",
    "The ferry was built in 1961 and rebuilt twice, the last time after a collision with a coal barge.",
    "The council will meet on Thursday to discuss the cost of the repair, which is put at 2 million crowns.",
]
LATER = [
    "The shipyard in Alder Falls, which inspected the vessel on Tuesday, reported corrosion along the keel as well and "
    "advised against any repair.",
    "A new boat would cost about 9 million crowns and take 14 months to build, its director Piet Holm wrote.",
    "The opposition demanded an inquiry into why the annual inspections of the past decade had missed the damage.",
    "The county offered a loan without interest, provided that the council decides before the end of the year.",
]
ARTICLE, GROWN = " ".join(STORY), " ".join([*LATER[:2], *STORY[:4], *LATER[2:], *STORY[4:]])


def item(name: str, text: str, hour: float = 0, source: str = "", title: str = TITLE) -> Item:
    return Item(name, title, text, source or f"{name}.example", START + int(hour * HOUR))


def judged(*items: Item) -> list[Verdict]:
    return world.judged(Deduplicator(), items)


IN_WORDS = {"7": "seven", "400": "four hundred", "20": "twenty", "2": "two"}
REWORDED = {
    "was taken out of service": "has been withdrawn",
    "during a routine check": "in a regular inspection",
    "Some": "About",
    "according to the town hall": "the town hall says",
    "safety came first": "safety has priority",
    "replacement": "substitute",
    "fear for": "worry about",
    "to discuss the cost of the repair": "to talk about the repair costs",
}


def replaced(text: str, words: dict[str, str]) -> str:
    for one, other in words.items():
        text = text.replace(f" {one} ", f" {other} ") if one.isdigit() else text.replace(one, other)
    return text


@pytest.mark.parametrize(
    ("why", "text", "title", "source"),
    [
        ("one site, the same text, another headline", ARTICLE, "Elm crossing shut for weeks", "first.example"),
        (
            "one site, a word changed, another headline",
            ARTICLE.replace("old", "ageing", 1),
            "Elm crossing shut for weeks",
            "first.example",
        ),
        ("numbers in words", replaced(ARTICLE, IN_WORDS), TITLE, ""),
        ("reworded, numbers in words", replaced(replaced(ARTICLE, IN_WORDS), REWORDED), TITLE, ""),
        ("reworded, another headline", replaced(ARTICLE, REWORDED), "Cracks stop the ferry over the Elm", ""),
        ("its first sentences, another headline", " ".join(STORY[:4]), "Elm crossing shut for weeks", ""),
        ("condensed, another headline", " ".join([*STORY[:2], STORY[3], STORY[6]]), "Cracks stop the Elm ferry", ""),
        ("the end of it, another headline", " ".join(STORY[3:]), "Buses replace the ferry over the Elm", ""),
        ("a site's suffix and a byline", f"By our reporter. {ARTICLE}", f"{TITLE} - Elm Gazette", ""),
        ("an added tail", f"{ARTICLE} {STORY[0]} Read more about it in our weekend edition.", TITLE, ""),
        ("with a menu round it", "Home\nNews\nSport\nWeather\n" * 9 + ARTICLE + "\nShare\nPrint\nAbout us", TITLE, ""),
        ("digits of another script", ARTICLE.translate(str.maketrans("0123456789", "०१२३४५६७८९")), TITLE, ""),
    ],
)
def test_a_copy_is_held_back(why: str, text: str, title: str, source: str) -> None:
    first, copy = judged(item("first", ARTICLE), item("copy", text, 3, source, title))
    assert told([first, copy]) == [("unique", None), ("duplicate", "first")], why


@pytest.mark.parametrize(
    ("why", "text", "title", "hour"),
    [
        ("what the shipyard found", GROWN, TITLE, 26),
        ("what the shipyard found, without the beginning", " ".join([*LATER, *STORY[3:]]), "Ferry beyond repair", 26),
        ("the story of another ferry", " ".join(LATER), "Yard advises against repair of the Linden ferry", 2),
    ],
)
def test_something_new_is_let_through(why: str, text: str, title: str, hour: float) -> None:
    assert judged(item("first", ARTICLE), item("later", text, hour, "", title))[1].forward, why


def test_a_story_that_grows_is_an_update_once_and_its_copies_name_it() -> None:
    verdicts = judged(
        item("first", ARTICLE),
        item("copy", replaced(ARTICLE, REWORDED), 2),
        item("grown", GROWN, 26, "first.example"),
        item("grown copy", GROWN.replace("Tuesday", "Tues."), 27),
        item("grown, other headline", GROWN, 28, "", "Ferry over the Elm is beyond repair"),
        item("grown, cut", " ".join([*LATER[:2], *STORY[:4], LATER[2]]), 29),
        item("late copy of the first", ARTICLE, 30),
    )
    assert told(verdicts) == [
        ("unique", None),
        ("duplicate", "first"),
        ("update", "first"),
        *[("duplicate", "grown")] * 3,
        ("duplicate", "first"),
    ]


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0)])
def test_whichever_copy_comes_first_is_the_original(order: tuple[int, ...]) -> None:
    texts = [ARTICLE, replaced(ARTICLE, IN_WORDS), f"{ARTICLE} Read more on our site."]
    items = [item(f"n{n}", texts[n], hour) for hour, n in enumerate(order)]
    first = f"n{order[0]}"
    assert told(judged(*items)) == [("unique", None), ("duplicate", first), ("duplicate", first)]
