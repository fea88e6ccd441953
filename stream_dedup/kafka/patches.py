"""Patches of kafka-python, of exactly the pinned version: how it seeks, resumes, rebalances, stops producers and
reports refused logins. Other versions are refused.

kafka-python promises none of what is used here, so pyproject.toml pins its version exactly, this module refuses another
one when it is imported, and tests/kafka/test_patches.py names what each patch relies on.

===========  ======================================  ==================================================================
module       what it does                            reaches into
===========  ======================================  ==================================================================
producer.py  hands whole record batches to the       producer: `_accumulator`, `_transaction_manager`, `_sender`;
             producer                                `ProducerBatch`, the builders' fields
fetch.py     unpacks fetched records, bounds a poll  consumer: `_fetcher`, its `PartitionRecords` and `_append`; the
             by bytes                                fields of `DefaultRecordBatch`; `codec`
patches.py   seeks with a leader epoch, resumes a    consumer: `_subscription`, `_fetcher`, `_coordinator`;
             paused partition, goes on with a        producer: `_sender`
             rebalance, stops a producer at once,
             keeps batches whole
patches.py   reports a refused login or certificate  `kafka.net`: connections, transports, selector
             at once, names throttling, closes all
             sockets, bootstraps anew, and reads
             a password again for each login
===========  ======================================  ==================================================================

The first two are there for speed. Without the first production cost 3.6 times the processor time, the whole worker 1.4
times (short made-up articles). Without the second consumption cost 1.9 times as much, the whole worker 1.07 times. That
alone would not be worth a patch; it stays because only with it a header whose name is not UTF-8 does not stop the
worker, and a batch that unpacks to gigabytes does not kill it. The others are there for correctness.

Without the last a wrong password looks like a broker that is away, and sockets stay open (kafka-python 3.0):

- A broker that refuses a login answers and hangs up. When the answer and the end of the stream come together, the
  client throws the answer away: nine times in ten.
- While the client looks for its first broker it only logs a refusal, and tries again until its time is over. A failed
  TLS handshake too, and each leaves an open socket behind.
- So does each failed connection, and a client that is closed while it connects, shakes hands, or still has something to
  send: its tasks are cancelled, and what they would have closed at their end waits for the garbage collector.
"""

import logging
import time
from typing import Any
from weakref import WeakSet

import kafka
from kafka import errors as kafka_errors
from kafka.net import compat, inet, manager
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.structs import OffsetAndMetadata

from stream_dedup.errors import ConfigError
from stream_dedup.kafka import errors

log = logging.getLogger(__name__)

VERSION = "3.0.12"


if kafka.__version__ != VERSION:  # the internals may be elsewhere
    raise ConfigError(
        f"kafka-python {kafka.__version__} is installed, and the worker needs {VERSION} exactly: "
        f"install kafka-python=={VERSION}"
    )


def seek(consumer: Any, place: Any, offset: int, epoch: int) -> None:
    """Let this KafkaConsumer read on from here. `epoch`: of the record before, so that the client asks the leader
    whether its log still has it (fetch.py); -1: unknown. Its public `seek` takes no epoch.
    """
    consumer._subscription.seek(place, OffsetAndMetadata(offset, "", epoch))


def resume(consumer: Any, place: Any, offset: int, epoch: int = -1) -> None:
    """Fetch a paused partition of this KafkaConsumer again, from this offset on; drop what the client has parked of it.

    The client parks what it has fetched of a paused partition. It takes the parked records up again only while it has
    no current partition. Once it has returned records of another partition that is never the case again (the drained
    partition stays current), and it does not fetch a partition of which it has parked records. Under load a resumed
    partition then stands still forever.
    """
    seek(consumer, place, offset, epoch)
    consumer._fetcher._paused_partition_records.pop(place, None)
    consumer._fetcher._paused_completed_fetches.pop(place, None)
    consumer.resume(place)


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


