"""Evaluate the decision on a corpus (`stream-dedup evaluate`), and show the figures on a terminal or as a page.

`evaluate` takes the lines of a file, settings, and labelled pairs, if there are any. It returns an `Evaluation`: the
verdicts by stage; agreement with the labels, on both of their questions; agreement with exact sets; the S-curve,
predicted and measured. The verdicts come from the code of the stream. `sections` describes the figures once, for the
terminal and for a self-contained HTML page with two figures.

The report addresses the person who decides whether to put the deduplicator in front of a feed. The page also shows,
side by side, the items of pairs on which decision and label disagree. It has no scripts and no external resources.
matplotlib, for its figures, comes with the extra `report`.
"""

from __future__ import annotations

import base64
import io
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import InputError
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.phrases import counted
from stream_dedup.settings import DecisionSettings, FingerprintSettings, Settings
from stream_dedup.tools.batch.filter import judge_batches
from stream_dedup.tools.evaluate.exact import (
    INTERVALS,
    Fidelity,
    Point,
    body_sets,
    fidelity,
    held_by_jaccard,
    measured_curve,
)
from stream_dedup.tools.evaluate.labels import Label, by_first_delivery, remarks
from stream_dedup.tools.evaluate.planner import proposed
from stream_dedup.tools.evaluate.rates import (
    DECISION,
    Advice,
    Agreement,
    Interval,
    NoveltyReport,
    agreement,
    judged,
    name_of,
    novelty_report,
    with_name,
)
from stream_dedup.tools.inputs.lines import Line, item_of
from stream_dedup.tools.page.rendering import environment
from stream_dedup.tools.page.retained import JudgedItem, judged_item
from stream_dedup.tools.report import TEXT_CHARS, stand_alone

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ERRORS = {
    "not found": "let through as another, but the same article",
    "another article": "held back or named an update, but another article",
    "missed": "held back, but a reader misses something",
    "repeated": "let through, but with nothing new",
}
"""Kinds of errors, by the names of `Evaluation.errors`."""
# How many pairs are listed for each kind of error, the largest weight first; and how many on the first screen.
_LISTED, _EXAMPLES = 12, 2
_RATES = (
    "missed: share of what is held back that has something new or is another article; repeated: share of the same "
    "articles with nothing new that are let through. Weighted by how many items a pair stands for. Intervals come from "
    "a bootstrap over the sites of the later items, because pairs of one site depend on each other."
)
# These colours also differ in brightness, for grey print and for the colour-blind.
_BLUE, _ORANGE, _GREY = "#1f5fa8", "#e07b00", "#9a9a9a"

