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
from stream_dedup.evaluate.curve import proposed
from stream_dedup.evaluate.evaluation import HISTOGRAM_BINS, Evaluation
from stream_dedup.evaluate.novelty import ALL, DECISION, NoveltyReport
from stream_dedup.fingerprint.scheme import Scheme
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


def _figure(title: str, panels: int = 1) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_SIZE[0] * max(1.0, panels * 0.7), _SIZE[1]), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False, sharey=True)[0]
    figure.suptitle(title, fontsize=11)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(True, axis="y", alpha=0.25)
    return figure, axes if panels > 1 else axes[0]


def _curve(found: Evaluation, s: FingerprintSettings) -> Figure:
    keys = [f"{s.anchors} anchors"] if s.anchors else []
    keys += [f"{s.body_bands} bands of {s.body_rows} rows"] if s.body_bands else []
    is_minhash = s.family == "minhash"
    figure, axes = _figure(f"Which pairs the index proposes: {', '.join(keys) if is_minhash else s.layout}")
    if is_minhash:
        x = np.linspace(0.0, 1.0, 201)
        axes.plot(x, proposed(x, Scheme(s)), color=_GREY, label="predicted, with words changed one by one")
    if found.curve:
        measured = np.array([point.measured for point in found.curve])
        # A single cluster has no interval: its bar is the whole scale.
        low, high = np.array([(0, 1) if np.isnan(point.interval[0]) else point.interval for point in found.curve]).T
        axes.errorbar(
            [point.jaccard for point in found.curve], measured, [measured - low, high - measured],
            fmt="o", markersize=4, capsize=2, color=_BLUE, label="measured, 95 % interval",
        )  # fmt: skip
    axes.set(xlabel="exact Jaccard of the bodies", ylabel="share that a key of the body proposes", ylim=(-0.03, 1.05))
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
    colours = [
        _BLUE if name.startswith("duplicate") else _ORANGE if name.startswith("update") else _GREY for name in names
    ]
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
    names = list(dict.fromkeys(point.name for point in found.sweep))
    figure, panels = _figure("One threshold moved, the others as they are", len(names))
    for axes, name in zip(np.atleast_1d(panels), names, strict=True):
        # Layouts of one distance decide alike: one point for each value.
        points = list({point.value: point for point in found.sweep if point.name == name}.values())
        x = [point.value for point in points]
        if all(np.isfinite([point.recall for point in points])):
            axes.plot(x, [point.recall for point in points], "o-", color=_BLUE, label="recall", markersize=4)
            axes.plot(x, [point.precision for point in points], "s--", color=_ORANGE, label="precision", markersize=4)
        else:
            axes.plot(x, [point.held_share for point in points], "o-", color=_BLUE, label="held back", markersize=4)
        axes.set(xlabel=points[0].setting)
    np.atleast_1d(panels)[0].legend(frameon=False)
    return figure