def is_connected(consumer: Any) -> bool:
    """Return whether this KafkaConsumer has a connection to any broker. Any thread may call it."""
    return any(conn.connected for conn in list(consumer._client._manager._conns.values()))


def keep_batches_whole(producer: Any) -> None:
    """Let a batch that is too large for its topic fail, as any other that the broker refuses (P12).

    This KafkaProducer would split it and send the halves, and the batch itself would never have an outcome: each
    transaction would fail after its whole time limit, without the broker's reason, and again with each retry.
    """
    producer._sender._can_split = lambda *_: False


# The client warns of a hang when it reads from a socket for longer than 0.1 s. A fetch of 16 MB is read in one go, in
# 0.1 to 0.25 s while all other threads are busy, so the log would fill with false warnings.
_SLOW_TASK_SECONDS = 1.0
# A connection to an address that swallows packets ends after this; then the next one is tried. .1 s is long even
# between continents, and the client's 10 s, which double up to 30 s, outlast a session.
_CONNECT_MS = 4000
# The pause between two questions to bootstrap servers that answer, but name brokers that cannot be reached.
_BOOTSTRAP_AGAIN_SECONDS = 5.0
_FINAL = (
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    errors.CertificateProblem,
)


def network(**options: Any) -> KafkaNetClient:
    """Make the network of one client: the value of its option `kafka_client`. The caller closes it."""
    selector = _Selector(**options, slow_task_threshold_secs=_SLOW_TASK_SECONDS)
    connecting = {f"socket_connection_setup_timeout{suffix}_ms": _CONNECT_MS for suffix in ("", "_max")}
    return KafkaNetClient(net=selector, manager=_Connections(selector, **options | connecting))


