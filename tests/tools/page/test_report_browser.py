"""Reports in a real Chromium: hostile news runs no script, the search narrows, and the pages are accessible."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.errors import BadItem
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from stream_dedup.tools.batch.pairs import find_pairs
from stream_dedup.tools.cluster_report import ClusterReport
from stream_dedup.tools.demo.newsroom import sample_records
from stream_dedup.tools.evaluate.evaluation import evaluate
from stream_dedup.tools.report import Report
from tests.observe.watched import bad, unique
from tests.tools.evaluate import test_report as evaluation
from tests.tools.page.test_page_browser import PAYLOADS, Listener

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on synthetic news."""
    settings, path = load_settings(), tmp_path_factory.mktemp("report") / "report.html"
    decode, page = Decoder(settings.item), Report(settings, path, "news.jsonl")
    records = enumerate(sample_records(400, 7))
    items = [decode(value, key, 1_700_000_000_000 + n, 0, n) for n, (key, value) in records]
    dedup = Decider(settings)
    verdicts = dedup.judge([*items, BadItem("json", "cut")]).verdicts
    dedup.close()
    page.add([*items, BadItem("json", "cut")], verdicts, lambda number, line: f"news.jsonl:{line}")
    path.write_text(page.html(), "utf-8")
    return path


def test_hostile_news_runs_no_script_and_loads_nothing(tmp_path: Path, page: "Page") -> None:
    path = tmp_path / "report.html"
    report = Report(load_settings(), path, PAYLOADS[1])
    for n, payload in enumerate(PAYLOADS):
        text = f"{payload} The bridge opened on Monday. {payload}"
        first = Item(f"1{payload}", payload, text, payload, 1_700_000_000_000, 0, 1)
        copy = Item(f"2{payload}", f"{payload} again", f"{text} Late.", payload, 1_700_000_000_000, 0, 2)
        evidence = Evidence(0.5, 0.5, 0.5, cut=payload, novelty=n / 100, adds=payload)
        verdict = Verdict(copy.id, Kind.UPDATE, Stage.POLICY, False, Original(first.id, 1, 0, 1), evidence, payload)
        dead = bad(payload)
        report.add([first, copy, BadItem(payload, payload)], [unique(first.id), verdict, dead], lambda *_: PAYLOADS[2])
    path.write_text(report.html(), "utf-8", "replace")
    listener = Listener(page, path.as_uri())
    page.goto(path.as_uri(), wait_until="load")
    page.fill("#query", "bridge")
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    elements = "a, img, iframe, video, math, base, marquee, style, template, meta, link, script, svg"
    assert page.locator(f"main :is({elements})").count() == 0
    assert page.locator("#held details").count() == len(PAYLOADS)
    assert PAYLOADS[0] in page.inner_text("#held")
    page.evaluate("bad => document.body.insertAdjacentHTML('beforeend', bad)", "<img src=x onerror=window.hit=1>")
    page.wait_for_timeout(200)
    assert page.evaluate("window.hit") is None
    refused = [one for one in listener.messages if "Content Security Policy" in one]
    assert refused, "the policy acts"
    assert len(refused) == len([one for one in listener.messages if not one.startswith("request")])


def test_the_search_narrows_the_pairs_by_words_reason_and_source(made: Path, page: "Page") -> None:
    listener = Listener(page, made.as_uri())
    page.goto(made.as_uri())
    pairs = page.locator("details.one")
    every, visible = pairs.count(), page.locator("details.one:visible")
    assert every == visible.count() > 10
    title = page.text_content("#held details.one:last-of-type summary bdi") or ""
    page.fill("#query", title.upper())
    assert 0 < visible.count() < every
    assert all(word in visible.first.text_content().lower() for word in title.lower().split())  # type: ignore[union-attr]
    page.fill("#query", "similar headlines")  # said of pairs by the page, not by the news
    assert visible.count() == 0
    assert "0 of them match." in page.inner_text("#held")
    page.fill("#query", "")
    for field in ("reason", "source"):
        value = page.get_attribute("#updates details.one >> nth=0", f"data-{field}")
        page.select_option(f"#{field}", value)
        assert every > visible.count() == page.locator(f'details.one[data-{field}="{value}"]').count()
        page.select_option(f"#{field}", "")
    page.click("text=Unfold all")
    assert page.locator("details.one[open]").count() == every
    page.click("text=Fold all")
    assert page.locator("details.one[open]").count() == 0
    assert listener.messages == []


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of `evaluate` with labels that disagree."""
    path = tmp_path_factory.mktemp("evaluated") / "report.html"
    path.write_text(evaluation.made(evaluate(evaluation.LINES, load_settings(), evaluation.LABELS)), "utf-8")
    return path


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of `pairs` on synthetic news, of which one item has hostile texts."""
    directory, settings = tmp_path_factory.mktemp("clustered"), load_settings()
    news, page = directory / "news.jsonl", directory / "report.html"
    values = [value for _, value in sample_records(400, 7)]
    hostile = dict.fromkeys(("title", "text", "source"), f"{PAYLOADS[0]} The bridge opened on Monday. {PAYLOADS[0]}")
    news.write_bytes(
        b"\n".join([*values, *(json.dumps({"id": f"{n}{PAYLOADS[0]}", **hostile}).encode() for n in "12")])
    )
    report = ClusterReport(settings, page, PAYLOADS[0], lambda number, line: f"news.jsonl:{line}")
    find_pairs([news], directory / "pairs.jsonl", None, settings=settings, report=report)
    return page


def test_a_report_of_clusters_has_the_item_that_is_kept_first_and_marks_differences(
    clustered: Path, page: "Page"
) -> None:
    listener = Listener(page, clustered.as_uri())
    page.goto(clustered.as_uri())
    assert page.locator("main :is(a, img, script, iframe, svg)").count() == 0
    blocks = page.locator("details.one")
    assert blocks.count() > 10
    assert blocks.first.locator(".pair").first.locator("h4").all_inner_texts() == ["Kept", "This item"]
    assert blocks.first.locator("h3").first.inner_text().startswith("It has something new")
    assert blocks.first.locator("mark").count() > 0
    page.select_option("#reason", "among the largest")
    assert 0 < page.locator("details.one:visible").count() < blocks.count()
    page.select_option("#reason", "")
    page.fill("#query", "the bridge opened on monday")
    assert page.locator("details.one:visible").count() == 1
    assert listener.messages == []


@pytest.mark.parametrize("which", ["made", "evaluated", "clustered"])
@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1200), ("light", 1200), ("dark", 390)])
def test_reports_are_accessible(
    request: pytest.FixtureRequest, browser: "Browser", scheme: Any, width: int, which: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    made = request.getfixturevalue(which)
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
    page.goto(made.as_uri())
    results = Axe().run(page)
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()
    assert results.violations_count == 0, results.generate_report()


def test_without_scripts_every_pair_can_be_read(made: Path, browser: "Browser") -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(made.as_uri())
    assert page.is_hidden("#filter")
    assert page.locator("details.one:visible").count() > 10
    assert "Held back:" in page.inner_text("#held")
    context.close()
