"""`explain` gives the verdict of the stream for two items, with exact similarities beside the estimates."""

import msgspec
import pytest

from stream_dedup.evaluate.explain import explain, swapped_words
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings

TEXT = "The old ferry was taken out of service on Monday morning after engineers had found cracks in its hull."


def item(name: str, title: str, text: str, source: str = "") -> Item:
    return Item(name, title, text, source or f"{name}.example", -1)


def test_a_copy_is_explained_by_its_views() -> None:
    told = explain(item("a", "Ferry stopped", TEXT), item("b", "Ferry stopped today", TEXT + " More soon."), Settings())
    views = {view.name: view for view in told.views}
    assert views["lead"].containment == 1.0
    assert views["lead"].estimate == pytest.approx(1.0, abs=0.1)
    assert views["body"].shared == views["body"].first
    assert views["headline"].jaccard == pytest.approx(2 / 3)
    assert views["lead"].shared_keys > 0
    assert str(told.verdict.kind) == "duplicate"
    assert told.finding == str(told.verdict.stage) == "lead"


def test_the_guard_is_named() -> None:
    told = explain(
        item("a", "Ferry stopped", TEXT, "x.example"), item("b", "Other news", TEXT, "x.example"), Settings()
    )
    assert (told.finding, str(told.verdict.kind)) == ("other_headline", "unique")


def test_missing_views_have_no_estimate() -> None:
    told = explain(item("a", "", TEXT), item("b", "", "Nothing alike here"), Settings())
    assert told.views[0].estimate is None
    assert told.as_json()["verdict"]["verdict"] == "unique"


def test_every_guard_that_applies_is_told_with_its_reason() -> None:
    first = item("a", "Corn futures fall", TEXT + " Corn fell.", "x.example")
    second = item("b", "Oats markets rise", TEXT + " Oats rise.", "x.example")
    told = explain(first, second, Settings())
    assert told.speaks_for == ["lead"]  # on one site the bodies say nothing
    assert next(iter(told.against)) == told.finding == "other_headline"
    assert told.against["template"] == "same source, words swapped in headline and text"
    assert told.swapped == (["corn"], ["oats", "rise"])


MORE = (
    "A bus will take its place until the spring, and the fare stays as it was last year. "
    "Fishermen on the north pier asked why nobody had looked below the water line before."
)


def test_what_is_new_is_told_in_words_and_features() -> None:
    exact = Settings.model_validate({"fingerprint": {"verify": "exact"}})
    first = item("a", "Ferry stopped", TEXT)
    copy = explain(first, item("b", "Ferry stopped", TEXT), exact).anything_new
    longer = explain(first, item("b", "Ferry stopped", f"{TEXT} {MORE}"), exact).anything_new
    assert copy is not None
    assert longer is not None
    assert copy.words == 19
    assert copy.new_words == pytest.approx(0)
    assert longer.words == 19 + 33
    assert longer.new_share == pytest.approx(33 / 52, abs=0.1)
    assert copy.novelty < copy.threshold == 0.45
    assert copy.adds["new_prose"] == pytest.approx(0)
    assert longer.adds["new_prose"] > longer.adds["larger"] > 0 > longer.adds["covered"] > copy.adds["covered"]
    assert list(copy.adds) == sorted(copy.adds, key=lambda name: -abs(copy.adds[name]))


def test_the_novelty_is_that_of_the_verdict() -> None:
    told = explain(item("a", "Ferry stopped", TEXT), item("b", "Ferry stopped", f"{TEXT} {MORE}"), Settings())
    evidence = told.verdict.evidence
    assert told.anything_new is not None
    assert evidence is not None
    assert told.anything_new.novelty == pytest.approx(evidence.novelty)
    assert told.anything_new.new_words == pytest.approx(evidence.new_words)


@pytest.mark.parametrize("table", [{"decision": {"rule": "jaccard"}}, {"fingerprint": {"family": "simhash"}}])
def test_without_the_prose_nothing_is_said_of_what_is_new(table: dict[str, dict[str, str]]) -> None:
    told = explain(item("a", "Ferry", TEXT), item("b", "Ferry", TEXT), Settings.model_validate(table))
    assert told.anything_new is None
    assert told.as_json()["anything_new"] is None


def test_pairs_of_characters_are_swapped_where_words_are_not_spaced() -> None:
    first, second = item("a", "玉米价格下跌", "今天玉米价格下跌。"), item("b", "小麦价格下跌", "今天小麦价格下跌。")
    assert swapped_words(first, second) == (["玉米", "米价"], ["小麦", "麦价"])


def test_times_headlines_and_texts_are_compared() -> None:
    first = Item("a", "Ferry stopped", TEXT, "a.example", 0)
    second = Item("b", "Ferry stopped", TEXT.replace("Monday", "Sunday"), "b.example", 7_200_000)
    told = explain(first, second, Settings())
    assert (told.hours_apart, told.headline.word_edits, told.text.word_edits) == (2.0, 0, 1)
    assert told.grounded is not None
    undated = explain(item("a", "Ferry stopped", TEXT), msgspec.structs.replace(second, time=2**40), Settings())
    assert undated.hours_apart == 0, "without a date it came just before"
    row = told.as_json()
    assert [p["first"] for p in row["text"]["passages"] if p["where"] == "first"] == ["Monday "]


def test_the_plain_rule_has_no_guards() -> None:
    plain = Settings.model_validate({"decision": {"rule": "jaccard"}})
    told = explain(item("a", "Corn", TEXT, "x.example"), item("b", "Oats", TEXT, "x.example"), plain)
    assert (told.speaks_for, told.against) == (["body"], {})
