"""The status page of a real worker shows what was held back and why, and finds an item by its id."""

import html
import re
import threading
import urllib.request
from collections.abc import Callable

import pytest

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.observe.watch import Watch
from stream_dedup.worker.observer import BatchReport, Observer
from stream_dedup.worker.worker import Worker
from tests.worker.support import article, feed, make_settings, ready

pytestmark = pytest.mark.kafka
TEXT = "The bridge over the Elm opened on Monday after two years of work, the mayor of the town said at noon."


def test_the_page_shows_what_a_worker_held_back(kafka: EmbeddedKafka, topic_name: Callable[[str], str]) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name, observe={"port": 0}))
    first = article("a-1", TEXT, "Elm bridge opens")
    copy = article("b-2", f"{TEXT} <script>alert(1)</script> More soon.", "Elm bridge opens at last", "gazette.example")
    feed(settings, [(b"1", first), (b"2", copy), (b"3", b"{")])
    stop, pages = threading.Event(), {}

    class Reader(Observer):
        judged = 0

        def batch(self, report: BatchReport) -> None:
            self.judged += len(report.verdicts)
            if self.judged == 3:
                stop.set()

    with Watch(settings, "1.2.3", Reader()) as watch:
        timer = threading.Timer(60, stop.set)
        timer.start()
        Worker(settings, observer=watch, deduplicator=watch.deduplicator).run(stop)
        timer.cancel()
        for path in ("/", "/?id=b-2"):
            with urllib.request.urlopen(f"{watch.url}{path}", timeout=10) as answer:  # noqa: S310 - our own server
                pages[path] = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", answer.read().decode())))
    assert "items since the start 3" in pages["/"]
    assert "of these held back 1 dead letters 1" in pages["/"]
    assert "Held back: " in pages["/"]
    assert "id b-2 , input partition 0 offset 1" in pages["/"]
    assert "json: " in pages["/"]
    assert "Input items 3 items, 1 bad read as plain (2) record times " in pages["/"]
    assert "duplicate Elm bridge opens at last Held back: " in pages["/?id=b-2"]
