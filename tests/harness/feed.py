"""What is sent to the input topic: made-up items at once (`feed`), or records at a rate from a thread (`Load`).

Most items are distinct; some are copies of earlier ones, so that a lost memory shows as a copy that is let through.
"""

import gzip
import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Self

from kafka import KafkaProducer

from stream_dedup.settings import Settings
from stream_dedup.tools.demo.newsroom import sample_records

START = 1_700_000_000_000  # the made-up items' first timestamp, ms
_PLACES = ["Elm", "Oak", "Ash", "Birch", "Cedar", "Hazel", "Holly", "Maple", "Rowan", "Willow"]
_BEGINNINGS = ("bri", "cla", "dor", "fen", "gal", "hum", "jor", "kel")
_ENDINGS = ("den", "lor", "mast", "ning", "quist", "rup", "sen", "tov", "vale", "wick", "zand", "ya")


@dataclass(frozen=True)
class Sent:
    """A record as it was fed to the input topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp: int


def feed(
    settings: Settings,
    records: Iterable[tuple[bytes | None, bytes | None]],
    partition: int | None = 0,
    compression: str | None = None,
    **headers: bytes,
) -> list[Sent]:
    """Send (key, value) pairs to the input topic, a millisecond apart in event time."""
    config = {"batch_size": 2**18, "linger_ms": 20, "max_request_size": 2**27, "compression_type": compression}
    own, futures = list(headers.items()), []
    with closing(KafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers, **config)) as producer:
        for time_ms, (key, value) in enumerate(records, START):
            future = producer.send(settings.topics.input, value, key, own, partition=partition, timestamp_ms=time_ms)
            futures.append((future, key, value, time_ms))
        producer.flush()
        return [
            Sent(future.get(0).partition, future.get(0).offset, key, value, own, time_ms)
            for future, key, value, time_ms in futures
        ]


def article(name: str, text: str, title: str = "A headline of its own", source: str = "post.example") -> bytes:
    return json.dumps({"id": name, "title": title, "text": text, "source": source}).encode()


def made_up(count: int, seed: int = 1, updates: float = 0) -> Iterator[tuple[bytes, bytes]]:
    """Small articles; a third are copies of one of the last two hundred, some of them shortened.

    This share of the copies has twenty words more, and may be copied and continued in turn.
    """
    chance = random.Random(seed)
    vocabulary = [beginning + ending for beginning in _BEGINNINGS for ending in _ENDINGS]
    recent: list[tuple[str, str]] = []
    for i in range(count):
        if recent and chance.random() < 0.33:
            title, text = chance.choice(recent)
            if chance.random() < 0.3:
                text = text.rsplit(" ", 3)[0]
            if updates and chance.random() < updates:
                text += ". " + " ".join(chance.choices(vocabulary, k=20)).capitalize() + "."
                recent = [*recent[-199:], (title, text)]
        else:
            title = " ".join(chance.choices(vocabulary, k=6)) + " " + chance.choice(_PLACES)
            text = " ".join(chance.choices(vocabulary, k=40))
            recent = [*recent[-199:], (title, text)]
        name = f"item-{i}"
        yield name.encode(), article(name, text, title, f"site{chance.randrange(30)}.example")


class Load:
    """Sends records to the input topic from a thread of its own, each with its own key and the present time.

    `rate`: records a second. `shares`: the probability that a record is `poison` (not JSON), a `copy` (of an earlier
    item, under another id and host), `new` (unused words), `packed` (gzip in the value), `bare` (a headline without a
    text), `template` (ten words of its own in sixty), `feed` (an item of an RSS feed) or `framed` (Avro, by schema 1 of
    a registry); the others come from the made-up feed, in which every kind of verdict occurs. `in_seconds`: share of
    timestamps in seconds instead of milliseconds. `late`: the age of all timestamps, in seconds. With `records` (keys
    and values) it sends those and ends. `acknowledged`: gets the time of each key's acknowledgement. While
    `is_behind()` it waits: a fault's records must not queue behind those before.
    """

    def __init__(
        self,
        settings: Settings,
        rate: float,
        records: Iterable[tuple[bytes, bytes]] | None = None,
        acknowledged: dict[bytes, float] | None = None,
    ) -> None:
        self.rate, self.sent = rate, 0
        self.is_behind: Callable[[], bool] = lambda: False
        self.usual()
        self._source = records if records is not None else self._records()
        self._settings, self._acknowledged = settings, acknowledged
        self._chance = random.Random(1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    @property
    def is_sending(self) -> bool:
        return self._thread.is_alive()

    def wait_until_sent(self) -> None:
        """Wait until all `records` are sent."""
        self._thread.join()

    def usual(self) -> None:
        """Reset the shares. Half comes from the made-up feed; more would fire an alert, as one in forty is broken."""
        self.shares: Mapping[str, float] = {"new": 0.5}
        self.in_seconds = self.late = 0.0

    def _run(self) -> None:
        config = {"linger_ms": 20, "delivery_timeout_ms": 600_000, "acks": "all", "max_request_size": 2**25}
        producer = KafkaProducer(bootstrap_servers=self._settings.kafka.bootstrap_servers, **config)
        try:
            due = asked = time.monotonic()
            for key, value in self._source:
                if time.monotonic() - asked > 1:
                    while self.is_behind() and not self._stop.wait(0.5):
                        pass
                    asked = time.monotonic()
                unit = 1 if self._chance.random() < self.in_seconds else 1000
                timestamp = int((time.time() - self.late) * unit)
                future = producer.send(self._settings.topics.input, value, key, timestamp_ms=timestamp)
                if (acknowledged := self._acknowledged) is not None:
                    future.add_callback(lambda _, key=key: acknowledged.setdefault(key, time.time()))
                self.sent += 1
                # After a halt (a frozen broker) the missed records are not sent all at once.
                due = max(due + 1 / self.rate, time.monotonic() - 1)
                if self._stop.wait(max(0.0, due - time.monotonic())):
                    break
            producer.flush()
        finally:
            producer.close(timeout=30)

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        usual = sample_records(10**9)
        for number in range(10**9):
            key, draw = f"record-{number}".encode(), self._chance.random()
            for kind, share in self.shares.items():
                draw -= share
                if draw < 0:
                    yield key, self._made(kind, number)
                    break
            else:
                yield key, next(usual)[1]

    def _made(self, kind: str, number: int) -> bytes:
        if kind == "poison":
            return b"{poison"
        words = [f"{self._chance.getrandbits(32):x}" for _ in range(60)]
        item = {"id": f"load-{number}", "source": f"site{number % 5}.example", "title": " ".join(words[:8])}
        item["text"] = " ".join(words)
        if kind == "copy":
            item["title"] = f"The archive of {number % 10}"
            item["text"] = " ".join(f"archive{number % 10}word{n}" for n in range(60))
        if kind == "bare":
            item |= {"title": f"{words[0]} and no more", "text": ""}
        if kind == "template":
            fixed = [f"fixed{n}word" for n in range(50)]
            item |= {"source": "weather.example", "title": f"Weather for {words[0]} {words[1]} today"}
            item["text"] = " ".join([*fixed[:25], *words[:10], *fixed[25:]])
        if kind == "feed":
            item = {"guid": item["id"], "title": item["title"], "description": item["text"], "link": "/1"}
        if kind == "framed":
            from tests.registry.server import FORMS, frame  # not above: it takes a third of a second

            return frame(1, FORMS["AVRO"][1](item | {"url": None}))
        value = json.dumps(item).encode()
        return gzip.compress(value) if kind == "packed" else value

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
