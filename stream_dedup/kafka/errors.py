"""Describe an error of the Kafka client in one line for a person.

In: an exception of kafka-python, or of what it calls. Out: its name, its Kafka protocol number and its text, each once.
The client repeats them: it puts the name into the text, and wraps errors in errors of the same name, as in
"[Error 87] InvalidRecordError: [Error 87] InvalidRecordError: ...".
"""

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kafka import TopicPartition
from kafka import errors as kafka_errors

# With an alias: what the rest of the package gets from here.
from kafka.errors import AuthorizationError as AuthorizationError
from kafka.errors import CorruptRecordError as CorruptRecordError
from kafka.errors import IllegalStateError as IllegalStateError
from kafka.errors import KafkaError as KafkaError
from kafka.errors import KafkaTimeoutError as KafkaTimeoutError
from kafka.errors import LogTruncationError as LogTruncationError
from kafka.errors import NodeNotReadyError as NodeNotReadyError
from kafka.errors import OffsetOutOfRangeError as OffsetOutOfRangeError

from stream_dedup.errors import ConfigError, Fenced, StreamError, TransactionFailed
from stream_dedup.settings import Settings

_NUMBER = r"(\[Error -?\d+\] )?"


def error_text(error: BaseException) -> str:
    """Name, number and text of the error in one line.

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


# On top of the client's five seconds, and within the ten seconds of a stop. A slow name server is not waited for.
_SECONDS = 1.0
_PORT = 9092  # the client's default
_CURE = "check [kafka] bootstrap_servers (--config FILE, or STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS)"


def diagnose_addresses(servers: Sequence[str], options: Mapping[str, Any]) -> str:
    """The likely cause that no broker answered at these addresses, with the cure. `options`: the client's.

    >>> diagnose_addresses(["127.0.0.1:1"], {"security_protocol": "PLAINTEXT"}).partition(";")[0]
    'nothing listens at 127.0.0.1:1'
    """
    seen = _connections(servers)
    listening = [server for server in servers if server in seen and seen[server] is None]
    if not listening:
        return (
            f"{', '.join(_problem(server, seen.get(server)) for server in servers)}; {_CURE}, and that the brokers run"
        )
    return (
        f"{', '.join(listening)} can be reached, but no broker there answers over "
        f"security_protocol = {options['security_protocol']}; check [kafka] "
        "security_protocol, the port, and that the broker has started"
    )


def _connections(servers: Sequence[str]) -> dict[str, Exception | None]:
    """The error of a connection to each server, tried side by side; one that does not answer in time is missing."""
    errors: dict[str, Exception | None] = {}

    def take(server: str) -> None:
        errors[server] = _try_to_connect(server)

    threads = [threading.Thread(target=take, args=(server,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * _SECONDS)
    return dict(errors)  # a late thread may still write


def _try_to_connect(server: str) -> Exception | None:
    try:
        socket.create_connection(_host_and_port(server), timeout=_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:  # the last two: not a port
        return error
    return None


def _host_and_port(server: str) -> tuple[str, int]:
    """
    >>> _host_and_port("kafka"), _host_and_port("kafka:9093"), _host_and_port("[::1]:9093")
    (('kafka', 9092), ('kafka', 9093), ('::1', 9093))
    """
    host, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):
        host, port = server, str(_PORT)
    return host.strip("[]"), int(port)


def _problem(server: str, error: Exception | None) -> str:
    if isinstance(error, socket.gaierror | UnicodeError):
        return f"the host name in {server} is not known"
    if isinstance(error, ConnectionRefusedError):
        _, port = _host_and_port(server)
        return f"nothing listens at {server}" + ("" if server.endswith(f":{port}") else f" (no port is given: {port})")
    if isinstance(error, ValueError | OverflowError):
        return f"{server} is no HOST:PORT"
    if error is None or isinstance(error, TimeoutError):
        return f"{server} does not answer"
    return f"{server} cannot be reached ({getattr(error, 'strerror', None) or error})"


# OpenSSL's verification results (x509_vfy.h); Python has no names for them.
_NOT_YET_VALID, _EXPIRED = 9, 10
_WRONG_NAME = (62, 64)  # the name, the address
# Alerts of a broker about our certificate. Java sends bad_certificate where others send certificate_required.
_ALERTS = (
    "ALERT_CERTIFICATE_REQUIRED",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_REVOKED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_UNKNOWN_CA",
    "ALERT_ACCESS_DENIED",
)


class CertificateProblem(kafka_errors.KafkaConfigurationError):  # type: ignore[misc]  # kafka-python ships no types
    """TLS failed, and a retry with the same files and settings fails too."""


# A client tries again every second while it needs the broker; after this long it no longer does.
_RECENT_SECONDS = 30.0


class Distrusted:
    """The brokers whose certificate a client has refused lately. Any thread may call it; `clock`: monotonic seconds.

    >>> brokers = Distrusted(clock=lambda: 7.0)
    >>> brokers.add("client", "b:9093", "b:9093: expired"); brokers.add("other", "c:9093", "c:9093: expired")
    >>> brokers.recent("client")
    {'b:9093': 'b:9093: expired'}
    >>> brokers.remove("client", "b:9093"); brokers.recent("client")
    {}
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._problems: dict[tuple[str, str], tuple[float, str]] = {}  # client id, address -> when, what

    def add(self, client_id: str, server: str, problem: str) -> None:
        now = self._clock()
        kept = {key: value for key, value in self._problems.copy().items() if now - value[0] <= _RECENT_SECONDS}
        self._problems = kept | {(client_id, server): (now, problem)}

    def remove(self, client_id: str, server: str) -> None:
        self._problems.pop((client_id, server), None)

    def recent(self, client_id: str) -> dict[str, str]:
        """Address -> problem, of this client id."""
        oldest = self._clock() - _RECENT_SECONDS
        return {
            server: problem
            for (client, server), (seen, problem) in sorted(self._problems.copy().items())
            if client == client_id and seen >= oldest
        }


