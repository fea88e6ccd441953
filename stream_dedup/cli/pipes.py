"""Shared by the commands on files and pipes: options, where the result is printed, how a broken pipe ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stream_dedup.batch.tables import FileFormat
from stream_dedup.cli.common import new_console

InputsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT",
        help="Read in this order: JSON Lines, or by suffix .csv, .tsv (with a header line) or .parquet; packed (.gz, "
        ".zst) or not. - is standard input.",
    ),
]
FormatOption = Annotated[
    FileFormat | None,
    typer.Option(
        "--format",
        case_sensitive=False,
        help="What the inputs hold, whatever their names say. Without it - (standard input) holds jsonl.",
    ),
]
# The exit code that a shell shows for a process that a broken pipe ended: 128 plus the number of the signal.
_BROKEN_PIPE = 128 + 13


def result_console(*outputs: Path | None) -> Console:
    """The console for the result: standard output, or standard error if an output goes to standard output."""
    from stream_dedup.batch.outputs import target

    is_taken = any(path is not None and target(path).is_stdout for path in outputs)
    return new_console(stderr=is_taken)


def display_name(output: Path) -> str:
    """The name of an output for a person: as given, or "standard output" for "-"."""
    from stream_dedup.batch.outputs import target

    to = target(output)
    return str(to) if to.is_stream else str(output)


@contextmanager
def exit_on_broken_pipe() -> Iterator[None]:
    """End the command quietly if the output has no reader any more (`| head`), as Unix tools do."""
    try:
        yield
    except BrokenPipeError:
        # Python flushes standard output at exit; on the closed pipe that would be another error.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
        raise typer.Exit(_BROKEN_PIPE) from None
