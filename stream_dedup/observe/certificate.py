"""Make the TLS context of the HTTP ports, and make it anew when a certificate is renewed while the worker runs."""

import logging
import ssl

from stream_dedup.errors import ConfigError
from stream_dedup.settings import ObserveSettings

log = logging.getLogger(__name__)


class Certificate:
    """Serves the certificate of [observe] tls_certfile. Raises ConfigError if it cannot be used.

    `context` is the context for the listeners. At each handshake it looks whether the files have changed.
    """

    def __init__(self, settings: ObserveSettings) -> None:
        if settings.tls_certfile is None:
            raise ValueError("[observe] tls_certfile is not set")
        self._certfile, self._keyfile = settings.tls_certfile, settings.tls_keyfile
        try:
            self.context = self._newest = self._load()
            self._version = self._current_version()
        except (OSError, ValueError) as error:
            key = self._keyfile or "the key in it"
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            raise ConfigError(
                f"[observe] tls_certfile, tls_keyfile: {self._certfile} and {key} cannot be used ({reason}): both must "
                "be readable PEM files, the key without a password, and belong to each other"
            ) from None
        self.context.sni_callback = self._renew

    def _renew(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        try:
            version = self._current_version()
            if version != self._version:
                self._newest, self._version = self._load(), version
                log.info("uses the renewed certificate %s", self._certfile)
        except (OSError, ValueError) as error:  # one of the two files is replaced after the other
            log.warning("the certificate %s was replaced and cannot be used (%s); the former one is", self._certfile,
                        getattr(error, "reason", None) or error)  # fmt: skip
        connection.context = self._newest

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._certfile, self._keyfile, password="")  # or OpenSSL asks for one # nosec B106
        return context

    def _current_version(self) -> tuple[int, ...]:
        return tuple(path.stat().st_mtime_ns for path in (self._certfile, self._keyfile) if path is not None)
