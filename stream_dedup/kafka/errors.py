"""Explain errors of the Kafka client to a person: what is wrong, and what cures it.

`translate` turns exceptions of kafka-python into ours: those to retry, those of a member that was replaced, and final
ones, whose message names the setting, right or file to change.

kafka-python retries every failed connection as if the broker were away. It reports a misspelled host, a closed port, a
listener with another protocol and a refused certificate alike. So:

- `client.make` looks at the addresses when the client has given up.
- A refused certificate becomes a `CertificateProblem`, since it stays until someone changes a file or a setting. At the
  first broker it ends a worker. At another broker, such as one whose advertised address is not in its certificate, the
  client goes on trying, and `DISTRUSTED` has the problem for the log, /healthz and the metrics.
- `REACHED` and `UNREACHED` tell brokers that are away from brokers that answer under one address and advertise another.
"""

import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import kafka.errors
from kafka import TopicPartition
from kafka.errors import KafkaError as KafkaError

from stream_dedup.errors import Fenced, LoginRefused, StreamError, TransactionFailed
from stream_dedup.settings import Settings

kafka_errors = kafka.errors
"""The client's errors; the other packages get them from here."""
_NUMBER = r"(\[Error -?\d+\] )?"


def error_text(error: BaseException) -> str:
    """Name, Kafka protocol number and text of the error in one line, each once. The client repeats them, as in
    "[Error 87] InvalidRecordError: [Error 87] InvalidRecordError: ...".

    >>> error_text(kafka_errors.InvalidRecordError("Timestamp is out of range"))
    'InvalidRecordError (Kafka error 87): Timestamp is out of range'
    >>> error_text(kafka_errors.UnknownError())
    'UnknownError (Kafka error -1): An unexpected server error.'
    >>> error_text(kafka_errors.InvalidProducerEpochError(None))
    'InvalidProducerEpochError (Kafka error 47): Producer attempted to produce with an old epoch.'
    >>> error_text(kafka_errors.KafkaConnectionError(ConnectionRefusedError(111, "Connection refused")))
    'KafkaConnectionError: Connection refused'
    """
    name, text = type(error).__name__, _text(error)
    if isinstance(error, OSError) and not isinstance(error, kafka_errors.KafkaError):
        return error.strerror or text or name
    number = ""
    if isinstance(error, kafka_errors.BrokerResponseError):
        number = f" (Kafka error {error.errno})"
        text = text or error.description or ""
    text = re.sub(rf"^({_NUMBER}{re.escape(name)}(: |$))+", "", text)
    if text.startswith(f"{name}{number}"):  # an error wrapped in one of the same name
        return text
    return f"{name}{number}: {text}" if text else name + number


def _text(error: BaseException) -> str:
    if isinstance(error, kafka_errors.KafkaError):
        shown = [arg for arg in error.args if arg is not None]  # the client passes a broker's missing text on
        return ", ".join(error_text(arg) if isinstance(arg, BaseException) else str(arg) for arg in shown)
    return str(error)


# OpenSSL's verification results (x509_vfy.h); Python has no names for them.
_NOT_YET_VALID, _EXPIRED = 9, 10
_WRONG_NAME = (62, 64)  # the name, the address
# A broker's alert about our certificate. Java sends bad_certificate where others send certificate_required.
_ALERT = re.compile(r"ALERT_(\w*CERTIFICATE\w*|UNKNOWN_CA|ACCESS_DENIED)$")


class CertificateProblem(kafka.errors.KafkaConfigurationError):  # type: ignore[misc]  # kafka-python ships no types
    """TLS failed, and a retry with the same files and settings fails too."""


# A client tries again every second while it needs the broker; after this long it no longer does.
_RECENT_SECONDS = 30.0


