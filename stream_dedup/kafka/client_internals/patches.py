"""Three faults of kafka-python (3.0.12), and what works around each."""

from typing import Any


def forget_parked(consumer: Any, place: Any) -> None:
    """Drop what this KafkaConsumer has parked of a partition. The caller seeks in it and resumes it.

    The client parks what it has fetched of a paused partition. It takes the parked records up again only while it has
    no current partition. Once it has returned records of another partition that is never the case again (the drained
    partition stays current), and it does not fetch a partition of which it has parked records. Under load a resumed
    partition then stands still forever.
    """
    consumer._fetcher._paused_partition_records.pop(place, None)
    consumer._fetcher._paused_completed_fetches.pop(place, None)


def request_rejoin(consumer: Any) -> None:
    """Ask this KafkaConsumer to go on with its rebalance; call it after each poll until the rebalance is over.

    New metadata (the client's own first metadata, or new partitions) starts a rebalance. If the time of a poll ends
    between the client's two requests (JoinGroup, SyncGroup), the client never asks for the answer and sends no
    heartbeats: the member stands still. Measured: 7 of 8 starts with polls of 1 ms, 1 of some 70 with polls of 200 ms.
    """
    consumer._coordinator.request_rejoin()


def stop_sending(producer: Any) -> None:
    """Stop the sender thread of this KafkaProducer at once; what is unsent is dropped.

    `KafkaProducer.close` waits for unsent records before it stops the thread, and raises if they cannot be sent. While
    brokers are away the thread would go on by itself, and send when they are back.
    """
    producer._sender.force_close()
