"""What the commands print: consoles for text of strangers, tables, progress, warnings.

Text is printed as it is: no markup (`[red]`, `[link=...]`), no names of emoji, and control characters escaped.
"""

import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from stream_dedup.cli.common import new_console
from stream_dedup.observe.terminal import escape_controls

# Between two updates of the same step: less than an eye sees, and a loop may report each record.
_UPDATE_SECONDS = 0.1
_SPACE = re.compile(r"\s+")


class CleanConsole(Console):
    """Escapes what is rendered, and writes past the stream that would also escape rich's own codes."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        stream = sys.stderr if stderr else sys.stdout
        file = getattr(stream, "uncleaned", stream)
        super().__init__(file=file, stderr=stderr, markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_controls(segment.text), segment.style)


def one_line(text: str) -> str:
    r"""Put a text on one line, with control characters escaped, so that its width is known before it is laid out.

    >>> one_line("a\x1b[31m\n b")
    'a\\u001b[31m b'
    """
    return escape_controls(_SPACE.sub(" ", text))


def warn(console: Console, text: str, *, soft_wrap: bool = True) -> None:
    """Print a warning."""
    console.print(Text.assemble(("warning:", "bold yellow"), f" {text}"), soft_wrap=soft_wrap)


def print_table(
    console: Console, columns: Sequence[str], rows: Iterable[Sequence[str | int | Text]], title: str | None = None
) -> None:
    """Print rows under the names of their columns; without names each row is a name and a value.

    There is no frame, so that many columns fit into 80 characters. Numbers stand at the right of their columns.
    """
    table = Table(*columns, title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.show_header = bool(columns)
    shown = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
    for row in shown:
        table.add_row(*row)
    for column, cells in zip(table.columns, zip(*shown, strict=True), strict=False):
        is_number = all(str(cell)[:1] in "0123456789-" for cell in cells)  # or empty
        column.justify, column.overflow = "right" if is_number else "left", "fold"
    console.print(table)


class Bars:
    """A bar for each step of the work; `progress_bars` makes it."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._steps: dict[str, TaskID] = {}
        self._next_update = 0.0

    def __call__(self, step: str, done: int, total: int | None = None, counts: str | None = None) -> None:
        """Show how far a step is; `counts` is what is counted, as text. Cheap enough to be called for each record."""
        now = time.monotonic()
        if step in self._steps and now < self._next_update and done != total:
            return
        self._next_update = now + _UPDATE_SECONDS
        if counts is None:
            counts = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        if step not in self._steps:
            self._steps[step] = self._bars.add_task(step, total=total, counts=counts)
        self._bars.update(self._steps[step], completed=done, total=total, counts=counts)

    def print(self, text: str) -> None:
        """Print a line above the bars; without a terminal, too."""
        self._bars.console.print(text, soft_wrap=True)


@contextmanager
def progress_bars() -> Iterator[Bars]:
    """Show bars on standard error while the work lasts, if it is a terminal."""
    console = new_console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield Bars(bars)
