"""The status page without a browser: its content, its headers, and what it must not contain."""

import html
import re
import urllib.parse
from email.message import Message
from pathlib import Path

import msgspec
import pytest

import stream_dedup.tools.page
from stream_dedup.errors import BadItem, Stalled, TransactionFailed
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.tools.page.page import POLICY
from stream_dedup.worker.observer import TaskState
from tests.observe.asked import ask
from tests.observe.watched import Watched

TEXT = "The bridge over the Elm opened on Monday after two years of work, the mayor of the town said at noon."
FIRST = Item("a-1", "Elm bridge opens", TEXT, "post.example", 1_700_000_000_000, 0, 7)
COPY = Item("b-2", "Elm bridge opens at last", TEXT + " More soon.", "gazette.example", 1_700_000_060_000, 1, 9)
PASSWORD = "hunter2-of-the-feed"  # noqa: S105 - not one of ours
FOLDER = Path(stream_dedup.tools.page.__path__[0])


def get(worker: Watched, path: str = "/") -> tuple[int, Message, str]:
    status, headers, body = ask(worker.url, path)
    return status, headers, body.decode()


def words(worker: Watched, path: str = "/") -> str:
    """Return the text of the page as a reader sees it."""
    page = re.sub(r"<[^>]*>", " ", get(worker, path)[2])
    return re.sub(r"\s+", " ", html.unescape(page))


def test_a_worker_with_one_distrusted_broker_is_said_to_work(watched: Watched) -> None:
    watched.watch.loop_completed(["global"])
    watched.watch.brokers_distrusted({"b.example:9093": "b.example:9093: its certificate has expired"})
    text = words(watched)
    assert "B.example:9093: its certificate has expired. What this broker leads does not go through" in text
    assert "when that is over" not in text


def test_unreachable_brokers_are_shown_at_the_top(watched: Watched) -> None:
    watched.watch.loop_completed(["global"])
    watched.watch.brokers_unreachable(8.0, "no broker at b.example:9092 has answered for 8 s: <b>refused</b>")
    text = words(watched)
    assert "degraded" in text
    assert "No broker at b.example:9092 has answered for 8 s: <b>refused</b>. Nothing is lost" in text
    assert "<b>" not in get(watched)[2]
    assert "stream_dedup_brokers_away_seconds 8.0" in get(watched, "/metrics")[2]
    status, _, body = get(watched, "/healthz")
    assert (status, "has answered for 8 s" in body) == (200, True)
    watched.watch.brokers_reachable()
    assert "No broker" not in words(watched)
    assert "stream_dedup_brokers_away_seconds 0.0" in get(watched, "/metrics")[2]


def test_an_empty_page_explains_what_it_waits_for(watched: Watched) -> None:
    status, headers, _ = get(watched)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    text = words(watched)
    for phrase in ("ok since", "role active", "last batch committed none yet", "No input since the start"):
        assert phrase in text


@pytest.mark.parametrize("path", ["/", "/?id=x", "/page.css", "/page.js", "/icon.svg"])
def test_every_part_comes_with_a_strict_policy(watched: Watched, path: str) -> None:
    status, headers, _ = get(watched, path)
    assert status == 200
    assert headers["Content-Security-Policy"] == POLICY
    assert "unsafe" not in POLICY
    assert POLICY.startswith("default-src 'none';")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"


def test_no_template_marks_anything_as_safe_and_the_script_makes_no_markup() -> None:
    for path in (FOLDER / "templates").iterdir():
        assert not re.search(r"\|\s*safe|Markup|autoescape", path.read_text("utf-8")), path
    for path in (FOLDER / "static").glob("*.js"):
        script = path.read_text("utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\(", script), path


def test_an_item_held_back_is_shown_beside_its_original_with_differences_and_reason(watched: Watched) -> None:
    watched.judge([FIRST, COPY])
    page, text = get(watched)[2], words(watched)
    why = r"Held back: hardly anything new\. The original holds \d+ % of its article\. No word or number is new\."
    assert re.search(why, text), "a sketch estimates: the share is its own business"
    assert re.findall(r"<mark>(.*?)</mark>", page) == ["at last", "More soon."]
    assert "post.example , 2023-11-14 22:13:20 UTC, id a-1 , input partition 0 offset 7" in text
    assert "id b-2 , input partition 1 offset 9" in text
    assert re.search(r"novelty: how likely it has something new 0\.\d+ 0\.4", text)


