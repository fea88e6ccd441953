"""Draw the curves of cost against index size, each with its exponent, for the page of the results.

Takes the figures `growth_FAMILY_COST_1eK` (cost at 10^K originals) and `growth_FAMILY_COST_exponent` (the slope of the
logarithms), and draws one panel for each cost.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

COSTS = {
    "lookup_us": "a lookup, µs",
    "insert_us": "an insert with its merges, µs",
    "merge_ns_per_row": "a merge, ns a row",
}
_POINT = re.compile(rf"growth_(\w+)_({'|'.join(COSTS)})_1e(\d+)")


def curves(figures: Mapping[str, float], cost: str) -> dict[str, list[tuple[int, float]]]:
    """Points (originals, cost) of each family, by size.

    >>> curves({"growth_simhash_lookup_us_1e6": 2.0, "growth_simhash_lookup_us_1e5": 1.0}, "lookup_us")
    {'simhash': [(100000, 1.0), (1000000, 2.0)]}
    """
    points: dict[str, list[tuple[int, float]]] = {}
    for name, value in figures.items():
        match = _POINT.fullmatch(name)
        if match and match[2] == cost:
            points.setdefault(match[1], []).append((10 ** int(match[3]), value))
    return {family: sorted(pairs) for family, pairs in points.items()}


def plot_growth(figures: Mapping[str, float], path: Path) -> None:
    """Draw every curve for which there are figures; `path` ends in .svg."""
    plot = Figure(figsize=(9, 3), layout="constrained")
    for axes, (cost, title) in zip(plot.subplots(1, len(COSTS)), COSTS.items(), strict=True):
        for family, points in curves(figures, cost).items():
            slope = figures.get(f"growth_{family}_{cost}_exponent", float("nan"))
            axes.plot(*zip(*points, strict=True), marker="o", label=f"{family}: N^{slope:.2f}")
        axes.set(xscale="log", yscale="log", xlabel="originals", title=title)
        axes.minorticks_off()
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize="small")
    # Text as text, not as outlines: a third of the size. A salt makes the ids reproducible.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "growth"}):
        plot.savefig(path, metadata={"Date": None})
