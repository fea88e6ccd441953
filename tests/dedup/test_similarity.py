"""What similarities mean: estimates against exact counts, and what a sketch or a filter can prove."""

import re

import numpy as np
import pytest

from stream_dedup.dedup.boilerplate import SIGHTINGS, Boilerplate
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.rows import without_sequence
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings
from stream_dedup.tools.pair_rule import compare

MAKE = {verify: Fingerprinter(Scheme(FingerprintSettings(verify=verify))) for verify in ("sketch", "exact")}
TITLE = "Ferry over the Elm stopped"


def similarities(
    new: Item, known: Item, boilerplate: Boilerplate | None = None, verify: str = "exact", has_sequence: bool = True
) -> dict[str, float]:
    """has_sequence: the known item is recent."""
    prints = MAKE[verify]([known, new])
    table, pair = (boilerplate or Boilerplate(), np.zeros(2, np.int64)), (np.array([1]), np.array([0]))
    bodies = [body if has_sequence else without_sequence(body) for body in prints.bodies]
    similar = compare(prints, prints.signatures, *pair, bodies, table)[0]
    return {name: float(similar[name]) for name in similar.dtype.names or ()}


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def shingles(text: str) -> set[tuple[str, ...]]:
    return set(zip(words(text), words(text)[1:], words(text)[2:], strict=False))