Progress = Callable[[str, int, int], None]
"""Called with the name of the current step, the work done, and the total work."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All figures of an evaluation."""

    lines: int
    items: dict[str, int]  # verdict -> items
    stages: dict[str, int]  # "kind: stage" -> items
    agreement: dict[str, Agreement]  # of "all" labels, and of the "sure" ones if some are unsure; empty without labels
    remarks: list[str]  # warnings about the labels
    novelty: NoveltyReport | None  # None unless labels have `new`
    advice: Advice | None  # None unless labels have `new`
    exact: Fidelity
    curve: list[Point]
    shown: dict[str, JudgedItem]  # by id, the items of the errors that are listed

    def as_json(self) -> dict[str, Any]:
        """Return the figures, without the items."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "shown"}

    def errors(self) -> dict[str, list[Label]]:
        """Return the labelled pairs with a wrong decision, by kind of error, the largest weight first."""
        errors: dict[str, list[Label]] = {}
        if agreed := self.agreement.get("all"):
            errors |= {"not found": agreed.not_found, "another article": agreed.another_article}
        if self.novelty:
            errors |= {"missed": self.novelty.missed, "repeated": self.novelty.repeated}
        return {kind: sorted(pairs, key=lambda label: -label.weight) for kind, pairs in errors.items() if pairs}


def evaluate(
    lines: Sequence[Line],
    settings: Settings,
    labels: Sequence[Label] = (),
    *,
    threshold: float = 0.8,
    progress: Progress = lambda step, done, total: None,
) -> Evaluation:
    """Evaluate one corpus. `threshold`: the Jaccard from which exact sets hold an item back.

    A label refers to the first delivery of an id. A label of two deliveries of one id is left out, with a remark.
    Raises InputError if labels name items that the corpus lacks, or if no item of the corpus can be judged.
    """
    total = len(lines)
    verdicts: list[Verdict] = []
    with closing(Decider(settings)) as dedup:
        for batch in judge_batches(dedup, lines):
            verdicts += batch.verdicts
            progress("decide", len(verdicts), total)
    if all(verdict.kind is Kind.BAD for verdict in verdicts):
        raise InputError(_nothing_to_measure(verdicts))
    by_id = by_first_delivery(verdicts)
    warnings = remarks(labels, by_id)
    labels = [label for label in labels if label.earlier != label.later]
    decode = Decoder(settings.item)
    items = [item for line in lines if isinstance(item := item_of(decode, line), Item)]
    sites = {item.id: item.source for item in reversed(items)}
    pairs = judged(labels, by_id, sites) if labels else []
    sure = [pair for pair in pairs if not pair.label.unsure]
    agreements = {"all": agreement(pairs)} if pairs else {}
    if 0 < len(sure) < len(pairs):
        agreements["sure"] = agreement(sure)

    make = Fingerprinter(Scheme(settings.fingerprint))
    progress("exact sets", 0, total)
    sets = body_sets(items, make)
    other_rules = {f"body Jaccard ≥ {threshold:g}": held_by_jaccard(items, sets, threshold)}
    novelty, advice = novelty_report(pairs, other_rules, settings.decision.threshold) or (None, None)
    exact = fidelity(items, sets, settings, threshold, lambda done: progress("exact sets", done, len(items)))
    progress("S-curve", 0, 1)
    kinds = dict(Counter(str(verdict.kind) for verdict in verdicts))
    stages = dict(Counter(f"{verdict.kind}: {verdict.stage}" for verdict in verdicts).most_common())
    curve = measured_curve(items, sets, make)
    evaluation = Evaluation(total, kinds, stages, agreements, warnings, novelty, advice, exact, curve, {})
    wrong = [label for labels in evaluation.errors().values() for label in labels[:_LISTED]]
    names = {label.earlier for label in wrong} | {label.later for label in wrong}
    # Reversed, so that the first delivery of an id wins.
    first = {item.id: item for item in reversed(items) if item.id in names}
    shown = {name: judged_item(item, by_id[name], 0.0, TEXT_CHARS) for name, item in first.items()}
    return replace(evaluation, shown=shown)


def _nothing_to_measure(verdicts: Sequence[Verdict]) -> str:
    """Explain why no item of the corpus can be judged."""
    if not verdicts:
        return "the corpus is empty: there is nothing to measure"
    reason = f" The first: {verdicts[0].reason}" if verdicts[0].reason else ""
    return (
        f"all {len(verdicts):,} items of the corpus are bad: there is nothing to measure; `stream-dedup check FILE` "
        f"shows how its records are read.{reason}"
    )


Row = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A question and its answer."""

    title: str  # the question
    text: Sequence[str] = ()  # sentences that answer it
    columns: tuple[str, ...] = ()  # of the table that answers it
    rows: Sequence[Row] = ()
    figure: str = ""  # the name of its figure
    labels: Sequence[Label] = ()  # whose items are shown


