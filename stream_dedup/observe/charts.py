"""Draw a small chart for the status page: paths for an inline SVG, and a text summary of the same numbers.

Pure functions. The template puts the paths into the page; they contain no text from items.
"""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 360, 90
_MARGIN = 4  # above the highest bar


@dataclass(frozen=True, slots=True)
class Chart:
    """A bar chart. `bars`: name and SVG path of each series, the lowest first. `top`: value of the highest bar."""

    name: str
    title: str
    now: str
    top: str
    bars: list[tuple[str, str]]
    summary: str  # for screen readers


def chart(
    name: str, title: str, unit: str, series: dict[str, Sequence[float | None]], now: str, digits: int = 0
) -> Chart:
    """Stack the series, all of one length, as bars. A value None is unknown and draws no bar.

    >>> lag = chart("lag", "Lag", "records", {"lag": [None, 1.0, 2.0]}, "2")
    >>> lag.top, lag.summary
    ('2 records', 'Lag: now 2, at most 2 records in the last half hour.')
    >>> lag.bars
    [('lag', 'M120.0,90.0h120.0V47.0h-120.0zM240.0,90.0h120.0V4.0h-120.0z')]
    """
    columns = [[value or 0.0 for value in column] for column in zip(*series.values(), strict=True)]
    highest = max(map(sum, columns), default=0.0)
    scale = (HEIGHT - _MARGIN) / (highest or 1.0)
    width = WIDTH / max(len(columns), 1)
    bars = []
    for level, label in enumerate(series):
        path = "".join(
            _bar(i * width, width, sum(column[:level]) * scale, column[level] * scale)
            for i, column in enumerate(columns)
            if column[level] > 0
        )
        bars.append((label, path))
    top = f"{highest:,.{digits}f}{'' if unit == '/s' else ' '}{unit}"
    return Chart(name, title, now, top, bars, f"{title}: now {now}, at most {top} in the last half hour.")


def _bar(x: float, width: float, low: float, height: float) -> str:
    return f"M{x:.1f},{HEIGHT - low:.1f}h{width:.1f}V{HEIGHT - low - height:.1f}h-{width:.1f}z"
