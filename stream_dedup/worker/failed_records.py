"""Find the records at fault when batches of a task fail again and again (`FailedRecords`).

After three failures in a row the search halves the batch until the record is alone. It finds three kinds:

- A record that makes transactions fail. If Kafka refuses it by name, it becomes a dead letter at the next try.
  Otherwise it stays and is tried again: the cause would hit every other record too, and they must not end as dead
  letters one by one.
- A record whose work takes so long that the group removes this member. It becomes a dead letter once it has cost the
  membership by itself. During a search nothing is fingerprinted ahead, so that no batch is blamed for the next one.
- A record that ends the process: it takes more memory than there is, or holds the interpreter until the probes fail and
  the container is restarted. So before the first batch of each opening, and each batch of a search, the number of its
  records is stored beside the group's offsets. A member that opens the task next and finds the note of another process
  counts it as a failure and goes on with the search. A note costs a transaction without records, some 20 ms.

Only lasting errors count: answers of the broker or the client that would come again for the same records. An outage, a
time-out or a rebalance says nothing about the records, and neither does a fence, unless the work took longer than a
session just before it.

The search outlives an open task, which is closed after each failure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from stream_dedup.errors import Fenced, Refused, TransactionFailed
from stream_dedup.worker.outgoing import TOO_SLOW
from stream_dedup.worker.resume import Committed

# One failure may be chance, and a second one the tail of the same trouble.
IN_A_ROW = 3
_LISTED = 5  # records named in a message
_TRY_FEWER = "Transactions now hold {} records, and fewer each time, until"
_REPORT_IT = f"The record becomes a dead letter ({TOO_SLOW}); please report it with its bytes"

Place = tuple[int, int]  # partition, offset
Work = tuple[int, int, int, int]  # partition, offset, records, how often in a row it was begun, with this one


class FailedRecords:
    """The search of one task. `refusals`: how often Kafka has refused a record. `too_slow`: records on which the work
    takes too long, and what it has cost.
    """

    def __init__(self) -> None:
        self.refusals: dict[Place, int] = {}
        self.too_slow: dict[Place, str] = {}
        self._announced: set[Work] = set()  # by this process, whether or not the group has it
        self._deaths = 0  # of processes in a row, at work that they had announced
        self._is_opening = False  # whether the next batch is the first one of an opening
        self._suspects: dict[Place, int] = {}  # records not committed since -> the smallest batch that failed with them
        self._failures = 0  # in a row, each with suspects of the one before
        self._reported: tuple[int, bool] | None = None

    @property
    def batch_limit(self) -> int | None:
        """How many records a transaction may hold; None: no limit. O(suspects)."""
        return max(1, min(self._suspects.values()) // 2) if self._suspects and self._failures >= IN_A_ROW else None

    def count(
        self, records: Sequence[Any], error: TransactionFailed | Fenced, suspicious: float = 0.0
    ) -> tuple[str, bool] | None:
        """Count a failed batch; once it is more than chance, return a message and whether it says something new.

        `suspicious`: seconds of the work on the batch, if they may have cost the membership, which a fence then
        confirms.
        """
        if isinstance(error, Fenced):
            message = self._lost(records, suspicious) if suspicious else None
            return (message, True) if message else None
        if not error.lasting:
            return None
        places = _places([records[i] for i in error.sources] or records)
        if isinstance(error, Refused):
            self.refusals.update({place: self.refusals.get(place, 0) + 1 for place in places})
        if not self._count_failure(places):
            return None
        # Kafka may refuse the dead letter too, and then even the dead letter without the record's bytes.
        is_dead_letter = isinstance(error, Refused) and max(self.refusals[place] for place in places) < IN_A_ROW
        reported, self._reported = self._reported, (len(places), is_dead_letter)
        return self._message(places, error, is_dead_letter), self._reported != reported

    def _lost(self, records: Sequence[Any], seconds: float) -> str | None:
        """Count a batch on which the work took so long that this member lost its place in the group."""
        places = _places(records)
        if not self._count_failure(places):
            return None
        partition, offset = places[0]
        if len(places) > 1:
            return (
                f"the work on {len(places)} records has cost this member its place in the group {self._failures} times "
                f"in a row, the last time after {seconds:.0f} s, from partition/offset {partition}/{offset} on. "
                f"{_TRY_FEWER.format(self.batch_limit)} the record is found"
            )
        self.too_slow[places[0]] = f"took {seconds:.0f} s, and cost the member its place in the group"
        return (
            f"the work on the record at offset {offset} of input partition {partition} took {seconds:.0f} s by itself, "
            f"and cost this member its place in the group, {self._failures} times in a row now. {_REPORT_IT}"
        )

    def _count_failure(self, places: Sequence[Place]) -> bool:
        """Count a failure of these records; return whether there were too many for chance."""
        self._failures = self._failures + 1 if self._suspects.keys() & places else 1
        for place in places:
            self._suspects[place] = min(len(places), self._suspects.get(place, len(places)))
        return self._failures >= IN_A_ROW

    def opened(self, committed: Mapping[int, Committed]) -> list[str]:
        """Count what other processes have begun and not ended, as their notes beside the group's offsets say.

        Returns messages once it is more than chance.
        """
        self._is_opening = True
        messages = []
        for partition, commit in committed.items():
            if commit.note is None or not commit.note.begun:
                continue
            offset, size, tries = commit.offset, commit.note.begun, commit.note.tries
            if (partition, offset, size, tries) in self._announced:
                continue
            self._deaths = max(self._deaths, tries)
            if tries < IN_A_ROW:
                continue
            self._failures = max(self._failures, tries)
            self._suspects |= {(partition, offset + i): size for i in range(size)}
            cure = f"{_TRY_FEWER.format(self.batch_limit)} it is found"
            if size == 1 and tries >= 2 * IN_A_ROW:
                self.too_slow[partition, offset] = f"has ended {tries} processes in a row"
                cure = _REPORT_IT
            messages.append(
                f"{tries} processes in a row were ended at their work, the last one at work on {size} "
                f"records from offset {offset} of input partition {partition} on. {cure}"
            )
        return messages

    def to_announce(self, records: Sequence[Any]) -> tuple[int, int] | None:
        """Return what to commit before the work on these records begins: their number, and the tries; None: nothing."""
        if not self._is_opening and self.batch_limit is None:
            return None
        self._is_opening = False
        size, tries = len(records), self._deaths + 1
        first = {record.partition: record.offset for record in reversed(records)}
        self._announced |= {(partition, offset, size, tries) for partition, offset in first.items()}
        return size, tries

    def committed(self, positions: Mapping[int, int]) -> None:
        """Clear all records before these positions, whichever member has committed them."""
        if self._suspects or self.refusals:
            for places in (self._suspects, self.refusals, self.too_slow):
                for partition, offset in list(places):
                    if offset < positions.get(partition, 0):
                        del places[partition, offset]
        self._announced = {work for work in self._announced if work[1] >= positions.get(work[0], 0)}
        if not self._suspects:
            self._failures, self._deaths, self._reported = 0, 0, None

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
                "cause, save the record's bytes and skip it: stop every member and run: "
                f"stream-dedup groups set-offset {offset + 1} --partitions {partition}"
            )
        return (
            f"{len(places)} records have failed {self._failures} times in a row ({error}), from partition/offset "
            f"{listed} on. {_TRY_FEWER.format(self.batch_limit)} they go through or the record is found"
        )


def _places(records: Sequence[Any]) -> list[Place]:
    return sorted((record.partition, record.offset) for record in records)
