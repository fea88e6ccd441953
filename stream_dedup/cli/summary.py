"""Print a survey of the input: in full for `check`, shorter at the end of other commands."""

from rich.console import Console
from rich.text import Text

from stream_dedup.cli.console import print_table, warn
from stream_dedup.news.fields import FIELDS
from stream_dedup.news.survey import MOST_REASONS, Summary, rows_of, share

# Width of the table of fields without its samples.
_COLUMNS_BESIDE_SAMPLE = 40


def print_summary(console: Console, summary: Summary) -> None:
    """Print the fields as a table, then the other figures, the reasons of bad items and the warnings, in 80 columns."""
    rows = dict(rows_of(summary))
    if summary.looked:
        fields = []
        for name in FIELDS:
            sample = Text(summary.samples.get(name, ""))
            sample.truncate(max(console.width - _COLUMNS_BESIDE_SAMPLE, 10), overflow="ellipsis")
            fields.append((name, share(summary, name), summary.filled[name], sample))
        print_table(console, ("field", "filled", "items", "first value"), fields)
    rows.pop("filled", None)
    _print_rows(console, rows)
    print_reasons(console, summary)
    print_warnings(console, summary)


def print_short(console: Console, summary: Summary) -> None:
    """Print a line each on the preset, the filled fields, dates and sources; then the warnings."""
    rows = dict(rows_of(summary))
    # The command has printed its own count of items; of a sample the count differs.
    count = ("items",) if summary.is_sampled else ()
    names = (*count, "read as", "filled", "dates", "record times", "sources")
    _print_rows(console, {name: rows[name] for name in names if name in rows})
    print_warnings(console, summary)


def print_nothing(console: Console) -> None:
    """Warn that the input is empty. This is not an error: an hour may bring no news."""
    warn(console, "The input is empty: it has no items.")


def print_reasons(console: Console, summary: Summary) -> None:
    """Print why items are bad: each reason with the first item that has it."""
    if summary.reasons:
        console.print("bad, the first reasons:" if len(summary.reasons) == MOST_REASONS else "bad:")
        for reason in summary.reasons:
            console.print(f"  {reason}", soft_wrap=True)


def print_warnings(console: Console, summary: Summary) -> None:
    """Print a paragraph for each warning."""
    for warning in summary.warnings:
        warn(console, warning.text, soft_wrap=not console.is_terminal)


def _print_rows(console: Console, rows: dict[str, str]) -> None:
    print_table(console, (), [(name, text.replace(" %", "%")) for name, text in rows.items()])