DISTRUSTED = Distrusted()
"""Of this process. The client makes its connections itself, so there is no other way from them to the worker."""


def make_context(options: Mapping[str, Any]) -> ssl.SSLContext:
    """Make the context that the client would make. Raises ConfigError that names the file that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    cafile, certfile, keyfile = (options.get(f"ssl_{name}") for name in ("cafile", "certfile", "keyfile"))
    if cafile is None:
        context.load_default_certs()
    else:
        _load("ssl_cafile", cafile, context.load_verify_locations)
    if certfile is None:
        return context
    for name, path in (("ssl_certfile", certfile), ("ssl_keyfile", keyfile)):
        if path is not None:
            _load(name, path, lambda path: Path(path).read_bytes())
    try:
        context.load_cert_chain(certfile, keyfile, options.get("ssl_password"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"[kafka] ssl_certfile, ssl_keyfile: {certfile} and {keyfile or 'the key in it'} cannot be used "
            f"({_reason(error)}): both must be PEM, the key must belong to the certificate, and an encrypted key needs "
            "ssl_key_password or ssl_key_password_file"
        ) from None
    return context


def _load(name: str, path: str, load: Callable[[str], object]) -> None:
    try:
        load(path)
    except ssl.SSLError as error:
        raise ConfigError(f"[kafka] {name}: {path} has no certificate in PEM form ({_reason(error)})") from None
    except OSError as error:
        raise ConfigError(
            f"[kafka] {name}: cannot read {path} ({error.strerror}); mount the file there, readable for this user"
        ) from None


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)


def certificate_problem(
    error: BaseException | None, server: str, options: Mapping[str, Any]
) -> CertificateProblem | None:
    """Explain an error of a TLS connection to `server`; None if it is not about certificates."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return CertificateProblem(f"{server}: {_verification(error, options.get('ssl_cafile'))}")
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if not reason.endswith(_ALERTS):
        return None
    alert = reason.partition("ALERT_")[2].lower().replace("_", " ")
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
# Errors that a retry cannot fix: a setting, a right or the cluster must change.
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


_LOGIN = "sasl_mechanism, sasl_username and sasl_password"
_GRANT = (
    "this user lacks a right{}: compare its ACLs (kafka-acls.sh --list) with those in deploy/README.md, "
    "Topics and rights"
)
# The right that an error is about, where the error tells.
_RIGHTS = (
    (kafka_errors.GroupAuthorizationFailedError, " (Read on the group)"),
    (kafka_errors.TransactionalIdAuthorizationFailedError, " (Write on the transactional ids, prefixed)"),
    (kafka_errors.TopicAuthorizationFailedError, " (Read on input and changelog, Write on all but the input)"),
)


def not_reached(error: kafka_errors.KafkaError, settings: Settings) -> StreamError:
    """Why a client could not be made, for a command, which ends; a worker tries again."""
    servers = settings.kafka.bootstrap_servers
    translated = translate(error, f"connecting to {servers}")
    if not isinstance(translated, TransactionFailed):  # such as a refused login, whose message names the cure
        return translated
    return StreamError(f"no broker answers at {servers}: {error.args[0] if error.args else type(error).__name__}")


def unknown_partition(error: KeyError, doing: str) -> TransactionFailed:
    """The error for a KeyError of the client, which looks up what a broker left out of its answer; raises any other."""
    if not error.args or not isinstance(error.args[0], TopicPartition):
        raise error
    place = error.args[0]
    return TransactionFailed(
        f"{doing}: the broker does not know partition {place.partition} of {place.topic}. If it was added a moment "
        "ago, the next attempt finds it; otherwise look at the brokers' log"
    )


def translate(error: kafka_errors.KafkaError, doing: str) -> StreamError:
    """Kafka's error as one of ours: Fenced, TransactionFailed (try again), or a plain StreamError, which is final."""
    # After a failure in the background the next call raises a plain error that wraps the cause.
    error = next((cause for cause in error.args if isinstance(cause, kafka_errors.KafkaError)), error)
    text = f"{doing}: {error_text(error)}"
    if isinstance(error, (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError)):
        return Fenced(
            f"{text.rstrip('.')}; another member has taken over. If this goes on, a second deployment uses the same "
            "[kafka] group_id, from which the transactional id follows: give each its own"
        )
    if isinstance(error, _FENCED):
        return Fenced(text)
    if isinstance(error, kafka_errors.InconsistentGroupProtocolError):
        return StreamError(
            f"{text}; the group has members of another kind: every member must run with the same [worker] scope, "
            "and no other program may use the group"
        )
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
        is_about_token = "OAUTHBEARER" in text or '"status"' in text  # the second: RFC 7628, section 3.2.2
        checked = "sasl_oauth_token: has it expired, and is it for this cluster?" if is_about_token else _LOGIN
        return StreamError(f"{text}; check [kafka] {checked}")
    if isinstance(error, kafka_errors.UnsupportedSaslMechanismError):
        return StreamError(f"{text}; check [kafka] sasl_mechanism")
    if isinstance(error, CertificateProblem):
        return StreamError(f"{doing}: {error.args[0]}")
    if isinstance(error, kafka_errors.AuthorizationError):
        right = next((name for kind, name in _RIGHTS if isinstance(error, kind)), "")
        return StreamError(f"{text}; {_GRANT.format(right)}")
    if isinstance(error, _FATAL):
        return StreamError(text)
    return TransactionFailed(text, lasting=not isinstance(error, _PASSING))
