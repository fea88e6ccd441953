"""Stop a producer at once.

`KafkaProducer.close` waits for unsent records before it stops the sender thread, and raises if they cannot be sent.
While brokers are away the thread would go on by itself, and send when they are back.
"""

from typing import Any


def force_close(producer: Any) -> None:
    """Stop the sender thread of this KafkaProducer; what is unsent is dropped."""
    producer._sender.force_close()
