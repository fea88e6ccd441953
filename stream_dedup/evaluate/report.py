"""Show an `Evaluation`: the same sections on a terminal and in a self-contained HTML page with two figures.

It addresses the person who decides whether to put the deduplicator in front of a feed: the verdicts, the agreement with
readers and with exact sets, and the index. It shows ids but never texts. The page has no scripts and no external
resources. matplotlib, for its figures, comes with the extra `report`.
"""

from __future__ import annotations

import html
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stream_dedup.errors import ConfigError
from stream_dedup.evaluate.evaluation import Evaluation
from stream_dedup.evaluate.intervals import Interval
from stream_dedup.evaluate.labels import Label
from stream_dedup.evaluate.novelty import DECISION, Advice, NoveltyReport
from stream_dedup.evaluate.scurve import INTERVALS, Point, proposed
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.phrases import install_command
from stream_dedup.settings import DecisionSettings, FingerprintSettings
from stream_dedup.settings.judging import with_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ERRORS = {
    "not found": "let through as another, but the same article",
    "another article": "held back or named an update, but another article",
    "missed": "held back, but a reader misses something",
    "repeated": "let through, but with nothing new",
}
"""Kinds of errors, by the names of `Evaluation.errors`."""
# Pairs listed for each kind of error, the largest weight first.
_LISTED = 12
_RATES = (
    "missed: share of what is held back that has something new or is another article; repeated: share of the same "
    "articles with nothing new that are let through. Weighted by how many items a pair stands for. Intervals come from "
    "a bootstrap over the sites of the later items, because pairs of one site depend on each other."
)
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: .5rem 0 1.5rem } th, td { padding: .2rem .9rem .2rem 0; text-align: left }
th { border-bottom: 1px solid #999 } td { border-bottom: 1px solid #e4e4e4; font-variant-numeric: tabular-nums }
svg { max-width: 100%; height: auto } h2 { margin-top: 2.2rem } p { max-width: 46rem }
"""
# These colours also differ in brightness, for grey print and for the colour-blind.
_BLUE, _ORANGE, _GREY = "#1f5fa8", "#e07b00", "#9a9a9a"


@dataclass(frozen=True, slots=True)
class Section:
    """A question, what is said about it, a table, and the name of its figure."""

    title: str
    text: Sequence[str] = ()
    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[str | int, ...]] = ()
    figure: str = ""


def sections(found: Evaluation) -> Iterator[Section]:
    """Yield what there is to say, in the order of its interest."""
    counted = [(name, count, f"{count / found.lines:.2%}") for name, count in found.stages.items()]
    judged = f"{found.lines:,} items were judged in order of arrival."
    yield Section("What it decides", [judged], ("verdict: stage", "items", "share"), counted)
    if not found.agreement:
        yield Section("Does it agree with readers?", ["No judged pairs were given (--labels)."])
    else:
        agreements = []
        for name, one in found.agreement.items():
            recall = with_interval(one.recall, one.recall_interval)
            precision = with_interval(one.precision, one.precision_interval)
            agreements.append((name, one.pairs, recall, precision, rate(one.f1)))
        columns = ("pairs", "count", "recall (95 %)", "precision (95 %)", "F1")
        yield Section("Does it agree with readers?", [], columns, agreements)
    if found.novelty:
        yield from _novelty_sections(found.novelty)
    if found.advice and found.advice.pairs and found.novelty:
        yield advice_section(found.advice, found.novelty.present)
    for kind, pairs in found.errors().items():
        yield Section(f"{_ERRORS[kind].capitalize()}: {len(pairs)}", [], Label.__struct_fields__[:4], _listed(pairs))
    exact = found.exact
    yield Section(
        "Does it agree with exact sets?",
        [
            f"By the plain rule (body Jaccard ≥ {exact.threshold:g}), of {exact.items:,} items with a body, at "
            f"{exact.sketch_bytes:,} bytes a body."
        ],
        ("agreement", "recall", "precision", "held back exactly", "missed", "held back wrongly"),
        [
            (
                rate(exact.agreement, 4), rate(exact.recall, 4), rate(exact.precision, 4), exact.held_exactly,
                exact.misses, exact.false_drops,
            )
        ],
    )  # fmt: skip
    points = []
    for point in found.curve:
        jaccard, measured = f"{point.low:.2f} to {point.high:.2f}", with_interval(point.measured, point.interval)
        points.append((jaccard, point.pairs, f"{point.clusters:.1f}", measured, rate(point.predicted)))
    columns = ("Jaccard", "pairs", "clusters", "proposed (95 %)", "predicted")
    yield Section("Does the index propose what it should?", [INTERVALS], columns, points, "s-curve")


def _listed(pairs: list[Label]) -> list[tuple[str | int, ...]]:
    return [(pair.earlier, pair.later, pair.label, f"{pair.weight:g}") for pair in pairs[:_LISTED]]


def _novelty_sections(novelty: NoveltyReport) -> Iterator[Section]:
    rows = [
        (
            rule, one.held, with_interval(one.missed, one.missed_interval),
            with_interval(one.repeated, one.repeated_interval),
        )
        for rule, one in novelty.rates.items()
    ]  # fmt: skip
    columns = ("rule", "held", "missed (95 %)", "repeated (95 %)")
    yield Section(f"Would a reader miss something? {novelty.rates[DECISION].rows} pairs", [_RATES], columns, rows)
    if novelty.curve:
        said = (
            f"decision.novelty moves along the curve; it is {novelty.present:g}. {novelty.carrying} labelled items "
            "have a novelty. The curve comes from this run: the remembered originals stay the same."
        )
        trade_off = [
            (
                with_name(point.threshold), rate(point.missed), rate(point.repeated),
                "the settings" if point.threshold == novelty.present else "",
            )
            for point in novelty.shown()
        ]  # fmt: skip
        columns = ("decision.novelty", "missed", "repeated", "")
        yield Section("The trade-off", [said], columns, trade_off, "novelty")


def advice_section(advice: Advice, present: float) -> Section:
    """The value of `decision.novelty` that labels recommend, with what it would miss and repeat."""
    default = DecisionSettings().threshold
    marks = ((default, "default"), (present, "present"), (advice.novelty, "recommended"))
    rows = []
    for value, rates in advice.rates.items():
        missed = with_interval(rates.missed, rates.missed_interval)
        repeated = with_interval(rates.repeated, rates.repeated_interval)
        note = ", ".join(text for one, text in marks if one == value)
        rows.append((with_name(value), rates.held, missed, repeated, note))
    said = [advice.remark()]
    if advice.novelty not in (None, present):
        said.append(f"[decision]\nnovelty = {advice.novelty:g}")
    columns = ("novelty", "held", "missed (95 %)", "repeated (95 %)", "")
    return Section("Which threshold fits this feed?", said, columns, rows)


def rate(value: float, digits: int = 3) -> str:
    """Format a rate; undefined is a dash."""
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def with_interval(value: float, interval: Interval) -> str:
    """Format a rate with its interval, if it has one."""
    low, high = interval
    return rate(value) if math.isnan(low) else f"{rate(value)} ({rate(low)}-{rate(high)})"


def page(found: Evaluation, title: str, plots: Mapping[str, Figure]) -> str:
    """Make the page. `title`: the name of the corpus; `plots`: from `figures`."""
    parts = [f"<h1>{html.escape(title)}</h1>"]
    for section in sections(found):
        parts += [f"<h2>{html.escape(section.title)}</h2>", *(f"<p>{html.escape(text)}</p>" for text in section.text)]
        if section.figure in plots:
            parts.append(f"<figure>{_svg(plots[section.figure])}</figure>")
        if section.rows:
            head = "".join(f"<th>{html.escape(name)}</th>" for name in section.columns)
            parts.append(f"<table><tr>{head}</tr>")
            for row in section.rows:
                parts.append("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>")
            parts.append("</table>")
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def require_matplotlib() -> None:
    """Raise ConfigError, with the cure, if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401 - only a check that it is installed
    except ImportError:
        raise ConfigError(f"the report needs matplotlib: {install_command('report')}") from None


def figures(found: Evaluation, fingerprint: FingerprintSettings) -> dict[str, Figure]:
    """Draw the S-curve and, if labels have a trade-off, that; by the names that sections have for them."""
    out = {"s-curve": _s_curve(found.curve, fingerprint)}
    if found.novelty and found.novelty.curve:
        out["novelty"] = _trade_off(found.novelty)
    return out


def _svg(figure: Figure) -> str:
    """The figure as an <svg> element; without a date and with fixed ids, so that the same figure has the same bytes."""
    import matplotlib as mpl

    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "stream-dedup", "svg.fonttype": "path"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def _axes(x: str, y: str) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, axis="y", alpha=0.25)
    axes.set(xlabel=x, ylabel=y)
    return figure, axes


