"""`explain` gives the verdict of the stream for two items, with exact similarities beside the estimates."""

from dataclasses import asdict

import msgspec
import pytest

from stream_dedup.dedup.rule import logit
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings
from stream_dedup.tools.evaluate.explanation import explain
from stream_dedup.tools.marks import Side

TEXT = "The old ferry was taken out of service on Monday morning after engineers had found cracks in its hull."
MORE = (
    "A bus will take its place until the spring, and the fare stays at 14 crowns as it was last year. "
    "Fishermen on the north pier asked why nobody had looked below the water line before."
)


def item(name: str, title: str, text: str, source: str = "") -> Item:
    return Item(name, title, text, source or f"{name}.example", -1)


def test_a_copy_is_explained_by_its_views_and_keys() -> None:
    told = explain(item("a", "Ferry stopped", TEXT), item("b", "Ferry stopped today", TEXT + " More soon."), Settings())
    headline, body = told.views
    assert headline.jaccard == pytest.approx(2 / 3)
    assert (body.shared, body.containment) == (body.first, 1.0)
    assert body.estimate == pytest.approx(body.jaccard, abs=0.1)
    anchors, bands, text = told.keys
    assert (anchors.kind, anchors.keys) == ("anchors", 14), "21 words have 14 shingles of 8"
    assert anchors.shared == 12, "two of which are new"
    assert (bands.kind, bands.keys) == ("headline", 2)
    assert (text.kind, text.keys, text.shared) == ("text", 1, 0)
    assert str(told.verdict.kind) == "duplicate"


def test_missing_views_have_no_estimate() -> None:
    told = explain(item("a", "", TEXT), item("b", "", "Nothing alike here"), Settings())
    assert (told.views[0].estimate, told.grounded) == (None, None)
    assert told.as_json()["verdict"]["verdict"] == "unique"


def test_what_is_new_is_told_in_words_sentences_and_numbers() -> None:
    first = item("a", "Ferry stopped", TEXT)
    copy = explain(first, item("b", "Ferry stopped", TEXT), Settings())
    longer = explain(first, item("b", "Ferry stopped", f"{TEXT} {MORE}"), Settings())
    assert copy.added
    assert longer.added
    assert asdict(copy.added) == {"words": 19, "new_words": 0, "sentences": 0, "numbers": 0, "new_numbers": 0}
    new = set(MORE.lower().replace(".", "").replace(",", "").split()) - set(TEXT.lower().split())
    assert longer.added.new_words == pytest.approx(len(new), abs=2), "the filter of words errs"
    assert longer.added.sentences == len(MORE.split())
    assert (longer.added.numbers, longer.added.new_numbers) == (1, 1)
    evidence = longer.verdict.evidence
    assert evidence
    assert longer.novelty
    assert longer.novelty.probability == pytest.approx(evidence.novelty), "that of the verdict"
    assert longer.added.new_words == pytest.approx(evidence.new_words, abs=0.5)


def test_the_reasons_of_both_models_add_up_to_what_they_say() -> None:
    first = item("a", "Ferry stopped", TEXT, "x.example")
    copy = explain(first, item("b", "Ferry stopped", TEXT), Settings())
    other = explain(first, item("b", "Fares rise", f"{MORE} {TEXT}", "x.example"), Settings())
    assert copy.novelty
    assert copy.kinship
    assert other.novelty
    assert other.kinship
    assert copy.novelty.probability < copy.novelty.threshold == 0.4 < other.novelty.probability
    assert copy.kinship.probability > max(copy.kinship.threshold, other.kinship.probability)
    for a, b in ((copy.novelty, other.novelty), (copy.kinship, other.kinship)):
        ours, theirs = ([term.adds for term in answer.features] for answer in (a, b))
        assert theirs == sorted(theirs, key=lambda adds: -abs(adds))
        assert sum(theirs) - sum(ours) == pytest.approx(logit(b.probability) - logit(a.probability), abs=1e-3)
    assert other.as_json()["novelty"]["features"][0]["meaning"]


def test_a_reason_has_the_value_of_its_feature_and_contradicts_no_other() -> None:
    first = item("a", "Ferry stopped", TEXT, "x.example")
    told = explain(first, item("b", "Ferry stopped", f"{TEXT} {MORE}", "x.example"), Settings())
    assert told.novelty
    assert told.kinship
    values = {term.name: term.value for term in told.novelty.features}
    assert (values["headline"], values["new_sentences"], values["same_source"]) == (1.0, len(MORE.split()), None)
    assert values["larger"] is not None
    assert 2 < values["larger"] < 4, "times as long"
    assert "one source, and no series" in {term.meaning for term in told.kinship.features}


@pytest.mark.parametrize("table", [{"decision": {"jaccard": 0.5}}, {"fingerprint": {"family": "simhash"}}])
def test_where_plain_similarity_decides_no_model_is_asked(table: dict[str, dict[str, str]]) -> None:
    told = explain(item("a", "Ferry", TEXT), item("b", "Ferry", TEXT), Settings.model_validate(table))
    assert (told.novelty, told.kinship, told.added) == (None, None, None)
    assert told.as_json()["novelty"] is None


def test_times_headlines_and_texts_are_compared() -> None:
    first = Item("a", "Ferry stopped", TEXT, "a.example", 0)
    second = Item("b", "Ferry stopped", TEXT.replace("Monday", "Sunday"), "b.example", 7_200_000)
    told = explain(first, second, Settings())
    assert told.hours_apart == 2
    assert [(p.where, p.words) for p in told.headline.passages] == [(Side.BOTH, 2)]
    counts = [(Side.BOTH, 9), (Side.FIRST, 1), (Side.SECOND, 1), (Side.BOTH, 9)]
    assert [(p.where, p.words) for p in told.text.passages] == counts
    assert told.grounded is not None
    undated = explain(item("a", "Ferry stopped", TEXT), msgspec.structs.replace(second, time=2**40), Settings())
    assert undated.hours_apart == 0, "without a date it came just before"
    row = told.as_json()
    assert [p["first"] for p in row["text"]["passages"] if p["where"] == "first"] == ["Monday "]
