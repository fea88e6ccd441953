"""The configuration of every kafka-python client, consumer and producer alike; and how they are made.

Each option has its reason here. So one place shows what exactly-once processing needs: read_committed everywhere, no
automatic commits, no automatic topics, no silent reset of offsets. errors.py explains and translates what the clients
raise.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

# Redundant aliases: the names that the rest of the package gets from here.
from kafka import ConsumerRebalanceListener as ConsumerRebalanceListener
from kafka import KafkaConsumer as KafkaConsumer
from kafka import KafkaProducer as KafkaProducer
from kafka import TopicPartition as TopicPartition
from kafka.admin import ConfigResource as ConfigResource
from kafka.admin import ConfigResourceType as ConfigResourceType
from kafka.admin import KafkaAdminClient as KafkaAdminClient
from kafka.admin import OffsetSpec as OffsetSpec
from kafka.admin import OffsetTimestamp as OffsetTimestamp
from kafka.errors import KafkaTimeoutError
from kafka.partitioner import murmur2 as murmur2
from kafka.structs import MemberState as MemberState
from kafka.structs import OffsetAndMetadata as OffsetAndMetadata

from stream_dedup.errors import ConfigError
from stream_dedup.kafka import patches
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
        _check_files(kafka)
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


@cache
def _check_files(kafka: KafkaSettings) -> None:
    """Raise ConfigError, which names the file, if the client cannot use one of its files for TLS.

    Only until they were usable once. The client reads them again for each connection, and retries. Files that are
    replaced while a worker runs may not fit each other for a moment.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    cafile, certfile, keyfile = kafka.ssl_cafile, kafka.ssl_certfile, kafka.ssl_keyfile
    for name, path in (("ssl_cafile", cafile), ("ssl_certfile", certfile), ("ssl_keyfile", keyfile)):
        try:
            if path is not None:
                Path(path).read_bytes()
        except OSError as error:
            raise ConfigError(
                f"[kafka] {name}: cannot read {path} ({error.strerror}); mount the file there, readable for this user"
            ) from None
    try:
        if cafile is not None:
            context.load_verify_locations(cafile)
    except ssl.SSLError as error:
        raise ConfigError(f"[kafka] ssl_cafile: {cafile} has no certificate in PEM form ({_reason(error)})") from None
    try:
        if certfile is not None:
            context.load_cert_chain(certfile, keyfile, kafka.secret("ssl_key_password") or "")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"[kafka] ssl_certfile, ssl_keyfile: {certfile} and {keyfile or 'the key in it'} cannot be used "
            f"({_reason(error)}): both must be PEM, the key must belong to the certificate, and an encrypted key needs "
            "ssl_key_password or ssl_key_password_file"
        ) from None


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)


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


# On top of the client's five seconds, and within the ten seconds of a stop. A slow name server is not waited for.
_LOOK_SECONDS = 1.0
_PORT = 9092  # the client's default


def diagnose_addresses(servers: Sequence[str], options: Mapping[str, Any]) -> str:
    """Return the likely cause that no broker answered at these addresses, with the cure. `options`: the client's.

    >>> diagnose_addresses(["127.0.0.1:1"], {"security_protocol": "PLAINTEXT"}).partition(";")[0]
    'nothing listens at 127.0.0.1:1'
    """
    problems = {server: f"{server} does not answer" for server in servers}  # until its thread has found out

    def look(server: str) -> None:
        problems[server] = _problem(server)

    threads = [threading.Thread(target=look, args=(server,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * _LOOK_SECONDS)
    listening = [server for server, problem in problems.items() if not problem]
    if listening:
        return (
            f"{', '.join(listening)} can be reached, but no broker there answers over "
            f"security_protocol = {options['security_protocol']}; check [kafka] security_protocol, the port, and that "
            "the broker has started"
        )
    return (
        f"{', '.join(problems.values())}; check [kafka] bootstrap_servers (--config FILE, or "
        "STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS), and that the brokers run"
    )


def _problem(server: str) -> str:
    """Return what a TCP connection finds at the address; "": someone listens.

    >>> _problem("127.0.0.1:kafka"), _problem("[::1]:1")[:26]
    ('127.0.0.1:kafka is no HOST:PORT', 'nothing listens at [::1]:1')
    """
    try:
        address = urlsplit(f"//{server}")
        port = address.port or _PORT
        socket.create_connection((address.hostname, port), timeout=_LOOK_SECONDS).close()
    except (socket.gaierror, UnicodeError):
        return f"the host name in {server} is not known"
    except ConnectionRefusedError:
        return f"nothing listens at {server}" + ("" if address.port else f" (no port is given: {port})")
    except ValueError:
        return f"{server} is no HOST:PORT"
    except TimeoutError:
        return f"{server} does not answer"
    except OSError as error:
        return f"{server} cannot be reached ({error.strerror or error})"
    return ""