def _s_curve(points: list[Point], fingerprint: FingerprintSettings) -> Figure:
    figure, axes = _axes("exact Jaccard of the bodies", "share that a key of the body proposes")
    if fingerprint.family == "minhash":
        x = np.linspace(0.0, 1.0, 201)
        y = proposed(x, Scheme(fingerprint))
        axes.plot(x, y, color=_GREY, label="predicted, with words changed one by one")
    if points:
        measured = np.array([point.measured for point in points])
        # A single cluster has no interval: its bar is the whole scale.
        low, high = np.array([(0, 1) if np.isnan(point.interval[0]) else point.interval for point in points]).T
        axes.errorbar(
            [point.jaccard for point in points], measured, [measured - low, high - measured],
            fmt="o", markersize=4, capsize=2, color=_BLUE, label="measured, 95 % interval",
        )  # fmt: skip
    axes.set(ylim=(-0.03, 1.05))
    axes.legend(frameon=False, loc="upper left")
    return figure


def _trade_off(found: NoveltyReport) -> Figure:
    figure, axes = _axes("repeated: let through with nothing new", "missed: held back with something new")
    axes.plot(
        [point.repeated for point in found.curve], [point.missed for point in found.curve], color=_GREY,
        label="the decision, by decision.novelty",
    )  # fmt: skip
    for point in found.shown():
        is_here = point.threshold == found.present
        axes.plot(point.repeated, point.missed, "o", color=_BLUE if is_here else _GREY, markersize=8 if is_here else 4)
        axes.annotate(f"{point.threshold:g}", (point.repeated, point.missed), (4, 4), textcoords="offset points")
    for rule, one in found.rates.items():
        if rule != DECISION:
            axes.plot(one.repeated, one.missed, "s", color=_ORANGE, markersize=7, label=rule)
    axes.legend(frameon=False)
    return figure