def sections(evaluation: Evaluation) -> Iterator[Section]:
    """Yield the sections: the answer, the pairs where decision and label disagree, what was measured, then the curves.

    The curves help those who choose another layout or value; most readers need none of them.
    """
    yield Section("In short", list(answer(evaluation)))
    for kind, pairs in evaluation.errors().items():
        rows: list[Row] = [(pair.earlier, pair.later, pair.label, f"{pair.weight:g}") for pair in pairs[:_LISTED]]
        title, columns = f"{_ERRORS[kind].capitalize()}: {len(pairs)}", Label.__struct_fields__[:4]
        yield Section(title, [], columns, rows, labels=pairs[:_LISTED])
    agreements = evaluation.agreement.items()
    rows = [
        (name, measured.pairs, *intervals(measured, "recall", "precision"), rate(measured.f1))
        for name, measured in agreements
    ]
    said = [] if rows else ["No judged pairs were given (--labels)."]
    columns = ("pairs", "count", "recall (95 %)", "precision (95 %)", "F1")
    yield Section("Does it agree with readers?", said, columns, rows)
    novelty = evaluation.novelty
    if novelty:
        yield _rates_section(novelty)
    if evaluation.advice and evaluation.advice.pairs and novelty:
        yield advice_section(evaluation.advice, novelty.present)
    rows = [(name, count, f"{count / evaluation.lines:.2%}") for name, count in evaluation.stages.items()]
    judged = f"{evaluation.lines:,} items were judged in order of arrival."
    yield Section("What it decides", [judged], ("verdict: stage", "items", "share"), rows)
    exact = evaluation.exact
    by_rule = f"By the plain rule (body Jaccard ≥ {exact.threshold:g}), of {exact.items:,} items with a body, at "
    rates = (rate(value, 4) for value in (exact.agreement, exact.recall, exact.precision))
    rows = [(*rates, exact.held_exactly, exact.misses, exact.false_drops)]
    columns = ("agreement", "recall", "precision", "held back exactly", "missed", "held back wrongly")
    yield Section("Does it agree with exact sets?", [f"{by_rule}{exact.sketch_bytes:,} bytes a body."], columns, rows)
    if novelty and novelty.curve:
        yield _trade_off_section(novelty)
    rows = []
    for point in evaluation.curve:
        jaccard, measured = f"{point.low:.2f} to {point.high:.2f}", with_interval(point.measured, point.interval)
        rows.append((jaccard, point.pairs, f"{point.clusters:.1f}", measured, rate(point.predicted)))
    columns = ("Jaccard", "pairs", "clusters", "proposed (95 %)", "predicted")
    yield Section("Does the index propose what it should?", [INTERVALS], columns, rows, "s-curve")


def examples(evaluation: Evaluation) -> Section:
    """Return the headlines of the weightiest pairs in each kind of error, for the first screen; none is no row."""
    rows: list[Row] = []
    for kind, pairs in evaluation.errors().items():
        for pair in pairs[:_EXAMPLES]:
            sides = (evaluation.shown.get(name) for name in (pair.earlier, pair.later))
            rows.append((_ERRORS[kind], *(side.title if side else "-" for side in sides)))
    return Section("Where decision and label disagree", (), ("what", "earlier", "later"), rows)


def answer(evaluation: Evaluation) -> Iterator[str]:
    """Yield three lines: what is held back, whether readers agree, and what to do."""
    held = evaluation.items.get(Kind.DUPLICATE, 0)
    updates = counted(evaluation.items.get(Kind.UPDATE, 0), "update")
    yield f"Held back: {held:,} of {evaluation.lines:,} items ({held / evaluation.lines:.1%}); {updates}."
    if not evaluation.agreement:
        yield "Only readers can say whether that is right: no judged pairs were given (--labels)."
        yield "Label sixty pairs of your feed with `stream-dedup sample`."
        return
    agreed = evaluation.agreement["all"]
    errors = ""
    if evaluation.novelty:
        rates = evaluation.novelty.rates[DECISION]
        errors = f"; missed {rate(rates.missed)}, repeated {rate(rates.repeated)}"
    yield (
        f"By {counted(agreed.pairs, 'labelled pair')}, {rate(agreed.precision)} of what was held back or named an "
        f"update is the same article{errors}."
    )
    advice = evaluation.advice
    yield advice.remark() if advice else "Labels with `new` would say which decision.novelty fits this feed."


def _rates_section(novelty: NoveltyReport) -> Section:
    rows: list[Row] = [
        (rule, measured.held, *intervals(measured, "missed", "repeated")) for rule, measured in novelty.rates.items()
    ]
    columns = ("rule", "held", "missed (95 %)", "repeated (95 %)")
    return Section(f"Would a reader miss something? {novelty.rates[DECISION].rows} pairs", [_RATES], columns, rows)


def _trade_off_section(novelty: NoveltyReport) -> Section:
    said = (
        f"decision.novelty moves along the curve; it is {novelty.present:g}. {novelty.carrying} labelled items "
        "have a novelty. The curve comes from this run: the remembered originals stay the same."
    )
    rows: list[Row] = []
    for point in novelty.shown():
        mark = "the settings" if point.threshold == novelty.present else ""
        rows.append((with_name(point.threshold), rate(point.missed), rate(point.repeated), mark))
    return Section("The trade-off", [said], ("decision.novelty", "missed", "repeated", ""), rows, "novelty")