class RecentBrokers:
    """What clients have lately learnt about brokers. Any thread may call it; `clock`: monotonic seconds.

    >>> brokers = RecentBrokers(clock=lambda: 7.0)
    >>> brokers.add("client", "b:9093", "b:9093: expired"); brokers.add("other", "c:9093", "c:9093: expired")
    >>> brokers.recent("client")
    {'b:9093': 'b:9093: expired'}
    >>> brokers.remove("client", "b:9093"); brokers.recent("client")
    {}
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._problems: dict[tuple[str, str], tuple[float, str]] = {}  # client id, address -> when, what
        self._lock = threading.Lock()

    def add(self, client_id: str, server: str, problem: str) -> None:
        now = self._clock()
        with self._lock:
            kept = {key: value for key, value in self._problems.items() if now - value[0] <= _RECENT_SECONDS}
            self._problems = kept | {(client_id, server): (now, problem)}

    def remove(self, client_id: str, server: str) -> None:
        with self._lock:
            self._problems.pop((client_id, server), None)

    def recent(self, client_id: str) -> dict[str, str]:
        """Return address -> problem, of the client with this id."""
        oldest = self._clock() - _RECENT_SECONDS
        return {
            server: problem
            for (client, server), (seen, problem) in sorted(self._problems.copy().items())
            if client == client_id and seen >= oldest
        }


# One for the process: the client makes its connections itself, so there is no other way from them to the worker.
DISTRUSTED = RecentBrokers()
"""The brokers whose certificate was refused, and why."""
REACHED = RecentBrokers()
"""The bootstrap servers that have answered, as long as the last try succeeds."""
UNREACHED = RecentBrokers()
"""The addresses that brokers advertise and that cannot be reached, and why."""


def unreached(client_id: str) -> str:
    """Say which advertised addresses cannot be reached although a bootstrap server answers, and the cure; or ""."""
    answering, unreachable = REACHED.recent(client_id), UNREACHED.recent(client_id)
    if not answering or not unreachable:
        return ""
    return (
        f"{', '.join(answering)} answers, but what the brokers advertise cannot be reached from here: "
        f"{', '.join(unreachable.values())}. Correct advertised.listeners of these brokers, or the names and the "
        "network of this machine"
    )


def certificate_problem(
    error: BaseException | None, server: str, options: Mapping[str, Any]
) -> CertificateProblem | None:
    """Explain an error of a TLS connection to `server`; None if it is not about certificates."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return CertificateProblem(f"{server}: {_verification(error, options.get('ssl_cafile'))}")
    match = _ALERT.search(error.reason or "") if isinstance(error, ssl.SSLError) else None
    if match is None:
        return None
    alert = match[1].lower().replace("_", " ")
    if not options.get("ssl_certfile"):
        cure = "it demands a client certificate: set [kafka] ssl_certfile and ssl_keyfile"
    else:
        cure = (
            f"it refuses the client certificate {options['ssl_certfile']}: it must be valid now, allow client "
            "authentication, and be signed by a CA in the broker's truststore; check [kafka] ssl_certfile"
        )
    return CertificateProblem(f"{server}: the broker ends the TLS handshake ({alert}); {cure}")


def _verification(error: ssl.SSLCertVerificationError, cafile: str | None) -> str:
    if error.verify_code in _WRONG_NAME:
        return (
            f"the broker's certificate is for another host ({error.verify_message.rstrip('.')}); name the host as in "
            "the certificate, in [kafka] bootstrap_servers and the brokers' advertised.listeners, or give the broker a "
            "certificate with this name (subjectAltName)"
        )
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
        return (
            f"the broker's certificate is not valid now ({error.verify_message}); renew it, or correct the clock of "
            "this machine"
        )
    trusted = f"those in {cafile}" if cafile else "those of the operating system"
    return (
        f"the broker's certificate is not trusted ({error.verify_message}): no CA of {trusted} has signed it; set "
        "[kafka] ssl_cafile to the PEM file of the CA that did"
    )


