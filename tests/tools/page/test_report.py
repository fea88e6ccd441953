"""The report of a run without a browser: what it shows, in which order, and what bounds it."""

import html
import re
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.source_rules import IGNORE, REASONS
from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools import report
from stream_dedup.tools.report import SHOWN, TEXT_CHARS, Report
from tests.observe.watched import bad, unique

TEXT = "The bridge over the Elm opened on Monday after two years of work."
NOW = 1_700_000_000.0


def item(name: str, text: str = TEXT, title: str = "Elm bridge opens", source: str = "post.example") -> Item:
    return Item(name, title, text, source, 1_700_000_000_000, 0, int(name))


def held(name: str, of: str, novelty: float | None = 0.1, stage: Stage = Stage.BODY) -> Verdict:
    return Verdict(name, Kind.DUPLICATE, stage, False, Original(of, 0, 0, int(of)), Evidence(novelty=novelty))


def update(name: str, of: str, novelty: float, adds: str | None = None) -> Verdict:
    evidence = Evidence(novelty=novelty, adds=adds)
    return Verdict(name, Kind.UPDATE, Stage.BODY, True, Original(of, 0, 0, int(of)), evidence)


Judged = Sequence[tuple[Item | Tombstone | BadItem, Verdict]]


def made(judged: Judged, settings: Settings | None = None, done_before: int = 0) -> str:
    page = Report(settings or Settings(), Path("report.html"), "news.jsonl", clock=lambda: NOW)
    page.add([one for one, _ in judged], [verdict for _, verdict in judged], lambda number, line: f"in-{number}:{line}")
    return page.html(done_before)


def words(page: str) -> str:
    """The text of the page as a reader sees it."""
    page = re.sub(r"(?s)<(style|script)>.*?</\1>", "", page)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))


def shown(page: str, name: str) -> list[str]:
    """The ids of the items of a list, in the order of the page."""
    (section,) = re.findall(rf'(?s)<section id="{name}".*?\n</section>\n(?:\n|</main>)', page)
    return re.findall(r'<h4>This item</h4>(?s:.*?)id <bdi class="id">(.*?)</bdi>', section)


def test_everything_is_counted_by_verdict_reason_and_source() -> None:
    judged: Judged = [
        (item("1"), unique("1")),
        (item("2", source="gazette.example"), held("2", "1")),
        (item("3", source="gazette.example"), held("3", "1", None, Stage.EXACT)),
        (item("4", source="gazette.example"), update("4", "1", 0.9)),
        (Tombstone("1", 5), Verdict("1", Kind.TOMBSTONE, Stage.POLICY, True)),
        (BadItem("json", "cut <short>"), bad("json: cut <short>")),
    ]
    text = words(made(judged))
    assert "items 6 new 1 16.7 % updates let through 1 16.7 % held back 2 33.3 % bad: not judged 1 16.7 %" in text
    assert "held back similar texts 1" in text
    assert "held back the same text 1" in text
    assert "let through the same article, with something new 1" in text
    assert "gazette.example 3 2 66.7 % 1 post.example 1 0 0.0 % 0" in text
    assert "Bad items: the first of each reason json: cut <short>" in text


def test_doubtful_pairs_come_first() -> None:
    """The threshold is .4; who was decided without it is in no doubt."""
    novelty = {"2": 0.01, "3": 0.39, "4": None, "5": 0.2}
    judged = [(item(name), held(name, str(int(name) + 10), value)) for name, value in novelty.items()]
    judged += [(item("6"), update("6", "16", 0.95)), (item("7"), update("7", "17", 0.41))]
    originals = [(item(str(n)), unique(str(n))) for n in range(12, 18)]
    page = made([*originals, *judged])
    assert shown(page, "held") == ["3", "5", "2", "4"]
    assert shown(page, "updates") == ["7", "6"]


def test_of_each_reason_the_most_doubtful_pairs_are_shown_and_the_rest_is_counted() -> None:
    count = 3 * SHOWN
    originals = [(item(str(n)), unique(str(n))) for n in range(count)]
    copies = [(item(str(count + n)), held(str(count + n), str(n), n / count / 3)) for n in range(count)]
    exact = (item("900"), held("900", "0", None, Stage.EXACT))
    page = made([*originals, *copies, exact])
    assert shown(page, "held") == [*(str(2 * count - 1 - n) for n in range(SHOWN)), "900"]
    assert f"Pairs left out: {2 * SHOWN}." in words(page)
    assert f"{SHOWN + 1} of {count + 1}, doubtful ones first" in words(page)