def coined(first: str, n: int) -> str:
    """A word of five letters that no other number has."""
    return first + "".join(chr(ord("a") + n // 26**place % 26) for place in range(4))


VOCABULARY = [coined("w", n) for n in range(3000)]


def page(random: np.random.Generator, size: int) -> str:
    """Sentences of 15 words at random, of which one in 16 is a number."""
    drawn = random.choice([*VOCABULARY, *(str(10_000 + n) for n in range(200))], size).tolist()
    return " ".join(f"{' '.join(drawn[at : at + 14])} end." for at in range(0, size, 14))


def mixed(random: np.random.Generator, text: str, kept: int) -> str:
    """An article of ten sentences, of which so many are those of a text."""
    return ". ".join([*text.split(". ")[:kept], *page(random, 140).split(". ")[kept:]])


# -- estimates ---------------------------------------------------------------------------------------------------------


def test_new_words_numbers_and_sentences_are_right_on_average() -> None:
    """Here and there a filter holds a new word by chance."""
    random, found, exact = np.random.default_rng(11), [], []
    for _ in range(200):
        text = page(random, 140)
        known, new = Item("k", TITLE, text, "", 0), mixed(random, text, int(random.integers(0, 10)))
        before, of_new = set(words(f"{TITLE} {text}")), [words(one) for one in new.split(". ")]
        lacking = [[word for word in one if word not in before] for one in of_new]
        numbers = {word for one in lacking for word in one if word.isdigit()}
        shares = zip(of_new, lacking, strict=True)
        sentences = sum(len(one) for one, absent in shares if len(absent) >= 0.35 * len(one))
        exact.append([sum(map(len, lacking)), len(numbers), sentences])
        one = similarities(Item("n", TITLE, new, "", 0), known)
        found.append([one[name] for name in ("new_words", "new_numbers", "new_sentences")])
    errors, mean = np.array(found) - np.array(exact), np.mean(exact, axis=0)
    assert (np.abs(errors.mean(axis=0)) < 0.05 * mean).all()
    assert (np.sqrt((errors**2).mean(axis=0)) < 0.15 * mean + 1).all()
    assert mean.min() > 3


def test_sketches_estimate_what_sets_tell_and_seldom_say_more_than_is_covered() -> None:
    """Two standard deviations: once in 44 articles, and never by much."""
    random, names = np.random.default_rng(13), ("body", "containment")
    estimates, shares, surplus = [], [], []
    for _ in range(200):
        one, other = page(random, 140), page(random, 400)
        new = Item("n", TITLE, mixed(random, one, int(random.integers(0, 10))), "", 0)
        known = Item("k", TITLE, f"{one} {other}", "", 0)
        found = [similarities(new, known, verify=verify, has_sequence=False) for verify in MAKE]
        estimates.append([[one[name] for name in names] for one in found])
        shares.append(len(shingles(new.text) & shingles(known.text)) / len(shingles(new.text)))
        surplus.append(found[0]["covered"] - shares[-1])
    errors = np.subtract(*np.moveaxis(np.array(estimates), 1, 0))
    assert np.abs(errors.mean(axis=0)).max() < 0.02
    assert np.sqrt((errors**2).mean(axis=0)).max() < 0.15
    assert np.mean(np.array(surplus) > 0) < 0.06
    assert max(surplus) < 0.15
    assert -0.35 < np.mean(surplus) < 0
    assert min(shares) < 0.1 < 0.8 < max(shares)


@pytest.mark.parametrize("size", [60, 300, 2_000, 9_000, 60_000])
def test_a_page_of_the_same_words_proves_nothing(size: int) -> None:
    """Whether it is as long as the article, or so long that its filter has every word."""
    random = np.random.default_rng(size)
    known = Item("k", TITLE, page(random, size), "", 0)
    new = [Item(f"{n}", TITLE, page(random, 150), "", 0) for n in range(60)]
    covered = [similarities(one, known, verify="sketch")["covered"] for one in new]
    assert np.mean(covered) < 0.02
    assert max(covered) < 0.3


# -- articles ----------------------------------------------------------------------------------------------------------


def test_passages_that_recur_are_not_part_of_the_article() -> None:
    notice = "Readers who subscribe before Friday 13 receive the weekend supplement free of charge for 1,000 days."
    story = "The old ferry between the two banks of the Elm was taken out of service on Monday 38 morning."
    known, new = Item("a", "", story, "", 0), Item("b", "", f"{story} {notice}", "", 0)
    table = Boilerplate()
    before = similarities(new, known, table)
    passages = MAKE["exact"]([Item("c", "", notice, "", 0)]).texts
    assert passages is not None
    for time in range(SIGHTINGS):
        table.add(passages.passages["hash"], np.array([len(passages.passages)]), np.array([time * 1000]))
    after = similarities(new, known, table)
    old, more = len(words(story)), len(words(notice))
    assert (before["tokens"], before["new_sentences"]) == (old + more, more)
    assert (after["tokens"], after["new_words"], after["new_sentences"]) == (old, 0, 0)
    assert (before["new_numbers"], after["new_numbers"]) == (pytest.approx(2, rel=0.1), pytest.approx(2, rel=0.1))
    assert after["covered"] > before["covered"] + 0.3
    assert after["article_share"] == pytest.approx(old / (old + more))


@pytest.mark.parametrize("text", ["", "Home\nNews 24\nSport", "Read more."])
def test_a_page_without_an_article_counts_as_a_whole(text: str) -> None:
    known = Item("a", TITLE, "The old ferry was taken out of service.", "", 0)
    found = similarities(Item("b", "Mayor resigns after 38 years", text, "", 0), known)
    assert (found["words"], found["tokens"]) == (5 + len(words(text)), 0)
    assert (found["headline_numbers"], found["new_headline_numbers"]) == (1, pytest.approx(1, rel=0.1))
    assert found["new_words"] == pytest.approx(5 + len(words(text)), rel=0.3)


def test_a_text_without_marks_is_cut_into_windows() -> None:
    """Half of one story, then another: as one sentence, half of its words would be known."""
    random = np.random.default_rng(14)
    one, other, third = (" ".join(random.choice(VOCABULARY, 160).tolist()) for _ in range(3))
    new, known = Item("n", "", f"{one} {other[: len(other) // 2]}", "", 0), Item("k", "", f"{one} {third}", "", 0)
    found = similarities(new, known)
    assert found["tokens"] == pytest.approx(240, abs=2)
    assert 48 <= found["new_sentences"] <= 112
    assert 0.2 < found["spread"] < 0.7
    assert similarities(Item("n", "", one, "", 0), known)["new_sentences"] == 0


# -- headlines ---------------------------------------------------------------------------------------------------------

STORY = "The old ferry between the two banks was taken out of service on Monday after engineers had found cracks. "
FOUND = "Divers searched the harbour in the night, and 17 crates with copper were lifted from the wreck of a barge. "
HALT, LIFT = "Ferry stopped", "Divers lift 17 crates"


@pytest.mark.parametrize(
    ("why", "new", "known", "expected"),
    [
        ("news has its words", (LIFT, STORY + FOUND), (HALT, STORY), (3, 1, 0)),
        ("a new headline for an old text", (LIFT, STORY), (HALT, STORY), (0, 0, 0)),
        ("known to the text", (LIFT, STORY + FOUND), (HALT, STORY + FOUND), (0, 0, 0)),
        ("an older headline's are gone", (HALT, STORY), ("Divers lift crates", STORY + FOUND), (0, 0, 2)),
        ("the same headline", (HALT, STORY + FOUND), (HALT, STORY), (0, 0, 0)),
    ],
)
def test_a_headline_gains_what_its_own_text_proves(
    why: str, new: tuple[str, str], known: tuple[str, str], expected: tuple[int, int, int]
) -> None:
    found = similarities(Item("n", *new, "", 0), Item("k", *known, "", 0))
    assert tuple(found[f"headline_{name}"] for name in ("gains", "figures", "losses")) == expected, why
