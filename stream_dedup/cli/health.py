"""`stream-dedup health`: ask a running worker how it is."""

from pathlib import Path
from typing import Annotated

import typer

from stream_dedup.cli.common import ConfigOption
from stream_dedup.errors import ConfigError
from stream_dedup.observe.probe import default_url, probe, url_of


def health_command(
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="The worker's /healthz, instead of host and port from the settings."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Ask a running worker how it is.

    Exit code 0 if it works or stands by, 1 otherwise. It is asked on the host and port of its own settings
    (`observe.host`, `observe.port`): give it the same --config and environment.

    For a health check that runs every few seconds take `python -m stream_dedup.observe.probe [URL]`: it says the same
    and loads nothing else.
    """
    well, said = probe(url or _url_of(config))
    typer.echo(said, err=not well)
    raise typer.Exit(0 if well else 1)


def _url_of(config: Path | None) -> str:
    """Where a worker with these settings listens. Raises ConfigError if it does not, or on a port that nobody knows."""
    if config is None:
        return default_url()
    from stream_dedup.settings import load_settings

    observe = load_settings(config).observe
    if not observe.enabled:
        raise ConfigError("[observe] enabled is false: a worker with these settings has no /healthz to ask")
    if observe.port == 0:
        raise ConfigError("[observe] port is 0, any free port: name the one that the worker's log tells with --url")
    return url_of(observe.host, observe.port)
