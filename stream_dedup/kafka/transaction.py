"""The commit protocol: turns a judged batch into one Kafka transaction. Only this module numbers its steps.

docs/architecture.md and the fault tests, which kill the process at each step, use the same numbers. A step is announced
before it begins.

    step           what happens                                        if the process is killed before or in it
    1 POLL         records are taken; the membership is noted          the batch is read again
    2 JUDGE        verdicts; the index does not change                 the batch is read again
    3 APPLY        the index takes the delta, pending                  the batch is read again; the delta is forgotten
    4 BEGIN        the transaction begins                              the batch is read again
    5 OFFSETS      the input offsets, under the noted membership       the transaction is aborted, the batch read again
    6 SEND         output, duplicates, dead letters are handed over    the transaction is aborted, the batch read again
    7 CHANGELOG    the delta is handed over                            the transaction is aborted, the batch read again
    8 FLUSH        every record is acknowledged, one by one            the transaction is aborted, the batch read again
    9 COMMIT       everything becomes visible at once                  all of it happened, or none

Steps 4 to 9 of a batch run in a thread of their own while the next batch is judged and the one after it is
fingerprinted: the client mostly waits, and fingerprinting releases the interpreter's lock. The records are packed and
compressed after step 3, while the previous batch is still being committed. There is one transaction at a time; the next
begins when this one is committed. If more records are there to read, several batches are polled under one membership.
The next poll waits for step 5 of the last of them, because a poll may take part in a rebalance, after which the group
would refuse offsets of the former generation. (Tried: to poll before the last of them is applied, and to drop what was
polled if the group has changed. It fills the pause but is no faster, because the processor is busy.)

So a batch is judged against committed and pending deltas. A pending delta never outlives a failure:

After any error from step 4 on, the outcome counts as unknown, even after a failed commit. The task (task.py) is closed,
pending deltas are rolled back (state_store.py), and the task is reopened, which asks Kafka what happened: if the
transaction was committed after all, its delta is in the changelog behind the last confirmed block, and is read from
there. Nothing else is ever concluded from an error.

How the protocol works around kafka-python's pitfalls (the rules in docs/architecture.md): it uses the membership noted
right after the poll (P4); it checks every future before the commit, because an expired record fails silently and the
commit would succeed without it (P1, P2); it never uses a producer again after an error (P3); it bounds every call (P5).
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Protocol


class CommitStep(IntEnum):
    """The steps of the commit protocol."""

    POLL = 1
    JUDGE = 2
    APPLY = 3
    BEGIN = 4
    OFFSETS = 5
    SEND = 6
    CHANGELOG = 7
    FLUSH = 8
    COMMIT = 9


class Producer(Protocol):
    """The calls that a transaction needs; `TaskProducer` in producer.py makes them."""

    def begin(self) -> None: ...
    def send(self, packed: Any) -> None: ...
    def send_offsets(self, offsets: Mapping[Any, int], membership: Any) -> None: ...
    def flush(self) -> None: ...
    def commit(self) -> None: ...


def begin(
    producer: Producer, offsets: Mapping[Any, int], membership: Any, announce: Callable[[CommitStep], None]
) -> None:
    """Do steps 4 and 5. Raises a StreamError if the group refuses the offsets."""
    announce(CommitStep.BEGIN)
    producer.begin()
    announce(CommitStep.OFFSETS)
    producer.send_offsets(offsets, membership)


def commit(producer: Producer, records: Any, changelog: Any, announce: Callable[[CommitStep], None]) -> None:
    """Do steps 6 to 9 with packed records. Returns once all is committed; raises a StreamError otherwise."""
    announce(CommitStep.SEND)
    producer.send(records)
    announce(CommitStep.CHANGELOG)
    producer.send(changelog)
    announce(CommitStep.FLUSH)
    producer.flush()
    announce(CommitStep.COMMIT)
    producer.commit()