def test_what_was_held_back_stands_right_below_health_and_charts(watched: Watched) -> None:
    watched.judge([FIRST, *(msgspec.structs.replace(COPY, id=f"b-{n}", offset=n) for n in range(12))])
    page = get(watched)[2]
    titles = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    assert titles[:4] == ["Health", "The last half hour", "Last held back", "Last updates let through"]
    assert titles[-1] == "Index"
    assert re.search(r'<details id="index-inside">\s*<summary>1 originals remembered; its inside</summary>', page)
    newest, more, _ = re.split(r'<details id="held-more">|<section id="updates"', page)
    assert re.findall(r'id="held-(\d+)"', newest) == ["12", "11", "10", "9", "8", "7", "6", "5"]
    assert re.findall(r'id="held-(\d+)"', more) == ["4", "3", "2", "1"], "one click away"
    assert "<summary>4 before them</summary>" in more


def test_an_update_is_shown_beside_its_original_with_what_is_new(watched: Watched) -> None:
    more = " ".join(f"Since noon the {n}th carriage of the parade has crossed it without any harm." for n in range(9))
    watched.judge([FIRST, msgspec.structs.replace(COPY, text=f"{TEXT} {more}")])
    page, text = get(watched)[2], words(watched)
    updates = text.partition("Last updates let through")[2]
    assert "Let through: the same article with something new." in updates
    assert re.search(r"New are \d+ words \(\d+ %\) and 8 numbers\.", updates)
    assert re.search(r"novelty: how likely it has something new [01]\.\d+ 0\.4", updates)
    assert f"<mark>{more}</mark>" in page
    assert "None since the start." in text.partition("Last held back")[2].partition("Last updates")[0]


def test_a_search_by_id_shows_the_verdict_and_its_reason(watched: Watched) -> None:
    watched.judge([FIRST, COPY, Tombstone("c-3", 5), BadItem("json", "cut short", "d-4")])
    assert "unique Elm bridge opens Let through: nothing like it is remembered. Judged" in words(watched, "/?id=a-1")
    held = words(watched, "/?id=b-2")
    assert "Its story is a-1 . stream-dedup give-back with its id lets it out." in held
    assert "duplicate Elm bridge opens at last Held back: " in held
    assert held.count("Original Elm bridge opens") == 2, "in the search and in the list"
    assert "it withdraws the item of this id" in words(watched, "/?id=c-3")
    assert "Dead letter: it cannot be judged (json: cut short)." in words(watched, "/?id=d-4")


def test_a_search_for_an_unknown_id_names_other_places_to_look(watched: Watched) -> None:
    text = words(watched, "/?id=" + urllib.parse.quote("x <b>&"))
    assert "No item with the id x <b>& is retained here." in text
    for topic in ("news.unique", "news.duplicates", "news.dead-letters"):
        assert topic in text
    assert "stream-dedup explain" in text
    assert "at most 10,000" in text


@pytest.mark.parametrize(
    "query", ["id=", "id=%ff%fe", "id=%00", "&&&&", "id=" + "x" * 60_000, "id=%ED%A0%80", "&".join(["a=1"] * 50)]
)
def test_no_query_breaks_the_page(watched: Watched, query: str) -> None:
    assert get(watched, "/?" + query)[0] == 200


def test_an_original_that_is_no_longer_retained_is_reported() -> None:
    with Watched(observe={"recent_items": 1}) as worker:
        worker.judge([FIRST])
        worker.judge([Item("x", "Other news today", "Nothing in common with anything else at all.", "y.example", 1)])
        worker.judge([COPY])
        text = words(worker)
    assert "It was let through before the last 1 items, so this page no longer has its headline" in text
    assert "id a-1 , input partition 0 offset 7" in text


def test_without_retained_items_no_text_is_shown() -> None:
    with Watched(observe={"recent_items": 0}, policy={"shadow": True}) as worker:
        worker.judge([FIRST, COPY])
        text = words(worker, "/?id=b-2")
    assert "Elm" not in text
    assert "This page retains no items" in text
    assert "of these held back 1" in text, "the numbers remain"
    assert "Shadow mode: everything goes to the output." in text


