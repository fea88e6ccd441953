"""The curve of cost against size, drawn, with its exponent.

In: figures `growth_WHAT_us_N` (microseconds at N originals). Out: `growth.png` and `growth.svg`, and figures
`growth_exponent_WHAT`: the slope of the logarithms (least squares), so 0 is a cost that does not grow and 1 one that
grows as the index does.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

_POINT = re.compile(r"growth_(\w+)_us_(\d+)$")
Curve = list[tuple[int, float]]


def curves(figures: Mapping[str, float]) -> dict[str, Curve]:
    """
    >>> curves({"growth_lookup_us_1000": 2.0, "growth_lookup_us_100": 1.0, "growth_lookup_us_100_low": 0.9})
    {'lookup': [(100, 1.0), (1000, 2.0)]}
    """
    found: dict[str, Curve] = defaultdict(list)
    for name, value in figures.items():
        match = _POINT.fullmatch(name)
        if match:
            found[match[1]].append((int(match[2]), value))
    return {name: sorted(points) for name, points in found.items()}


def exponent(curve: Curve) -> float:
    """
    >>> round(exponent([(10, 5.0), (1000, 50.0)]), 3)
    0.5
    """
    size, cost = np.log(np.array(curve, dtype=np.float64)).T
    return float(np.polyfit(size, cost, 1)[0])


def plot_growth(figures: Mapping[str, float], directory: Path) -> dict[str, float]:
    """Draws the curves; their exponents. Curves of a single point have none."""
    plot = Figure(figsize=(7, 4.5), layout="constrained")
    axes = plot.subplots()
    exponents: dict[str, float] = {}
    for name, curve in curves(figures).items():
        if len(curve) < 2:
            continue
        exponents[f"growth_exponent_{name}"] = exponent(curve)
        axes.plot(*zip(*curve, strict=True), marker="o", label=f"{name}: N^{exponent(curve):.2f}")
    axes.set(xscale="log", yscale="log", xlabel="originals in the index", ylabel="µs")
    axes.grid(visible=True, alpha=0.3)
    if exponents:
        axes.legend()
    directory.mkdir(parents=True, exist_ok=True)
    for kind in ("png", "svg"):
        plot.savefig(directory / f"growth.{kind}", metadata={"Date": None} if kind == "svg" else None)
    return exponents
