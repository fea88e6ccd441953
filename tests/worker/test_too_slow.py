"""A record on which the work takes longer than a member may take, or that ends each, is found: a dead letter."""

import signal
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from stream_dedup.dedup.batch import Prepared
from stream_dedup.dedup.decider import Decider
from stream_dedup.kafka import client
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings
from tests.harness.check import header, outcome
from tests.harness.feed import article, feed, made_up
from tests.harness.member import Member
from tests.harness.topics import Make
from tests.worker.support import run_until
from tests.worker.test_partitions import places

SLOW = "a text on which the work takes long"
_POLL_SECONDS, _WORK_SECONDS = 5.0, 8.0


class _Slow(Decider):
    def prepare(self, items: Sequence[Any]) -> Prepared:
        if any(isinstance(item, Item) and SLOW in item.text for item in items):
            time.sleep(_WORK_SECONDS)
        return super().prepare(items)


def _short_poll(settings: Settings, assignor: Any) -> dict[str, Any]:
    return _CONSUMER(settings, assignor) | {"max_poll_interval_ms": int(_POLL_SECONDS * 1000)}


_CONSUMER = client.consumer


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("scope", ["global", "partition"])
def test_a_record_that_costs_the_membership_is_isolated(
    make: Make, scope: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client, "consumer", _short_poll)
    settings = make(worker={"scope": scope, "session_timeout": "6s", "batch_items": 8})
    sent = feed(settings, [*made_up(5), (b"bad", article("bad", SLOW)), *made_up(14, seed=2)])
    watching = run_until(settings, len(sent), seconds=300, decider=_Slow)
    came = outcome(settings)
    [dead] = came.dead_letters
    place = f"{settings.topics.input}/0/5"
    assert (dead.key, header(dead, "dedup-reason"), header(dead, "dedup-source")) == (b"bad", "too-slow", place)
    assert places(came.every) == Counter(f"{settings.topics.input}/0/{one.offset}" for one in sent)
    errors = [record.message for record in caplog.records if "place in the group" in record.getMessage()]
    assert "8 records has cost this member its place in the group 3 times" in errors[0]
    assert "offset 5 of input partition 0 took 8 s by itself" in errors[-1]
    assert watching.stuck_times == len(errors) == 4, "8 records, 4, 2, and the record"


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scope", ["global", "partition"])
def test_a_record_that_ends_each_process_is_isolated(make: Make, scope: str) -> None:
    """As by the kernel for want of memory, or by the orchestrator as the probes fail: nothing of a process is left."""
    settings = make(worker={"scope": scope, "batch_items": 8})
    sent = feed(settings, [*made_up(5), (b"bad", article("bad", SLOW)), *made_up(14, seed=2)])
    deaths, code = -1, -signal.SIGKILL
    while code == -signal.SIGKILL:
        deaths += 1
        with Member(settings, {"deadly": SLOW}).go() as member:
            while (code := member.wait_ended(0.5)) is None and outcome(settings).fates.total() < len(sent):
                pass
    assert deaths == 6, "8 records three times, 4, 2, and the record"
    came = outcome(settings)
    [dead] = came.dead_letters
    assert (dead.key, header(dead, "dedup-reason")) == (b"bad", "too-slow")
    assert places(came.every) == Counter(f"{settings.topics.input}/0/{record.offset}" for record in sent)