def test_standby_restore_and_failure_are_shown(watched: Watched) -> None:
    watched.watch.task_lost("global", "rebalance")
    watched.watch.loop_completed([])
    assert "standby since" in words(watched)
    assert "This one takes over when it ends." in words(watched)
    watched.watch.standby_progress("global", 0.8)
    assert "It has read the changelog to its end." in words(watched)
    watched.watch.standby_progress("global", 150.0)
    assert "It was last at the end of the changelog 2.5 minutes ago." in words(watched)
    watched.watch.tasks({"1": TaskState.FAILING, "global": TaskState.OPENING})
    watched.watch.loop_completed(["0"])
    assert "Tasks that fail and are retried: 1." in words(watched)
    watched.watch.restore_progress("global", 1, 4)
    assert "role restoring" in words(watched)
    watched.watch.error(Stalled("no answer <i>"), None)
    assert "Stalled , the worker ended: no answer <i>" in words(watched)


def test_neither_page_nor_metrics_nor_health_contains_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    kafka = {
        "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "feed-user-7",
        "sasl_password": PASSWORD, "ssl_certfile": "/secret/cert.pem", "ssl_keyfile": "/secret/key.pem",
    }  # fmt: skip
    with Watched(kafka=kafka) as worker:
        worker.watch.error(TransactionFailed(f"SASL: bad password {PASSWORD} of a client"), 0.2)
        worker.judge([FIRST, COPY])
        output = "".join(get(worker, path)[2] for path in ("/", "/?id=a-1", "/metrics", "/healthz", "/page.js"))
    for secret in (PASSWORD, "feed-user-7", "/secret/key.pem"):
        assert secret not in output
        assert secret not in caplog.text
    assert "bad password *** of a client" in output


def test_a_page_that_fails_is_logged_and_affects_nothing_else(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("stream_dedup.tools.page.page.charts", lambda now: 1 / 0)
    status, _, body = get(watched)
    assert (status, body) == (500, "this failed; the log says why\n")
    assert "ZeroDivisionError" in caplog.text
    assert get(watched, "/healthz")[0] == 200


def test_times_beyond_any_calendar_are_shown(watched: Watched) -> None:
    watched.judge([Item("1", "A headline", "Words.", "x.example", 2**62), Item("2", "Another", "Lines.", "", -1)])
    assert "out of any calendar" in words(watched, "/?id=1")
    assert "no source , unknown" in words(watched, "/?id=2")


def test_the_input_is_summarized(watched: Watched) -> None:
    assert "Input No input since the start." in words(watched)
    watched.judge([FIRST, COPY, BadItem("json", "Input data was truncated")])
    text = words(watched)
    assert "items 3 items, 1 bad" in text
    assert "sources 2: post.example (1), gazette.example (1)" in text
    assert "title 100 % Elm bridge opens" in text
    assert "url 0 % -" in text
    assert "json: Input data was truncated" in text


def test_warnings_about_the_input_are_shown(watched: Watched) -> None:
    watched.judge([Item(f"n{i}", f"Elm bridge {i}", "", "post.example", 1_700_000 + i, 0, i) for i in range(12)])
    text = words(watched)
    assert "Looks wrong: No item has a text" in text
    assert text.index("Health") < text.index("Looks wrong") < text.index("The last half hour")
    assert " doubtful" in get(watched, "/")[2]
    assert "Looks wrong: All dates lie in January 1970" in text


def test_rules_for_sources_are_counted_and_their_items_shown() -> None:
    with Watched(sources={"pass": ["gazette.example"], "ignore": ["ads.example"]}) as watched:
        watched.judge([FIRST, COPY, msgspec.structs.replace(FIRST, id="c-3", source="ads.example")])
        text, metrics = words(watched), get(watched, "/metrics")[2]
    assert "Let through by [sources] since the start: pass 1, ignore 1." in text, "no source is preferred"
    assert "Let through: its source is never held back; sources.pass." in text
    assert 'stream_dedup_source_rules_total{rule="pass"} 1.0' in metrics
    assert 'stream_dedup_source_rules_total{rule="prefer"} 0.0' in metrics
