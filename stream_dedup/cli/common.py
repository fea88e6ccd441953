"""What several commands share: option types, the version, reading items for a person to look at."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file (TOML). Without it: defaults. The environment wins over both."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program instead of a table.")]


def version_text() -> str:
    try:
        return version("stream-dedup")
    except PackageNotFoundError:  # run from a source tree that was not installed
        return "unknown (not installed)"
