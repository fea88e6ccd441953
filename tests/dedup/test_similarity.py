"""What a new item has that the known one lacks, against an exact recount in plain Python."""

import re
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_dedup.dedup.boilerplate import SIGHTINGS, Boilerplate
from stream_dedup.dedup.similarity import compare
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import FILTER_BITS, Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings

MAKE = {verify: Fingerprinter(Scheme(FingerprintSettings(verify=verify))) for verify in ("sketch", "exact")}
MENU = ["Home", "News 24", "Sport and weather", "Culture", "Letters", "About us"]


def similarities(
    new: Item, known: Item, boilerplate: Boilerplate | None = None, verify: str = "exact"
) -> dict[str, float]:
    prints = MAKE[verify]([known, new])
    known_table, pair = (boilerplate or Boilerplate(), np.zeros(2, np.int64)), (np.array([1]), np.array([0]))
    similar = compare(prints, prints.signatures, *pair, boilerplate=known_table)[0]
    return {name: float(similar[name]) for name in similar.dtype.names or ()}


class Exact(NamedTuple):
    """The same quantities by definition. uncertain: words of sentences whose share of new words is near the limit."""

    counts: dict[str, float]
    new_words: int
    new_numbers: int
    new_numbers_anywhere: int
    new_sentences: int
    uncertain: int
    covered: float


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def stems(text: str) -> list[str]:
    """Words as they count: the first five letters, and numbers whole."""
    return [word if word[0].isdigit() else word[:5] for word in words(text)]


