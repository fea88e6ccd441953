"""Plot an `Evaluation`: S-curve, similarities, stages, thresholds, novelty.

In: `Evaluation`. Out: matplotlib figures by name, and PNG and SVG files of them. No window, no global state of
matplotlib; the same figures give the same bytes. matplotlib comes with the extra `report`; the worker does not need it.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stream_dedup.errors import ConfigError, InputError
from stream_dedup.evaluate.curve import has_textbook, predicted
from stream_dedup.evaluate.evaluation import HISTOGRAM_BINS, Evaluation
from stream_dedup.evaluate.novelty import ALL, DECISION, NoveltyReport
from stream_dedup.phrases import install_command
from stream_dedup.settings import FingerprintSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# These colours also differ in brightness, for grey print and for the colour-blind.
_BLUE, _ORANGE, _GREY = "#1f5fa8", "#e07b00", "#9a9a9a"
_SIZE = (6.4, 3.8)
_DOTS = 150


def figures(found: Evaluation, fingerprint: FingerprintSettings) -> dict[str, Figure]:
    """Make the figures by name; `sweep` and `novelty` only if the evaluation has them.

    Raises ConfigError without matplotlib.
    """
    require()
    out = {
        "s-curve": _curve(found, fingerprint),
        "similarity": _similarity(found),
        "stages": _stages(found),
    }
    if found.sweep:
        out["sweep"] = _sweep(found)
    if found.novelty and found.novelty.curve:
        out["novelty"] = _novelty(found.novelty)
    return out


def require() -> None:
    """Raise ConfigError, with the cure, if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401 - only a check that it is installed
    except ImportError:
        raise ConfigError(f"figures need matplotlib: {install_command('report')}") from None


def save(plots: dict[str, Figure], folder: Path) -> list[Path]:
    """Write NAME.png and NAME.svg of each figure into `folder`, creating it if needed; return the paths."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, figure in plots.items():
            for kind in ("png", "svg"):
                paths.append(folder / f"{name}.{kind}")
                paths[-1].write_bytes(_bytes(figure, kind))
    except OSError as error:
        raise InputError(f"cannot write the figures to {folder}: {error.strerror}") from None
    return paths


def svg(figure: Figure) -> str:
    """Return the figure as an <svg> element for an HTML page."""
    text = _bytes(figure, "svg").decode()
    return text[text.index("<svg") :]


def _bytes(figure: Figure, kind: str) -> bytes:
    import matplotlib as mpl

    out = io.BytesIO()
    # No date and fixed ids: the same figure gives the same bytes.
    with mpl.rc_context({"svg.hashsalt": "stream-dedup", "svg.fonttype": "path"}):
        figure.savefig(out, format=kind, dpi=_DOTS, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return out.getvalue()


def _figure(title: str) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.subplots()
    figure.suptitle(title, fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, axis="y", alpha=0.25)
    return figure, axes


def _curve(found: Evaluation, s: FingerprintSettings) -> Figure:
    if s.family == "minhash":
        bands = f"{s.body_bands} bands of {s.body_rows} rows" if s.body_bands else ""
        keys = " and ".join(part for part in (f"{s.anchors} anchors" if s.anchors else "", bands) if part)
    else:
        keys = f"blocks of bits, {s.layout}"
    figure, axes = _figure(f"Which pairs the index proposes: {keys}")
    if has_textbook(s):
        x = np.linspace(0.0, 1.0, 201)
        axes.plot(x, predicted(x, s.body_bands, s.body_rows), color=_GREY, label="textbook: 1 − (1 − sʳ)ᵇ")
    if found.curve:
        measured = np.array([point.measured for point in found.curve])
        # A single cluster has no interval: its bar is the whole scale.
        low, high = np.array([(0, 1) if np.isnan(point.interval[0]) else point.interval for point in found.curve]).T
        axes.errorbar(
            [point.jaccard for point in found.curve], measured, [measured - low, high - measured],
            fmt="o", markersize=4, capsize=2, color=_BLUE, label="measured, 95 % interval",
        )  # fmt: skip
    axes.set(xlabel="exact Jaccard of the bodies", ylabel="share proposed", ylim=(-0.03, 1.05))
    axes.legend(frameon=False, loc="upper left")
    return figure


def _similarity(found: Evaluation) -> Figure:
    figure, axes = _figure("Body similarity to the best candidate")
    edges = np.linspace(0.0, 1.0, HISTOGRAM_BINS + 1)
    width = 0.42 / HISTOGRAM_BINS
    middle = (edges[1:] + edges[:-1]) / 2
    axes.bar(middle - width / 2, found.passed, width, color=_ORANGE, label="let through")
    axes.bar(middle + width / 2, found.held, width, color=_BLUE, label="held back")
    axes.set(xlabel="Jaccard of the bodies, estimated", ylabel="items", yscale="symlog")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure


def _stages(found: Evaluation) -> Figure:
    figure, axes = _figure("Verdicts by deciding stage")
    names = list(reversed(found.stages))
    counts = [found.stages[name] for name in names]
    colours = [{"duplicate": _BLUE, "update": _ORANGE}.get(name.partition(":")[0], _GREY) for name in names]
    bars = axes.barh(names, counts, color=colours)
    axes.bar_label(bars, [f"{count:,}" for count in counts], padding=3, fontsize=9)
    axes.grid(False)
    axes.set(xlabel="items", xscale="symlog")
    axes.set_xlim(0, max(counts, default=1) * 4)
    return figure


def _novelty(found: NoveltyReport) -> Figure:
    figure, axes = _figure(f"What readers miss and what they see twice, by {found.setting}")
    axes.plot(
        [point.repeated for point in found.curve],
        [point.missed for point in found.curve],
        "-", color=_GREY, label="the decision at other thresholds",
    )  # fmt: skip
    for point in found.shown():
        here = point.threshold == found.present
        label = f"the settings: {point.threshold:g}" if here else None
        axes.plot(
            point.repeated, point.missed, "o", color=_BLUE if here else _GREY, markersize=8 if here else 4, label=label
        )
        axes.annotate(
            f"{point.threshold:g}", (point.repeated, point.missed), (4, 4), textcoords="offset points", fontsize=8
        )
    others = (group for group in found.groups if group.by == ALL and group.rule != DECISION)
    for group, marker in zip(others, "sD^v", strict=False):
        axes.plot(group.rates.repeated, group.rates.missed, marker, color=_ORANGE, markersize=7, label=group.rule)
    axes.set(
        xlabel="repeated: let through with nothing new", ylabel="missed: held back with something new",
        xlim=(-0.02, 1.02),
    )  # fmt: skip
    axes.set_ylim(bottom=-0.01)
    axes.legend(frameon=False)
    return figure


def _sweep(found: Evaluation) -> Figure:
    # Layouts of one distance decide alike: one point for each value.
    points = list({point.value: point for point in found.sweep}.values())
    figure, axes = _figure(f"What {points[0].setting} holds back")
    x = [point.value for point in points]
    for name, style, colour in (("held_share", "o-", _BLUE), ("missed", "s--", _ORANGE), ("repeated", "^:", _GREY)):
        y = [getattr(point, name) for point in points]
        if np.isfinite(y).any():
            label = "share held back" if name == "held_share" else name
            axes.plot(x, y, style, color=colour, label=label, markersize=4)
    axes.set(xlabel=points[0].setting)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure
