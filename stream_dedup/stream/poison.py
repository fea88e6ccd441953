"""Records on which transactions fail again and again: found by halves, and no loop without a word.

In: each failure of a batch and each commit, as the task sees them. Out: what to say of it (`failed`), how many records
a transaction may hold meanwhile (`limit`), and which records Kafka has refused (`refused`), for the judge to make dead
letters of. It outlives the task, which is dropped after each failure.

Only lasting errors count, answers of the broker or the client that may come again to the same records. An outage, a
time-out, a fence or a rebalance says nothing of the records; it is waited for, however long it takes.

A transaction that has failed three times in a row with the same records is halved until it goes through or holds one
record. A record that Kafka refuses by itself is a dead letter from the next try on. If one fails by itself and Kafka
does not say that it is to blame, it stays: whatever it is would then happen to all, and they must not end as dead
letters one by one.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from stream_dedup.errors import Refused, TransactionFailed

# Once may be chance, and twice the other end of the same trouble.
IN_A_ROW = 3
_SHOWN = 5  # partitions named in a message


@dataclass(frozen=True, slots=True)
class Stuck:
    """The same records fail again. `is_news`: this has not been said yet."""

    message: str
    is_news: bool


@dataclass(slots=True)
class _Suspect:
    failures: int
    beside: int  # how many records the smallest batch held in which it failed


class PoisonSearch:
    """By place, that is (partition, offset). `refused`: how often Kafka has refused the record itself."""

    def __init__(self) -> None:
        self.refused: dict[tuple[int, int], int] = {}
        self._suspects: dict[tuple[int, int], _Suspect] = {}

    def failed(self, records: Sequence[Any], error: TransactionFailed) -> Stuck | None:
        """Notes that a batch of these records has failed; what to say if that is more than chance. O(records)."""
        if not error.lasting:
            return None
        blamed = [records[i] for i in error.sources] if error.sources else records
        places = sorted((record.partition, record.offset) for record in blamed)
        said = self._said(places)
        for place in places:
            if isinstance(error, Refused):
                self.refused[place] = self.refused.get(place, 0) + 1
            before = self._suspects.get(place)
            beside = len(places) if before is None else min(before.beside, len(places))
            self._suspects[place] = _Suspect(1 if before is None else before.failures + 1, beside)
        failures = max(self._suspects[place].failures for place in places)
        if failures < IN_A_ROW:
            return None
        spent = max((self.refused.get(place, 0) for place in places), default=0) >= IN_A_ROW
        return Stuck(_message(places, failures, error, spent), said != self._said(places))

    def passed(self, records: Sequence[Any]) -> None:
        """These are committed."""
        for record in records if self._suspects or self.refused else ():
            self._suspects.pop((record.partition, record.offset), None)
            self.refused.pop((record.partition, record.offset), None)

    def reached(self, positions: Mapping[int, int]) -> None:
        """What lies before these positions is past, whoever has committed it."""
        for partition, offset in [*self._suspects, *self.refused]:
            if offset < positions.get(partition, 0):
                self._suspects.pop((partition, offset), None)
                self.refused.pop((partition, offset), None)

    def limit(self, partitions: Set[int]) -> int | None:
        """How many records a transaction of these partitions may hold; None: as many as ever. O(suspects)."""
        sizes = [
            max(1, one.beside // 2)
            for (partition, _), one in self._suspects.items()
            if partition in partitions and one.failures >= IN_A_ROW
        ]
        return min(sizes, default=None)

    def _said(self, places: Sequence[tuple[int, int]]) -> tuple[bool, bool, int | None]:
        known = [self._suspects[one] for one in places if one in self._suspects]
        loud = any(one.failures >= IN_A_ROW for one in known)
        spent = any(self.refused.get(one, 0) >= IN_A_ROW for one in places)
        return loud, spent, min((one.beside for one in known), default=None)


def _message(places: Sequence[tuple[int, int]], failures: int, error: TransactionFailed, spent: bool) -> str:
    """`spent`: Kafka has refused the dead letter too, and the note without its bytes."""
    if isinstance(error, Refused) and not spent:
        some = ", ".join(f"{partition}/{offset}" for partition, offset in places[:_SHOWN])
        return f"found after {failures} failures in a row: {error}. It becomes a dead letter; partition/offset: {some}"
    if len(places) == 1:
        [(partition, offset)] = places
        return (
            f"the record at offset {offset} of input partition {partition} has failed {failures} times in a row, now "
            f"by itself ({error}). It is tried again, and holds up its partition. If the cause cannot be mended, keep "
            "its bytes and skip it: stop every member and run kafka-consumer-groups.sh with --reset-offsets "
            f"--to-offset {offset + 1} for this partition alone"
        )
    spans: dict[int, list[int]] = {}
    for partition, offset in places:
        spans.setdefault(partition, []).append(offset)
    where = [f"{partition}: {offsets[0]} to {offsets[-1]}" for partition, offsets in spans.items()]
    more = ["and more"] if len(where) > _SHOWN else []
    return (
        f"{len(places)} records have failed {failures} times in a row ({error}), at these offsets of input partitions: "
        f"{', '.join(where[:_SHOWN] + more)}. Transactions now hold {max(1, len(places) // 2)} records, and fewer each "
        "time, until they go through or the record is found"
    )
