"""[observe]: status page, metrics, health and log."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from stream_dedup.settings.secrets import SecretTable

# Of random characters, more than anyone can try out over a network.
_SHORTEST_TOKEN = 16


class ObserveSettings(SecretTable):
    """Status page, metrics and health over HTTP, and the log."""

    enabled: bool = Field(True, description="Serve the status page, /metrics and /healthz.")
    host: str = Field("127.0.0.1", description="Address to listen on. In a container: 0.0.0.0.")
    port: int = Field(9464, ge=0, le=65535, description="Port. 0 takes a free one and logs it.")
    token: SecretStr | None = Field(
        None,
        description="Token that the status page and /metrics require: `Authorization: Bearer TOKEN`, or the token as "
        "the password of any user, which browsers ask for. /healthz stays open, and without the token names no reason.",
    )
    token_file: Path | None = Field(None, description="File with the token. Read again for each request.")
    tls_certfile: Path | None = Field(
        None,
        description="PEM file of the server's certificate and its chain: serve HTTPS instead of HTTP. A replaced file "
        "is used from the next connection on.",
    )
    tls_keyfile: Path | None = Field(None, description="PEM file of its private key. Unset: it is in tls_certfile.")
    recent_items: int = Field(
        10_000,
        ge=0,
        le=1_000_000,
        description="Items that the status page keeps for search and for copies beside their originals: verdict, "
        "headline and the first 1,500 characters, at most 2.7 kB each. 0: keep none and show no text.",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto",
        description="Format of `run`'s log on stderr. json: a JSON object per line; text: for people; auto: text on a "
        "terminal, json elsewhere.",
    )

    @model_validator(mode="after")
    def _key_has_its_certificate(self) -> "ObserveSettings":
        if self.tls_keyfile is not None and self.tls_certfile is None:
            raise ValueError("tls_keyfile would not be used: a private key needs its certificate; set tls_certfile")
        return self

    @model_validator(mode="after")
    def _token_cannot_be_guessed(self) -> "ObserveSettings":
        if len(self.secret("token") or " " * _SHORTEST_TOKEN) < _SHORTEST_TOKEN:
            raise ValueError(f"token has fewer than {_SHORTEST_TOKEN} characters; make one with: openssl rand -hex 32")
        return self
