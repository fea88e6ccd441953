"""The curves of cost against size, drawn, each with its exponent.

In: figures `growth_FAMILY_COST_1eK` (at 10^K originals) and `growth_FAMILY_COST_exponent` (the slope of the
logarithms). Out: `growth.svg`, a panel a cost; the page of the results shows it.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from tests.benchmarks.results import PLOT

COSTS = {
    "lookup_us": "a lookup, µs",
    "insert_us": "an insert with its merges, µs",
    "merge_ns_per_row": "a merge, ns a row",
}
_POINT = re.compile(rf"growth_(\w+)_({'|'.join(COSTS)})_1e(\d+)")


def curves(figures: Mapping[str, float], cost: str) -> dict[str, list[tuple[int, float]]]:
    """The points of each family, by size.

    >>> curves({"growth_simhash_lookup_us_1e6": 2.0, "growth_simhash_lookup_us_1e5": 1.0}, "lookup_us")
    {'simhash': [(100000, 1.0), (1000000, 2.0)]}
    """
    found: dict[str, list[tuple[int, float]]] = {}
    for name, value in figures.items():
        match = _POINT.fullmatch(name)
        if match and match[2] == cost:
            found.setdefault(match[1], []).append((10 ** int(match[3]), value))
    return {name: sorted(points) for name, points in found.items()}


def plot_growth(figures: Mapping[str, float], directory: Path) -> None:
    """Draws all curves that the figures have."""
    plot = Figure(figsize=(12, 4), layout="constrained")
    for axes, (cost, title) in zip(plot.subplots(1, len(COSTS)), COSTS.items(), strict=True):
        for family, points in curves(figures, cost).items():
            slope = figures.get(f"growth_{family}_{cost}_exponent", float("nan"))
            axes.plot(*zip(*points, strict=True), marker="o", label=f"{family}: N^{slope:.2f}")
        axes.set(xscale="log", yscale="log", xlabel="originals", title=title)
        axes.grid(visible=True, which="both", alpha=0.3)
        axes.legend()
    directory.mkdir(parents=True, exist_ok=True)
    plot.savefig(directory / PLOT, metadata={"Date": None})
