"""Passages of two texts -> a table for a terminal: what differs in colour, what is common dim and shortened.

In: `Comparison`s. Out: rich renderables. Why apart: news text is hostile. All of it goes through `harmless` into
`Text` objects, which rich never reads as markup.
"""

import re
from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from stream_dedup.dedup.passages import Comparison, Passage, Where, word_spans

_STYLES = {Where.BOTH: "dim", Where.FIRST: "bold red", Where.SECOND: "bold green"}
# So much of a common passage stays at a difference: enough to find the place.
_CONTEXT = 6
# Of a difference: a paragraph from each end. A person sees what it is; `--json` has all.
_DIFFERENCE = 60
# Below this, leaving words out saves nothing.
_LEFT_OUT = 6
# Three screens; two texts with more differences are two texts.
_ROWS = 40
# Whitespace, C0, C1, line separators, marks that turn the direction of writing, halves of surrogate pairs.
_HARMFUL = re.compile("\\s+|[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> str:
    """The text on one line, with nothing in it that a terminal obeys.

    >>> harmless("a\\x1b[31m\\n b\\x9b1m \\u202ec")
    'a␛[31m b�1m �c'
    """
    return _HARMFUL.sub(lambda found: _shown(found[0]), text)


def _shown(harmful: str) -> str:
    if harmful.isspace() and not set(harmful) & set("\x1c\x1d\x1e\x1f"):
        return " "
    return "".join(chr(0x2400 + ord(c)) if c < " " else "␡" if c == "\x7f" else "�" for c in harmful)


def side_by_side(headline: Comparison, text: Comparison, width: int) -> Table:
    """Headlines, then the places where the texts differ."""
    table = Table(box=SIMPLE_HEAD, width=width, show_lines=False, pad_edge=False)
    table.add_column("earlier", ratio=1, overflow="fold")
    table.add_column("later", ratio=1, overflow="fold")
    for row in _rows(headline.passages):
        table.add_row(*row)
    if headline.passages:
        table.add_section()
    rows = list(_rows(text.passages))
    for row in rows[:_ROWS]:
        table.add_row(*row)
    if len(rows) > _ROWS:
        more = Text(f"… ({len(rows) - _ROWS} more places) …", "dim")
        table.add_row(more, more)
    return table


def _rows(passages: list[Passage]) -> Iterator[tuple[Text, Text]]:
    """A row for each place: differences with their context; a long common passage ends the row."""
    row = Text(), Text()
    for place, passage in enumerate(passages):
        style = _STYLES[passage.where]
        if passage.where != Where.BOTH:
            side = row[0] if passage.where == Where.FIRST else row[1]
            side.append(" ".join(_shortened(passage.first or passage.second, passage.words)), style)
            continue
        before = _CONTEXT if place else 0
        after = _CONTEXT if place + 1 < len(passages) else 0
        before = before or _CONTEXT * (not after)  # texts that are the same show how they begin
        left_out = passage.words - before - after
        if left_out < _LEFT_OUT:
            row[0].append(harmless(passage.first), style)
            row[1].append(harmless(passage.second), style)
            continue
        told = f"… ({left_out} words) …"
        ends = [_ends(piece, before, after) for piece in (passage.first, passage.second)]
        for side, (start, _) in zip(row, ends, strict=True):
            side.append(f"{start}{told}", style)
        if after:
            if place:
                yield row
                row = Text(), Text()
            for side, (_, end) in zip(row, ends, strict=True):
                side.append(end if place else f" {end}", style)
    if any(row):
        yield row


def _shortened(text: str, words: int) -> list[str]:
    left_out = words - 2 * _DIFFERENCE
    if left_out < _LEFT_OUT:
        return [harmless(text)]
    start, end = _ends(text, _DIFFERENCE, _DIFFERENCE)
    return [start.rstrip(), f"… ({left_out} words) …", end]


def _ends(text: str, first: int, last: int) -> tuple[str, str]:
    """The first and the last words of a text that has more."""
    starts = [start for start, _ in word_spans(text)]
    return harmless(text[: starts[first]]) if first else "", harmless(text[starts[-last] :]) if last else ""
