"""Find a record that makes transactions fail: after three failures in a row, halve the batch until it is alone.

In: each failed and each committed batch, from the task. Out: a message for the log (`failed`), the largest batch
allowed meanwhile (`batch_limit`), and the records that Kafka has refused (`refusals`), which the judge turns into dead
letters. The search outlives the task, which is closed after each failure.

Only lasting errors count: answers of the broker or the client that may come again for the same records. An outage, a
time-out, a fence or a rebalance says nothing about the records; the worker waits for its end, however long it takes.

A batch that has failed three times in a row is halved until it goes through or holds one record. A single record that
Kafka refuses becomes a dead letter at the next try. A single record that fails while Kafka does not blame it stays: the
cause would hit every other record too, and they must not end as dead letters one by one.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from stream_dedup.errors import Refused, TransactionFailed

# One failure may be chance, and a second one the tail of the same trouble.
IN_A_ROW = 3
_LISTED = 5  # partitions or records named in a message


@dataclass(frozen=True, slots=True)
class Stuck:
    """The same records have failed again. `is_new`: the search has got further since the last message."""

    message: str
    is_new: bool


@dataclass(slots=True)
class _Suspect:
    failures: int
    smallest_batch: int  # the number of records in the smallest batch in which it failed


class PoisonSearch:
    """Records are identified by (partition, offset). `refusals`: how often Kafka has refused the record itself."""

    def __init__(self) -> None:
        self.refusals: dict[tuple[int, int], int] = {}
        self._suspects: dict[tuple[int, int], _Suspect] = {}

    def failed(self, records: Sequence[Any], error: TransactionFailed) -> Stuck | None:
        """Count a failed batch; return a message once it is more than chance. O(records)."""
        if not error.lasting:
            return None
        blamed = [records[i] for i in error.sources] if error.sources else records
        places = sorted((record.partition, record.offset) for record in blamed)
        before = self._stage(places)
        for place in places:
            if isinstance(error, Refused):
                self.refusals[place] = self.refusals.get(place, 0) + 1
            suspect = self._suspects.setdefault(place, _Suspect(0, len(places)))
            suspect.failures += 1
            suspect.smallest_batch = min(suspect.smallest_batch, len(places))
        failures = max(self._suspects[place].failures for place in places)
        if failures < IN_A_ROW:
            return None
        message = _message(places, failures, error, self._is_dead_letter_refused(places))
        return Stuck(message, before != self._stage(places))

    def committed(self, records: Sequence[Any]) -> None:
        """Clear these records of suspicion."""
        for record in records if self._suspects or self.refusals else ():
            self._forget((record.partition, record.offset))

    def forget_before(self, positions: Mapping[int, int]) -> None:
        """Clear all records before these positions, whichever member has committed them."""
        for partition, offset in [*self._suspects, *self.refusals]:
            if offset < positions.get(partition, 0):
                self._forget((partition, offset))

    def batch_limit(self, partitions: Set[int]) -> int | None:
        """How many records a transaction of these partitions may hold; None: no limit. O(suspects)."""
        sizes = [
            max(1, suspect.smallest_batch // 2)
            for (partition, _), suspect in self._suspects.items()
            if partition in partitions and suspect.failures >= IN_A_ROW
        ]
        return min(sizes, default=None)

    def _forget(self, place: tuple[int, int]) -> None:
        self._suspects.pop(place, None)
        self.refusals.pop(place, None)

    def _is_dead_letter_refused(self, places: Sequence[tuple[int, int]]) -> bool:
        """Whether Kafka has refused the dead letter of one of these too, and the dead letter without its bytes."""
        return any(self.refusals.get(place, 0) >= IN_A_ROW for place in places)

    def _stage(self, places: Sequence[tuple[int, int]]) -> tuple[bool, bool, int | None]:
        """How far the search has come for these records; a change is worth a log line."""
        suspects = [self._suspects[place] for place in places if place in self._suspects]
        is_row = any(suspect.failures >= IN_A_ROW for suspect in suspects)
        smallest = min((suspect.smallest_batch for suspect in suspects), default=None)
        return is_row, self._is_dead_letter_refused(places), smallest


def _message(
    places: Sequence[tuple[int, int]], failures: int, error: TransactionFailed, dead_letter_refused: bool
) -> str:
    if isinstance(error, Refused) and not dead_letter_refused:
        listed = ", ".join(f"{partition}/{offset}" for partition, offset in places[:_LISTED])
        return (
            f"found after {failures} failures in a row: {error}. It becomes a dead letter; partition/offset: {listed}"
        )
    if len(places) == 1:
        [(partition, offset)] = places
        return (
            f"the record at offset {offset} of input partition {partition} has failed {failures} times in a row, now "
            f"by itself ({error}). It is tried again, and blocks its partition. If you cannot remove the cause, save "
            "the record's bytes and skip it: stop every member and run kafka-consumer-groups.sh with --reset-offsets "
            f"--to-offset {offset + 1} for this partition alone"
        )
    offsets: dict[int, list[int]] = {}
    for partition, offset in places:
        offsets.setdefault(partition, []).append(offset)
    spans = [f"{partition}: {some[0]} to {some[-1]}" for partition, some in offsets.items()]
    more = ["and more"] if len(spans) > _LISTED else []
    return (
        f"{len(places)} records have failed {failures} times in a row ({error}), at these offsets of input partitions: "
        f"{', '.join(spans[:_LISTED] + more)}. Transactions now hold {max(1, len(places) // 2)} records, and fewer "
        "each time, until they go through or the record is found"
    )
