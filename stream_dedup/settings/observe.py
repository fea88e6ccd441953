"""[observe]: the status page, metrics, health and the log."""

from typing import Literal

from pydantic import Field

from stream_dedup.settings.values import Table


class ObserveSettings(Table):
    """Status page, metrics and health on HTTP."""

    enabled: bool = Field(True, description="Serve the status page, /metrics and /healthz.")
    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 in a container.")
    port: int = Field(9464, ge=0, le=65535, description="Port; 0 takes a free one and logs it.")
    recent_items: int = Field(
        10_000,
        ge=0,
        le=1_000_000,
        description="Items that the status page remembers, with verdict, headline and the first 1,500 characters, to "
        "show copies beside their originals and to answer a search; at most 2.7 kB each. 0: none, no text is shown.",
    )
    memory_limit: int | None = Field(
        None,
        ge=2**20,
        description="Bytes this process may take: shown as a metric that an alert compares with what it takes, it "
        "limits nothing. Unset: the container's limit, or the machine's memory.",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto",
        description="How `run` writes its log to stderr. json: an object a line; text: for people; auto: text on a "
        "terminal, json elsewhere.",
    )
