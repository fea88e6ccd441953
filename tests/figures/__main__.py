"""Measure the figures of the pages and write them to tests/results/figures.json.

make figures CORPORA=DIR                            # everything, some four minutes; then renews the pages
make figures CORPORA=DIR ARGS="--only families"     # one section; the others keep their figures
"""

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from stream_dedup.errors import StreamDedupError
from stream_dedup.settings import PREFIX
from tests.figures.measure import SECTIONS, Corpora
from tests.figures.results import PATH, save, section


def main(
    corpora: Annotated[
        Path, typer.Argument(metavar="DIR", file_okay=False, exists=True, help="Corpora (NAME.jsonl.gz) and labels.")
    ],
    only: Annotated[list[str] | None, typer.Option(help=f"Section; may be repeated: {', '.join(SECTIONS)}.")] = None,
    output: Annotated[Path, typer.Option(help="File to write; sections that are not measured stay.")] = PATH,
) -> None:
    """Measure quality and agreement on real corpora, which are not part of the project."""
    if unknown := [name for name in only or () if name not in SECTIONS]:
        raise typer.BadParameter(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    if set_here := sorted(name for name in os.environ if name.upper().startswith(PREFIX)):
        raise typer.BadParameter(f"figures need the default settings; unset {', '.join(set_here)}")
    source = Corpora(corpora, lambda what: typer.echo(f"  {what}", err=True))
    for name in only or SECTIONS:
        measure, rows = SECTIONS[name]
        typer.echo(f"{name} ...", err=True)
        start = time.perf_counter()
        source.files = {}
        try:
            figures = measure(source)
        except StreamDedupError as error:
            typer.echo(f"{name}: {error}", err=True)
            raise typer.Exit(1) from None
        # Each section is saved at once, so that a later one that fails costs nothing.
        save({name: section(f"{datetime.now(UTC):%Y-%m-%d}", source.files, rows, figures)}, output)
        typer.echo(f"{name}: {time.perf_counter() - start:.0f} s", err=True)


if __name__ == "__main__":
    typer.run(main)
