"""A series of numbers -> a small chart: paths for an inline SVG, and the words that say the same.

Pure. The template puts them into the page; nothing here is text that came in with an item.
"""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 360, 90
_ROOM = 4  # above the highest bar


@dataclass(frozen=True, slots=True)
class Chart:
    """`bars`: for each series its name and an SVG path, the lowest first; `top` is what the highest bar stands for."""

    name: str
    title: str
    now: str
    top: str
    bars: list[tuple[str, str]]
    summary: str  # for those who do not see it


def chart(
    name: str, title: str, unit: str, series: dict[str, Sequence[float | None]], now: str, digits: int = 0
) -> Chart:
    """Bars, one series upon the other, all of one length; None: nothing is known of that time, nothing is drawn.

    >>> one = chart("lag", "Lag", "records", {"lag": [None, 1.0, 2.0]}, "2")
    >>> one.top, one.summary
    ('2 records', 'Lag: now 2, at most 2 records in the last half hour.')
    >>> one.bars
    [('lag', 'M120.0,90.0h120.0V47.0h-120.0zM240.0,90.0h120.0V4.0h-120.0z')]
    """
    columns = [[value or 0.0 for value in column] for column in zip(*series.values(), strict=True)]
    highest = max(map(sum, columns), default=0.0)
    scale = (HEIGHT - _ROOM) / (highest or 1.0)
    width = WIDTH / max(len(columns), 1)
    bars = []
    for place, label in enumerate(series):
        path = "".join(
            _bar(i * width, width, sum(column[:place]) * scale, column[place] * scale)
            for i, column in enumerate(columns)
            if column[place] > 0
        )
        bars.append((label, path))
    top = f"{highest:,.{digits}f}{'' if unit == '/s' else ' '}{unit}"
    return Chart(name, title, now, top, bars, f"{title}: now {now}, at most {top} in the last half hour.")


def _bar(x: float, width: float, low: float, height: float) -> str:
    return f"M{x:.1f},{HEIGHT - low:.1f}h{width:.1f}V{HEIGHT - low - height:.1f}h-{width:.1f}z"
