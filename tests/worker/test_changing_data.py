"""A feed that changes in mid-stream: each record ends in a verdict or as a dead letter, and a metric shows the change.

One topic, a producer after the other: a field is renamed, changes its type or comes empty, other formats are mixed in,
values are compressed inside. deploy/prometheus/rules.test.yml shows that the alerts fire at such metrics.
"""

import base64
import gzip
import json
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
import zstandard
from prometheus_client import CollectorRegistry

from stream_dedup.observe.watch import Watch
from stream_dedup.settings import Settings
from tests.harness.check import assert_exactly_once, header
from tests.harness.feed import feed, made_up
from tests.harness.topics import Make
from tests.worker.support import Watching, run_worker

pytestmark = pytest.mark.kafka

EACH = 8
Records = list[tuple[bytes, bytes]]


def run_watched(settings: Settings, count: int) -> CollectorRegistry:
    """Run a worker until it has judged `count` records; return its metrics as of then."""
    ending = Watching(count)
    with Watch(settings, "1.2.3", ending) as watch:
        run_worker(settings, ending, observer=watch, decider=watch.decider)
        assert ending.judged >= count, f"judged {ending.judged} of {count}"
        return watch.registry


def changed(prefix: str, change: Callable[[dict[str, str]], object], seed: int) -> Records:
    """Articles after a change of their JSON object; `change` returns another object, or bytes."""
    records = []
    for number, (_, value) in enumerate(made_up(EACH, seed)):
        other = change(json.loads(value) | {"id": f"{prefix}-{number}"})
        records.append(
            (f"{prefix}-{number}".encode(), other if isinstance(other, bytes) else json.dumps(other).encode())
        )
    return records


def renamed(article: dict[str, str]) -> object:
    """By a name that stream_dedup does not know as that of a text."""
    article["tekst"] = article.pop("text")
    return article


def rss(article: dict[str, str]) -> object:
    return {
        "guid": article["id"],
        "title": article["title"],
        "description": article["text"],
        "link": "https://a.example/",
    }


def packed(pack: Callable[[bytes], bytes]) -> Callable[[dict[str, str]], object]:
    return lambda article: pack(json.dumps(article).encode())


# What changes -> (the change, the reason of the dead letters; None: verdicts)
CHANGES: dict[str, tuple[Callable[[dict[str, str]], object], str | None]] = {
    "text-renamed": (renamed, None),
    "known-names": (lambda article: {"titel": article["title"], "inhalt": article["text"]}, None),
    "all-renamed": (lambda article: {"kop": article["title"], "tekst": article["text"]}, "empty"),
    "text-empty": (lambda article: article | {"text": ""}, None),
    "text-null": (lambda article: article | {"text": None}, None),
    "text-object": (lambda article: article | {"text": {"html": article["text"], "lang": "en"}}, None),
    "text-by-language": (lambda article: article | {"text": {"en": article["text"]}}, None),
    "text-wrapped": (lambda article: article | {"text": {"#text": article["text"]}}, None),
    "title-number": (lambda article: article | {"title": 7}, "type"),
    "list-of-items": (lambda article: [article], "type"),
    "rss": (rss, None),
    "page": (lambda article: f"<html><title>{article['title']}</title></html>".encode(), "xml"),
    "feed": (lambda article: b"<rss>" + 2 * f"<item><title>{article['title']}</title></item>".encode() + b"</rss>",
             "entries"),
    "plain-line": (lambda article: article["text"].encode(), "json"),
    "latin-1": (lambda article: json.dumps(article).replace(': "', ': "é').encode("latin-1"), "encoding"),
    "gzip": (packed(gzip.compress), "compressed"),
    "zstd": (packed(zstandard.compress), "compressed"),
    "base64": (packed(base64.b64encode), "json"),
}  # fmt: skip


def test_each_change_ends_in_verdicts_or_dead_letters_and_in_a_metric(make: Make) -> None:
    settings = make(observe={"host": ""})
    usual: Sequence[tuple[bytes, bytes]] = list(made_up(60))
    records: Records = [*usual]
    for seed, (name, (change, _)) in enumerate(CHANGES.items(), 100):
        records += changed(name, change, seed)
    sent = feed(settings, records)
    metrics = run_watched(settings, len(sent))
    came = assert_exactly_once(settings, sent)
    reasons = {record.key.rpartition(b"-")[0].decode(): header(record, "dedup-reason") for record in came.dead_letters}
    assert reasons == {name: reason for name, (_, reason) in CHANGES.items() if reason is not None}
    assert len(came.dead_letters) == EACH * len(reasons), "of each of these changes all records are dead letters"
    values = {one.key: one.value for one in sent}
    assert all(record.value == values[record.key] for record in came.dead_letters), "with their bytes"

    def metric(name: str, **labels: str) -> float | None:
        return metrics.get_sample_value(f"stream_dedup_{name}", labels)

    expected = Counter(reason for _, reason in CHANGES.values() if reason is not None)
    assert {reason: metric("bad_items_total", reason=reason) for reason in expected} == {
        reason: EACH * count for reason, count in expected.items()
    }
    assert metric("missing_fields_total", field="text") == 3 * EACH, "renamed, empty, null; the others are read"
    assert metric("missing_fields_total", field="title") == 0
    assert metric("input_shapes_total", shape="rss") == EACH
    assert (metric("input_shapes_total", shape="plain") or 0) >= 60 + 4 * EACH
    details = {record.key: header(record, "dedup-detail") or "" for record in came.dead_letters}
    assert "the value is gzip-compressed; publish it plain" in details[b"gzip-0"]
    assert "the record has: kop, tekst; name them in [item] fields" in details[b"all-renamed-0"]
