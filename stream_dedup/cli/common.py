"""Parts that several commands share: options, consoles, JSON, counts and sizes, the version."""

import re
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="Settings file (TOML); default: none. Environment variables win over it."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program instead of a table.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace outputs that exist; without it they are refused.")]

_SHOWN = 40  # characters of an argument in a message
_THOUSANDS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
# More than any machine or feed holds, and exact in a float and in a signed 64-bit integer.
_LARGEST = 10**15


def new_console(*, stderr: bool = False, **options: Any) -> "Console":
    """Make a console that prints the text of strangers as it is (cli/console.py)."""
    from stream_dedup.cli.console import CleanConsole

    return CleanConsole(stderr=stderr, **options)


def print_json(value: Any, *, err: bool = False) -> None:
    """Print one JSON object on a line of its own."""
    import msgspec

    typer.echo(msgspec.json.encode(value).decode(), err=err)


def version_text() -> str:
    """Return the version of the installed package."""
    try:
        return version("stream-dedup")
    except PackageNotFoundError:  # run from a source tree that was not installed
        return "unknown (not installed)"


def parse_count(text: str) -> int:
    """Parse a count; K, M and G are powers of 1000.

    >>> [parse_count(text) for text in ("2000000", "2,000,000", "2_000_000", "2e6", "2M", "2.5k")]
    [2000000, 2000000, 2000000, 2000000, 2000000, 2500]
    """
    plain = text.strip().replace(",", "").replace("_", "")
    match = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d{1,2})?)\s*([KMG]?)", plain, re.I)
    count = Decimal(match[1]) * _THOUSANDS[match[2].upper()] if match else None
    if count is not None and count > _LARGEST:
        raise typer.BadParameter(f"{text[:_SHOWN]!r} is too large; the largest is {_LARGEST:.0e}")
    if count is None or count != int(count):
        raise typer.BadParameter(f"{text[:_SHOWN]!r} is not a whole number; write it as 2000000, 2e6 or 2M")
    return int(count)


def parse_size(text: str) -> int:
    """Parse a size in bytes; K, M, G and T are powers of 1024.

    >>> parse_size("512M"), parse_size("4 GiB")
    (536870912, 4294967296)
    """
    from stream_dedup.settings import values

    try:
        return int(values.parse_size(text))
    except ValueError as error:
        raise typer.BadParameter(f"{text[:_SHOWN]!r} is not a size; {error}") from None
