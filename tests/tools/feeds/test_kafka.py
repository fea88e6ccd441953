"""The input topic as the output: each revision once, even if the process ends between the transaction and the state."""

import json
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stream_dedup.tools.feeds.database import State
from tests.tools.feeds.killed import FEEDS, before, poll_once
from tests.tools.feeds.server import Server, entry, reply, rss

if TYPE_CHECKING:
    from stream_dedup.settings import Settings
    from stream_dedup.tools.demo.embedded import EmbeddedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.anyio]


class KilledError(Exception):
    """Ends a run as a kill does: nothing is done after it."""


@pytest.fixture
def settings(kafka: "EmbeddedKafka", topic_name: Callable[[str], str]) -> "Settings":
    from tests.harness.topics import make_settings, ready  # not above: kafka-python warns when it is imported

    return ready(make_settings(kafka.bootstrap, topic_name), partitions=3)


async def run(settings: "Settings", path: Path, text: str, kill: str = "", resend: bool = False) -> None:
    """One round over six feeds. `kill`: the step before which it ends; `resend`: forget that Kafka has the batch."""
    from stream_dedup.tools.feeds.delivery import KafkaDelivery

    def end() -> None:
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        if kill:
            before(kill, end, patch.setattr)
        async with Server() as server:
            for number in range(FEEDS):
                # The address of the server changes from run to run, so the entries have ids of their own.
                one = entry(number, text=text, guid=f"http://127.0.0.1/{number}")
                server.pages[f"/{number}"] = reply(rss(one))
            urls = [server.url(f"/{number}") for number in range(FEEDS)]
            with closing(State(path, "topic")) as state:
                owner = "another" if resend else state.owner
                with closing(KafkaDelivery(settings, owner, threading.Event())) as delivery:
                    await poll_once(state, delivery, urls)


def records(settings: "Settings") -> list[Any]:
    from stream_dedup.tools.topics.reader import TopicReader

    with TopicReader(settings) as reader:
        return list(reader.all(settings.topics.input))


@pytest.mark.parametrize("kill", ["DELIVER", "CONFIRM"])
async def test_a_batch_is_committed_once_whatever_the_state_knows(
    settings: "Settings", tmp_path: Path, kill: str
) -> None:
    path = tmp_path / "state.db"
    with pytest.raises(KilledError):
        await run(settings, path, "The ferry stops.", kill)
    with closing(State(path, "topic")) as state:
        waiting = [name for name, _ in state.outbox()]
    assert waiting
    assert len(records(settings)) == (len(waiting) if kill == "CONFIRM" else 0)
    await run(settings, path, "The ferry stops.")
    found = [record.key.decode() for record in records(settings)]
    # The second run has other addresses and so polls all feeds anew; the batch of the first is not written again.
    assert sorted(found) == sorted([*waiting, *(f"http://127.0.0.1/{number}" for number in range(FEEDS))])
    for record in records(settings):
        assert json.loads(record.value)["id"] == record.key.decode()


async def test_the_proof_is_of_this_state(settings: "Settings", tmp_path: Path) -> None:
    """Without the note of the owner, another state's batch of the same number would count as delivered."""
    with pytest.raises(KilledError):
        await run(settings, tmp_path / "one.db", "The ferry stops.", "CONFIRM")
    before = len(records(settings))
    with pytest.raises(KilledError):
        await run(settings, tmp_path / "one.db", "The ferry stops.", "CONFIRM", resend=True)
    assert len(records(settings)) == 2 * before


async def test_a_worker_reads_what_was_written(settings: "Settings", tmp_path: Path) -> None:
    from stream_dedup.news.decode import Decoder
    from stream_dedup.news.item import Item

    await run(settings, tmp_path / "state.db", "The ferry stops on Monday.")
    decode = Decoder(settings.item)
    items = [decode(record.value, record.key, record.timestamp) for record in records(settings)]
    assert len(items) == FEEDS
    assert all(isinstance(item, Item) and item.source == "news.example" and "stops" in item.text for item in items)
    assert len({record.partition for record in records(settings)}) > 1
