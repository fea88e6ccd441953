"""What an alignment of two texts, word by word, says of the new one."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings
from stream_dedup.tools.pair_rule import compare

MAKE = Fingerprinter(Scheme(FingerprintSettings()))
EXACT = Fingerprinter(Scheme(FingerprintSettings(verify="exact")))
FERRY = (
    "The old ferry between the two banks of the Elm was taken out of service on Monday morning. "
    "Engineers had found deep cracks in its hull, and the repair costs the town 38 million crowns. "
    "The mayor said that the council will pay for a bus over the northern bridge until spring. "
    "Farmers from the villages do not believe that the crossing opens again before the harvest. "
)
SENTENCES = FERRY.split(". ")
DIFF = (
    *("matched", "fresh", "inserted", "altered", "facts", "altered_headline", "brief", "told", "lead"),
    *("said", "places", "rewritten", "unmatched", "rest"),
)


def diff(
    new: str, known: str = FERRY, titles: tuple[str, str] = ("", ""), bodies: Sequence[bytes] | None = None
) -> dict[str, float]:
    """What `new` has that `known` lacks. titles: of both; bodies: as they are stored."""
    prints = MAKE([Item("new", titles[0], new, "", 0), Item("known", titles[1], known, "", 0)])
    table, pair = (Boilerplate(), np.zeros(2, np.int64)), (np.array([0]), np.array([1]))
    found = compare(prints, prints.signatures, *pair, bodies, table)[0]
    return {name: float(found[name]) for name in (*DIFF, "new_words")}


def replaced(old: str, new: str) -> dict[str, float]:
    assert FERRY.count(old) == 1
    return diff(FERRY.replace(old, new))


# -- what is news ------------------------------------------------------------------------------------------------------


def test_a_text_has_nothing_that_it_lacks_itself() -> None:
    assert diff(FERRY) == dict.fromkeys((*DIFF, "new_words"), 0) | {"matched": 1}


def test_a_replaced_figure_is_a_fact() -> None:
    found = replaced("38 million", "83 million")
    assert (found["facts"], found["altered"], found["fresh"]) == (1, 0, 0)


def test_a_figure_that_is_written_in_other_groups_is_no_fact() -> None:
    known = FERRY.replace("38 million", "12,500,000")
    for written in ("1,25,00,000", "12.500.000", "12500000", "12500000th"):
        assert diff(known.replace("12,500,000", written), known)["facts"] == 0, written
    for other in ("1,35,00,000", "13,500,000", "12,500", "125"):
        assert diff(known.replace("12,500,000", other), known)["facts"] == 1, other


def test_a_lost_or_added_negation_is_a_fact() -> None:
    assert replaced("do not believe", "do believe")["facts"] == 1
    assert replaced("council will pay", "council will not pay")["facts"] == 1


def test_a_word_in_the_place_of_another_one_is_an_alteration_and_counts_if_the_headline_has_it() -> None:
    new = FERRY.replace("northern bridge", "southern bridge")
    assert (diff(new)["altered"], diff(new)["facts"], diff(new)["altered_headline"]) == (1, 0, 0)
    titles = "Bus over the southern bridge", "Bus over the bridge"
    assert diff(new, titles=titles)["altered_headline"] == 1
    assert diff(new, titles=(titles[0], titles[0]))["altered_headline"] == 0, "the known headline says it, too"


def test_a_sentence_of_other_words_is_fresh() -> None:
    sentence = "Two dozen fishermen blocked a road near Alder because nobody had asked them about any plan. "
    found = diff(FERRY + sentence)
    assert (found["fresh"], found["inserted"]) == (len(sentence.split()), 0)
    assert found["new_words"] == len(set(sentence.lower().split()) - set(FERRY.lower().split()))
    assert diff(sentence + FERRY)["lead"] == len(sentence.split())


def put_in(text: str) -> dict[str, float]:
    """The ferry with a text behind its first sentence."""
    return diff(f"{SENTENCES[0]}. {text}{'. '.join(SENTENCES[1:])}")


def test_a_new_sentence_between_known_ones_is_inserted() -> None:
    sentence = "Two dozen fishermen blocked a road near Alder because nobody had asked them about any plan. "
    assert put_in(sentence)["inserted"] == put_in(sentence)["fresh"] == len(sentence.split())


def test_a_short_sentence_counts_behind_a_known_one_and_a_line_without_a_mark_does_not() -> None:
    assert put_in("Nobody has drowned. ")["brief"] == diff(f"{FERRY}Nobody has drowned.")["brief"] == 3
    assert diff(f"{FERRY}(Linden Wire).")["brief"] == 0
    assert put_in("\nWilla Oakes, Linden Wire\n")["brief"] == diff(f"{FERRY}\nRead more at Linden Wire")["brief"] == 0


TABLE = ["Alder 12", "Birch 40", "Linden 7", "Oakes 31", "Rowan 25"]


def listed(rows: Sequence[str], behind: str = "") -> str:
    return "\n".join([FERRY, *rows, behind])


def test_one_more_row_of_a_list_counts_wherever_it_stands_behind_another_one() -> None:
    for place in range(1, 6):
        more = [*TABLE[:place], "Willow 18", *TABLE[place:]]
        assert diff(listed(more), listed(TABLE))["brief"] == 2, place
        assert diff(listed(more, "Source: the town"), listed(TABLE, "Source: the town"))["brief"] == 2, place


def test_a_value_in_the_place_of_another_and_a_caption_between_rows_are_no_more_rows() -> None:
    assert diff(listed([*TABLE[:2], "Willow 18", *TABLE[3:]]), listed(TABLE))["brief"] == 0
    assert diff(listed([*TABLE[:2], "Photo: Willa Oakes", *TABLE[2:]]), listed(TABLE))["brief"] == 0
    assert diff(FERRY.replace(". Farmers", ".\nPhoto 18\nFarmers"))["brief"] == 0, "no list"


def test_what_is_put_in_or_rewritten_between_known_words_is_rewritten() -> None:
    cause = replaced("until spring", "because the tunnel at Ash remains closed")
    assert (cause["rewritten"], cause["places"], cause["altered"]) == (7, 1, 0)
    speaker = replaced("The mayor said", "Kim Birch from the port authority said")
    assert (speaker["rewritten"], speaker["places"]) == (5, 1), "at the head of a sentence, too"
    assert replaced("will pay for a bus", "will pay from May on for a bus")["rewritten"] == 3
    style = replaced("council will pay", "council would pay")
    assert (style["rewritten"], style["places"]) == (0, 1), "a word or two are a matter of style"
    lead = replaced("was taken out of service", "sank in the storm last night")
    assert (lead["rewritten"], lead["places"]) == (0, 1), "the first sentence has a measure of its own"
    assert diff(FERRY + "The tolls rise in May.")["places"] == 0, "nothing that is known follows"


def test_two_figures_in_each_other_s_place_are_two_facts_however_near_they_stand() -> None:
    for words in ("between {} and {} crowns", "score was {} - {} at noon", "at {} crowns or {} of the old ones"):
        known, new = (FERRY.replace("costs the town", words.format(*pair)) for pair in ((55, 46), (46, 55)))
        assert diff(new, known)["facts"] >= 1, words


def test_two_figures_with_a_word_or_two_between_them_are_two_facts() -> None:
    known = FERRY.replace("38 million crowns", "20 of the 47 crowns in its purse")
    assert diff(known.replace("20 of the 47", "47 of the 20"), known)["facts"] == 2
    assert diff(known.replace("20 of the 47", "19 of the 48"), known)["facts"] == 2


def test_words_on_both_sides_of_a_known_one_are_two_alterations() -> None:
    known = f"{FERRY}The warmest June in Ashby county, Rutland, was in the second year of the long war. "
    found = diff(known.replace("Ashby", "Corley").replace("Rutland", "Cornwall"), known)
    assert (found["altered"], found["facts"]) == (2, 0)


def test_two_figures_are_two_facts_where_the_words_behind_them_are_the_same() -> None:
    # The four words "23 points and place" stand in both texts, but not in the same places.
    known = f"{FERRY}The win took Ashby to 23 points and place sixteen, and left Corley at 33 points and place twelve. "
    new = known.replace("23", "#").replace("33", "23").replace("#", "33")
    assert diff(new, known)["facts"] == 2


def test_a_denial_behind_the_first_word_of_a_text_is_a_fact() -> None:
    known = "He was one of the best writers of songs in the whole country, and he has died at 81. " + FERRY
    assert diff(known.replace("He was one", "He was not one"), known)["facts"] == 1


def test_at_the_beginning_and_the_end_a_word_counts_if_the_headline_has_it() -> None:
    begun, ended = FERRY.replace("The old", "And the new"), FERRY.replace("before the harvest", "before the winter")
    for new, word, words in ((begun, "new", 2), (ended, "winter", 1)):
        assert diff(new)["altered_headline"] == diff(new)["altered"] == 0, "a dateline, a byline or a credit"
        found = diff(new, titles=(f"A {word} ferry", "A ferry"))
        assert (found["altered_headline"], found["altered"]) == (1, words)


def test_at_the_beginning_a_figure_behind_a_known_word_is_a_fact() -> None:
    known = FERRY.replace("The old ferry", "About 20 ferries")
    assert diff(known.replace("20", "30"), known)["facts"] == 1


def test_at_the_beginning_a_word_and_at_the_end_a_figure_stand_in_the_place_of_one() -> None:
    assert replaced("The old", "Another old")["altered"] == replaced("The old", "The sixth")["altered"] == 1
    assert diff("Tarnmoor " + FERRY)["altered"] == 0, "a dateline"
    known = f"{FERRY}The council met the town on line 25."
    assert diff(known.replace("25", "29"), known)["facts"] == 1


def test_a_headline_that_denies_another_one_is_a_fact() -> None:
    assert diff(FERRY, titles=("The old ferry will not sail", "The old ferry will sail"))["facts"] == 1
    assert diff(FERRY, titles=("الوزير لا يستقيل اليوم", "الوزير يستقيل اليوم"))["facts"] == 1
    other = "Nobody is hurt as cracks stop old boat"
    assert diff(FERRY, titles=(other, "The old ferry will sail"))["facts"] == 0, "told in other words"


def test_what_the_headline_says_anew_is_said_in_the_first_sentence() -> None:
    told = f"The crew is safe after a rescue at dawn. {FERRY}"
    titles = "Crew safe after rescue", "Ferry is taken out of service"
    found = diff(told, titles=titles)
    assert (found["said"], found["rest"], found["unmatched"]) == (4, 0, found["lead"])
    found = diff(f"{FERRY}The crew is safe after a rescue at dawn.", titles=titles)
    assert (found["said"], found["told"]) == (0, 4), "another sentence says it"
    assert diff(FERRY, titles=titles)["told"] == 0


# -- what is none ------------------------------------------------------------------------------------------------------


def test_a_moved_paragraph_is_known() -> None:
    moved = ". ".join([SENTENCES[2], SENTENCES[3], SENTENCES[0], SENTENCES[1]]) + "."
    found = diff(moved)
    assert (found["matched"], found["facts"], found["altered"], found["new_words"]) == (1, 0, 0, 0)


def test_a_dateline_is_no_lead() -> None:
    assert diff(f"ELMSIDE, Alderland (Linden Wire) - {FERRY}")["lead"] == 0
    assert diff(FERRY.replace("taken out of service", "sunk by a crane"))["lead"] > 0


def test_another_ending_is_no_other_word() -> None:
    found = replaced("The mayor said that the council", "The mayor said that the councillors")
    assert (found["facts"], found["altered"], found["new_words"]) == (0, 0, 0)


@pytest.mark.parametrize("number", ["twelve", "zwölf", "двенадцать"])
def test_a_number_word_is_its_digits(number: str) -> None:
    known = FERRY.replace("38 million", f"{number} million")
    found = diff(FERRY.replace("38 million", "12 million"), known)
    assert (found["matched"], found["facts"], found["new_words"]) == (1, 0, 0)
    assert diff(FERRY, known)["facts"] == 1


@pytest.mark.parametrize(("word", "digit"), [("two", "2"), ("zwei", "2"), ("four", "4"), ("два", "2")])
def test_the_feature_of_a_number_word_does_not_depend_on_the_next_word(word: str, digit: str) -> None:
    texts = [f"{one} {following}" for one in (word, digit) for following in ("x", "ж")]
    prints = MAKE([Item(text, "", text, "", 0) for text in texts])
    assert prints.texts is not None
    assert len(set(prints.texts.words[::2].tolist())) == 1


def test_a_text_that_repeats_the_headline_of_another_text_has_nothing_in_common_with_it() -> None:
    title = "Ferry over the Elm stopped after a storm warning"
    known = "Recipes for the summer, by our readers. Boil the beans for an hour with thyme, and let them cool."
    assert diff(f"{title}, the harbour master said. {FERRY}", known, titles=(title, title))["matched"] == 0


# -- without a sequence ------------------------------------------------------------------------------------------------


def has_none(found: dict[str, float]) -> bool:
    return all(np.isnan(found[name]) for name in DIFF)


def test_a_text_of_twenty_thousand_words_has_no_sequence() -> None:
    draw = random.Random(1)
    page = " ".join(draw.choices(FERRY.split(), k=20_000))
    short = " ".join(page.split()[:16_384])
    items = [Item("long", "The ferry", page, "", 0), Item("short", "The ferry", short, "", 0)]
    sizes = [len(body) for body in MAKE(items).bodies]
    assert sizes == [8, 8 + 2 * (2 + 16_384)]
    assert has_none(diff(page))
    assert has_none(diff(FERRY, page))
    assert not has_none(diff(FERRY, short))


HEADS = [(2**32 - 1, 0), (10, 11), (2**31, 2**31), (100, 65), (16_449, 0), (16_448, 64), (69, 0)]


@pytest.mark.parametrize("head", HEADS)
def test_a_damaged_head_is_no_sequence(head: tuple[int, int]) -> None:
    """More codes than the body has or a text may have, or than there are codes of the headline."""
    bodies = MAKE([Item("new", "", FERRY, "", 0), Item("known", "", FERRY, "", 0)]).bodies
    codes = (len(bodies[1]) - 8) // 2
    assert codes < 69
    damaged = np.array(head, "<u4").tobytes() + bodies[1][8:]
    assert has_none(diff(FERRY, bodies=[bodies[0], damaged]))
    for size in (0, 1, 7, 8, 9, len(bodies[1]) - 1):
        assert has_none(diff(FERRY, bodies=[bodies[0], bodies[1][:size]]))
    assert diff(FERRY, bodies=bodies)["matched"] == 1


def test_a_sequence_of_another_text_is_none() -> None:
    prints = MAKE([Item("new", "", FERRY * 200, "", 0), Item("known", "", FERRY, "", 0)])
    table, pair = (Boilerplate(), np.zeros(2, np.int64)), (np.array([0]), np.array([1]))
    prints.bodies[0] = prints.bodies[1]
    assert np.isnan(compare(prints, prints.signatures, *pair, boilerplate=table)["matched"][0])


def test_a_damaged_head_before_a_set_is_compared_as_far_as_it_can_be() -> None:
    prints = EXACT([Item("new", "", FERRY, "", 0), Item("known", "", FERRY, "", 0)])
    for head in HEADS:
        damaged = np.array(head, "<u4").tobytes() + prints.bodies[1][8:]
        found = compare(prints, prints.signatures, np.array([0]), np.array([1]), [prints.bodies[0], damaged])[0]
        assert 0 <= found["body"] <= 1


# -- any texts ---------------------------------------------------------------------------------------------------------


def test_hostile_repeats_lose_words_and_no_time() -> None:
    """A gram that stands everywhere is looked up in eight places: what lies behind them counts as new."""
    assert diff("a b c d x " * 3000, "a b c d y " * 3000)["matched"] == pytest.approx(8 * 4 / 15_000), (
        "a ninth place would be more work"
    )
    assert diff("a b c d " * 4000, "a b c d " * 4000)["matched"] == 1
    assert diff("a b c d " * 4000, "a b c d " * 10)["matched"] == pytest.approx(10 / 4000)


WORDS = [
    "ferry",
    "ferries",
    "Elm",
    "not",
    "never",
    "12",
    "twelve",
    "3.5",
    "新",
    "桥",
    "két",
    "a",
    "a",
    "the",
    ".",
    ". ",
    "\n",
]
TEXT = st.lists(st.sampled_from(WORDS), max_size=120).map(" ".join)


@given(TEXT, TEXT, TEXT)
def test_shares_and_counts_stay_within_the_text(one: str, other: str, title: str) -> None:
    same = diff(one, one)
    found = diff(one, other, (title, ""))
    tokens = MAKE.tokens(one).count
    if tokens >= 4:  # as long as an anchor
        assert same["matched"] == 1
        assert same["facts"] == same["altered"] == same["fresh"] == same["lead"] == 0
    for name in () if has_none(found) else DIFF[1:]:
        assert 0 <= found[name] <= tokens
    assert np.isnan(found["matched"]) or 0 <= found["matched"] <= 1
