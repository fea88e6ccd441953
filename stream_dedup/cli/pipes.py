"""What commands on files and pipes share: options, where the result is told, how a broken pipe ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stream_dedup.batch.rows import Form
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
    Form | None,
    typer.Option(
        "--format",
        case_sensitive=False,
        help="What the inputs hold, whatever their names say. Without it - (standard input) holds jsonl.",
    ),
]
# What a shell tells of a process that a broken pipe ended: 128 and the signal's number.
_BROKEN_PIPE = 128 + 13


def screen(*outputs: Path | None) -> Console:
    """Where a command tells its result: standard output, or standard error where an output goes to the former."""
    from stream_dedup.batch.outputs import target

    is_taken = any(one is not None and target(one).is_stdout for one in outputs)
    return new_console(stderr=is_taken)


def called(output: Path) -> str:
    """An output as a person knows it: as it was named, - in words."""
    from stream_dedup.batch.outputs import target

    to = target(output)
    return str(to) if to.is_stream else str(output)


@contextmanager
def ends_with_its_reader() -> Iterator[None]:
    """Where nobody reads the output any more (`| head`) the command ends at once and says nothing, as Unix tools do."""
    try:
        yield
    except BrokenPipeError:
        # Python flushes standard output at its end; into the closed pipe that would be one more error.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        raise typer.Exit(_BROKEN_PIPE) from None
