"""The configuration of every kafka-python client, consumer and producer alike; and how they are made.

Each option has its reason here. So one place shows what exactly-once processing needs: read_committed everywhere, no
automatic commits, no automatic topics, no silent reset of offsets. errors.py explains and translates what the clients
raise.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

# Redundant aliases: the names that the rest of the package gets from here.
from kafka import ConsumerRebalanceListener as ConsumerRebalanceListener
from kafka import KafkaConsumer as KafkaConsumer
from kafka import KafkaProducer as KafkaProducer
from kafka import TopicPartition as TopicPartition
from kafka.admin import KafkaAdminClient as KafkaAdminClient
from kafka.admin import OffsetSpec as OffsetSpec
from kafka.admin import OffsetTimestamp as OffsetTimestamp
from kafka.partitioner import murmur2 as murmur2
from kafka.structs import MemberState as MemberState
from kafka.structs import OffsetAndMetadata as OffsetAndMetadata

from stream_dedup.kafka import fetch, patches
from stream_dedup.kafka.epochs import LeaderEpochs
from stream_dedup.kafka.errors import KafkaTimeoutError, check_files, diagnose_addresses
from stream_dedup.settings import KafkaSettings, Settings

# Bytes that our headers may add to a record: two ids of at most MAX_ID_BYTES as they are, two with each byte escaped as
# six in JSON, and some numbers. Topics we write to must allow this much more than the input topic.
HEADER_ROOM = 64 * 2**10
# Longer ids are bad items: an id is stored five times, in headers and changelog.
MAX_ID_BYTES = 4096

# One batch a partition is in flight at a time (idempotence), so the batch size bounds the throughput: 256 KiB
# measured 2.6 times that of the default 16 KiB, and this 1.1 times that of 256 KiB. Topics must allow batches of it;
# a topic's own default, 1,048,588, does.
BATCH_BYTES = 960 * 2**10

# The most bytes that a poll takes of one partition.
_FETCH_BYTES = 16 * 2**20
# Its bound with [item] time = "published": some 16 articles of 4 KB, or a batch of the producer. The partitions of a
# backfill are read in turn; with more from each, copies would come when their originals in another one have left the
# window.
_BACKFILL_FETCH_BYTES = 2**16
# A client notices a take-over or a broker's return within this time; by default within 30 s.
_RECONNECT_MAX_MS = 1000
# A client notices new partitions within this time: those of the input must be read, those of the output used. The
# default of five minutes is long for items that wait; the cost is one small request a client.
_METADATA_MS = 30_000
# A constructor waits this long for a broker before it raises; then the worker notices a stop, or tries again.
_BOOTSTRAP_MS = 5000


class Secret(str):
    """A string that prints as stars: kafka-python logs whole configurations at level DEBUG.

    `read` reads it again, for each login (patches.py).
    """

    read: Callable[[], str | None]

    def __repr__(self) -> str:
        return "'**********'"


def token_provider(kafka: KafkaSettings) -> Any:
    """Return an object that gives the client a token for each login and each renewal of one (KIP-368)."""
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python ships no types
        def token(self) -> str:
            return kafka.secret("sasl_oauth_token") or ""

    return Tokens()


def milliseconds(duration: Any) -> int:
    """Convert a timedelta to whole milliseconds."""
    return int(duration.total_seconds() * 1000)


def client_id(settings: Settings) -> str:
    """Return the name of this deployment's clients in the brokers' logs and quotas."""
    return f"stream-dedup-{settings.kafka.group_id}"


def connection(settings: Settings) -> dict[str, Any]:
    """Return the options that every client needs to reach the cluster."""
    kafka = settings.kafka
    config: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in kafka.bootstrap_servers.split(",")],
        "client_id": client_id(settings),
        "kafka_client": patches.network,
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
    if kafka.uses_tls:
        # Never None: OpenSSL would ask for the password of an encrypted key on the terminal.
        config["ssl_password"] = Secret(kafka.secret("ssl_key_password") or "")
        _check_files(kafka, config)
    if kafka.sasl_mechanism == "OAUTHBEARER":
        config["sasl_mechanism"] = kafka.sasl_mechanism
        config["sasl_oauth_token_provider"] = token_provider(kafka)
    elif kafka.sasl_mechanism is not None:
        username = kafka.sasl_username or ""
        if kafka.sasl_mechanism.startswith("SCRAM"):  # RFC 5802, section 5.1; the client does not do it
            username = username.replace("=", "=3D").replace(",", "=2C")
        config["sasl_mechanism"] = kafka.sasl_mechanism
        config["sasl_plain_username"] = username
        config["sasl_plain_password"] = password = Secret(kafka.secret("sasl_password") or "")
        password.read = lambda: kafka.secret("sasl_password")
    return config


_usable_files: set[KafkaSettings] = set()


def _check_files(kafka: KafkaSettings, config: Mapping[str, Any]) -> None:
    """Raise ConfigError for files that cannot be used; only until they were usable once.

    The client reads them again for each connection, and retries. Files that are replaced while a worker runs may not
    fit each other for a moment.
    """
    if kafka not in _usable_files:
        check_files(config)
        _usable_files.add(kafka)


def _reader(settings: Settings) -> dict[str, Any]:
    return connection(settings) | {
        # A reader skips aborted records, and a fetch of offsets waits for a pending commit.
        "isolation_level": "read_committed",
        "enable_auto_commit": False,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
        # A missing offset, or one out of range, needs a decision (resume.py); the client must not skip records.
        "auto_offset_reset": "none",
    }


def heartbeat_ms(settings: Settings) -> int:
    """Return the interval of heartbeats. A session survives three that are lost."""
    return min(3000, milliseconds(settings.worker.session_timeout) // 4)


def consumer(settings: Settings, assignor: Any) -> dict[str, Any]:
    """Return the options of the group member that reads the input."""
    worker = settings.worker
    fetch = _FETCH_BYTES if settings.item.time == "record" else _BACKFILL_FETCH_BYTES
    return _reader(settings) | {
        "group_id": settings.kafka.group_id,
        "partition_assignment_strategy": [assignor],
        "session_timeout_ms": milliseconds(worker.session_timeout),
        "heartbeat_interval_ms": heartbeat_ms(settings),
        # A member that hangs in a computation still sends heartbeats, for this long. A rebalance waits as long for a
        # member; a healthy one comes back after each batch.
        "max_poll_interval_ms": 300_000,
        "max_poll_records": worker.batch_items,
        "fetch_max_bytes": worker.batch_bytes,
        # One fetch of one partition fills the transactions of a turn: some 7,000 articles of 4 KB. With a quarter of
        # this an item takes 107 µs instead of 80, because a turn ends in a wait for offsets. A single larger record is
        # still delivered (KIP-74).
        "max_partition_fetch_bytes": min(worker.batch_bytes, fetch),
        # A frame holds the fetch and at most one record beyond it; brokers refuse requests above 100 MB.
        "receive_message_max_bytes": worker.batch_bytes + 100 * 2**20,
        # Group requests queue behind a waiting fetch on the same connection; this bounds their delay.
        "fetch_max_wait_ms": 100,
    }


def changelog_reader(settings: Settings) -> dict[str, Any]:
    """Return the options of a consumer without a group that reads a topic as fast as it can."""
    return _reader(settings) | {
        "max_partition_fetch_bytes": 8 * 2**20,
        # A standby asks for the changelog's end on the same connection, behind a fetch that waits for more. With the
        # default this takes half a second, during which the group is not polled.
        "fetch_max_wait_ms": 50,
    }


def producer(settings: Settings, transactional_id: str) -> dict[str, Any]:
    """Return the options of the transactional producer of one task."""
    timeout = milliseconds(settings.worker.transaction_timeout)
    return connection(settings) | {
        "transactional_id": transactional_id,
        "transaction_timeout_ms": timeout,
        "delivery_timeout_ms": timeout,
        "max_block_ms": timeout,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
        "batch_size": BATCH_BYTES,
        # A transaction ends in a flush, which sends at once. Until then batches fill. Without this the first record
        # would be sent alone, and the others would wait for its acknowledgement.
        "linger_ms": 100,
        "compression_type": "lz4",
        "max_request_size": settings.worker.max_record_bytes + HEADER_ROOM,
        # The first request of a transaction meets CONCURRENT_TRANSACTIONS while the broker writes the markers of the
        # one before: one in twenty on an idle broker, for less than this. Whatever waits is delayed by each retry: the
        # default of 100 ms would limit small transactions to some ten a second (P7), and 20 ms made the tail of all
        # latencies.
        "retry_backoff_ms": 5,
    }


def make(kind: Callable[..., Any], config: Mapping[str, Any]) -> Any:
    """Make a client; if this fails, release everything that it holds. If no broker answers, the error says why.

    The client's own constructor leaves a thread and sockets behind when no broker answers: hundreds of them in an
    outage of an hour with a try every few seconds.
    """
    network = config.get("kafka_client") or KafkaConsumer.DEFAULT_CONFIG["kafka_client"]
    networks: list[Any] = []

    def recorded(**options: Any) -> Any:
        networks.append(network(**options))
        return networks[-1]

    try:
        return kind(**{**config, "kafka_client": recorded})
    except BaseException as error:
        for network in networks:
            with suppress(RuntimeError):  # its thread could not be started; that error says more
                network.close()
        if isinstance(error, KafkaTimeoutError):  # its text names the addresses, but no cause
            raise KafkaTimeoutError(diagnose_addresses(config["bootstrap_servers"], config)) from error
        raise


def make_consumer(
    config: Mapping[str, Any], most_of_record: int = sys.maxsize, epochs: LeaderEpochs | None = None
) -> Any:
    """Make a KafkaConsumer that unpacks fast; see `fetch.install`."""
    return fetch.install(make(KafkaConsumer, config), most_of_record, epochs)