def test_one_story_with_many_copies_does_not_fill_the_page() -> None:
    page = made([(item("1"), unique("1")), *((item(str(n)), held(str(n), "1", n / 1000)) for n in range(2, 99))])
    assert shown(page, "held") == ["98"]


def test_a_pair_whose_original_is_no_longer_known_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_MOST_ITEMS", 2)
    page = made([*((item(str(n)), unique(str(n))) for n in range(9)), (item("10"), held("10", "0"))])
    assert shown(page, "held") == []
    assert "Pairs left out: 1, of which 1 because the original was let through too long before" in words(page)


def test_texts_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "word " * TEXT_CHARS
    page = made([(item("1", long), unique("1")), (item("2", long), held("2", "1"))])
    assert page.count("word ") <= 2 * TEXT_CHARS / 5
    assert "<mark>" not in page, "the end of a cut text is no difference"


def test_its_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_MOST_BYTES", 300_000)
    monkeypatch.setattr(report, "_MOST_SOURCES", 50)
    page = Report(Settings(), Path("report.html"), "news.jsonl")

    def feed(first: int) -> int:
        for n in range(first, first + 1500, 2):
            a, b = str(n), str(n + 1)
            texts = [f"{n} " + "x" * 1000, f"{n} " + "y" * 1000]
            items = [item(name, text, source=f"{name}.example") for name, text in zip((a, b), texts, strict=True)]
            page.add(items, [unique(a), held(b, a, n % 400 / 1000)], lambda number, line: "")
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before, after = feed(0), feed(10_000)
    finally:
        tracemalloc.stop()
    assert after < before * 1.1 + 50_000
    assert "(other sources) 2,950 1,475" in words(page.html())


def test_shadow_mode_and_a_resumed_run_are_said() -> None:
    judged = [(item("1"), unique("1"))]
    text = words(made(judged, load_settings(policy={"shadow": True}), 1234))
    assert "Items that this page calls “held back” were let through, too." in text
    assert "1,234 items were judged before this run was resumed. They are not on this page." in text
    assert "Shadow mode" not in words(made(judged))
    assert "resumed" not in words(made(judged))


def test_long_passages_in_common_are_shortened_and_new_ones_are_shown_whole() -> None:
    common, news = "".join(f"Sentence {n} of both. " for n in range(99)), "".join(f"Novelty {n}. " for n in range(99))
    page = made([(item("1", common), unique("1")), (item("2", common + news), update("2", "1", 0.9))])
    assert re.findall(r"Sentence (\d+) of both\. (?:\s*\[…\])", page) == ["9", "9"]
    assert page.count("Sentence 98 of both.") == 2
    assert f"<mark>{news}</mark>" in page


def test_the_marks_of_an_update_name_what_it_adds_and_no_moved_paragraph() -> None:
    tail = "The mayor said that the council will pay for a ferry on Sundays until the spring. "
    items = [item("1", f"{TEXT} {tail}"), item("2", f"{tail}{TEXT.replace('two years', 'nine months')}")]
    with Decider(load_settings(decision={"novelty": 0.0})) as dedup:
        verdicts = dedup.judge(items).verdicts
    page = made(list(zip(items, verdicts, strict=True)))
    assert re.findall("<mark>(.*?) ?</mark>", page) == ["two years", "nine months"]
    assert verdicts[1].evidence
    assert '"nine months": ' in (verdicts[1].evidence.adds or "")


def test_items_of_ignored_sources_are_counted_as_a_reason_and_are_no_updates() -> None:
    ignored = Verdict("1", Kind.UNIQUE, Stage.POLICY, True, reason=REASONS[IGNORE])
    text = words(made([(item("1"), ignored), (item("2"), unique("2"))]))
    assert "let through its source is neither compared nor remembered; sources.ignore 1 " in text
    assert "updates let through 0 " in text
    assert "sources.ignore" not in words(made([(item("2"), unique("2"))]))