# Errors that say nothing about the records: an outage, a rebalance, or a client that is being closed.
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
_TAKEN_OVER = (
    "another member has taken over. If this goes on, a second deployment uses the same [kafka] group_id, from which "
    "the transactional id follows: give each its own"
)
# Errors that no retry with the same client cures -> what cures them, as far as the error tells.
_CURES: Mapping[Any, str] = {
    kafka_errors.ProducerFencedError: _TAKEN_OVER,
    kafka_errors.InvalidProducerEpochError: _TAKEN_OVER,
    **dict.fromkeys(_FENCED[2:], ""),
    kafka_errors.InconsistentGroupProtocolError: "the group has members of another kind: every member must run with "
    "the same [worker] scope, and no other program may use the group",
    kafka_errors.SaslAuthenticationFailedError: "check [kafka] sasl_mechanism, sasl_username and sasl_password, or "
    "sasl_oauth_token: has it expired, and is it for this cluster?",
    kafka_errors.InvalidTransactionTimeoutError: "[worker] transaction_timeout is more than the brokers allow: lower "
    "it to their transaction.max.timeout.ms (15 minutes by default), or raise that",
    kafka_errors.UnsupportedSaslMechanismError: "check [kafka] sasl_mechanism",
    kafka_errors.AuthorizationError: "this user lacks a right: compare its ACLs (kafka-acls.sh --list) with those in "
    "deploy/README.md, Topics and rights",
    kafka_errors.InvalidSessionTimeoutError: "set [worker] session_timeout within the brokers' "
    "group.min.session.timeout.ms (6 s by default) and group.max.session.timeout.ms (30 min), or change those",
    kafka_errors.GroupMaxSizeReachedError: "run fewer members, or raise the brokers' group.max.size",
    kafka_errors.UnsupportedVersionError: "",
    kafka_errors.KafkaConfigurationError: "",
}


THROTTLED = (
    "the brokers throttle this user or client id, and no request is sent meanwhile. If this is not meant, raise its "
    "quota; see it with: kafka-configs.sh --bootstrap-server HOST:PORT --describe --entity-type users --entity-type "
    "clients"
)
"""Why the client does not send."""


def is_throttled(error: BaseException) -> bool:
    """Return whether the client waits because of a quota. It says so in the error of the next request.

    >>> [is_throttled(kafka_errors.NodeNotReadyError(cause)) for cause in ("Node paused: {'throttle'}", 1)]
    [True, False]
    """
    return isinstance(error, kafka_errors.NodeNotReadyError) and "'throttle'" in str(error)


_NUMBERED = re.compile(r"Unexpected error in \w+: \[Error (-?\d+)\]")


def translate(error: KafkaError, action: str) -> StreamError:
    """Kafka's error as one of ours: TransactionFailed (try again), Fenced, LoginRefused, or a final StreamError."""
    # After a failure in the background the next call raises a plain error that wraps the cause, or names its number.
    error = next((cause for cause in error.args if isinstance(cause, KafkaError)), error)
    if type(error) is KafkaError and (number := _NUMBERED.search(str(error))):
        error = kafka_errors.for_code(int(number[1]))()
    if isinstance(error, CertificateProblem):
        return StreamError(f"{action}: {error.args[0]}")
    text = f"{action}: {THROTTLED if is_throttled(error) else error_text(error)}"
    for kind, cure in _CURES.items():
        if isinstance(error, kind):
            is_login = isinstance(error, kafka_errors.SaslAuthenticationFailedError)
            kind_of_error = Fenced if isinstance(error, _FENCED) else LoginRefused if is_login else StreamError
            return kind_of_error(f"{text.rstrip('.')}; {cure}" if cure else text)
    return TransactionFailed(text, lasting=not isinstance(error, _PASSING))


def not_reached(error: KafkaError, settings: Settings) -> StreamError:
    """Explain why a client could not be made, for a command, which ends; a worker tries again."""
    servers = settings.kafka.bootstrap_servers
    translated = translate(error, f"connecting to {servers}")
    if not isinstance(translated, TransactionFailed):  # such as a refused login, whose message names the cure
        return translated
    return StreamError(f"no broker answers at {servers}: {error.args[0] if error.args else type(error).__name__}")


def unknown_partition(error: KeyError, action: str) -> TransactionFailed:
    """Explain the client's KeyError for what a broker left out of its answer. Raises any other KeyError."""
    if not error.args or not isinstance(error.args[0], TopicPartition):
        raise error
    place = error.args[0]
    return TransactionFailed(
        f"{action}: the broker does not know partition {place.partition} of {place.topic}. If it was added a moment "
        "ago, the next attempt finds it; otherwise look at the brokers' log"
    )


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Raise the client's errors as those of errors.py."""
    try:
        yield
    except KafkaError as error:
        raise translate(error, action) from error
    except KeyError as error:
        raise unknown_partition(error, action) from error
