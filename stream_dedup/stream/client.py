"""Settings -> keyword arguments of kafka-python's clients, each with its reason; and its errors -> ours.

In: `Settings`. Out: dictionaries for KafkaConsumer, KafkaProducer and KafkaAdminClient. All clients are
configured here and nowhere else, so that what the exactly-once protocol needs (read_committed everywhere, no
automatic commits, no automatic topics, no silent reset of offsets) is seen in one place.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kafka import errors as kafka_errors

from stream_dedup.errors import Fenced, StreamError, TransactionFailed
from stream_dedup.settings import Settings
from stream_dedup.stream.addresses import what_is_there
from stream_dedup.stream.error_text import error_text
from stream_dedup.stream.network import network

# Room that our headers need beside a record: two ids of at most MAX_ID_BYTES, escaped in the worst way as JSON
# (six bytes for one), and some numbers. Topics we write to must allow this much more than the input topic.
HEADER_ROOM = 64 * 2**10
# An id longer than this is no id: it would stand four times in headers and changelog.
MAX_ID_BYTES = 4096

# One batch a partition is in flight at a time (idempotence), so the batch size bounds the throughput: 256 KiB
# measured 2.6 times that of the default 16 KiB, and this 1.1 times that of 256 KiB. Topics must allow batches of it;
# a topic's own default, 1,048,588, does.
BATCH_BYTES = 960 * 2**10

# A take-over or a broker's return is seen within this time, not within the default 30 s.
_RECONNECT_MAX_MS = 1000
# So soon it is seen that a topic has more partitions: those of the input are read, those of the output are used. The
# client's default of five minutes is long for items that wait; this is one small request a client.
_METADATA_MS = 30_000
# A constructor waits this long for a broker before it raises; the worker then tries again and hears a stop.
_BOOTSTRAP_MS = 5000


class Secret(str):
    """A string that prints as stars: kafka-python logs whole configurations at level DEBUG."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'**********'"


def milliseconds(duration: Any) -> int:
    return int(duration.total_seconds() * 1000)


def connection(settings: Settings) -> dict[str, Any]:
    """What every client needs to reach the cluster."""
    kafka = settings.kafka
    config: dict[str, Any] = {
        "bootstrap_servers": [one.strip() for one in kafka.bootstrap_servers.split(",")],
        "client_id": f"stream-dedup-{kafka.group_id}",
        "security_protocol": kafka.security_protocol,
        "bootstrap_timeout_ms": _BOOTSTRAP_MS,
        "reconnect_backoff_max_ms": _RECONNECT_MAX_MS,
        "metadata_max_age_ms": _METADATA_MS,
        # Half of a commit's bound, so that one lost answer does not use it up.
        "request_timeout_ms": milliseconds(settings.worker.transaction_timeout) // 2,
    }
    for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"):
        path = getattr(kafka, name)
        if path is not None:
            config[name] = str(path)
    if kafka.sasl_mechanism is not None:
        config["sasl_mechanism"] = kafka.sasl_mechanism
        config["sasl_plain_username"] = kafka.sasl_username
        if kafka.sasl_password is not None:
            config["sasl_plain_password"] = Secret(kafka.sasl_password.get_secret_value())
    return config


def _reader(settings: Settings) -> dict[str, Any]:
    # What was aborted is nobody's business; and with read_committed an offset fetch waits for a pending commit.
    return connection(settings) | {
        "isolation_level": "read_committed",
        "enable_auto_commit": False,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
        # An offset out of range, or a missing one, must be decided on, not skipped.
        "auto_offset_reset": "none",
    }


