"""explain says of two items what the stream would say, with the exact sets beside the estimates."""

import pytest

from stream_dedup.evaluate.explain import explain
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
