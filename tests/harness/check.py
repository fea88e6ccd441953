"""What came out: every record of the three output topics, and whether each input record came out exactly once.

The verdicts are compared with those of one run over the same records from scratch. tests/lab/soak/checker.py proves
more, from the topics alone, for runs whose order of commits is not known.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka import TopicPartition

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import Settings
from tests.harness.feed import Sent
from tests.harness.topics import reader_of
from tests.harness.wait import PATIENCE

Decision = tuple[str | None, str | None, str | None]
"""What the headers of a record say: its verdict, its original, its story."""


def read_all(
    settings: Settings, topic: str, start: Mapping[int, int] | None = None, partitions: Iterable[int] = ()
) -> list[Any]:
    """Read every record of a topic, or of some partitions, up to the present end; `start` has first offsets."""
    config = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 2**25, "max_poll_records": 5000}
    with reader_of(settings, **config) as consumer:
        numbers = list(partitions) or sorted(consumer.partitions_for_topic(topic))
        places = [TopicPartition(topic, number) for number in numbers]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        for place in places:
            if start and place.partition in start:
                consumer.seek(place, start[place.partition])
        records: list[Any] = []
        deadline = time.monotonic() + PATIENCE
        while any(consumer.position(place) < ends[place] for place in places):
            assert time.monotonic() < deadline, f"{topic} cannot be read to its end {ends} in {PATIENCE:.0f} s"
            for some in consumer.poll(200).values():
                records += some
        return records


def header(record: Any, name: str) -> str | None:
    return next((value.decode() for key, value in reversed(record.headers) if key == name), None)


@dataclass
class Outcome:
    """All output records, and the fate of each input record."""

    output: list[Any]
    duplicates: list[Any]
    dead_letters: list[Any]

    @property
    def every(self) -> list[Any]:
        return [*self.output, *self.duplicates, *self.dead_letters]

    @property
    def fates(self) -> Counter[bytes | None]:
        return Counter(record.key for record in self.every)

    def verdicts(self) -> dict[bytes | None, Decision]:
        names = ("dedup-verdict", "dedup-original", "dedup-story")
        return {record.key: tuple(header(record, name) for name in names) for record in self.every}  # type: ignore[misc]

    def lost_and_repeated(self, keys: Iterable[bytes | None]) -> tuple[list[bytes | None], list[bytes | None]]:
        """Those of the keys without an outcome, and all keys with several outcomes. Each record has its own key."""
        fates = self.fates
        return [key for key in keys if key not in fates], [key for key, count in fates.items() if count > 1]


def outcome(settings: Settings) -> Outcome:
    topics = settings.topics
    return Outcome(*(read_all(settings, topic) for topic in (topics.output, topics.duplicates, topics.dead_letters)))


def final_outcome(settings: Settings, count: int) -> Outcome:
    """The outcome once `count` records are visible, or without them after some time.

    The coordinator answers a commit before it writes the markers, so the last records become visible a moment later.
    """
    deadline = time.monotonic() + PATIENCE / 4
    while len((came := outcome(settings)).every) < count and time.monotonic() < deadline:
        time.sleep(0.2)
    return came


def lost_and_repeated(settings: Settings) -> tuple[list[bytes | None], list[bytes | None]]:
    """The keys of input records without an outcome, and those with several."""
    return outcome(settings).lost_and_repeated({record.key for record in read_all(settings, settings.topics.input)})


def assert_exactly_once(settings: Settings, sent: Iterable[Sent]) -> Outcome:
    keys = [record.key for record in sent]
    came = final_outcome(settings, len(keys))
    lost, repeated = came.lost_and_repeated(keys)
    assert not lost, f"{len(lost)} of {len(keys)} are lost: {lost[:5]}"
    assert not repeated, f"{len(repeated)} of {len(keys)} came twice: {repeated[:5]}"
    assert len(came.fates) == len(keys)
    return came


def in_headers(verdict: Verdict) -> Decision:
    """What an outgoing record says: updates that are let through name an original too."""
    has_original = verdict.original is not None and (not verdict.forward or verdict.kind is Kind.UPDATE)
    return str(verdict.kind), verdict.original.id if has_original else None, verdict.story or None


def from_scratch(
    settings: Settings, records: Iterable[Any], index: Decider | None = None
) -> dict[bytes | None, Decision]:
    """The verdicts of one run over all these input records in order, in the form of `Outcome.verdicts()`.

    `index`: an empty one to fill, which stays open.
    """
    dedup, decode = (Decider(settings) if index is None else index), Decoder(settings.item)
    verdicts: dict[bytes | None, Decision] = {}
    every = list(records)
    for start in range(0, len(every), 100):
        some = every[start : start + 100]
        batch = dedup.judge(
            [decode(record.value, record.key, record.timestamp, record.partition, record.offset) for record in some]
        )
        dedup.apply(batch)
        verdicts |= zip((record.key for record in some), map(in_headers, batch.verdicts), strict=True)
    if index is None:
        dedup.close()
    return verdicts
