"""What a reader expects of a feed, case by case: which items are shown and which are held back."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from tests.dedup.world import BANK, FERRY, HOUR, MENU, OTHER, START, judged, told
from tests.tools.batch.feed import line
from tests.tools.batch.test_keep import kept

# -- stories -----------------------------------------------------------------------------------------------------------

CLOSED = "Harbour Town closes its old ferry after cracks are found in the hull"
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
IN_WORDS = {" 7 ": " seven ", " 400 ": " four hundred ", " 20 ": " twenty ", " 2 ": " two "}
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
FIRE_TITLE = "Warehouse fire in Tarnmoor injures 6"
FIRE = (
    "A fire in a furniture warehouse in Tarnmoor injured 6 people on Wednesday night, the brigade said. Flames were"
    " seen from the opposite bank of the Lune, and residents were told to keep their windows shut. Some 80 "
    "firefighters fought the blaze until the morning. The roof of the building collapsed at about two o'clock. Its "
    "owner, Greta Holmqvist, said that she would rebuild the warehouse."
)
BANKER = "Banker found guilty"
VERDICT = (
    "The appeal court in Tarnmoor found the banker Jonas Weil guilty of forgery on Friday, after a trial of nine "
    "weeks. Prosecutors had accused him of altering the books of a savings bank. Weil, 61, listened without a word "
    "and left by a side door. His wife said that the family would move abroad."
)
NOTE = "Correction: An earlier version of this story gave a wrong age."
RIGHT = VERDICT.replace("61", "63")
MATCH = (
    "{0} defeated {1} in the final of the regional chess cup on Sunday, after a game of five hours. {1} had led the"
    " table since the autumn, and {0} came in as the outsider. Some 200 people followed the game in the town hall, "
    "and the winner receives a cup of silver and a trip to the coast."
)
PAYWALL = (
    "This article is for members only. Choose a plan and get unlimited access to all stories, podcasts and puzzles. "
    "Do you have an account already? Sign in with your e-mail address. You can cancel your membership at any time, and "
    "your first month costs nothing at all."
)
UNMARKED, OTHER_UNMARKED = (re.sub("[.,]", "", text).lower() for text in (OTHER, FIRE))
WATER = "Tarnmoor will charge {} crowns for water from May, after 2.90 crowns this year. " + (
    "The council voted for it on Thursday by a narrow margin. New pipes for the old town cost more than planned, "
    "its treasurer said. The opposition calls the charge a tax on families and wants to go to court."
)
WEATHER = (
    "The warmest December in the history of {0} is behind us. Snow capped roofs are what people dream of, but in {0} "
    "the mildest day brought seventeen degrees, says the weather service in its yearly list. Readers in {0} may send "
    "their own pictures of flowers in bloom to the address below."
)
OPINION = "Why the town should sell its trams"
Story = tuple[str, str]
"""Headline and text."""


def item(name: str, told: Story, hour: float = 0, source: str = "") -> Item:
    return Item(name, *told, source or f"{name}.example", START + int(hour * HOUR))


def two(first: Story, second: Story, source: str = "", hour: float = 2) -> list[Item]:
    """A story, and later another one of another site, or of the same."""
    return [item("first", first, 0, source), item("second", second, hour, source)]


def replaced(text: str, words: dict[str, str]) -> str:
    for one, other in words.items():
        text = text.replace(one, other)
    return text


@dataclass
class Case:
    """Items, and which of them a reader wants to see: + shown, - held back."""

    what: str
    items: list[Item]
    right: str
    decision: dict[str, Any] | None = None


SHUT, ELM = "Elm crossing shut for weeks", "Ferry over the Elm stopped after cracks were found"
COPIES = {
    "numbers in words": (CLOSED, replaced(ARTICLE, IN_WORDS)),
    "reworded, numbers in words": (CLOSED, replaced(replaced(ARTICLE, IN_WORDS), REWORDED)),
    "reworded, another headline": ("Cracks stop the ferry over the Elm", replaced(ARTICLE, REWORDED)),
    "its first sentences, another headline": (SHUT, " ".join(STORY[:4])),
    "condensed, another headline": ("Cracks stop the Elm ferry", " ".join([*STORY[:2], STORY[3], STORY[6]])),
    "the end of it, another headline": ("Buses replace the ferry over the Elm", " ".join(STORY[3:])),
    "a site's suffix and a byline": (f"{CLOSED} - Elm Gazette", f"By our reporter. {ARTICLE}"),
    "an added tail": (CLOSED, f"{ARTICLE} {STORY[0]} Read more about it in our weekend edition."),
    "with a menu round it": (CLOSED, "Home\nNews\nSport\nWeather\n" * 9 + ARTICLE + "\nShare\nPrint\nAbout us"),
    "digits of another script": (CLOSED, ARTICLE.translate(str.maketrans("0123456789", "०१२३४५६७८९"))),
    "menus alone under its headline": (CLOSED, MENU),
}
"""Nothing is new beside the article."""
TOLL = FIRE_TITLE.replace("6", "14"), FIRE.replace("injured 6", "injured 14")
ARRESTED = f"{FIRE} Police arrested a former employee on suspicion of arson, a spokesman said."
NEWS = {
    "what the shipyard found": ((CLOSED, ARTICLE), (CLOSED, GROWN)),
    "what the shipyard found alone": ((CLOSED, ARTICLE), ("Ferry beyond repair", " ".join([*LATER, *STORY[3:]]))),
    "another ferry": ((CLOSED, ARTICLE), ("Yard advises against repair of the Linden ferry", " ".join(LATER))),
    "menus under another headline": ((CLOSED, ARTICLE), ("A boat from the coast arrives", MENU)),
    "another text under menus": ((CLOSED, ARTICLE), (CLOSED, f"{MENU}\n{OTHER}")),
    "a toll": ((FIRE_TITLE, FIRE), TOLL),
    "a price": (("Water costs 3.10", WATER.format("3.10")), ("Water costs 3.60", WATER.format("3.60"))),
    "a note behind it": ((BANKER, VERDICT), (BANKER, f"{RIGHT} {NOTE}")),
    "a note before it": ((BANKER, VERDICT), (BANKER, f"{NOTE} {RIGHT}")),
    "a short note": ((BANKER, VERDICT), (BANKER, f"{RIGHT} Erratum: he is 63.")),
    "an update with another figure": ((BANKER, VERDICT), (f"Update: {BANKER}", RIGHT)),
    "a corrected headline": ((BANKER, VERDICT), (f"{BANKER} (corrected)", RIGHT)),
    "two stories without marks": (("", UNMARKED), ("", f"{UNMARKED} {OTHER_UNMARKED}")),
    "a briefing's headline": (("Morning briefing for today", FERRY), ("Morning briefing for today", OTHER)),
    "who won": (
        ("Corvin beats Alsted", MATCH.format("Corvin", "Alsted")),
        ("Alsted beats Corvin", MATCH.format("Alsted", "Corvin")),
    ),
}
"""Something is new, as two stories of two sites."""
EVACUATE = (
    "Everybody who lives below the church must leave at once and walk up to the school on the hill with warm clothes."
)
OWN = {
    "Tarnmoor": "The river rose by a metre within twenty minutes after the dam of the old mill had burst on Monday.",
    "Lindra": "Rain has fallen on the islands for nine days, and the pumps of the port stopped working before dawn.",
    "Alderfalls": "Melting snow carried trees against the bridge, which held the river back until it fell at noon.",
    "Elmport": "A spring tide met the river in the afternoon, and cellars along the quay filled up to their windows.",
}
GALE = (
    "Gusts of up to force nine are expected along the coast from Sunday noon. Leave your boat in the harbour and close "
    "shutters. Trees may fall on roads. The warning holds until midnight."
)
OUTAGE = (
    "Looking into it - Some customers cannot pay by card in our shops. We are in touch with the bank and will write "
    "again within the hour. Cash is accepted everywhere."
)
FARES = "7:30 Tarnmoor, two boats\n8:15 Elm Island, one boat\n9:00 Alder Falls, two boats"
ONE_SITE = {
    "a warning for another place": (("Gale warning for Tarnmoor", GALE), ("Gale warning for Alderfalls", GALE)),
    "another part of a series": (("Forgotten harbours (2/5)", GALE), ("Forgotten harbours (3/5)", GALE)),
    "an outage that has ended": (
        ("Card payments fail", OUTAGE),
        ("Card payments fail", f"Solved - it works. {OUTAGE}"),
    ),
    "one more row": (("Boats of today", FARES), ("Boats of today", f"{FARES}\n9:45 Lindra, one boat")),
    "a toll": ((FIRE_TITLE, FIRE), TOLL),
    "a corrected headline": ((BANKER, VERDICT), (f"CORRECTED-{BANKER}", RIGHT)),
    "boilerplate under two headlines": ((ELM, MENU * 5), ("Asteroid turns in ninety seconds", MENU * 5)),
    "a template, with words swapped in headline and text": (
        ("The warmest December in Millbrook history", WEATHER.format("Millbrook")),
        ("The warmest December in Pinegrove history", WEATHER.format("Pinegrove")),
    ),
}
"""The same of one site."""
FAIR = (
    "The lantern fair of Tarnmoor opens on Friday evening beside the river. Some bands play on both stages, and the "
    "ferries stop only after midnight."
)
RAIN = (
    "The weather service warns of heavy rain in {}, where the river may leave its bed before the morning. People who "
    "live beside the water should sleep upstairs and take their cars to the market square."
)
GOES_ON = {
    "a first sentence in old words, and a headline": (
        (FIRE_TITLE, FIRE),
        (
            "Warehouse fire in Tarnmoor: walls fall",
            "A wall of the furniture warehouse in Tarnmoor fell where a fire injured 6 people on Wednesday night, the "
            f"brigade said.{FIRE.partition('.')[2]}",
        ),
    ),
    "called off": (
        ("Lantern fair in Tarnmoor opens on Friday", FAIR),
        ("Off: Lantern fair in Tarnmoor opens on Friday", f"{FAIR} The town feared a storm and sent the bands home."),
    ),
    "another place over a cut": (
        ("Flood warning for Elmside tonight", f"{RAIN.format('Elmside')} {EVACUATE}"),
        ("Flood warning for Oakmere tonight", RAIN.format("Oakmere")),
    ),
}
"""The same of another site."""
ONE_EDIT = {
    "a clause put in": {"stay the same": "stay the same, although the county wanted to double it"},
    "a sentence in the place of another": {
        STORY[4]: "Divers who looked below the quay have found the anchor of a barge."
    },
    "another word": {"Shopkeepers": "Fishermen"},
    "another first sentence": {STORY[0]: "Two people drowned when the last boat over the Elm went down in the dark."},
}
"""The article with one edit, under its headline."""
AGAIN = [
    ("a notice", BANK[3], "wire.example", 15, "+-"),
    ("a notice", BANK[3], "wire.example", 24, "++"),
    ("a headline", "", "wire.example", 15, "+-"),
    ("a headline", "", "wire.example", 24, "++"),
    ("a notice of another site", BANK[3], "", 24, "+-"),
    ("an article", FERRY, "wire.example", 24, "+-"),
]
"""The same few words of one source a day later are a new event."""
CASES = [
    *(Case(what, two((CLOSED, ARTICLE), copy), "+-") for what, copy in COPIES.items()),
    Case("one site, another headline", two((CLOSED, ARTICLE), (SHUT, ARTICLE), "a.example"), "+-"),
    Case(
        "one site, a word changed",
        two((CLOSED, ARTICLE), (SHUT, ARTICLE.replace("old", "ageing", 1)), "a.example"),
        "+-",
    ),
    Case("a copy of what was corrected", two((BANKER, f"{RIGHT} {NOTE}"), (BANKER, f"{RIGHT} {NOTE} Share")), "+-"),
    Case("a copy without marks", two(("", UNMARKED), ("", UNMARKED[:-10])), "+-"),
    *(Case(what, two(*stories, hour=26), "++") for what, stories in NEWS.items()),
    *(Case(f"{what}, at once", two(*stories, "site.example"), "++") for what, stories in ONE_SITE.items()),
    *(Case(what, two(*stories), "++") for what, stories in GOES_ON.items()),
    *(
        Case(f"{what}, where all else is known", two((CLOSED, ARTICLE), (CLOSED, replaced(ARTICLE, words))), "++")
        for what, words in ONE_EDIT.items()
    ),
    Case(
        "a warning that three unlike reports have, and that the headline says",
        [
            item("1", ("Council of Tarnmoor meets", f"{FAIR} {EVACUATE}")),
            item("2", ("Banker found guilty", f"{VERDICT} {EVACUATE}")),
            item("3", (FIRE_TITLE, f"{FIRE} {EVACUATE}")),
            item("4", ("Flood of 2 metres in Elmport", f"{OWN['Elmport']} {FERRY}"), 1),
            item("5", ("Flood of 2 metres in Elmport: leave at once", f"{OWN['Elmport']} {FERRY} {EVACUATE}"), 2),
        ],
        "+++++",
    ),
    Case(
        "a warning that three like reports have",
        [
            *(
                item(
                    place,
                    (
                        f"Flood of {level} metres in {place}",
                        f"{place} is under {level} metres. {OWN[place]} {EVACUATE}",
                    ),
                )
                for place, level in (("Tarnmoor", 3), ("Lindra", 4), ("Alderfalls", 5))
            ),
            item("4", ("Flood of 2 metres in Elmport", f"{OWN['Elmport']} {FERRY}"), 1),
            item("5", ("Flood of 2 metres in Elmport", f"{OWN['Elmport']} {FERRY} {EVACUATE}"), 2),
        ],
        "+++++",
        {"novelty": "cautious"},
    ),
    Case("an added sentence", two((FIRE_TITLE, FIRE), (FIRE_TITLE, ARRESTED)), "++", {"novelty": "cautious"}),
    *(
        Case(f"{what} after {hours} hours", two((CLOSED, text), (CLOSED, text), source, hours), right)
        for what, text, source, hours, right in AGAIN
    ),
    Case(
        "headlines alone",
        [
            item("1", (ELM, "")),
            item("2", (f"{ELM} - Elm Gazette", ""), 1),
            item("3", ("Ferry over the Elm stopped after storm warning", ""), 2),
        ],
        "+-+",
    ),
    Case(
        "affixes of a headline",
        [
            item("1", (f"Opinion | {OPINION} - The Tarnmoor Post", ""), 0, "post.example"),
            item("2", (f"Op-Ed: {OPINION}", ""), 1, "post.example"),
            item("3", (f"Opinion | {OPINION}", ""), 2, "other.example"),
        ],
        "+--",
    ),
    Case(
        "only a paywall was extracted",
        [
            item(f"{n}", (title, PAYWALL), n / 60, "paper.example")
            for n, title in enumerate([FIRE_TITLE, "Eagles return to the coast", "Ferries on batteries", OPINION])
        ],
        "++++",
    ),
    Case(
        "the name of a section",
        [
            item(f"{hour}", ("Latest from the newsroom today", f"{WATER} {text}"), hour, "site.example")
            for hour, text in ((0, OTHER), (1, FERRY), (12, VERDICT), (13, VERDICT.replace("a side door", "a door")))
        ],
        "+++-",
    ),
]


def shown(items: list[Item], decision: dict[str, Any] | None = None) -> str:
    with Decider(load_settings(decision=decision or {})) as dedup:
        return "".join("+" if one.forward else "-" for one in judged(dedup, items))


@pytest.mark.parametrize("case", CASES, ids=[case.what for case in CASES])
def test_news_is_let_through_and_copies_are_not(case: Case) -> None:
    assert shown(case.items, case.decision) == case.right


def test_a_story_that_grows_is_an_update_once_and_its_copies_name_it() -> None:
    items = [
        item("first", (CLOSED, ARTICLE)),
        item("copy", (CLOSED, replaced(ARTICLE, REWORDED)), 2),
        item("grown", (CLOSED, GROWN), 26, "first.example"),
        item("grown copy", (CLOSED, GROWN.replace("Tuesday", "TUESDAY")), 27),
        item("grown, other headline", ("Ferry over the Elm is beyond repair", GROWN), 28),
        item("grown, cut", (CLOSED, " ".join([*LATER[:2], *STORY[:4], LATER[2]])), 29),
        item("late copy of the first", (CLOSED, ARTICLE), 30),
    ]
    assert told(judged(Decider(), items)) == [
        ("unique", None), ("duplicate", "first"), ("update", "first"), *[("duplicate", "grown")] * 3,
        ("duplicate", "first"),
    ]  # fmt: skip


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0)])
def test_whichever_copy_comes_first_is_the_original(order: tuple[int, ...]) -> None:
    texts = [ARTICLE, replaced(ARTICLE, IN_WORDS), f"{ARTICLE}\nRead more on our site"]
    first, *others = [item(f"n{n}", (CLOSED, texts[n]), hour) for hour, n in enumerate(order)]
    expected = [("unique", None), *[("duplicate", first.id)] * 2]
    assert told(judged(Decider(), [first, *others])) == expected


# -- forms -------------------------------------------------------------------------------------------------------------

SYLLABLES = ["bran", "col", "dru", "fen", "gal", "hest", "jor", "kim", "lor", "mav", "nest", "pel", "rud", "sil", "tov"]


def name(chance: Random) -> str:
    return "".join(chance.sample(SYLLABLES, 3)).capitalize()


def obituary(chance: Random) -> Story:
    who, town = f"{name(chance)} {name(chance)}", name(chance)
    day, children = chance.choice(["Monday", "Tuesday", "Friday"]), chance.choice(["Two", "Three", "Five"])
    text = (
        f"{who}, aged {chance.randint(50, 99)}, of {town}, passed away after an illness. The funeral takes "
        f"place on {day} at {chance.randint(9, 16)} in the church of {town}. The family asks for no flowers. "
        f"{children} grandchildren survive. A book of condolence is open on the website of the undertaker."
    )
    return f"In memory of {who}", text


def road(chance: Random) -> Story:
    town, number = name(chance), chance.randint(2, 99)
    text = (
        f"The A{number} near {town} is closed in both directions after a lorry overturned at junction "
        f"{chance.randint(2, 60)}. Traffic is diverted through {name(chance)}. Drivers should expect delays of "
        f"{chance.randint(15, 90)} minutes. Police ask witnesses to call the station in {town}."
    )
    return f"A{number} closed near {town} after accident", text


Form = Callable[[Random], Story]


def filled_in(form: Form) -> list[Item]:
    """A form that forty sites fill in, a minute apart."""
    chance = Random(form.__name__)
    return [item(f"n{n}", form(chance), n / 60, f"paper{n}.example") for n in range(40)]


@pytest.mark.parametrize("form", [obituary, road])
def test_a_form_that_forty_sites_fill_in_is_forty_articles(form: Form) -> None:
    """A name, an age and a town in a row are a clause that was replaced, so the headline cannot confirm them."""
    assert shown(filled_in(form)).count("-") <= 3


@pytest.mark.parametrize("form", [obituary, road])
def test_a_form_is_no_cluster_of_pairs(form: Form, tmp_path: Path) -> None:
    lines = [line(one.id, one.title, one.text, n / 60, source=one.source) for n, one in enumerate(filled_in(form))]
    assert len(kept(tmp_path, lines, "first")) >= 38
