"""Changelogs made by hand, for tests and measurements: deltas in, transactions of a task's producer out."""

import time
from collections.abc import Iterable

from stream_dedup.changelog.block import encode
from stream_dedup.changelog.entries import ChangelogEntry, Folding
from stream_dedup.changelog.headers import offsets_header
from stream_dedup.changelog.partitions import places_of
from stream_dedup.dedup.batch import Delta
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import Settings
from stream_dedup.stream import client
from stream_dedup.stream.bounded import no_hurry
from stream_dedup.stream.producer import TaskProducer
from stream_dedup.stream.topics import check_topics
from stream_dedup.stream.transaction import Outgoing

_PATIENCE = 60.0


class Remembering:
    """Writes to the changelog of the task `global`, whose producer it is. Use it in a `with`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.places = places_of(settings.topics.changelog, 0)
        self.folding = Folding()
        self.folding.begin(1)
        self._owner = f"{settings.kafka.group_id}-global"
        self._scheme = Scheme(settings.fingerprint).id
        # A changelog without offsets, and a group without: nobody would know where to go on.
        self._start = offsets_header(dict.fromkeys(range(check_topics(settings).partitions[settings.topics.input]), 0))
        self._producer = self._open()

    def __enter__(self) -> "Remembering":
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()

    def write(self, *deltas: Delta) -> None:
        """One transaction."""
        self.commit([piece for delta in deltas for piece in self.folding.take(delta)])

    def commit(self, pieces: Iterable[ChangelogEntry], *, numbered: bool = True) -> None:
        """Just these pieces; not `numbered`: as a release that did not fold."""
        self._send(pieces, numbered)
        self._producer.commit()

    def abort(self, pieces: Iterable[ChangelogEntry]) -> None:
        """Written and never committed, as by a killed member; its successor aborts it."""
        self._send(pieces, True)
        self._producer.close()
        self._producer = self._open()

    def _send(self, pieces: Iterable[ChangelogEntry], numbered: bool) -> None:
        self._producer.begin()
        self._producer.send(self._producer.pack([self._record(one, numbered) for one in pieces]))
        self._producer.flush()

    def _open(self) -> TaskProducer:
        return TaskProducer(client.producer(self.settings, self._owner), _PATIENCE, no_hurry)

    def _record(self, piece: ChangelogEntry, numbered: bool) -> Outgoing:
        headers = [self._start, piece.span.header()] if numbered else [self._start]
        place = self.places.folds if piece.is_fold else self.places.blocks
        now = int(time.time() * 1000)
        block = encode(piece.delta, self._scheme)
        return Outgoing(place.topic, place.partition, self._owner.encode(), block, headers, now)
