"""What several commands share: option types, sizes, the version."""

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="Settings file (TOML). Without it: defaults. The environment wins over both."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program instead of a table.")]


_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def version_text() -> str:
    try:
        return version("stream-dedup")
    except PackageNotFoundError:  # run from a source tree that was not installed
        return "unknown (not installed)"


def count_of(text: str) -> int:
    """'2000000', '2,000,000', '2_000_000' or '2e6' -> 2000000."""
    plain = text.strip().replace(",", "").replace("_", "")
    if not re.fullmatch(r"\d+(?:e\d{1,2})?", plain, re.I):
        raise typer.BadParameter(f"{text!r} is no whole number; write it out, such as 2000000")
    return int(float(plain)) if "e" in plain.lower() else int(plain)


def bytes_of(text: str) -> int:
    """'512M' -> 536870912."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.I)
    if not found:
        raise typer.BadParameter(f"{text!r} is no size; write a number and K, M, G or T, such as 512M or 4G")
    return int(float(found[1]) * _UNITS[found[2].upper()])
