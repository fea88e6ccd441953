"""`stream-dedup filter INPUT... --output FILE --duplicates FILE`: the decision on files, see batch/filter.py."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table

from stream_dedup.cli.common import ConfigOption, JsonOption

if TYPE_CHECKING:
    from stream_dedup.batch.filter import FilterResult, Progress


def filter_command(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT", help="JSON Lines, read in this order: plain, .gz, .zst, or - (standard input)."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", help="What is let through, line by line as it came.")],
    duplicates: Annotated[Path, typer.Option("--duplicates", help="What was held back and why, a JSON row each.")],
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            help="Directory that remembers: the next run goes on with this memory, a killed run where it stopped.",
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hold back near-duplicates in files. Killed and run again with the same arguments, it loses and doubles nothing.

    Outputs that exist are overwritten (a killed run with --state goes on filling them).
    """
    from stream_dedup.batch.filter import filter_files
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    with _progress() as tell:
        result = filter_files(inputs, output, duplicates, settings=settings, state=state, progress=tell)
    if as_json:
        sys.stdout.write(msgspec.json.encode(asdict(result)).decode() + "\n")
    else:
        _print(result, output, duplicates, settings.policy.shadow)


_ODD = {
    "missing": "missing",
    "future": "in the future",
    "alone": "unlike those around them by more than the window",
    "late": "late by more than the window",
}


class _Tell:
    """Draws `Progress` on a bar of bytes, since how many items there will be is not known."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._task = bars.add_task("filter", total=None, items=0, held=0)

    def __call__(self, progress: "Progress") -> None:
        held = progress.items - progress.forwarded
        self._bars.update(
            self._task, total=progress.bytes_total, completed=progress.bytes_read, items=progress.items, held=held
        )


@contextmanager
def _progress() -> Iterator[_Tell]:
    console = Console(stderr=True)
    columns = (
        BarColumn(),
        TextColumn("{task.fields[items]:,} items, {task.fields[held]:,} held back"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield _Tell(bars)


def _print(result: "FilterResult", output: Path, duplicates: Path, shadow: bool) -> None:
    table = Table("verdict", "items")
    table.columns[1].justify = "right"
    for name in ("unique", "duplicate", "update", "bad"):
        table.add_row(name, f"{getattr(result, name):,}")
    table.add_section()
    table.add_row("all", f"{result.items:,}")
    console = Console(highlight=False)
    console.print(table)
    held = result.items - result.forwarded
    if shadow:
        console.print("shadow mode: the output holds every item, those of the duplicates file too")
    for count, path in ((result.items if shadow else result.forwarded, output), (held, duplicates)):
        console.print(f"{count:,} in {path}", markup=False, soft_wrap=True)
    if result.resumed:
        console.print(f"{result.resumed:,} were done before: a killed or finished run was taken up again")
    odd = {kind: count for kind, count in result.odd_times.items() if count}
    if odd:
        said = ", ".join(f"{count:,} {_ODD[kind]}" for kind, count in odd.items())
        console.print(f"dates: {said}; each was judged as well as can be, and no other item for it", soft_wrap=True)
    if result.evicted:
        console.print(
            f"{result.evicted:,} originals were forgotten before their time: more than window.max_originals",
            soft_wrap=True,
        )
    new = result.items - result.resumed
    console.print(f"{result.seconds:.1f} s, {new / max(result.seconds, 1e-9):,.0f} items/s")
