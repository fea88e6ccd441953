"""Text on a terminal: styles, lines broken between words, tables, and one line of progress.

Printed text stays as it is: control characters are escaped, and only styles write codes. A text with styles is a
sequence of parts, each a text and the words of its style: `[("14", "bold red"), (" crowns", "")]`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, repeat, zip_longest
from operator import itemgetter
from typing import Self

import click

from stream_dedup.observe.logs import escape_controls

Line = list[tuple[str, str]]
Text = str | Line
_BETWEEN = 2  # columns between two cells of a table
_LEAST_WIDTH = 8  # a column of a table gets no narrower
_WORD = re.compile(r"\n|[^\S\n]+|\S+")
_SPACE = re.compile(r"\s+")


def one_line(text: str) -> str:
    r"""Put a text on one line, with control characters escaped, so that its width is known before it is laid out.

    >>> one_line("a\x1b[31m\n b")
    'a\\u001b[31m b'
    """
    return escape_controls(_SPACE.sub(" ", text))


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes.

    >>> columns_of("Elm"), columns_of("日本"), columns_of("e\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    kinds = ((unicodedata.category(c), unicodedata.east_asian_width(c)) for c in text)
    return sum(0 if category in ("Mn", "Me", "Cf") else 2 if width in "WF" else 1 for category, width in kinds)


def _pieces(text: str, width: int) -> Iterator[str]:
    """Cut a text into pieces of at most so many columns."""
    if columns_of(text) <= width:
        yield text
        return
    start = used = 0
    for place, char in enumerate(text):
        size = columns_of(char)
        if used + size > width and used:
            yield text[start:place]
            start, used = place, 0
        used += size
    yield text[start:]


def cut(text: str, width: int) -> str:
    """Shorten a text to so many columns.

    >>> cut("Ferry stopped", 6), cut("日本日本", 6), cut("Ferry", 6)
    ('Ferry…', '日本…', 'Ferry')
    """
    return text if columns_of(text) <= width else next(_pieces(text, width - 1)) + "…"


def wrapped(text: Text, width: int) -> list[Line]:
    """Break a text into lines of at most so many columns: between words, and in a word that is longer.

    >>> wrapped("The ferry stopped", 9)
    [[('The', ''), (' ', ''), ('ferry', '')], [('stopped', '')]]
    """
    lines: list[Line] = [[]]
    used = 0
    for part, style in [(text, "")] if isinstance(text, str) else text:
        for word in _WORD.findall(escape_controls(part)):
            for piece in _pieces(word, width):
                size = columns_of(piece)
                if piece == "\n" or (used and used + size > width):
                    lines.append([])
                    used = 0
                    if piece.isspace():
                        continue
                lines[-1].append((piece, style))
                used += size
    return lines


def beside(cells: Sequence[Text], widths: Sequence[int], right: Iterable[bool] = repeat(False)) -> Iterator[Line]:
    """Lay cells beside each other, each broken to its width; yield the lines. right: cells that end at their right.

    >>> ["".join(part for part, _ in line) for line in beside(("1", "The ferry"), (3, 5), (True, False))]
    ['  1  The', '     ferry']
    """
    columns = [wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    sides = list(zip(widths, right, strict=False))
    for row in zip_longest(*columns, fillvalue=[]):
        line: Line = []
        for parts, (width, is_right) in zip(row, sides, strict=True):
            fill = " " * (width - sum(columns_of(part) for part, _ in parts)), ""
            line += [*([fill, *parts] if is_right else [*parts, fill]), (" " * _BETWEEN, "")]
        while line and not line[-1][0].strip():
            line.pop()
        yield line


class Console:
    """Where a command prints: standard output, or standard error."""

    def __init__(self, *, stderr: bool = False) -> None:
        stream = sys.stderr if stderr else sys.stdout
        self.stderr = stderr
        self._file = getattr(stream, "uncleaned", stream)  # CleanStream would escape the codes of styles
        self.is_terminal = self._file.isatty() or bool(os.environ.get("FORCE_COLOR"))
        self._colour = self.is_terminal and not os.environ.get("NO_COLOR")

    @property
    def width(self) -> int:
        return shutil.get_terminal_size().columns

    @property
    def height(self) -> int:
        return shutil.get_terminal_size().lines

    def print(self, text: Text = "", style: str = "", *, soft_wrap: bool = False) -> None:
        """Print a text, broken between words; with soft_wrap a terminal breaks it, and what it names can be copied."""
        whole = [[(text, "")] if isinstance(text, str) else text]
        self.print_lines(whole if soft_wrap else wrapped(text, self.width), style)

    def print_lines(self, lines: Iterable[Line], style: str = "", *, over: int = 0) -> None:
        """Print lines; `over`: in place of as many lines that were printed before."""
        shown = f"\x1b[{over}A\x1b[J" if over else ""
        for line in lines:
            for own, parts in groupby(line, itemgetter(1)):
                shown += self._styled("".join(part for part, _ in parts), own or style)
            shown += "\n"
        click.echo(shown, self._file, nl=False, color=True)

    def clear(self) -> None:
        """Empty the screen of a terminal."""
        if self.is_terminal:
            click.echo("\x1b[2J\x1b[H", self._file, nl=False, color=True)

    def _styled(self, text: str, style: str) -> str:
        words, text = set(style.split()), escape_controls(text)
        if not (words and self._colour):
            return text
        colour = next(iter(words - {"bold", "dim"}), None)
        return click.style(text, colour, bold="bold" in words or None, dim="dim" in words or None)


def warn(text: str, console: Console | None = None) -> None:
    """Print a warning, on standard error unless a console is given; without a terminal it is one line."""
    console = console or Console(stderr=True)
    console.print([("warning:", "bold yellow"), (f" {text}", "")], soft_wrap=not console.is_terminal)


def print_table(
    console: Console, columns: Sequence[str], rows: Iterable[Sequence[Text | int]], title: str | None = None
) -> None:
    """Print rows under the names of their columns; without names each row is a name and a value.

    The table has no frame, so that many columns fit into 80 characters. Numbers are aligned to the right.
    """
    shown = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
    plain = [[cell if isinstance(cell, str) else "".join(part for part, _ in cell) for cell in row] for row in shown]
    right = [all(cell[:1] in "0123456789-" for cell in cells) for cells in zip(*plain, strict=True)]  # or empty
    head = [list(columns)] if columns else []
    lengths = [[max(map(columns_of, cell.split("\n"))) for cell in row] for row in head + plain]
    widths = [min(max(column), console.width) for column in zip(*lengths, strict=True)]
    room = console.width - _BETWEEN * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _LEAST_WIDTH:
        widths[widths.index(max(widths))] -= 1
    if title:
        console.print(title, "bold")
    for name in head:
        console.print_lines(beside(name, widths, right), "bold")
    for row in shown:
        console.print_lines(beside(row, widths, right))


# Between two updates of the same step: less than an eye sees, and a loop may report each record.
_UPDATE_SECONDS = 0.1


class ProgressLine:
    """A line for the step that the work is in, on standard error, if that is a terminal."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._step, self._begin, self._next_update = "", 0.0, 0.0
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._replace([])

    def __call__(self, step: str, done: int, total: int | None = None, counts: str | None = None) -> None:
        """Show the progress of a step; `counts` describes it. Cheap enough to be called for each record."""
        now = time.monotonic()
        if not self._console.is_terminal or (step == self._step and now < self._next_update and done != total):
            return
        if step != self._step:
            self._step, self._begin = step, now
        self._next_update = now + _UPDATE_SECONDS
        if counts is None:
            counts = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        if total and done:
            left = (now - self._begin) * max(total - done, 0) / done
            counts = f"{min(done / total, 1):4.0%}  {counts}  {left:,.0f} s left"
        self._replace([[(cut(one_line(f"{step}  {counts}"), self._console.width), "")]])

    def print(self, text: str) -> None:
        """Print a line above that of the progress; without a terminal, too."""
        self._replace([])
        self._console.print(text, soft_wrap=True)

    def _replace(self, lines: list[Line]) -> None:
        if lines or self._shown:
            self._console.print_lines(lines, over=self._shown)
        self._shown = bool(lines)