def advice_section(advice: Advice, present: float) -> Section:
    """Show the `decision.novelty` that the labels recommend, with the rates of missed and repeated of each value."""
    marks = ((DecisionSettings().threshold, "default"), (present, "present"), (advice.novelty, "recommended"))
    rows: list[Row] = []
    for value, measured in advice.rates.items():
        note = ", ".join(text for marked, text in marks if marked == value)
        rows.append((with_name(value), measured.held, *intervals(measured, "missed", "repeated"), note))
    said = [advice.remark()]
    if advice.novelty not in (None, present):
        said.append(f'[decision]\nnovelty = "{name_of(advice.novelty)}"')
    columns = ("novelty", "held", "missed (95 %)", "repeated (95 %)", "")
    return Section("Which threshold fits this feed?", said, columns, rows)


def rate(value: float, digits: int = 3) -> str:
    """Format a rate; undefined is a dash."""
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def with_interval(value: float, interval: Interval) -> str:
    """Format a rate with its interval, if it has one."""
    low, high = interval
    return rate(value) if math.isnan(low) else f"{rate(value)} ({rate(low)}-{rate(high)})"


def intervals(result: object, *names: str) -> list[str]:
    """Format rates of a result, each with its interval."""
    return [with_interval(getattr(result, name), getattr(result, f"{name}_interval")) for name in names]


def page(evaluation: Evaluation, title: str, plots: Mapping[str, Figure], settings: Settings) -> str:
    """Make the page. `title`: the name of the corpus; `plots`: from `figures`."""
    images = {name: base64.b64encode(_svg(figure)).decode() for name, figure in plots.items()}
    made = environment(settings, lambda _, line: f"line {line}")
    shown = {"sections": list(sections(evaluation)), "images": images, "shown": evaluation.shown, "listed": _LISTED}
    return stand_alone(made, "evaluation.html", title=title, **shown)


def figures(evaluation: Evaluation, fingerprint: FingerprintSettings) -> dict[str, Figure]:
    """Draw the S-curve and, if the labels give one, the trade-off; by the names that the sections have for them."""
    drawn = {"s-curve": _s_curve(evaluation.curve, fingerprint)}
    if evaluation.novelty and evaluation.novelty.curve:
        drawn["novelty"] = _trade_off(evaluation.novelty)
    return drawn


def _svg(figure: Figure) -> bytes:
    """Return the figure as an SVG file, without a date and with fixed ids: the same figure has the same bytes."""
    import matplotlib as mpl

    target = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "stream-dedup", "svg.fonttype": "path"}):
        figure.savefig(target, format="svg", metadata={"Date": None})
    return target.getvalue()


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
        low, high = np.array([point.interval for point in points]).T
        axes.errorbar(
            [point.jaccard for point in points], measured, [measured - low, high - measured],
            fmt="o", markersize=4, capsize=2, color=_BLUE, label="measured, 95 % interval",
        )  # fmt: skip
    axes.set(ylim=(-0.03, 1.05))
    axes.legend(frameon=False, loc="lower right")
    return figure


def _trade_off(novelty: NoveltyReport) -> Figure:
    figure, axes = _axes("repeated: let through with nothing new", "missed: held back with something new")
    axes.plot(
        [point.repeated for point in novelty.curve], [point.missed for point in novelty.curve], color=_GREY,
        label="the decision, by decision.novelty",
    )  # fmt: skip
    for point in novelty.shown():
        is_here = point.threshold == novelty.present
        axes.plot(point.repeated, point.missed, "o", color=_BLUE if is_here else _GREY, markersize=8 if is_here else 4)
        axes.annotate(f"{point.threshold:g}", (point.repeated, point.missed), (4, 4), textcoords="offset points")
    for rule, measured in novelty.rates.items():
        if rule != DECISION:
            axes.plot(measured.repeated, measured.missed, "s", color=_ORANGE, markersize=7, label=rule)
    axes.legend(frameon=False)
    return figure
