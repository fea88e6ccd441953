"""Make the TLS context of a client, and explain a failed handshake: what is wrong, and the setting that cures it.

In: a client's options, as `client.connection` makes them, and the error of a connection. Out: a `CertificateProblem`.

kafka-python retries every failed handshake like a broker that is away. A certificate that is not trusted stays so until
someone changes a file or a setting, so these failures become `CertificateProblem`. At the first broker it ends a
worker. At another one, such as one whose advertised address is not in its certificate, the client goes on trying, and
`Distrusted` has the problem for the log, /healthz and the metrics (broker_watch.py).
"""

import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kafka import errors as kafka_errors

from stream_dedup.errors import ConfigError

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
