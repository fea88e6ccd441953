"""Each format on Kafka gives the verdicts of its JSON twins, and goes on byte for byte."""

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape

import pytest

from stream_dedup.tools.demo.embedded import EmbeddedKafka
from stream_dedup.tools.demo.newsroom import sample_feed
from tests.harness.check import assert_exactly_once
from tests.harness.feed import feed
from tests.harness.topics import make_settings, ready
from tests.worker.support import run_until

pytestmark = pytest.mark.kafka

ITEMS = 400


def elements(item: dict[str, Any], **names: str) -> str:
    return "".join(f"<{name}>{escape(str(item[of]))}</{name}>" for name, of in names.items())


def rss(item: dict[str, Any]) -> str:
    fields = elements(item, guid="id", title="title", description="text", source="source", pubDate="published")
    return f"<?xml version='1.0'?>\n<rss><channel><item>{fields}</item></channel></rss>"


def nitf(item: dict[str, Any]) -> str:
    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in item["lines"].split("\n"))
    return (
        f"<nitf><head><docdata><doc-id id-string='{item['id']}'/><doc.copyright holder='{item['source']}'/></docdata>"
        f"</head><body><body.head><hedline>{elements(item, hl1='title')}</hedline></body.head>"
        f"<body.content>{paragraphs}</body.content></body></nitf>"
    )


def event(item: dict[str, Any], **data: Any) -> str:
    return json.dumps({"specversion": "1.0", "id": item["id"], "source": item["source"], "type": "news"} | data)


FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {
    "rss": rss,
    "nitf": nitf,
    "event": lambda item: event(item, data={"title": item["title"], "text": item["text"]}),
    "event with xml": lambda item: event(item, data_base64=b64encode(rss(item).encode()).decode()),
    "json feed": lambda item: json.dumps({"version": "https://jsonfeed.org/version/1.1", "items": [item]}),
}


def test_each_format_gives_the_verdicts_of_its_json_twins(
    kafka: EmbeddedKafka, topic_name: Callable[[str], str]
) -> None:
    """One format after the other in turn, so that copies of an article meet in different formats.

    A text of paragraphs in HTML or NITF has no line breaks, so that of the twins is one line.
    """
    items = [item | {"lines": item["text"], "text": " ".join(item["text"].split("\n"))} for item in sample_feed(ITEMS)]
    formats = list(FORMATS.values())
    came = {}
    for kind in ("json", "mixed"):
        settings = ready(make_settings(kafka.bootstrap, lambda role, kind=kind: topic_name(f"{role}-{kind}")))
        values = [
            json.dumps(item) if kind == "json" else formats[n % len(formats)](item) for n, item in enumerate(items)
        ]
        sent = feed(settings, [(str(n).encode(), value.encode()) for n, value in enumerate(values)])
        run_until(settings, len(sent))
        came[kind] = assert_exactly_once(settings, sent)
        assert not came[kind].dead_letters
        whole = {one.key: one.value for one in sent}
        assert all(record.value == whole[record.key] for record in came[kind].every), "byte for byte"
    assert came["mixed"].verdicts() == came["json"].verdicts()
    assert came["json"].duplicates


def test_headers_of_a_cloud_event_reach_the_verdicts(kafka: EmbeddedKafka, topic_name: Callable[[str], str]) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name))
    attributes = {"ce_id": b"e1", "ce_source": b"https://wire.example/a"}  # a path alone would be no source
    sent = feed(settings, [(b"k", b'{"title": "T", "text": "One text."}')], **attributes)
    sent += feed(settings, [(b"l", b'{"title": "U", "text": "Another one."}')], **attributes)
    run_until(settings, 2)
    came = assert_exactly_once(settings, sent)
    assert {kind for kind, *_ in came.verdicts().values()} == {"unique", "update"}, "two versions of one id"
