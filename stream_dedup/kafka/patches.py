"""Everything that reaches into kafka-python's private parts.

kafka-python promises none of what is used here, so pyproject.toml pins its version exactly, this package refuses
another one when it is imported, and tests/kafka/test_patches.py names what each patch relies on.

================  ==============================  ==================================================================
module            what it does                    reaches into
================  ==============================  ==================================================================
bulk_producer.py  hands whole record batches to   producer: `_accumulator`, `_transaction_manager`, `_sender`;
                  the producer                    `ProducerBatch`, the builders' fields
fast_fetch.py     unpacks fetched records,        consumer: `_fetcher`, its `PartitionRecords` and `_append`; the
                  bounds a poll by bytes          fields of `DefaultRecordBatch`; `codec`
                  (decompress.py)
login_errors.py   reports a refused login or      `kafka.net`: connections, transports, selector
                  certificate at once
patches.py        resumes a paused partition,     consumer: `_fetcher`, `_coordinator`; producer: `_sender`
                  goes on with a rebalance,
                  stops a producer at once
================  ==============================  ==================================================================

The first two are there for speed. Without bulk_producer.py production cost 3.6 times the processor time, the whole
worker 1.4 times (short made-up articles). Without fast_fetch.py consumption cost 1.9 times as much, the whole worker
1.07 times. That alone would not be worth a patch; it stays because only with it a header whose name is not UTF-8 does
not stop the worker, and a batch that unpacks to gigabytes does not kill it.

The others are there for correctness, not for speed: each says what goes wrong without it.
"""

from typing import Any

import kafka
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport

from stream_dedup.errors import ConfigError
from stream_dedup.kafka.errors import DISTRUSTED, CertificateProblem, certificate_problem

VERSION = "3.0.12"


def check_version() -> None:
    """Raise ConfigError if another version of kafka-python is installed, where the internals may be elsewhere."""
    if kafka.__version__ != VERSION:
        raise ConfigError(
            f"kafka-python {kafka.__version__} is installed, and the worker needs {VERSION} exactly: "
            f"install kafka-python=={VERSION}"
        )


check_version()


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


_SLOW_TASK_SECONDS = 1.0
_FINAL = (
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    CertificateProblem,
)


def network(**options: Any) -> KafkaNetClient:
    """Make the network of one client: the value of its option `kafka_client`. The caller closes it."""
    selector = NetworkSelector(**options, slow_task_threshold_secs=_SLOW_TASK_SECONDS)
    return KafkaNetClient(net=selector, manager=_Connections(selector, **options))


class _Connections(KafkaConnectionManager):  # type: ignore[misc]  # kafka-python ships no types
    """A login or certificate that the first broker refuses is final; one that is refused later, when others work, is
    not. Of those, certificates are reported: a login can be refused for a moment, a wrong certificate stays.
    """

    async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
        await super()._connect(node, conn, **options)
        failure, server = conn.init_future.exception, f"{node.host}:{node.port}"
        if failure is None:
            DISTRUSTED.remove(self.config["client_id"], server)
            return
        # The client's own error has the error of a handshake as its context, that of a later read as its argument.
        for cause in (failure.__context__, *failure.args):
            cause = certificate_problem(cause, server, self.config)
            failure = cause or failure
        if not self.cluster.is_bootstrap(node.node_id):
            if isinstance(failure, CertificateProblem):
                DISTRUSTED.add(self.config["client_id"], server, str(failure.args[0]))
        elif isinstance(failure, _FINAL):
            self._auth_failures[node.node_id] = failure

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await self._connected_transport(node, timeout_at)
        receive = transport._sock_recv

        def data_before_the_end() -> tuple[bytes, Exception | None]:
            data, error = receive()
            return data, None if data else error  # the next call meets the end again

        transport._sock_recv = data_before_the_end
        return transport

    async def _connected_transport(self, node: Any, timeout_at: float | None) -> Any:
        """As the base class makes it; but after a failed handshake, that leaves the socket to the garbage collector."""
        if not self.ssl_enabled:
            return await super()._build_transport(node, timeout_at=timeout_at)
        sock = await create_connection(
            self._net, node.host, node.port, self.config["socket_options"],
            proxy_url=self.config["proxy_url"], timeout_at=timeout_at,
        )  # fmt: skip
        try:
            options = {name: value for name, value in self.config.items() if name.startswith("ssl_")}
            transport = KafkaSSLTransport(self._net, sock, host=node.host, **options)
        except BaseException:  # a certificate file cannot be read
            sock.close()
            raise
        try:
            await transport.handshake()
        except Exception as error:
            transport.abort(error)
            raise kafka_errors.KafkaConnectionError(f"Handshake failed: {error}") from error
        return transport
