"""`stream-dedup warm`: compile the kernels once, at install or image build, so that no start waits for them."""

import time

import typer

from stream_dedup.cli.common import ConfigOption
from stream_dedup.settings import load_settings


def warm_command(config: ConfigOption = None) -> None:
    """Compile the kernels into their cache, once a version: some 20 s, which no later start then waits for."""
    settings = load_settings(config)
    start = time.perf_counter()
    from stream_dedup.evaluate.warm import warm

    warm(settings)
    typer.echo(f"kernels are compiled and cached ({time.perf_counter() - start:.1f} s)")
