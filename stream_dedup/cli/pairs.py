"""`stream-dedup pairs CORPUS... --output FILE`: all near-duplicates of files, see batch/pairs.py."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table

from stream_dedup.cli.common import ConfigOption, JsonOption, bytes_of, new_console
from stream_dedup.cli.pipes import FormatOption, InputsArgument, called, ends_with_its_reader, screen

if TYPE_CHECKING:
    from stream_dedup.batch.pairs import PairsProgress, PairsResult
    from stream_dedup.batch.parts import BadLine

# Below this a batch of items alone takes more.
_LEAST_MEMORY = 2**26
# Bad lines that are named; a field map that fits nothing makes every line of millions one.
_MOST_NAMED = 5
_TITLES = {"PART": "fingerprints", "TABLE": "tables", "COMPARE": "pairs"}


def pairs_command(
    inputs: InputsArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            help="The pairs, a row each; - is standard output. JSON Lines (.gz or .zst: packed) or .parquet.",
        ),
    ],
    clusters: Annotated[
        Path | None,
        typer.Option(
            "--clusters",
            help="Each item's cluster, a row each, in the same forms. Without it clusters are only counted.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Bytes to work in, such as 512M or 4G (default 1G); what is more goes to disk.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            help="Directory of the temporary files, from which a killed run goes on. Default: beside the output; for "
            "standard output in TMPDIR, and no killed run goes on.",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="NUMBER", min=1, help="Default: all processors.")
    ] = None,
    bucket_limit: Annotated[
        int | None,
        typer.Option(
            "--bucket-limit",
            metavar="NUMBER",
            min=1,
            max=100_000,
            help="Of a key that more items share, each item meets the newest so many before it (default 1024). In "
            "place of [index] bucket_limit, which is the stream's.",
        ),
    ] = None,
    form: FormatOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find all near-duplicate pairs and clusters of a corpus.

    Killed and run again, it goes on where it was. Lines that are no items are counted and left out, the first of them
    named on standard error. Outputs that exist are overwritten. Where an output is standard output, the result is told
    on standard error. Exit code 1 if every item is bad.
    """
    from stream_dedup.batch.pairs import BUCKET_LIMIT, DEFAULT_MEMORY, find_pairs
    from stream_dedup.cli.summary import print_warnings
    from stream_dedup.precompile.compilations import compiling_is_said
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    room = DEFAULT_MEMORY if memory is None else bytes_of(memory)
    if room < _LEAST_MEMORY:
        raise typer.BadParameter(f"{memory} is too little to work in; give 64M or more")
    told = screen(output, clusters)
    with ends_with_its_reader():
        with _progress() as tell, compiling_is_said(tell.say):
            result = find_pairs(
                inputs, output, clusters, settings=settings, memory=room, bucket_limit=bucket_limit or BUCKET_LIMIT,
                state=state, form=form, threads=threads, progress=tell, bad_line=tell.bad_line,
            )  # fmt: skip
        if as_json:
            told.file.write(msgspec.json.encode(asdict(result)).decode() + "\n")
            if result.summary is not None:
                print_warnings(new_console(stderr=True), result.summary)
        else:
            _print(told, result, output, clusters)
    if result.bad and not result.items:
        raise typer.Exit(1)


class _Tell:
    """A bar for each step that takes long, and a line for each of the first bad lines."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._named = 0

    def __call__(self, progress: "PairsProgress") -> None:
        name = progress.step.name
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(_TITLES[name], total=progress.total)
        self._bars.update(self._tasks[name], completed=progress.done)

    def say(self, text: str) -> None:
        """A line above the bars."""
        self._bars.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def bad_line(self, name: str, line: "BadLine") -> None:
        self._named += 1
        if self._named > _MOST_NAMED + 1:
            return
        told = f"{name}:{line.number}: {line.reason}"
        if self._named > _MOST_NAMED:
            told = "more of them are only counted; `stream-dedup filter --duplicates FILE` names each"
        self._bars.console.print(told, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _progress() -> Iterator[_Tell]:
    console = new_console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield _Tell(bars)


def _print(console: Console, result: "PairsResult", output: Path, clusters: Path | None) -> None:
    from stream_dedup.cli.summary import print_nothing, print_short

    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, count in (
        ("items", result.items),
        ("lines that are no items", result.bad),
        ("candidate pairs compared", result.compared),
        ("refused by a guard", result.guarded),
        ("near-duplicate pairs", result.pairs),
        ("clusters of two and more", result.clusters),
        ("items in them", result.clustered),
    ):
        table.add_row(name, f"{count:,}")
    console.print(table)
    console.print(f"{result.pairs:,} in {called(output)}", markup=False, soft_wrap=True)
    if clusters is not None:
        console.print(f"{result.items:,} in {called(clusters)}", markup=False, soft_wrap=True)
    if result.hot:
        console.print(
            f"{result.hot:,} buckets are larger than the limit: {result.left_out:,} pairs were left out in a "
            "table, each item met the newest before it"
        )
    if result.resumed:
        console.print(f"{result.resumed:,} items were fingerprinted before: a killed run was taken up again")
    console.print(f"{result.seconds:.1f} s, {result.items / max(result.seconds, 1e-9):,.0f} items/s")
    if result.summary is not None:
        print_short(console, result.summary)
    elif not result.items:
        print_nothing(console)
