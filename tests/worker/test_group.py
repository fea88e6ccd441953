"""The membership says what it waits for."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.structs import MemberState

from stream_dedup.kafka import client
from stream_dedup.settings import load_settings
from stream_dedup.worker import group


def test_a_group_that_waits_for_a_killed_member_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that was killed and started again would else be silent for its session's time."""
    now, state = 0.0, MemberState.REBALANCING
    consumer = SimpleNamespace(
        poll=lambda _: {},
        group_metadata=lambda: SimpleNamespace(state=state),
        subscribe=lambda *_, **__: None,
        close=lambda **_: None,
    )
    monkeypatch.setattr(client, "make_consumer", lambda *_: consumer)
    monkeypatch.setattr(client, "consumer", lambda *_: {})
    monkeypatch.setattr(group.patches, "request_rejoin", lambda _: None)
    monkeypatch.setattr(group, "time", SimpleNamespace(monotonic=lambda: now))
    settings: Any = load_settings(kafka={"group_id": "mine"}, worker={"session_timeout": "10s"})
    member = group.Group(settings, lambda: 60.0)
    said = []
    with caplog.at_level(logging.INFO):
        for now, state in (  # noqa: B007 - read by the consumer
            (1.0, MemberState.REBALANCING), (2.5, MemberState.REBALANCING), (3.5, MemberState.REBALANCING),
            (9.0, MemberState.REBALANCING), (10.0, MemberState.STABLE), (11.0, MemberState.REBALANCING),
            (13.5, MemberState.REBALANCING),
        ):  # fmt: skip
            caplog.clear()
            member.poll(0)
            said.append(bool(caplog.messages))
            assert all("group mine" in text and "session_timeout (10 s)" in text for text in caplog.messages)
    member.leave()
    assert said == [False, False, True, False, False, False, True]
