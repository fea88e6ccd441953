"""Show two texts side by side on a terminal: differences in colour, common passages dim and shortened.

News text is untrusted, and `one_line` makes sure of its width: controls are escaped before the lines are laid out.
"""

import re
from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from stream_dedup.dedup.passages import Comparison, Passage, Side, word_spans
from stream_dedup.observe.logs import escape_controls

_STYLES = {Side.BOTH: "dim", Side.FIRST: "bold red", Side.SECOND: "bold green"}
# Words of a common passage that stay beside a difference, to show where it is.
_CONTEXT = 6
# Words from each end of a long difference: a paragraph. `--json` has the whole text.
_DIFFERENCE = 60
# Leaving out fewer words saves nothing.
_LEAST_LEFT_OUT = 6
# About three screens; texts with more differences are unrelated.
_MOST_ROWS = 40
_SPACE = re.compile(r"\s+")


def one_line(text: str) -> str:
    r"""Put a text on one line, with control characters escaped.

    >>> one_line("a\x1b[31m\n b")
    'a\\u001b[31m b'
    """
    return escape_controls(_SPACE.sub(" ", text))


def side_by_side(headline: Comparison, text: Comparison, width: int) -> Table:
    """Return a table of the headlines, then the differences of the texts."""
    table = Table(box=SIMPLE_HEAD, width=width, show_lines=False, pad_edge=False)
    table.add_column("earlier", ratio=1, overflow="fold")
    table.add_column("later", ratio=1, overflow="fold")
    for row in _rows(headline.passages):
        table.add_row(*row)
    if headline.passages:
        table.add_section()
    rows = list(_rows(text.passages))
    for row in rows[:_MOST_ROWS]:
        table.add_row(*row)
    if len(rows) > _MOST_ROWS:
        more = Text(f"… ({len(rows) - _MOST_ROWS} more places) …", "dim")
        table.add_row(more, more)
    return table


def _rows(passages: list[Passage]) -> Iterator[tuple[Text, Text]]:
    """Yield a row for each difference with its context; a long common passage ends the row."""
    row = Text(), Text()
    for place, passage in enumerate(passages):
        style = _STYLES[passage.side]
        if passage.side != Side.BOTH:
            side = row[0] if passage.side == Side.FIRST else row[1]
            side.append(" ".join(_shorten(passage.first or passage.second, passage.words)), style)
            continue
        before = _CONTEXT if place else 0
        after = _CONTEXT if place + 1 < len(passages) else 0
        before = before or _CONTEXT * (not after)  # for equal texts, show the beginning
        left_out = passage.words - before - after
        if left_out < _LEAST_LEFT_OUT:
            row[0].append(one_line(passage.first), style)
            row[1].append(one_line(passage.second), style)
            continue
        gap = f"… ({left_out} words) …"
        ends = [_ends(text, before, after) for text in (passage.first, passage.second)]
        for side, (start, _) in zip(row, ends, strict=True):
            side.append(f"{start}{gap}", style)
        if after:
            if place:
                yield row
                row = Text(), Text()
            for side, (_, end) in zip(row, ends, strict=True):
                side.append(end if place else f" {end}", style)
    if any(row):
        yield row


def _shorten(text: str, words: int) -> list[str]:
    left_out = words - 2 * _DIFFERENCE
    if left_out < _LEAST_LEFT_OUT:
        return [one_line(text)]
    start, end = _ends(text, _DIFFERENCE, _DIFFERENCE)
    return [start.rstrip(), f"… ({left_out} words) …", end]


def _ends(text: str, first: int, last: int) -> tuple[str, str]:
    """Return the first and the last words of a longer text."""
    starts = word_spans(text)[:, 0].tolist()
    return one_line(text[: starts[first]]) if first else "", one_line(text[starts[-last] :]) if last else ""
