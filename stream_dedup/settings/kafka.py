"""[kafka]: how to reach the cluster, and as which consumer group."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from stream_dedup.settings.values import Table


class KafkaSettings(Table):
    """How to reach the cluster."""

    bootstrap_servers: str = Field("127.0.0.1:9092", description="Comma-separated HOST:PORT list.")
    group_id: str = Field(
        "stream-dedup",
        min_length=1,
        description="Consumer group; also the base of the transactional id, so one group is one deduplicator.",
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="As in every Kafka client."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="Needed with a SASL_ protocol."
    )
    sasl_username: str | None = Field(None, description="User of the SASL mechanism.")
    sasl_password: SecretStr | None = Field(
        None, description="Password of the SASL mechanism; better given in the environment than in the file."
    )
    ssl_cafile: Path | None = Field(None, description="PEM file of the authority that signed the brokers.")
    ssl_certfile: Path | None = Field(None, description="PEM file of the client's certificate.")
    ssl_keyfile: Path | None = Field(None, description="PEM file of the client's key.")

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
        """Whoever gives a password believes that the connection asks for it."""
        given = [name for name in ("sasl_mechanism", "sasl_username", "sasl_password") if getattr(self, name)]
        if given and not self.security_protocol.startswith("SASL"):
            raise ValueError(
                f"{', '.join(given)} would not be used: security_protocol = {self.security_protocol} logs nobody "
                "in; set security_protocol to SASL_SSL (or SASL_PLAINTEXT, without encryption)"
            )
        return self
