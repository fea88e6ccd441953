"""Measure how the time of a text grows with its length, for each pattern of hostile.py, on each way of a text.

A way is a function of one text. A way with the name of a field leads from the bytes of a record to a verdict (decode,
fingerprint, judge, remember); `content` is the text of a record in NewsAPI's form, which is cut. The others lead from a
text to what a person sees of it.
"""

import gc
import json
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from stream_dedup.dedup.decider import Decider
from stream_dedup.fingerprint.kernel import word_spans
from stream_dedup.news.clean import Cleaner
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import ItemSettings, Settings, load_settings
from stream_dedup.tools.cli.compare import side_by_side
from stream_dedup.tools.marks import compare_items
from stream_dedup.tools.report import Report
from stream_dedup.tools.survey.summary import rows_of
from stream_dedup.tools.survey.survey import Survey, why_unreadable

FIELDS = ("id", "title", "text", "source", "url", "published", "content")
Way = Callable[[str], object]


def record_of(field: str, text: str) -> bytes:
    """A record with this text in a field. Its own headline keeps it from being empty."""
    fields = {"id": "0", "title": "Mayor opens the bridge over the Elm", "text": "It opened on Monday."}
    if field == "content":
        fields = {"title": fields["title"], "content": "", "description": "x", "publishedAt": "2024-01-01"}
    return json.dumps(fields | {field: text}, ensure_ascii=False).encode("utf-8", "replace")


def ways() -> dict[str, Way]:
    """Every way of a text."""
    settings = load_settings()
    decode = Decoder(settings.item)
    families: dict[str, dict[str, Any]] = {
        "letters": {"shingles": "letters"},
        "SimHash": {"family": "simhash"},
        "exact": {"verify": "exact"},
    }
    return {
        **{field: partial(_judge, settings, decode, field) for field in FIELDS},
        **{name: partial(_judge, load_settings(fingerprint=one), decode, "text") for name, one in families.items()},
        "edited": partial(_judge_edit, settings, decode),
        "HTML": partial(Cleaner(ItemSettings(markup="html")), "a"),
        "page": partial(Cleaner(ItemSettings(markup="page")), "a"),
        "date": why_unreadable,
        "words": word_spans,
        "explain": _explain,
        "survey": partial(_survey, settings, decode),
        "report": partial(_report, settings),
    }


def _judge(settings: Settings, decode: Decoder, field: str, text: str) -> None:
    """Judge an item twice: as a new one, and as a copy."""
    with Decider(settings) as dedup:
        for _ in range(2):
            dedup.apply(dedup.judge([decode(record_of(field, text), b"key", None, 0, 1)]))


def _judge_edit(settings: Settings, decode: Decoder, text: str) -> None:
    """Judge a text, and then one whose last tenth alone is known; before it stands the rest, backwards."""
    cut = len(text) - len(text) // 10
    with Decider(settings) as dedup:
        for one in (text, text[:cut][::-1] + text[cut:]):
            dedup.apply(dedup.judge([decode(record_of("text", one), b"key", None, 0, 1)]))


def _survey(settings: Settings, decode: Decoder, text: str) -> None:
    survey = Survey(decode.read, settings)
    for field in FIELDS:
        record = record_of(field, text)
        survey.add(decode(record, None, None, 0, 1), record, 0, 1)
    rows_of(survey.summary())


def _explain(text: str) -> None:
    """Show a text beside one that lacks its middle."""
    other = text[: len(text) // 3] + " x " + text[len(text) // 2 :]
    items = (Item("", one, one, "", 0) for one in (text, other))
    list(side_by_side(*compare_items(*items), 100))


def _report(settings: Settings, text: str) -> None:
    report = Report(settings, Path("report.html"), "a file")
    items = [Item("1", text, text, text, 1, 0, 1), Item("2", text, f"{text} {text}", text, 2, 0, 2)]
    with Decider(settings) as dedup:
        report.add(items, dedup.judge(items).verdicts, "{}:{}".format)
    report.html()


def seconds(way: Way, text: str) -> float:
    """Processor time of a way."""
    start = time.process_time()
    way(text)
    return time.process_time() - start


def growth(way: Way, short: str, long: str, most: float, tries: int) -> list[float]:
    """Seconds of a short and of a long text, the least of some tries; until the second is not too many times as much.

    Other programs slow down some measurements, none of them a quadratic search.
    """
    gc.collect()
    least = [math.inf, math.inf]
    for _ in range(tries):
        least = [min(time, seconds(way, text)) for time, text in zip(least, (short, long), strict=True)]
        if least[1] <= most * least[0]:
            break
    return least