def coined(first: str, n: int) -> str:
    """A word of five letters that no other number has."""
    return first + "".join(chr(ord("a") + n // 26**place % 26) for place in range(4))


def numbers(text: str) -> set[str]:
    return {re.sub(r"\D", "", one) for one in re.findall(r"(?<!\w)\d+(?:[.,:/-]\d+)*(?!\w)", text)}


def shingles(text: str) -> set[tuple[str, ...]]:
    found = words(text)
    return {tuple(found[i : i + 3]) for i in range(len(found) - 2)}


def absence(known: np.void) -> tuple[float, float]:
    """How many words, and how many numbers, one that the filter lacks stands for."""
    fill = np.bitwise_count(known["words"]).sum() / FILTER_BITS
    of_figures = int(known["figures"]).bit_count() / 64
    return 1 / (1 - min(fill, 0.97)), 1 / (1 - min(fill * fill * of_figures, 0.97))


def recounted(new: Item, known: Item) -> Exact:
    """For texts whose sentences end in ". " and whose menus stand in lines of their own."""
    prose = [one for line in new.text.split("\n") for one in line.split(". ") if len(words(one)) >= 8]
    of_article = [word for one in prose for word in words(one)]
    known_words, known_numbers = set(stems(f"{known.title} {known.text}")), numbers(f"{known.title} \n {known.text}")
    of_prose = {number for one in prose for number in numbers(one)}
    contained = {shingle for one in prose for shingle in shingles(one)}
    in_known = contained & shingles(known.text)
    counts = {
        "article_tokens": len(of_article),
        "article_share": len(of_article) / len(words(new.text)),
        "words": len(of_article),
        "numbers": len(of_prose),
        "headline_numbers": len(numbers(new.title)),
    }
    new_sentences, uncertain = 0, 0
    for one in prose:
        found = stems(one)
        share = sum(word not in known_words for word in found) / len(found)
        new_sentences += len(found) * (share >= 0.35)
        uncertain += len(found) * (0.2 < share < 0.5)
    return Exact(
        counts,
        sum(word not in known_words for one in prose for word in stems(one)),
        len(of_prose - known_numbers),
        len(numbers(new.text) - known_numbers),
        new_sentences,
        uncertain,
        len(in_known) / len(contained),
    )


def drawn(random: np.random.Generator) -> tuple[Item, Item]:
    """A known and a new article: some sentences of 8 to 20 words in common, some reworded, some new; and menus."""

    def sentence() -> list[str]:
        length = int(random.integers(8, 21))
        drawn = [coined("w", n) + random.choice(["", "s", "ing"]) for n in random.zipf(1.3, length) % 4000]
        for place in range(length - 1):  # "38." may be an ordinal
            if random.random() < 0.06:
                drawn[place] = random.choice(["38", "1,000", "7.5", f"{random.integers(1, 400)}"])
        return drawn

    def page(name: str, sentences: list[list[str]]) -> Item:
        lines, rest = [], [" ".join(one) for one in sentences]
        while rest:
            size = int(random.integers(1, 5))
            lines += [". ".join(rest[:size]) + ".", str(random.choice(MENU))]
            rest = rest[size:]
        return Item(name, " ".join(dict.fromkeys(sentence()[:7])), "\n".join(lines), f"{name}.example", 0)

    known = [sentence() for _ in range(int(random.integers(3, 14)))]
    new, kept = [], list(random.permutation(len(known)))
    for _ in range(int(random.integers(3, 14))):
        one = list(known[kept.pop()]) if kept and random.random() < 0.6 else sentence()
        for place in range(len(one)):
            if random.random() < 0.08:
                one[place] = coined("o", random.integers(0, 500))
        new.append(one)
    return page("known", known), page("new", new)


Stress: TypeAlias = list[tuple[dict[str, float], Exact, NDArray[np.void]]]
"""Of each pair: found, recounted, the signature of the known item."""


@pytest.fixture(scope="module")
def stress() -> Stress:
    """300 drawn pairs."""
    random, out = np.random.default_rng(11), []
    for _ in range(300):
        known, new = drawn(random)
        out.append((similarities(new, known), recounted(new, known), MAKE["exact"]([known]).signatures[0]))
    return out


@pytest.mark.parametrize("name", ["new_words", "new_numbers", "new_numbers_anywhere"])
def test_new_words_and_numbers_are_right_on_average(name: str, stress: Stress) -> None:
    found = np.array([one[name] for one, _, _ in stress])
    exact = np.array([getattr(one, name) for _, one, _ in stress])
    assert found.sum() == pytest.approx(exact.sum(), rel=0.02)
    assert np.sqrt(((found - exact) ** 2).mean()) < 0.1 * exact.mean() + 1


def test_new_sentences_are_those_that_lack_a_third_of_their_words(stress: Stress) -> None:
    """Here and there a filter holds a frequent new word by chance."""
    wrong = sum(abs(found["new_sentences"] - exact.new_sentences) > exact.uncertain for found, exact, _ in stress)
    assert wrong <= len(stress) / 50
    assert sum(exact.new_sentences > 0 for _, exact, _ in stress) > 100


def test_passages_that_recur_are_not_asked() -> None:
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
    old, more = len(words(story)), len(words(notice))  # of the latter, 16 are a window
    assert (before["article_tokens"], before["new_sentences"]) == (old + more, more)
    assert (after["article_tokens"], after["new_words"], after["new_sentences"]) == (old, 0, 0)
    assert (before["new_numbers"], after["new_numbers"]) == (pytest.approx(2, rel=0.1), pytest.approx(2, rel=0.1))
    assert after["article_coverage"] > before["article_coverage"] + 0.3
    assert after["article_share"] == pytest.approx(old / (old + more))


@pytest.mark.parametrize("text", ["", "Home\nNews 24\nSport", "Read more."])
def test_a_page_without_an_article_is_asked_as_a_whole(text: str) -> None:
    known = Item("a", "Ferry over the Elm stopped", "The old ferry was taken out of service.", "", 0)
    found = similarities(Item("b", "Mayor resigns after 38 years", text, "", 0), known)
    assert (found["words"], found["article_tokens"]) == (5 + len(words(text)), 0)
    assert (found["headline_numbers"], found["new_headline_numbers"]) == (1, pytest.approx(1, rel=0.1))
    assert found["new_words"] == pytest.approx(5 + len(words(text)), rel=0.3)


def test_sketches_estimate_what_sets_tell() -> None:
    random = np.random.default_rng(12)
    names = ("body", "containment")
    both = []
    for _ in range(200):
        known, new = drawn(random)
        by = [similarities(new, known, verify=verify) for verify in MAKE]
        both.append([[one[name] for name in names] for one in by])
    sketch, exact = np.moveaxis(np.array(both), 1, 0)
    assert np.abs((sketch - exact).mean(axis=0)).max() < 0.02
    assert np.sqrt(((sketch - exact) ** 2).mean(axis=0)).max() < 0.1


# -- what a sketch proves ----------------------------------------------------------------------------------------------

TITLE = "Ferry over the Elm stopped"
VOCABULARY = [coined("w", n) for n in range(3000)]


def page(random: np.random.Generator, size: int) -> str:
    """Sentences of words at random."""
    drawn = random.choice(VOCABULARY, size).tolist()
    return " ".join(f"{' '.join(drawn[at : at + 15])}." for at in range(0, size, 15))


@pytest.mark.parametrize("size", [60, 300, 2_000, 9_000, 60_000])
def test_a_page_of_the_same_words_proves_nothing(size: int) -> None:
    """Whether it is as long as the article, or so long that its filter has every word."""
    random = np.random.default_rng(size)
    known, covered = Item("k", TITLE, page(random, size), "", 0), []
    for n in range(60):
        found = similarities(Item(f"{n}", TITLE, page(random, 150), "", 0), known, verify="sketch")
        covered.append(found["article_coverage"])
    assert np.mean(covered) < 0.02
    assert max(covered) < 0.3


def test_a_sketch_seldom_says_more_than_is_covered() -> None:
    """Two standard deviations: once in 44 articles, and never by much."""
    random, surplus, known_share = np.random.default_rng(13), [], []
    for _ in range(200):
        one, other = page(random, 150), page(random, 400)
        kept = int(random.integers(0, 10))  # of its ten sentences
        text = ". ".join([*one.split(". ")[:kept], *page(random, 150).split(". ")[kept:]])
        new, known = Item("n", TITLE, text, "", 0), Item("k", TITLE, f"{one} {other}", "", 0)
        exact = len(shingles(text) & shingles(known.text)) / len(shingles(text))
        surplus.append(similarities(new, known, verify="sketch")["article_coverage"] - exact)
        known_share.append(exact)
    assert np.mean(np.array(surplus) > 0) < 0.06
    assert max(surplus) < 0.15
    assert -0.35 < np.mean(surplus) < 0
    assert min(known_share) < 0.05 < 0.8 < max(known_share)


# -- headlines ---------------------------------------------------------------------------------------------------------

STORY = "The old ferry between the two banks was taken out of service on Monday after engineers had found cracks. "
FOUND = "Divers searched the harbour in the night, and 17 crates with copper were lifted from the wreck of a barge. "


@pytest.mark.parametrize(
    ("why", "new", "known", "expected"),
    [
        ("news has its words", ("Divers lift 17 crates", STORY + FOUND), ("Ferry stopped", STORY), (3, 1, 0)),
        ("a new headline for an old text", ("Divers lift 17 crates", STORY), ("Ferry stopped", STORY), (0, 0, 0)),
        ("known to the text", ("Divers lift 17 crates", STORY + FOUND), ("Ferry stopped", STORY + FOUND), (0, 0, 0)),
        ("an older headline's are gone", ("Ferry stopped", STORY), ("Divers lift crates", STORY + FOUND), (0, 0, 2)),
        ("the same headline", ("Ferry stopped", STORY + FOUND), ("Ferry stopped", STORY), (0, 0, 0)),
    ],
)  # fmt: skip
def test_a_headline_gains_what_its_own_text_proves(
    why: str, new: tuple[str, str], known: tuple[str, str], expected: tuple[int, int, int]
) -> None:
    found = similarities(Item("n", *new, "", 0), Item("k", *known, "", 0))
    assert tuple(found[f"headline_{name}"] for name in ("gains", "figures", "losses")) == expected, why


def test_a_headline_in_another_order_is_reordered() -> None:
    won = similarities(Item("n", "Alder beats Linden", STORY, "", 0), Item("k", "Linden beats Alder", STORY, "", 0))
    same = similarities(Item("n", "Alder beats Linden", STORY, "", 0), Item("k", "Alder beats Linden", STORY, "", 0))
    assert (won["reordered"], same["reordered"]) == (1, 0)


# -- sentences ---------------------------------------------------------------------------------------------------------


def test_a_text_without_marks_is_asked_window_by_window() -> None:
    """Half of one story, then another: as one sentence, half of its words would be known."""
    random = np.random.default_rng(14)
    one, other, third = (" ".join(random.choice(VOCABULARY, 160).tolist()) for _ in range(3))
    new = Item("n", "", f"{one} {other[: len(other) // 2]}", "", 0)
    found = similarities(new, Item("k", "", f"{one} {third}", "", 0))
    assert found["article_tokens"] == pytest.approx(240, abs=2)
    assert 48 <= found["new_sentences"] <= 112
    assert 0.2 < found["spread"] < 0.7
    assert similarities(Item("n", "", one, "", 0), Item("k", "", f"{one} {third}", "", 0))["new_sentences"] == 0
