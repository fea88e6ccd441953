"""All patches behind one interface: kafka-python's clients with `[kafka] client = "patched"`."""

from collections.abc import Callable
from typing import Any

from stream_dedup.stream.client_access import ClientAccess
from stream_dedup.stream.client_internals import bulk_producer, fast_fetch, force_close, login_errors, paused_fetches
from stream_dedup.stream.client_internals import rejoin as rejoining


class PatchedAccess(ClientAccess):
    """See the package's page for what each patch does and why."""

    network = staticmethod(login_errors.network)
    max_poll_records = None

    def prepare_consumer(self, consumer: Any, most_of_record: int) -> None:
        fast_fetch.install(consumer, most_of_record)

    def before_resume(self, consumer: Any, place: Any) -> None:
        paused_fetches.forget_parked(consumer, place)

    def go_on_rebalancing(self, consumer: Any, seconds: float, patience: float, rejoin: Callable[[], None]) -> None:
        rejoining.request_rejoin(consumer)

    def sender(self, producer: Any) -> bulk_producer.BulkSender:
        return bulk_producer.BulkSender(producer)

    def stop_sending(self, producer: Any) -> None:
        force_close.force_close(producer)
