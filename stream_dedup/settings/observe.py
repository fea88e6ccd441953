"""[observe]: status page, metrics, health and log."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from stream_dedup.settings.secrets import SecretTable

# Of random characters, more than anyone can try out over a network.
_SHORTEST_TOKEN = 16


class ObserveSettings(SecretTable):
    """Status page, metrics and health over HTTP, and the log."""

    enabled: bool = Field(True, description="Serve the status page, /metrics, /healthz and /livez.")
    host: str = Field("127.0.0.1", description="Address to listen on. In a container: 0.0.0.0.")
    port: int = Field(9464, ge=0, le=65535, description="Port. 0 takes a free one and logs it.")
    health_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port of /healthz and /livez alone, for probes: they are answered however many connections the "
        "other port has. 0 takes a free one. Unset: the one after `port`; a free one if `port` is 0.",
    )
    allowed_hosts: str = Field(
        "",
        description="Names, separated by commas, under which the status page may be opened besides addresses, "
        "localhost and `host`, such as that of a reverse proxy. Other names are refused, since any website could point "
        "its own name here and read the page. With a token every name is served. /metrics, /healthz and /livez have no "
        "texts, and are served under every name.",
    )
    token: SecretStr | None = Field(
        None,
        description="Token that the status page and /metrics require: `Authorization: Bearer TOKEN`, or the token as "
        "the password of any user, which browsers ask for. /healthz and /livez stay open, and without the token name "
        "no reason.",
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

    @property
    def probed_port(self) -> int:
        """The port for probes, with the default filled in."""
        if self.health_port is not None:
            return self.health_port
        return self.port + 1 if self.port else 0

    @model_validator(mode="after")
    def _ports_differ(self) -> "ObserveSettings":
        if self.probed_port > 65535:
            raise ValueError("health_port is unset and there is no port after 65535; set it")
        if self.port and self.port == self.probed_port:
            raise ValueError("port and health_port are the same; health has a port of its own, so set another one")
        return self

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
