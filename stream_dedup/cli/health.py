"""`stream-dedup health`: ask a running worker for its health."""

from pathlib import Path
from typing import Annotated

import typer

from stream_dedup.cli.common import ConfigOption
from stream_dedup.errors import ConfigError
from stream_dedup.observe.probe import default_certfile, default_token, default_url, probe, url_of


def health_command(
    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="The worker's /healthz (or /livez), instead of the one from the settings."
        ),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Ask a running worker for its health.

    Exit code 0 if the worker is active or stands by, 1 otherwise. The settings give the worker's address
    (`observe.host`, `observe.health_port`), certificate and token: use its --config and environment.

    For a health check every few seconds, use `python -m stream_dedup.observe.probe [URL or PATH]`, which prints the
    same and starts faster. With the path /livez it asks whether the worker is stuck, and only then should be restarted.
    """
    certfile: Path | str | None
    if config is None:
        certfile, token = default_certfile(), default_token()
    else:
        from stream_dedup.settings import load_settings

        observe = load_settings(config).observe
        certfile, token = observe.tls_certfile, observe.secret("token")
    healthy, report = probe(_url_of(config) if url is None else url, certfile=certfile, token=token)
    typer.echo(report, err=not healthy)
    raise typer.Exit(0 if healthy else 1)


def _url_of(config: Path | None) -> str:
    """Return the /healthz of a worker with these settings. Raises ConfigError if it has none, or on any free port."""
    if config is None:
        return default_url()
    from stream_dedup.settings import load_settings

    observe = load_settings(config).observe
    if not observe.enabled:
        raise ConfigError("[observe] enabled is false: a worker with these settings has no /healthz to ask")
    if observe.probed_port == 0:
        raise ConfigError(
            "[observe] health_port is 0, any free port, as it is if port is: take the URL from the worker's log and "
            "pass it with --url"
        )
    return url_of(observe.host, observe.probed_port, "https" if observe.tls_certfile else "http")
