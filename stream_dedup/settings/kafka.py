"""[kafka]: the brokers, the consumer group, and how to authenticate."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from stream_dedup.settings.values import Table


class KafkaSettings(Table):
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
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="SASL mechanism. Required with SASL_PLAINTEXT and SASL_SSL."
    )
    sasl_username: str | None = Field(None, description="SASL user.")
    sasl_password: SecretStr | None = Field(
        None, description="SASL password. Set it in the environment rather than in the file."
    )
    ssl_cafile: Path | None = Field(None, description="PEM file of the CA that signed the brokers' certificates.")
    ssl_certfile: Path | None = Field(None, description="PEM file of the client's certificate.")
    ssl_keyfile: Path | None = Field(None, description="PEM file of the client's private key.")
    client: Literal["patched", "public"] = Field(
        "patched",
        description="How kafka-python is used. patched: the worker packs and unpacks whole batches itself; this uses "
        "internals of the client and needs one exact version of it. public: public calls only, with any version; the "
        "same results for more processor time. docs/architecture.md says what is lost.",
    )

    @model_validator(mode="after")
    def _sasl_is_complete(self) -> "KafkaSettings":
        if self.security_protocol.startswith("SASL") and not (
            self.sasl_mechanism and self.sasl_username and self.sasl_password
        ):
            raise ValueError(
                f"security_protocol = {self.security_protocol} needs sasl_mechanism, sasl_username and sasl_password"
            )
        return self

    @model_validator(mode="after")
    def _sasl_is_used(self) -> "KafkaSettings":
        """Reject credentials that the connection would not use."""
        given = [name for name in ("sasl_mechanism", "sasl_username", "sasl_password") if getattr(self, name)]
        if given and not self.security_protocol.startswith("SASL"):
            raise ValueError(
                f"{', '.join(given)} would not be used: security_protocol = {self.security_protocol} does not "
                "authenticate; set security_protocol to SASL_SSL (or SASL_PLAINTEXT, without encryption)"
            )
        return self
