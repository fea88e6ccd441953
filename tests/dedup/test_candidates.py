"""The number of candidates is bounded for every batch, and the best ones are among them."""

from typing import Any

import numpy as np
import pytest

from stream_dedup.dedup.candidates import MAX_CANDIDATES
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import InputError
from stream_dedup.index.hybrid import Found
from stream_dedup.index.probe import ROW_SHIFT
from stream_dedup.news.item import Item
from tests.dedup.world import judged, told
from tests.evaluate.news import words

HEADLINE = "Council votes on the new bridge over the river"


def copies(count: int, changed: int, sources: int = 50) -> list[Item]:
    """Copies of one article, in each of which `changed` of the 400 words are replaced at random."""
    random = np.random.default_rng(changed)
    text, others = words(400), np.array(words(9000)[400:])
    items = []
    for i in range(count):
        copy = list(text)
        for place in random.integers(0, 400, changed):
            copy[place] = str(random.choice(others))
        items.append(Item(f"c{i}", HEADLINE, " ".join(copy), f"s{i % sources}.example", i * 1000))
    return items


def counts(verdicts: list[Verdict]) -> list[int]:
    return [verdict.evidence.candidates if verdict.evidence else 0 for verdict in verdicts]


def test_a_form_filled_in_again_and_again_stays_within_the_budget() -> None:
    dedup = Deduplicator()
    items = copies(3000, 60, sources=1)
    for start in range(0, 3000, 500):
        batch = dedup.judge(items[start : start + 500])
        assert max(counts(batch.verdicts)) <= MAX_CANDIDATES
        dedup.apply(batch)


@pytest.mark.parametrize("in_one_batch", [False, True])
def test_an_original_with_the_same_id_is_found_among_many_closer_candidates(in_one_batch: bool) -> None:
    first = Item("mine", "Another headline", " ".join(words(900)[500:]), "mine.example", 0)
    crowd = copies(400, 60, sources=1)
    news = " ".join(f"fresh{n}" for n in range(800))
    again = Item("mine", crowd[0].title, f"{crowd[0].text} {news}", "mine.example", 10_000)
    verdicts = judged(Deduplicator(), [first, *crowd, again], 500 if in_one_batch else 50)
    assert told(verdicts[-1:]) == [("update", "mine")]


@pytest.mark.parametrize(
    "wrong", [1 << ROW_SHIFT, 1 << 31 << ROW_SHIFT, (1 << ROW_SHIFT) - 1], ids=["next", "far", "key"]
)
def test_a_row_that_is_not_remembered_is_refused(wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dedup = Deduplicator()
    first, again = copies(2, 1)
    dedup.apply(dedup.judge([first]))
    find = dedup.index.find

    def damaged(*arguments: Any) -> Found:
        found = find(*arguments)
        return found._replace(words=found.words + wrong)

    monkeypatch.setattr(dedup.index, "find", damaged)
    with pytest.raises(InputError, match="does not fit its data"):
        dedup.judge([again])
