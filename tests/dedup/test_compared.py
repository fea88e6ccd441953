"""Evidence names what was compared: the original, or a held-back copy of it that is remembered as a variant."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from stream_dedup import Deduplicator as Script
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.dedup.wording import describe_verdict
from stream_dedup.evaluate.explain import explain
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings
from tests.batch.feed import prose

WHOLE = "The Elm bridge opens after two years of work. " + ". ".join(prose(k, 12).capitalize() for k in range(12)) + "."
CUT = WHOLE[: len(WHOLE) * 6 // 10]
ORIGINAL = Item("the original", "Elm bridge opens after two years of work", WHOLE, "post.example", 0, 0, 4)
VARIANT = Item("the held-back cut", "Elm bridge opens after two years", CUT, "gazette.example", 60_000, 0, 5)
AGAIN = Item("again", VARIANT.title, CUT, "herald.example", 120_000, 0, 6)
NEAR = Item("near", VARIANT.title, CUT + " More soon.", "herald.example", 120_000, 0, 6)


def judged(items: Sequence[Item], way: str, tmp_path: Path) -> list[Verdict]:
    if way == "in one batch":
        with Deduplicator() as dedup:
            return dedup.judge(items).verdicts
    verdicts = []
    with Script() as script:
        for item in items:
            batch = script.judge([item])
            verdicts += batch.verdicts
            script.apply(batch)
            if way == "after a restart":
                script.save(tmp_path / "seen")
                script = Script.load(tmp_path / "seen")
    return verdicts


@pytest.mark.parametrize("way", ["in one batch", "one by one", "after a restart"])
@pytest.mark.parametrize("last", [AGAIN, NEAR], ids=["the same words", "other words"])
def test_the_figures_are_those_of_the_item_that_is_named(last: Item, way: str, tmp_path: Path) -> None:
    _, cut, verdict = judged([ORIGINAL, VARIANT, last], way, tmp_path)
    assert (cut.kind, verdict.kind) == (Kind.DUPLICATE, Kind.DUPLICATE)
    assert cut.evidence is not None
    assert cut.evidence.compared is None
    assert verdict.original is not None
    assert (verdict.original.id, verdict.original.offset, verdict.original.time) == ("the original", 4, 0)
    assert verdict.evidence is not None
    assert (verdict.stage is Stage.EXACT) == (last is AGAIN)
    if verdict.evidence.compared is None:
        named = ORIGINAL
    else:
        assert verdict.evidence.compared == "the held-back cut"
        named = VARIANT
    assert named is VARIANT or last is NEAR, "the same words are those of the cut"
    explained = explain(named, last, Settings()).verdict.evidence
    assert explained is not None
    views = ("body", "containment", "lead", "headline")
    assert [getattr(explained, view) for view in views] == [getattr(verdict.evidence, view) for view in views]


def test_the_same_words_as_a_held_back_copy_are_not_those_of_the_original(tmp_path: Path) -> None:
    verdict = judged([ORIGINAL, VARIANT, AGAIN], "one by one", tmp_path)[-1]
    assert verdict.similarity == 1.0
    assert verdict.as_json()["evidence"]["compared"] == "the held-back cut"
    assert explain(ORIGINAL, AGAIN, Settings()).views[2].jaccard < 0.8
    assert describe_verdict(verdict) == (
        "Held back: the same words as a held-back copy of its original (the held-back cut), throughout."
    )


def test_novelty_is_not_claimed_where_nobody_asked() -> None:
    """Two headlines of one site: a guard vetoes, so nobody asks whether anything is new."""
    other = Item("other", "Ferry sinks off the coast of Pinegrove", WHOLE, "post.example", 60_000)
    with Deduplicator() as dedup:
        verdict = dedup.judge([ORIGINAL, other]).verdicts[1]
    assert verdict.stage is Stage.GUARD
    assert verdict.evidence is not None
    assert verdict.evidence.novelty is None
