"""A record and its verdict become the record that goes out; what cannot go out is known beforehand."""

import json
import os
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.settings import PolicySettings, Settings, load_settings
from stream_dedup.stream.records import Router, was_held_back
from stream_dedup.stream.topics import Layout

SETTINGS = load_settings(
    topics={"input": "in", "output": "out", "duplicates": "dup", "dead_letters": "dead", "changelog": "log"},
    worker={"max_record_bytes": 4 * 2**20},
)
SHADOW = SETTINGS.model_copy(update={"policy": PolicySettings(shadow=True)})
MIB = 2**20
UNIQUE = Verdict("1", Kind.UNIQUE, Stage.NONE, True)
HELD = Verdict("2", Kind.DUPLICATE, Stage.BODY, False, Original("1é", 5, 0, 9), Evidence(body=0.75, candidates=1))
UPDATE = Verdict("4", Kind.UPDATE, Stage.LEAD, True, Original("1", 5, 0, 9), Evidence(novelty=0.8, new_share=0.3))
BAD = Verdict("3", Kind.BAD, Stage.NONE, False, reason="json: Input data was truncated: at the end")


def router(partitions: dict[str, int] | None = None, limit: int = MIB, settings: Settings = SETTINGS) -> Router:
    counts = {"in": 4, "out": 4, "dup": 4, "dead": 4} | (partitions or {})
    return Router(settings, Layout(counts, dict.fromkeys(counts, limit)), 0xABC)


def record(**fields: Any) -> Any:
    plain = {"topic": "in", "partition": 3, "offset": 7, "key": b"k", "value": b"v", "timestamp": 11}
    return SimpleNamespace(**{**plain, "headers": [("a", b"1"), ("a", b"2")], **fields})


def test_a_unique_record_goes_on_untouched() -> None:
    sent = router().route(record(), UNIQUE, 5)
    assert (sent.topic, sent.partition, sent.key, sent.value, sent.timestamp, sent.source) == (
        "out",
        3,
        b"k",
        b"v",
        11,
        5,
    )
    assert sent.headers == [
        ("a", b"1"), ("a", b"2"),
        ("dedup-verdict", b"unique"), ("dedup-source", b"in/3/7"), ("dedup-scheme", b"0000000000000abc"),
    ]  # fmt: skip


def test_a_duplicate_says_of_what_and_why() -> None:
    sent = router().route(record(), HELD, 0)
    headers = dict(sent.headers[2:])
    assert (sent.topic, sent.key, sent.value, sent.timestamp) == ("dup", b"k", b"v", 11)
    assert list(headers) == ["dedup-verdict", "dedup-source", "dedup-scheme", "dedup-original", "dedup-evidence"]
    assert headers["dedup-original"].decode() == "1é"
    assert json.loads(headers["dedup-evidence"]) == HELD.as_json()


def test_an_update_let_through_says_of_what_and_how_much_is_new() -> None:
    sent = router().route(record(), UPDATE, 0)
    headers = dict(sent.headers[2:])
    assert (sent.topic, sent.value) == ("out", b"v")
    assert (headers["dedup-verdict"], headers["dedup-original"]) == (b"update", b"1")
    evidence = json.loads(headers["dedup-evidence"])["evidence"]
    assert (evidence["novelty"], evidence["new_share"]) == (0.8, 0.3)


def test_an_update_let_through_is_told_from_one_held_back() -> None:
    assert not was_held_back(router().route(record(), UPDATE, 0))
    dropped = msgspec.structs.replace(UPDATE, forward=False, reason="policy.updates = drop")
    copy, held = router(settings=SHADOW).routes(record(), dropped, 0)
    assert (copy.topic, held.topic) == ("out", "dup")
    assert was_held_back(copy)
    assert was_held_back(held)