def heartbeat_ms(settings: Settings) -> int:
    """A session survives three lost heartbeats."""
    return min(3000, milliseconds(settings.worker.session_timeout) // 4)


def consumer(settings: Settings, assignor: Any) -> dict[str, Any]:
    """The group member that reads the input topic."""
    worker = settings.worker
    return _reader(settings) | {
        "group_id": settings.kafka.group_id,
        "partition_assignment_strategy": [assignor],
        "session_timeout_ms": milliseconds(worker.session_timeout),
        "heartbeat_interval_ms": heartbeat_ms(settings),
        # A member that hangs in a computation keeps its heart beating; this long it may. It is also how long a
        # rebalance waits for a member, which comes back after each batch.
        "max_poll_interval_ms": 300_000,
        "max_poll_records": worker.batch_items,
        "fetch_max_bytes": worker.batch_bytes,
        # One fetch of one partition fills the transactions of a turn: some 7,000 articles of 4 KB. With a quarter of it
        # an item takes 107 µs instead of 80, as a turn ends in a wait for offsets. A single record larger than this is
        # still delivered (KIP-74).
        "max_partition_fetch_bytes": min(worker.batch_bytes, 16 * 2**20),
        # A frame holds the fetch and at most one record beyond it; brokers refuse requests above 100 MB.
        "receive_message_max_bytes": worker.batch_bytes + 100 * 2**20,
        # Group requests queue behind a waiting fetch on the same connection; this bounds their delay.
        "fetch_max_wait_ms": 100,
    }


def changelog_reader(settings: Settings) -> dict[str, Any]:
    """A consumer without a group that reads the changelog as fast as it can."""
    return _reader(settings) | {
        "max_partition_fetch_bytes": 8 * 2**20,
        # A standby asks for the changelog's end on the same connection, behind a fetch that waits for more: with the
        # default that takes half a second, in which the group is not polled.
        "fetch_max_wait_ms": 50,
    }


def producer(settings: Settings, transactional_id: str) -> dict[str, Any]:
    """The transactional producer of one task."""
    timeout = milliseconds(settings.worker.transaction_timeout)
    return connection(settings) | {
        "transactional_id": transactional_id,
        "transaction_timeout_ms": timeout,
        "delivery_timeout_ms": timeout,
        "max_block_ms": timeout,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
        "batch_size": BATCH_BYTES,
        # A transaction ends in a flush, which sends at once. Until then a batch may fill: without this the
        # first record would travel alone and the others wait for its acknowledgement.
        "linger_ms": 100,
        "compression_type": "lz4",
        "max_request_size": settings.worker.max_record_bytes + HEADER_ROOM,
        # Each transaction's first request meets CONCURRENT_TRANSACTIONS while the last one's markers are being
        # written; the default of 100 ms would cap small transactions at some ten a second.
        "retry_backoff_ms": 20,
    }


def make(kind: Callable[..., Any], config: Mapping[str, Any]) -> Any:
    """A client of this kind. If it cannot be made, nothing of it stays; if no broker answers, the error says why.

    The client's own constructor leaves a thread and sockets behind when no broker answers: in an outage of an
    hour, with a try every few seconds, that would be hundreds of them.
    """
    made: list[Any] = []

    def noted(**options: Any) -> Any:
        made.append(network(**options))
        return made[-1]

    try:
        return kind(**config, kafka_client=noted)
    except BaseException as error:
        for one in made:
            one.close()
        if isinstance(error, kafka_errors.KafkaTimeoutError):  # its text names the addresses, and no cause
            found = what_is_there(config["bootstrap_servers"], config["security_protocol"])
            raise kafka_errors.KafkaTimeoutError(found) from error
        raise


# What says nothing of the records: it comes with an outage, a rebalance, or from a client that is being closed.
_PASSING = (
    kafka_errors.RetriableError,
    kafka_errors.RebalanceInProgressError,
    kafka_errors.BrokerNotAvailableError,
    kafka_errors.TransactionAbortedError,
    kafka_errors.IllegalStateError,
)
_FENCED = (
    kafka_errors.ProducerFencedError,
    kafka_errors.InvalidProducerEpochError,
    kafka_errors.CommitFailedError,
    kafka_errors.FencedInstanceIdError,
    kafka_errors.IllegalGenerationError,
    kafka_errors.UnknownMemberIdError,
)
# Trying again would give the same answer: someone must change a setting, a right or the cluster.
_FATAL = (
    kafka_errors.AuthorizationError,
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.UnsupportedVersionError,
    kafka_errors.KafkaConfigurationError,
    kafka_errors.InvalidSessionTimeoutError,
    kafka_errors.InvalidTransactionTimeoutError,
    kafka_errors.InconsistentGroupProtocolError,
    kafka_errors.GroupMaxSizeReachedError,
)


def not_reached(error: kafka_errors.KafkaError, settings: Settings) -> StreamError:
    """Why a client could not be made, for a command that a person waits for: it ends, where a worker tries again."""
    servers = settings.kafka.bootstrap_servers
    ours = translate(error, f"connecting to {servers}")
    if not isinstance(ours, TransactionFailed):  # a refused login, say, which has a cure of its own
        return ours
    return StreamError(f"no broker answers at {servers}: {error.args[0] if error.args else type(error).__name__}")


def translate(error: kafka_errors.KafkaError, doing: str) -> StreamError:
    """Kafka's error as one of ours: Fenced, TransactionFailed (try again), or a plain, final StreamError."""
    # After a failure in the background the client wraps the cause in a plain error of the next call.
    error = next((one for one in error.args if isinstance(one, kafka_errors.KafkaError)), error)
    text = f"{doing}: {error_text(error)}"
    if isinstance(error, _FENCED):
        return Fenced(text)
    if isinstance(error, kafka_errors.InconsistentGroupProtocolError):
        return StreamError(
            f"{text}; the group has members of another kind: every member must run with the same [worker] scope, "
            "and no other program may use the group"
        )
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
        return StreamError(f"{text}; check [kafka] sasl_mechanism, sasl_username and sasl_password")
    if isinstance(error, _FATAL):
        return StreamError(text)
    return TransactionFailed(text, lasting=not isinstance(error, _PASSING))
