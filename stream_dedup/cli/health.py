"""`stream-dedup health`: ask a running worker how it is."""

from typing import Annotated

import typer

from stream_dedup.observe.probe import default_url, probe


def health_command(
    url: Annotated[
        str | None,
        typer.Option("--url", help="The worker's /healthz; default: on this machine."),
    ] = None,
) -> None:
    """Ask a running worker how it is; exit code 0 if it works or stands by, 1 otherwise.

    For a health check that runs every few seconds take `python -m stream_dedup.observe.probe [URL]`: it says the same
    and loads nothing else.
    """
    well, said = probe(url or default_url())
    typer.echo(said, err=not well)
    raise typer.Exit(0 if well else 1)
