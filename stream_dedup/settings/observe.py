"""[observe]: status page, metrics, health and log."""

from typing import Literal

from pydantic import Field

from stream_dedup.settings.values import Table


class ObserveSettings(Table):
    """Status page, metrics and health over HTTP, and the log."""

    enabled: bool = Field(True, description="Serve the status page, /metrics and /healthz.")
    host: str = Field("127.0.0.1", description="Address to listen on. In a container: 0.0.0.0.")
    port: int = Field(9464, ge=0, le=65535, description="Port. 0 takes a free one and logs it.")
    recent_items: int = Field(
        10_000,
        ge=0,
        le=1_000_000,
        description="Items that the status page keeps for search and for copies beside their originals: verdict, "
        "headline and the first 1,500 characters, at most 2.7 kB each. 0: keep none and show no text.",
    )
    memory_limit: int | None = Field(
        None,
        ge=2**20,
        description="Memory of this process in bytes, for the metric and the alert that compare it with the use; it "
        "enforces nothing. Unset: the container's limit, or the machine's memory.",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto",
        description="Format of `run`'s log on stderr. json: a JSON object per line; text: for people; auto: text on a "
        "terminal, json elsewhere.",
    )
