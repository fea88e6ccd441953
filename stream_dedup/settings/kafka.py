"""[kafka]: the brokers, the consumer group, and how to authenticate."""

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from stream_dedup.settings.secrets import SecretTable

_OAUTH = "OAUTHBEARER"
# An IPv6 address stands in brackets. The client skips a protocol, as in SASL_SSL://host:9092.
_HOST_PORT = re.compile(r"(\w+://)?([\w.-]+|\[[0-9A-Fa-f:.%\w]+\])(:\w+)?")


class KafkaSettings(SecretTable):
    """The connection to the cluster, and the consumer group."""

    bootstrap_servers: str = Field("127.0.0.1:9092", description="Comma-separated HOST:PORT list.")
    group_id: str = Field(
        "stream-dedup",
        min_length=1,
        description="Consumer group, and prefix of the transactional ids: the members of a group form one "
        "deduplicator.",
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="How to connect, as in every Kafka client."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = Field(
        None, description="SASL mechanism. Required with SASL_PLAINTEXT and SASL_SSL."
    )
    sasl_username: str | None = Field(None, description="SASL user. Not with OAUTHBEARER, whose token names it.")
    sasl_password: SecretStr | None = Field(
        None, description="SASL password. Set it in the environment rather than in the file."
    )
    sasl_password_file: Path | None = Field(
        None,
        description="File with the SASL password, as Docker and Kubernetes mount secrets. Read again for each new "
        "client.",
    )
    sasl_oauth_token: SecretStr | None = Field(
        None, description="Bearer token for OAUTHBEARER. It expires; a file can be replaced while the worker runs."
    )
    sasl_oauth_token_file: Path | None = Field(
        None,
        description="File with the bearer token, such as a projected service account token. Read again at each login "
        "and each renewal of a login.",
    )
    ssl_cafile: Path | None = Field(
        None,
        description="PEM file of the CAs that sign the brokers' certificates. Unset: those of the operating system.",
    )
    ssl_certfile: Path | None = Field(
        None, description="PEM file of the client's certificate, and of its chain; for mutual TLS."
    )
    ssl_keyfile: Path | None = Field(
        None, description="PEM file of the client's private key. Unset: it is in ssl_certfile."
    )
    ssl_key_password: SecretStr | None = Field(None, description="Password of an encrypted private key.")
    ssl_key_password_file: Path | None = Field(None, description="File with the password of the private key.")

    @property
    def uses_sasl(self) -> bool:
        """Whether the connection logs in."""
        return self.security_protocol.startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.security_protocol.endswith("SSL")

    @field_validator("bootstrap_servers")
    @classmethod
    def _only_addresses(cls, value: str) -> str:
        """Refuse what may hold a password; addresses are shown in messages, logs and pages."""
        if not all(_HOST_PORT.fullmatch(address.strip()) for address in value.split(",")):
            raise ValueError(
                "must be addresses HOST:PORT, separated by commas, and nothing else (it is not shown here, because it "
                "may hold a password). User and password belong in sasl_username and sasl_password"
            )
        return value

    @model_validator(mode="after")
    def _sasl_is_complete(self) -> "KafkaSettings":
        if not self.uses_sasl:
            return self
        if self.sasl_mechanism == _OAUTH:
            if not self.has_secret("sasl_oauth_token"):
                raise ValueError(
                    f"sasl_mechanism = {_OAUTH} needs sasl_oauth_token (in the environment) or sasl_oauth_token_file"
                )
        elif not (self.sasl_mechanism and self.sasl_username and self.has_secret("sasl_password")):
            raise ValueError(
                f"security_protocol = {self.security_protocol} needs sasl_mechanism, sasl_username and sasl_password "
                "(in the environment, or by sasl_password_file)"
            )
        return self

    @model_validator(mode="after")
    def _everything_is_used(self) -> "KafkaSettings":
        """Reject credentials and certificates that the connection would not use."""
        if not self.uses_sasl:
            self._refuse(
                ("sasl_mechanism", "sasl_username", "sasl_password", "sasl_password_file", "sasl_oauth_token",
                 "sasl_oauth_token_file"),
                f"security_protocol = {self.security_protocol} does not authenticate; set security_protocol to "
                "SASL_SSL (or SASL_PLAINTEXT, without encryption)",
            )  # fmt: skip
        elif self.sasl_mechanism == _OAUTH:
            self._refuse(
                ("sasl_username", "sasl_password", "sasl_password_file"),
                f"sasl_mechanism = {_OAUTH} logs in with a token alone",
            )
        else:
            self._refuse(
                ("sasl_oauth_token", "sasl_oauth_token_file"),
                f"sasl_mechanism = {self.sasl_mechanism} logs in with user and password; for a token set "
                f"sasl_mechanism to {_OAUTH}",
            )
        if not self.uses_tls:
            self._refuse(
                ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_key_password", "ssl_key_password_file"),
                f"security_protocol = {self.security_protocol} does not encrypt; set security_protocol to "
                f"{'SASL_SSL' if self.uses_sasl else 'SSL'}",
            )
        elif self.ssl_certfile is None:
            self._refuse(
                ("ssl_keyfile", "ssl_key_password", "ssl_key_password_file"),
                "a private key needs its certificate; set ssl_certfile",
            )
        return self

    def _refuse(self, names: tuple[str, ...], cause: str) -> None:
        given = [name for name in names if getattr(self, name)]
        if given:
            raise ValueError(f"{', '.join(given)} would not be used: {cause}")