def test_a_dead_letter_says_where_from_and_why() -> None:
    sent = router().route(record(), BAD, 0)
    headers = dict(sent.headers[2:])
    assert (sent.topic, sent.key, sent.value, sent.timestamp) == ("dead", b"k", b"v", 11)
    assert headers["dedup-reason"] == b"json"
    assert headers["dedup-detail"] == b"Input data was truncated: at the end"
    assert headers["dedup-source"] == b"in/3/7"


def test_in_shadow_mode_what_is_held_back_goes_to_the_output_too() -> None:
    one = router(settings=SHADOW)
    copy, held = one.routes(record(), HELD, 4)
    assert held == router().route(record(), HELD, 4), "the duplicates topic gets what it would get without"
    assert copy == msgspec.structs.replace(held, topic="out")
    [unique] = one.routes(record(), UNIQUE, 4)
    assert unique == router().route(record(), UNIQUE, 4)
    copy, dead = one.routes(record(), BAD, 4)
    assert dead == router().route(record(), BAD, 4)
    assert (copy.topic, copy.key, copy.value, copy.timestamp, copy.source) == ("out", b"k", b"v", 11, 4)
    assert copy.headers == dead.headers
    assert [sent.topic for sent in router().routes(record(), HELD, 4)] == ["dup"], "without it, only there"


@pytest.mark.parametrize(("reason", "value"), [("too-large: x", b"v"), ("refused: x", b"v"), ("no-key: x", None)])
def test_what_cannot_be_output_is_not_even_in_shadow_mode(reason: str, value: bytes | None) -> None:
    verdict = Verdict("3", Kind.BAD, Stage.NONE, False, reason=reason)
    key = b"k" if value else None
    assert [sent.topic for sent in router(settings=SHADOW).routes(record(key=key, value=value), verdict, 0)] == ["dead"]


def test_a_tombstone_stays_one() -> None:
    sent = router().route(record(value=None), Verdict("k", Kind.TOMBSTONE, Stage.POLICY, True), 0)
    assert (sent.topic, sent.key, sent.value) == ("out", b"k", None)


def test_what_the_client_cannot_send_is_changed_least() -> None:
    sent = router().route(record(headers=[("n", None)]), UNIQUE, 0)
    assert sent.headers[0] == ("n", b"")
    sent = router().route(record(key=None, value=None), BAD, 0)
    assert sent.value == b""


@pytest.mark.parametrize(
    ("count", "key", "expected"),
    [(4, b"k", 3), (4, None, 3), (2, None, 1), (8, None, 3), (2, b"k", None), (8, b"k", None)],
)
def test_partitions(count: int, key: bytes | None, expected: int | None) -> None:
    assert router({"out": count}).route(record(key=key), UNIQUE, 0).partition == expected


def test_too_large_is_known_beforehand() -> None:
    one = router()
    assert one.refuse(record(value=os.urandom(MIB - 70_000))) is None
    refused = one.refuse(record(value=os.urandom(MIB - 60_000)))
    assert refused is not None
    assert refused.reason == "too-large"
    assert "max.message.bytes" in refused.detail
    # The limit is for what travels: compressed.
    assert one.refuse(record(value=b"a" * 3 * MIB)) is None
    refused = one.refuse(record(value=b"a" * 5 * MIB))
    assert refused is not None
    assert "max_record_bytes" in refused.detail


def test_a_dead_letter_that_is_too_large_leaves_a_note() -> None:
    large = record(value=os.urandom(2 * MIB), key=b"k" * 2000)
    refused = router().refuse(large)
    verdict = Verdict("", Kind.BAD, Stage.NONE, False, reason=str(refused))
    sent = router().route(large, verdict, 0)
    assert (sent.topic, sent.key, sent.value, sent.timestamp) == ("dead", None, b"", 11)
    assert dict(sent.headers)["dedup-source"] == b"in/3/7"
    assert ("a", b"1") not in sent.headers
    # And one that was refused even so has no part that could be refused again.
    sent = router().route(record(), BAD, 0, with_value=False)
    assert (sent.key, sent.value, sent.timestamp) == (b"k", b"", None)
