"""Find a record that makes transactions fail: after three failures in a row, halve the batch until it is alone.

In: each failed and each committed batch of a task. Out: a message for the log (`failed`), the largest batch allowed
meanwhile (`batch_limit`), and the records that Kafka has refused (`refusals`), which the judge turns into dead letters.
The search outlives an open task, which is closed after each failure.

Only lasting errors count: answers of the broker or the client that may come again for the same records. An outage, a
time-out, a fence or a rebalance says nothing about the records; the worker waits for its end, however long it takes.

A record that Kafka refuses by name becomes a dead letter at the next try. A single record that fails while Kafka does
not blame it stays: the cause would hit every other record too, and they must not end as dead letters one by one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from stream_dedup.errors import Refused, TransactionFailed

# One failure may be chance, and a second one the tail of the same trouble.
IN_A_ROW = 3
_LISTED = 5  # records named in a message

Place = tuple[int, int]  # partition, offset


class FailedRecords:
    """The search of one task. `refusals`: how often Kafka has refused a record."""

    def __init__(self) -> None:
        self.refusals: dict[Place, int] = {}
        self._suspects: dict[Place, int] = {}  # records not committed since -> the smallest batch that failed with them
        self._failures = 0  # in a row, each with suspects of the one before
        self._reported: tuple[int, bool] | None = None

    @property
    def batch_limit(self) -> int | None:
        """How many records a transaction may hold; None: no limit. O(suspects)."""
        return max(1, min(self._suspects.values()) // 2) if self._suspects and self._failures >= IN_A_ROW else None

    def failed(self, records: Sequence[Any], error: TransactionFailed) -> tuple[str, bool] | None:
        """Count a failed batch. Once it is more than chance: a message, and whether it says something new."""
        if not error.lasting:
            return None
        blamed = [records[i] for i in error.sources] if error.sources else records
        places = sorted((record.partition, record.offset) for record in blamed)
        if isinstance(error, Refused):
            self.refusals.update({place: self.refusals.get(place, 0) + 1 for place in places})
        self._failures = self._failures + 1 if self._suspects.keys() & places else 1
        for place in places:
            self._suspects[place] = min(len(places), self._suspects.get(place, len(places)))
        if self._failures < IN_A_ROW:
            return None
        # Kafka may refuse the dead letter too, and then even the dead letter without the record's bytes.
        is_dead_letter = isinstance(error, Refused) and max(self.refusals[place] for place in places) < IN_A_ROW
        before, self._reported = self._reported, (len(places), is_dead_letter)
        return self._message(places, error, is_dead_letter), self._reported != before

    def committed(self, positions: Mapping[int, int]) -> None:
        """Clear all records before these positions, whichever member has committed them."""
        if self._suspects or self.refusals:
            for places in (self._suspects, self.refusals):
                for partition, offset in list(places):
                    if offset < positions.get(partition, 0):
                        del places[partition, offset]
            if not self._suspects:
                self._failures, self._reported = 0, None

    def _message(self, places: Sequence[Place], error: TransactionFailed, is_dead_letter: bool) -> str:
        listed = ", ".join(f"{partition}/{offset}" for partition, offset in places[:_LISTED])
        if is_dead_letter:
            return (
                f"found after {self._failures} failures in a row: {error}. It becomes a dead letter; partition/offset: "
                f"{listed}"
            )
        if len(places) == 1:
            [(partition, offset)] = places
            return (
                f"the record at offset {offset} of input partition {partition} has failed {self._failures} times in a "
                f"row, now by itself ({error}). It is tried again, and blocks its partition. If you cannot remove the "
                "cause, save the record's bytes and skip it: stop every member and run kafka-consumer-groups.sh with "
                f"--reset-offsets --to-offset {offset + 1} for this partition alone"
            )
        return (
            f"{len(places)} records have failed {self._failures} times in a row ({error}), from partition/offset "
            f"{listed} on. Transactions now hold {self.batch_limit} records, and fewer each time, until they go "
            "through or the record is found"
        )
