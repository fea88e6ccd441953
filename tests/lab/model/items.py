"""Made-up records for the model: small, cheap to judge, and recognisable in every topic.

Each record has a number in a header, which no client reads, and its own fingerprint (`fingerprint.family = "given"`),
drawn from so many bits that two of them are alike exactly if they are equal. So the true verdict of a record is known
without a second deduplicator, and the real one judges in a millisecond.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stream_dedup.settings import Settings
from tests.harness.topics import make_settings
from tests.lab.model.log import Record

NUMBER = "model-number"
ODD = "odd-name"  # replaced by bytes that are not UTF-8
ODD_BYTES = b"odd\xffname"
_KEYLESS = 0.2  # the share of records without a key
_DAY = 24 * 3600 * 1000


@dataclass
class Made:
    """A record and the truth about it. `fingerprint` 0: a bad item or a tombstone."""

    number: int
    record: Record
    id: str
    fingerprint: int
    kind: str  # item, bad, tombstone, odd
    place: tuple[int, int, int] = (-1, -1, -1)  # incarnation of the input topic, partition, offset
    is_ahead: bool = False  # its time is in the future
    waived: bool = False  # deleted before it could be read


@dataclass
class Source:
    """Make records. Shares: `odd` have a header name that is not UTF-8, `wild` a time far off,
    `updates` are new versions of an id.
    """

    rng: random.Random
    odd: float = 0.0
    wild: float = 0.1
    updates: float = 0.0
    fingerprints: list[tuple[int, str]] = field(default_factory=list)
    count: int = 0

    def make(self, now: int) -> Made:
        rng = self.rng
        self.count += 1
        number, chance = self.count, rng.random()
        headers = [(NUMBER, str(number).encode()), ("trace", b"\x00\xff")]
        name = f"item-{number}"
        time = now - rng.randrange(2000)
        is_ahead = False
        if rng.random() < self.wild:
            time = now + rng.choice([-3600_000, -2 * _DAY, -5 * _DAY, -20 * _DAY, -20 * _DAY, 2 * _DAY, 400 * _DAY])
            is_ahead = time > now
        key: bytes | None = None if rng.random() < _KEYLESS else name.encode()
        if chance < 0.04:
            return Made(number, Record(key, b'{"id": ', headers, time), name, 0, "bad", is_ahead=is_ahead)
        if chance < 0.08 and self.fingerprints:
            name = rng.choice(self.fingerprints)[1]
            return Made(number, Record(name.encode(), None, headers, time), name, 0, "tombstone", is_ahead=is_ahead)
        again = self.fingerprints and rng.random() < 0.4
        fingerprint = rng.choice(self.fingerprints[-12:])[0] if again else rng.getrandbits(63) | 1
        # Without updates there is no draw, so that the schedules of the model stay as they are.
        if self.updates and self.fingerprints and rng.random() < self.updates:
            name = rng.choice(self.fingerprints[-100:])[1]
            key = key and name.encode()
        self.fingerprints.append((fingerprint, name))
        kind = "item"
        if rng.random() < self.odd:
            kind = "odd"
            headers.append((ODD, b"x"))
        value = json.dumps({"id": name, "fp": f"{fingerprint:016x}", "source": source_of(name)}).encode()
        return Made(number, Record(key, value, headers, time), name, fingerprint, kind, is_ahead=is_ahead)


def settings_for(
    bootstrap: str, topic_name: Callable[[str], str], sources: Mapping[str, Sequence[str]] | None = None, **worker: Any
) -> Settings:
    """Settings under which an item brings its fingerprint. `sources`: the rules for them."""
    given: dict[str, Any] = {"sources": sources or {}} | {
        "fingerprint": {"family": "given"},
        "item": {"fields": {"fingerprint": "fp"}},
    }
    return make_settings(bootstrap, topic_name, worker=worker, **given)


def source_of(name: str) -> str:
    """The site of the items with this id, so that a later one is a new version."""
    return f"{int(name.rpartition('-')[2]) % 3}.example"


def number_of(record: Record) -> int:
    """The number of the made-up record that this is, or comes from; -1: none."""
    return next((int(value) for name, value in record.headers if name == NUMBER and value), -1)
