"""Read the records of an input partition by offset, for role `publish`, which has their verdicts already."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from kafka import TopicPartition
from kafka.errors import LogTruncationError, OffsetOutOfRangeError

from stream_dedup.errors import RecordsGone, StreamError, TransactionFailed
from stream_dedup.stream import client
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.roles.names import RoleName
from stream_dedup.stream.roles.role import Role

T = TypeVar("T")

_POLL_MS = 200


class InputReader:
    """Reads forward; ranges that follow one another are read without a seek. Holds one fetch of records at most."""

    def __init__(self, context: WorkerContext, partition: int) -> None:
        self._context = context
        self._place = TopicPartition(context.settings.topics.input, partition)
        self._thread = context.thread(f"{partition}-input")
        self._consumer: Any = None
        self._fetched: deque[Any] = deque()  # records beyond the last range
        self._begin = self._position = -1  # `_fetched` has all records from `_begin` up to `_position`

    def read(self, first: int, end: int) -> list[Any]:
        """The records at the offsets first to end - 1; control records and aborted ones are missing.

        Raises RecordsGone if they were deleted, TransactionFailed if they do not come.
        """
        if self._consumer is None:
            self._consumer = self._call(self._connect)
        if not self._begin <= first <= self._position:
            self._seek(first)
        while self._fetched and self._fetched[0].offset < first:
            self._fetched.popleft()
        records, until = [], time.monotonic() + self._context.call_timeout
        while True:
            while self._fetched and self._fetched[0].offset < end:
                records.append(self._fetched.popleft())
            if self._fetched or self._position >= end:
                self._begin = end
                return records
            before = self._position
            self._call(self._poll)
            if self._position != before:
                until = time.monotonic() + self._context.call_timeout
            elif time.monotonic() > until:
                raise TransactionFailed(
                    f"{self._place.topic}-{self._place.partition} stands still at offset {before}, and verdicts up to "
                    f"offset {end - 1} wait for its records"
                )

    def close(self) -> None:
        """Close the consumer, in the background."""
        consumer, self._consumer = self._consumer, None
        self._thread.end(lambda: consumer.close(autocommit=False) if consumer is not None else None)

    def _connect(self) -> Any:
        settings = self._context.settings
        # As large as the fetches of role `fingerprint`, which reads the same records.
        fetch = Role.of(RoleName.FINGERPRINT, settings).fetch_bytes
        wanted = {"max_partition_fetch_bytes": fetch, "fetch_max_bytes": fetch}
        consumer = client.make_consumer(settings, client.changelog_reader(settings) | wanted)
        consumer.assign([self._place])
        return consumer

    def _seek(self, offset: int) -> None:
        self._fetched.clear()
        self._call(lambda: self._consumer.seek(self._place, offset))
        self._begin = self._position = offset

    def _poll(self) -> None:
        for records in self._consumer.poll(_POLL_MS).values():
            self._fetched.extend(records)
        self._position = int(self._consumer.position(self._place))

    def _call(self, function: Callable[[], T]) -> T:
        try:
            return self._context.call(self._thread, f"reading {self._place.topic}", function)
        except StreamError as error:
            if isinstance(error.__cause__, (OffsetOutOfRangeError, LogTruncationError)):
                role = self._context.role
                raise RecordsGone(
                    f"{self._place.topic}-{self._place.partition} no longer has the records at offset "
                    f"{self._position}, whose verdicts wait in {role.source}: they were deleted before they were "
                    f"published. Let {self._place.topic} retain records for longer than the longest stop. To go on "
                    "without them, stop every member of the role publish and run: kafka-consumer-groups.sh "
                    f"--bootstrap-server {self._context.settings.kafka.bootstrap_servers} --group {role.group_id} "
                    f"--topic {role.source}:{self._place.partition} --reset-offsets --shift-by 1 --execute, for each "
                    "block of verdicts until the worker goes on"
                ) from error
            raise