class _Selector(NetworkSelector):  # type: ignore[misc]  # kafka-python ships no types
    """Closes the sockets that its tasks were to close, once they are cancelled."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._sockets: WeakSet[Any] = WeakSet()

    @staticmethod
    def remember(net: Any, sock: Any) -> None:
        """Close this socket at the end of `net`, unless that was made before this module was imported."""
        if isinstance(net, _Selector):
            net._sockets.add(sock)

    def close(self) -> None:
        super().close()
        for sock in self._sockets:
            sock.close()


class _Socket(inet.KafkaNetSocket):  # type: ignore[misc]  # kafka-python ships no types
    """Closes a socket that cannot be connected."""

    SCHEMES = ()

    async def sock_connect(self, net: Any, sock: Any, *address: Any, **options: Any) -> Any:
        _Selector.remember(net, sock)
        try:
            return await super().sock_connect(net, sock, *address, **options)
        except Exception:
            sock.close()
            raise


class _Connections(manager.KafkaConnectionManager):  # type: ignore[misc]  # kafka-python ships no types
    """A login or certificate that the first broker refuses is final; one that is refused later, when others work, is
    not. Of those, certificates are reported: a login can be refused for a moment, a wrong certificate stays.

    The client asks its bootstrap servers once. When all brokers that it knows have moved, such as Pods with new
    addresses, it would try the old addresses for ever; here it asks the bootstrap servers again (KIP-899).
    """

    _bootstrap_due = 0.0  # when the servers may be asked again, monotonic seconds

    async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
        await super()._connect(node, conn, **options)
        failure, server = conn.init_future.exception, f"{node.host}:{node.port}"
        client_id, is_bootstrap = self.config["client_id"], self.cluster.is_bootstrap(node.node_id)
        if failure is None:
            errors.DISTRUSTED.remove(client_id, server)
            errors.UNREACHED.remove(client_id, server)
            if is_bootstrap and conn.init_future.succeeded():
                errors.REACHED.add(client_id, server, "")
            return
        # The client's own error has the error of a handshake as its context, that of a later read as its argument.
        for cause in (failure.__context__, *failure.args):
            cause = errors.certificate_problem(cause, server, self.config)
            failure = cause or failure
        if is_bootstrap:
            if failure.args:  # else this client was closed while it asked again
                errors.REACHED.remove(client_id, server)
            if isinstance(failure, _FINAL):
                self._auth_failures[node.node_id] = failure
        elif isinstance(failure, errors.CertificateProblem):
            errors.DISTRUSTED.add(client_id, server, str(failure.args[0]))
        else:
            errors.UNREACHED.add(client_id, server, f"{server} ({errors.error_text(failure)})")
        self._bootstrap_anew()

    def _bootstrap_anew(self) -> None:
        """Ask the bootstrap servers for the brokers again, if each known one has failed and none is connected."""
        known, now = [broker.node_id for broker in self.cluster.brokers()], time.monotonic()
        have_failed = known and all(node in self._backoff for node in known)
        if not have_failed or now < self._bootstrap_due or any(conn.connected for conn in self._conns.values()):
            return
        self._bootstrap_due = now + _BOOTSTRAP_AGAIN_SECONDS
        for broker in self.cluster.bootstrap_brokers():
            self._auth_failures.pop(broker.node_id, None)  # of the last time
        self.bootstrap_async(timeout_ms=_BOOTSTRAP_AGAIN_SECONDS * 1000)


# Shorter delays are those of any quota. What one throttled response says, the log says once a minute.
_THROTTLED_MS, _SAY_AGAIN_SECONDS = 500, 60.0
_said_at: dict[str, float] = {}  # client id -> monotonic seconds


class _Connection(KafkaConnection):  # type: ignore[misc]  # kafka-python ships no types
    """Says that brokers throttle a client. It sends nothing meanwhile, without an error: it looks like an outage.

    And it logs in with the password that the file has now: the client keeps the one that it was made with.
    """

    async def _sasl_authenticate(self, *arguments: Any, **options: Any) -> None:
        if read := getattr(self.config["sasl_plain_password"], "read", None):
            self.config["sasl_plain_password"] = type(self.config["sasl_plain_password"])(read() or "")
            self.config["sasl_plain_password"].read = read
        await super()._sasl_authenticate(*arguments, **options)

    def _maybe_throttle(self, response: Any) -> None:
        super()._maybe_throttle(response)
        name, now, delay = self.config["client_id"], time.monotonic(), getattr(response, "throttle_time_ms", 0)
        if delay >= _THROTTLED_MS and now - _said_at.get(name, -_SAY_AGAIN_SECONDS) >= _SAY_AGAIN_SECONDS:
            _said_at[name] = now
            log.warning("client %s waits %d ms: %s", name, delay, errors.THROTTLED)


def _data_first(data: bytes, error: Exception | None) -> tuple[bytes, Exception | None]:
    return data, None if data else error  # the next call meets the end again


class _Transport(KafkaTCPTransport):  # type: ignore[misc]  # kafka-python ships no types
    """Hands over the data that comes with the end of a connection; and ends at an error even if it waits until it has
    sent the rest.
    """

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        return _data_first(*super()._sock_recv())

    def abort(self, error: Exception | None = None) -> None:
        super().abort(error)
        self._close(error)


class _TlsTransport(_Transport, KafkaSSLTransport):  # type: ignore[misc]  # kafka-python ships no types
    """Does so with TLS, too; and closes its socket when it cannot be made, or after a failed handshake."""

    def __init__(self, net: Any, sock: Any, **options: Any) -> None:
        try:
            super().__init__(net, sock, **options)
        except BaseException:  # a certificate file cannot be read
            sock.close()
            raise
        _Selector.remember(net, self._sock)  # in place of the other, which it has taken over

    async def handshake(self) -> None:
        try:
            await super().handshake()
        except Exception as error:
            self.abort(error)
            raise


# The client makes all of these by these names.
compat.NetworkSelector = _Selector
manager.KafkaConnection = _Connection
inet.KafkaNetSocket = _Socket
manager.KafkaTCPTransport, manager.KafkaSSLTransport = _Transport, _TlsTransport
