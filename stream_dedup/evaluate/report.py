"""Write an `Evaluation` as a self-contained HTML page: inline figures, no scripts, no external resources.

It addresses the person who decides whether to put the deduplicator in front of a feed: first the verdicts, then the
agreement with labels and exact sets, the index, and the effect of the thresholds. It shows ids but never texts.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from stream_dedup.evaluate.curve import INTERVALS
from stream_dedup.evaluate.evaluation import Evaluation
from stream_dedup.evaluate.plots import svg
from stream_dedup.settings.judging import with_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Pairs listed for each kind of error, the largest weight first.
_LISTED = 12
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: .5rem 0 1.5rem } th, td { padding: .2rem .9rem .2rem 0; text-align: left }
th { border-bottom: 1px solid #999 } td { border-bottom: 1px solid #e4e4e4; font-variant-numeric: tabular-nums }
svg { max-width: 100%; height: auto } h2 { margin-top: 2.2rem } p { max-width: 46rem }
"""


def page(found: Evaluation, title: str, plots: Mapping[str, Figure]) -> str:
    """Make the page. `title`: the name of the corpus; `plots`: from `plots.figures`."""

    def figure(name: str) -> str:
        return f"<figure>{svg(plots[name])}</figure>" if name in plots else ""

    held = sum(count for name, count in found.stages.items() if name.startswith("duplicate"))
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f"<p>{found.lines:,} items were judged in order of arrival; {held:,} are near-duplicates "
        f"({_share(held, found.lines)}).</p>",
        figure("stages"),
        figure("similarity"),
        "<h2>Does it agree with readers?</h2>",
        *_readers(found),
        *_novelty(found, figure("novelty")),
        *_errors(found),
        "<h2>Does it agree with exact sets?</h2>",
        *_oracle(found),
        "<h2>Does the index propose what it should?</h2>",
        f"<p>The line is the textbook's probability, the dots are real pairs with their exact Jaccard. {INTERVALS}</p>",
        figure("s-curve"),
    ]
    if found.sweep:
        parts += ["<h2>How the threshold acts</h2>", figure("sweep"), *_sweep(found)]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def _readers(found: Evaluation) -> Iterable[str]:
    if not found.labels:
        yield "<p>No judged pairs were given (<code>--labels</code>).</p>"
        return
    yield _table(
        ("pairs", "count", "recall", "95 %", "precision", "95 %", "F1", "95 %", "ARI"),
        (
            (
                name,
                agreement.pairs,
                _rate(agreement.recall),
                _interval(agreement.recall_interval),
                _rate(agreement.precision),
                _interval(agreement.precision_interval),
                _rate(agreement.f1),
                _interval(agreement.f1_interval),
                _rate(agreement.ari),
            )
            for name, agreement in found.labels.items()
        ),
    )
    yield (
        "<p>Rates are weighted by how many items a pair stands for; intervals (95 %) are Wilson's, of as many pairs "
        "as the weights are worth. "
        "The adjusted Rand index compares clusters of the labelled items, unweighted; pairs without a label "
        "count as different, so it is a lower bound.</p>"
    )


def _novelty(found: Evaluation, curve: str) -> Iterable[str]:
    novelty = found.novelty
    if novelty is None:
        return
    yield "<h2>Would a reader miss something?</h2>"
    yield from (f"<p>{html.escape(said)}</p>" for said in novelty.remarks())
    yield _table(
        ("pairs", "rule", "count", "held back", "missed", "95 %", "repeated", "95 %"),
        (
            (
                group.title,
                group.rule,
                group.rates.rows,
                group.rates.held,
                _rate(group.rates.missed),
                _interval(group.rates.missed_interval),
                _rate(group.rates.repeated),
                _interval(group.rates.repeated_interval),
            )
            for group in novelty.groups
        ),
    )
    if found.advice and found.advice.pairs:
        yield f"<p>{html.escape(found.advice.remark())}</p>"
    if novelty.curve:
        yield curve
        yield _table(
            (novelty.setting, "missed", "repeated", ""),
            (
                (
                    with_name(point.threshold),
                    _rate(point.missed),
                    _rate(point.repeated),
                    "the settings" if point.threshold == novelty.present else "",
                )
                for point in novelty.shown()
            ),
        )


def _errors(found: Evaluation) -> Iterable[str]:
    for what, pairs in found.errors().items():
        yield f"<h3>{what.capitalize()}: {len(pairs)}</h3>" + _table(
            ("label", "earlier", "later", "weight"),
            ((label.label, label.earlier, label.later, f"{label.weight:g}") for label in pairs[:_LISTED]),
        )


def _oracle(found: Evaluation) -> Iterable[str]:
    oracle = found.oracle
    yield (
        f"<p>By the plain rule (body Jaccard ≥ {oracle.threshold:g}) the stream and an exact "
        f"deduplicator say the same of <b>{_rate(oracle.agreement, 4)}</b> of {oracle.items:,} items, at "
        f"{oracle.sketch_bytes:,} bytes a body. Exact sets hold back {oracle.held_exactly:,}; the stream misses "
        f"{oracle.misses:,} of them and drops {oracle.false_drops:,} others.</p>"
    )
    yield _table(
        ("exact Jaccard", "items", "missed", "held back wrongly"),
        ((f"{band.low:g} to {band.high:g}", band.items, band.misses, band.false_drops) for band in oracle.bands),
    )


def _sweep(found: Evaluation) -> Iterable[str]:
    yield (
        "<p>Each row is a run of its own. Examples: original and item, held back in this row, let through in the row "
        "above; <code>stream-dedup explain</code> shows such a pair. Candidates are the distinct originals that the "
        "index proposes for an item, on average.</p>"
    )
    yield _table(
        (
            "threshold", "value", "layout", "held back", "recall", "precision", "missed", "repeated",
            "candidates an item", "examples",
        ),
        (
            (
                p.name, p.title, p.layout, f"{p.held_share:.2%}", _rate(p.recall), _rate(p.precision),
                _rate(p.missed), _rate(p.repeated), f"{p.candidates:.3g}",
                "; ".join(f"{original} and {item}" for original, item in p.examples),
            )
            for p in found.sweep
        ),
    )  # fmt: skip


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    def line(tag: str, cells: Iterable[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line("th", heads) + "".join(line("td", row) for row in rows) + "</table>"


def _rate(value: float, digits: int = 3) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def _interval(values: tuple[float, float]) -> str:
    return f"{_rate(values[0])} – {_rate(values[1])}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else "none"
