"""The commit protocol: a judged batch -> one Kafka transaction. The one place where its steps are numbered.

The numbers stand identically here, in docs/architecture.md and in the fault tests, which kill the process at
each. A step is announced before it is done.

    step           what happens                                        killed before or in it, the batch
    1 POLL         records are taken, the membership is noted          is read again
    2 JUDGE        verdicts; the index is not changed                  is read again
    3 APPLY        the index takes what is to be remembered, pending   is read again, and forgotten
    4 BEGIN        the transaction begins                              is read again
    5 OFFSETS      the input offsets, under the noted membership       is aborted and read again
    6 SEND         outputs, duplicates, dead letters are handed over   is aborted and read again
    7 CHANGELOG    and what the index must remember of the batch       is aborted and read again
    8 FLUSH        everything is acknowledged, record by record        is aborted and read again
    9 COMMIT       it all becomes visible at once                      happened wholly or not at all

Steps 4 to 9 of a batch run in a thread of their own, while the next batch is judged and the one after it
fingerprinted: the client mostly waits, and the fingerprints need no lock of the interpreter. The records are packed
and compressed after step 3, while the batch before is still being committed. One transaction at a time; the next
begins when this one is committed. Where there is more to read, several batches are polled under one membership. The
next poll waits for step 5 of the last of them, because it may take part in a rebalance, and then the group would
refuse offsets that come under the former generation. (To poll before the last of them is remembered, and to take it
for unread if the group has changed, was tried: it fills the pause, and is no faster, as the processor is busy.)

So a batch is judged by what is committed and by what is pending. Pending additions never outlive a failure:

After any error from step 4 on, the outcome counts as unknown, even after a failed commit: the task (task.py) is closed,
what is pending is taken out of the index again (state_store.py), and the task is opened anew, which asks Kafka what
happened: what was committed after all stands in the changelog behind the last confirmed block, and is read from
there. Nothing else is ever concluded from an error.

What the client would otherwise get wrong (kafka-python's rules): the membership is the one noted right after
the poll (P4); every future is asked before the commit, because an expired record fails silently and the commit
would succeed without it (P1, P2); a producer is never used again after an error (P3); all calls are bounded
(P5).
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Protocol

import msgspec


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


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A record to be produced. `source` is the place in the batch it comes from, -1: none of them."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp: int | None
    source: int = -1


class Producer(Protocol):
    """What a transaction needs; see producer.py."""

    def begin(self) -> None: ...
    def send(self, packed: Any) -> None: ...
    def send_offsets(self, offsets: Mapping[Any, int], membership: Any) -> None: ...
    def flush(self) -> None: ...
    def commit(self) -> None: ...


def begin(
    producer: Producer, offsets: Mapping[Any, int], membership: Any, announce: Callable[[CommitStep], None]
) -> None:
    """Steps 4 and 5. Raises a StreamError if the group does not take the offsets."""
    announce(CommitStep.BEGIN)
    producer.begin()
    announce(CommitStep.OFFSETS)
    producer.send_offsets(offsets, membership)


def commit(producer: Producer, records: Any, changelog: Any, announce: Callable[[CommitStep], None]) -> None:
    """Steps 6 to 9, of what the producer has packed. Returns when all is committed; raises a StreamError if not."""
    announce(CommitStep.SEND)
    producer.send(records)
    announce(CommitStep.CHANGELOG)
    producer.send(changelog)
    announce(CommitStep.FLUSH)
    producer.flush()
    announce(CommitStep.COMMIT)
    producer.commit()
