"""The commit protocol: turns a judged batch into one Kafka transaction. Only this module numbers its steps.

docs/architecture.md and the fault tests, which kill the process at each step, use the same numbers. A step is announced
before it begins.

    step           what happens                                        if the process is killed before or in it
    1 POLL         records are taken; the membership is noted          the batch is read again
    2 JUDGE        verdicts; the index does not change                 the batch is read again
    3 APPLY        the delta waits beside the index, pending           the batch is read again; the delta is forgotten
    4 BEGIN        the transaction begins                              the batch is read again
    5 OFFSETS      the input offsets, under the noted membership       the transaction is aborted, the batch read again
    6 SEND         output, duplicates, dead letters are handed over    the transaction is aborted, the batch read again
    7 CHANGELOG    the delta is handed over                            the transaction is aborted, the batch read again
    8 FLUSH        every record is acknowledged, one by one            the transaction is aborted, the batch read again
    9 COMMIT       everything becomes visible at once                  all of it happened, or none

Steps 4 to 9 of a batch are one job in the thread of its producer (`commit`), while the next batch is judged and the one
after it is fingerprinted: the client mostly waits, and fingerprinting releases the interpreter's lock. The records are
packed and compressed after step 3, while the previous batch is still being committed. There is one transaction at a
time; the next begins when this one is committed. If more records are there to read, several batches are polled under
one membership. The next poll waits for step 5 of the last of them, because a poll may take part in a rebalance, after
which the group would refuse offsets of the former generation. (Tried: to poll before the last of them is applied, and
to drop what was polled if the group has changed. It fills the pause but is no faster, because the processor is busy.)

A broker that dies in steps 5 to 9 ends the same way as a step that fails: the client tries again for the time limit of
the transaction, and then the task is closed.

So a batch is judged against committed and pending deltas. A pending delta never outlives a failure:

After any error from step 4 on, the outcome counts as unknown, even after a failed commit. The task is closed, which
rolls pending deltas back (`TaskSlot.close_task`, `StateStore.rollback`), and is opened again (task.py), which asks
Kafka what happened: if the transaction was committed after all, its delta is in the changelog behind the last confirmed
block, and is read from there. Nothing else is ever concluded from an error.

How the protocol works around kafka-python's pitfalls (the rules in docs/architecture.md): it uses the membership noted
right after the poll (P4); it checks every future before the commit, because an expired record fails silently and the
commit would succeed without it (P1, P2); it never uses a producer again after an error (P3); it bounds every call (P5).
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from enum import IntEnum
from typing import Any

from stream_dedup.kafka.client import TopicPartition
from stream_dedup.kafka.producer import RecordBatch, TaskProducer


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


class StepClock:
    """Announces each step, and measures how long it takes."""

    def __init__(self, announce: Callable[[CommitStep], None]) -> None:
        self._announce = announce
        self._starts: list[tuple[CommitStep, float]] = []

    def __call__(self, step: CommitStep) -> None:
        self._starts.append((step, time.monotonic()))
        self._announce(step)

    def seconds(self) -> dict[CommitStep, float]:
        """Seconds of each announced step; the last one ends now."""
        until = [*(moment for _, moment in self._starts[1:]), time.monotonic()]
        return {step: end - start for (step, start), end in zip(self._starts, until, strict=True)}


def commit(
    producer: TaskProducer,
    packed: Future[tuple[list[RecordBatch], list[RecordBatch]]],
    offsets: Mapping[TopicPartition, int],
    membership: Any,
    offsets_sent: Future[None],
    announce: StepClock,
) -> dict[CommitStep, float]:
    """Do steps 4 to 9, in the producer's thread. Returns the seconds of each once all is committed; raises a
    StreamError otherwise.

    `packed`: the batch's records, and those of the changelog. `offsets_sent` gets the outcome of step 5.
    """
    try:
        announce(CommitStep.BEGIN)
        producer.begin()
        announce(CommitStep.OFFSETS)
        producer.send_offsets(offsets, membership)
    except BaseException as error:
        offsets_sent.set_exception(error)
        raise
    offsets_sent.set_result(None)
    records, changelog = packed.result()
    announce(CommitStep.SEND)
    producer.send(records)
    announce(CommitStep.CHANGELOG)
    producer.send(changelog)
    announce(CommitStep.FLUSH)
    producer.flush()
    announce(CommitStep.COMMIT)
    producer.commit()
    return announce.seconds()
