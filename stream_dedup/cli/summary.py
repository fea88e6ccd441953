"""A summary of what came in, on the screen: for `check`, and shorter at the end of other commands."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from stream_dedup.news.presets import FIELDS
from stream_dedup.news.summary import Summary, rows_of, share
from stream_dedup.news.survey import MOST_REASONS

# Columns that the table of fields takes beside the samples.
_OTHERS = 40


def print_summary(console: Console, summary: Summary) -> None:
    """Fields as a table, then the rest line by line, what is bad, and the warnings. Fits 80 columns."""
    rows = dict(rows_of(summary))
    if summary.looked:
        fields = Table("field", "filled", "items", "the first one")
        fields.columns[1].justify = fields.columns[2].justify = "right"
        for name in FIELDS:
            sample = Text(summary.samples.get(name, ""))
            sample.truncate(max(console.width - _OTHERS, 10), overflow="ellipsis")
            fields.add_row(name, share(summary, name), f"{summary.filled[name]:,}", sample)
        console.print(fields)
    rows.pop("filled", None)
    _print_rows(console, rows)
    print_reasons(console, summary)
    print_warnings(console, summary)


def print_short(console: Console, summary: Summary) -> None:
    """A line each: how it was read, what was filled, dates, sources; and the warnings."""
    rows = dict(rows_of(summary))
    # What a command has counted itself is not said again, but that these figures are of a sample is.
    first = ("items",) if summary.is_sampled else ()
    told = (*first, "read as", "filled", "dates", "record times", "sources")
    _print_rows(console, {name: rows[name] for name in told if name in rows})
    print_warnings(console, summary)


def print_nothing(console: Console) -> None:
    """That an input was empty: no error, since an hour may bring nothing, but nobody should have to guess."""
    console.print("[bold yellow]warning:[/] The input is empty: no item came.")


def print_reasons(console: Console, summary: Summary) -> None:
    """Why items are bad, each reason with its first place."""
    if summary.reasons:
        console.print("bad, the first reasons:" if len(summary.reasons) == MOST_REASONS else "bad:")
        for reason in summary.reasons:
            console.print(f"  {reason}", markup=False, soft_wrap=True)


def print_warnings(console: Console, summary: Summary) -> None:
    """What looks wrong, a paragraph each."""
    for one in summary.warnings:
        console.print(f"[bold yellow]warning:[/] {escape(one.text)}", soft_wrap=not console.is_terminal)


def _print_rows(console: Console, rows: dict[str, str]) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, told in rows.items():
        table.add_row(name, escape(told.replace(" %", "%")))
    console.print(table)
