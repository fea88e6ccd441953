"""Print the value of `decision.novelty` that labels recommend, with what it would miss and repeat."""

import math

from rich.console import Console
from rich.table import Table

from stream_dedup.evaluate.advice import Advice
from stream_dedup.evaluate.intervals import Interval
from stream_dedup.settings import DecisionSettings
from stream_dedup.settings.judging import with_name


def print_advice(advice: Advice, present: float, console: Console) -> None:
    """Print nothing if no label is of a pair with novelty, as with SimHash."""
    if not advice.pairs:
        return
    default = DecisionSettings().threshold
    marks = ((default, "default"), (present, "present"), (advice.novelty, "recommended"))
    table = Table("novelty", "held", "missed (95 %)", "repeated (95 %)", "", box=None, pad_edge=False)
    for value, rates in advice.rates.items():
        missed, repeated = (rates.missed, rates.missed_interval), (rates.repeated, rates.repeated_interval)
        note = ", ".join(text for one, text in marks if one == value)
        table.add_row(with_name(value), str(rates.held), with_interval(*missed), with_interval(*repeated), note)
    console.print(table)
    console.print(advice.remark())
    if advice.novelty not in (None, present):
        console.print(f"\n[decision]\nnovelty = {advice.novelty:g}\n")


def rate(value: float) -> str:
    """Format a rate; undefined is a dash."""
    return "-" if math.isnan(value) else f"{value:.3f}"


def with_interval(value: float, interval: Interval) -> str:
    """Format a rate with its interval, if it has one."""
    low, high = interval
    return rate(value) if math.isnan(low) else f"{rate(value)} ({rate(low)}-{rate(high)})"
