"""`stream-dedup evaluate CORPUS`: does the decision agree with a reader, and with exact sets?"""

import math
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from stream_dedup.cli.common import ConfigOption, JsonOption
from stream_dedup.errors import ConfigError, InputError

if TYPE_CHECKING:
    from stream_dedup.evaluate.evaluation import Evaluation
    from stream_dedup.evaluate.novelty import NoveltyReport
    from stream_dedup.settings import Settings

# What the decision got wrong, by the names of Evaluation.errors.
_WRONG = {
    "not found": "let through as another, but the same article",
    "another article": "held back or named an update, but another article",
    "missed": "held back, but a reader misses something",
    "repeated": "let through, but with nothing new",
}


def evaluate_command(
    corpus: Annotated[
        Path,
        typer.Argument(metavar="CORPUS", help="JSON Lines (.gz, .zst), in order of arrival; - for standard input."),
    ],
    labels: Annotated[
        Path | None,
        typer.Option("--labels", help="Judged pairs, as JSON Lines: earlier, later, label, new, weight, unsure."),
    ] = None,
    of_corpus: Annotated[
        str | None,
        typer.Option("--corpus", metavar="NAME", help="With labels of several corpora: those whose `corpus` is this."),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(
            "--threshold", metavar="NUMBER", min=0.1, max=1.0, help="Jaccard at which exact sets are compared."
        ),
    ] = 0.8,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Also run with each threshold moved; implied by --plots and --report.")
    ] = False,
    plots: Annotated[Path | None, typer.Option("--plots", help="Folder for figures, PNG and SVG.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="File for a report, one HTML page.")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the decision on your own corpus and labels.

    It is compared with readers' labels, with exact sets and with the textbook's S-curve.

    A label is a line such as {"earlier": "id 1", "later": "id 2", "label": "copy", "new": "no"}. `label` says whether
    the two are the same article: copy, cut, update; or another: template, furniture, different. Also understood: same,
    duplicate, dup, distinct, yes, no, true, false, 1, 0. Any other word is an error.

    With `new` a label says whether a reader of the earlier item would miss something of the later one: yes, no, little.
    Then it tells what is missed and what is repeated, beside simpler rules, and the curve between the two.
    """
    from stream_dedup.batch.lines import read_lines
    from stream_dedup.evaluate.evaluation import evaluate
    from stream_dedup.evaluate.labels import read_labels
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    if of_corpus and not labels:
        raise ConfigError("--corpus chooses among labels: name their file with --labels")
    if plots or report:
        from stream_dedup.evaluate.plots import require

        require()  # before the minutes, not after them
    judged = read_labels(labels, of_corpus) if labels else []
    if labels and not judged:
        raise InputError(f"{labels} holds no labels; a label is a line with earlier, later and label")
    lines = list(read_lines(corpus))
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} of {task.total}"),
        TimeElapsedColumn(), console=Console(emoji=False, stderr=True), disable=not sys.stderr.isatty(), transient=True,
    ) as bars:  # fmt: skip
        tasks = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        found = evaluate(
            lines,
            settings,
            judged,
            threshold=threshold,
            with_sweep=sweep or plots is not None or report is not None,
            progress=progress,
        )
    if plots or report:
        _write(found, settings, f"stream-dedup on {corpus.name}", plots, report)
    if as_json:
        sys.stdout.write(msgspec.json.encode(found.as_json()).decode() + "\n")
    else:
        _print(found)


def _write(found: "Evaluation", settings: "Settings", title: str, plots: Path | None, report: Path | None) -> None:
    from stream_dedup.evaluate.plots import figures, save
    from stream_dedup.evaluate.report import page

    drawn = figures(found, settings.fingerprint)
    if plots:
        save(drawn, plots)
    if report:
        try:
            report.write_text(page(found, title, drawn), "utf-8")
        except OSError as error:
            raise InputError(f"cannot write the report to {report}: {error.strerror}") from None


def _print(found: "Evaluation") -> None:
    console = Console(emoji=False, highlight=False)
    if found.labels:
        columns = ("pairs", "count", "recall (95 %)", "precision (95 %)", "F1 (95 %)", "ARI")
        table = Table(*columns, box=None, padding=(0, 1, 0, 0), pad_edge=False)  # fits 80 columns
        for name, one in found.labels.items():
            cells = []
            for rate, interval in (
                (one.recall, one.recall_interval),
                (one.precision, one.precision_interval),
                (one.f1, one.f1_interval),
            ):
                cells.append(_with_interval(rate, interval))
            table.add_row(name, str(one.pairs), *cells, f"{one.ari:.3f}")
        console.print(table)
    for said in found.remarks:
        console.print(f"[bold yellow]warning:[/] {escape(said)}", soft_wrap=True)
    if found.novelty:
        _print_novelty(found.novelty, console)
    console.print("  ".join(f"{name}: {count}" for name, count in found.stages.items()))
    oracle = found.oracle
    console.print(
        f"exact sets at Jaccard {oracle.threshold:g}: agreement {oracle.agreement:.4f} of {oracle.items} items, "
        f"{oracle.sketch_bytes} bytes a body; {oracle.held_exactly} held back exactly, {oracle.misses} missed, "
        f"{oracle.false_drops} dropped falsely"
    )
    table = Table("exact Jaccard", "items", "missed", "dropped falsely")
    for band in oracle.bands:
        table.add_row(f"{band.low:g} to {band.high:g}", str(band.items), str(band.misses), str(band.false_drops))
    console.print(table)
    table = Table("Jaccard", "pairs", "proposed", "predicted", "± 2 s.e.")
    for point in found.curve:
        table.add_row(
            f"{point.low:.2f} to {point.high:.2f}",
            str(point.pairs),
            f"{point.measured:.3f}",
            "-" if math.isnan(point.predicted) else f"{point.predicted:.3f}",
            "-" if math.isnan(point.error) else f"{2 * point.error:.3f}",
        )
    console.print(table)
    if found.sweep:
        table = Table("threshold", "value", "held back", "recall", "precision", "F1")
        for p in found.sweep:
            table.add_row(
                p.name, f"{p.value:g}", f"{p.held_share:.2%}", f"{p.recall:.3f}", f"{p.precision:.3f}", f"{p.f1:.3f}"
            )
        console.print(table)
    for what, pairs in found.errors().items():
        for label in pairs:
            console.print(
                f"{_WRONG[what]}: {label.earlier} and {label.later}, labelled {label.label} (weight {label.weight:g})",
                markup=False,
                soft_wrap=True,
            )


def _print_novelty(found: "NoveltyReport", console: Console) -> None:
    table = Table("pairs and rule", "held", "missed (95 %)", "repeated (95 %)")
    for (title, pairs), rules in groupby(found.groups, key=lambda one: (one.title, one.rates.rows)):
        table.add_row(f"{escape(title)}: {pairs}", style="bold")
        for one in rules:
            rates = one.rates
            missed = _with_interval(rates.missed, rates.missed_interval)
            repeated = _with_interval(rates.repeated, rates.repeated_interval)
            table.add_row(f"  {one.rule}", str(rates.held), missed, repeated)
        table.add_section()
    console.print(table)
    if found.curve:
        table = Table(found.setting, "missed", "repeated", "")
        for point in found.shown():
            here = "the settings" if point.threshold == found.present else ""
            table.add_row(f"{point.threshold:g}", _rate(point.missed), _rate(point.repeated), here)
        console.print(table)
    for said in found.remarks():
        console.print(said, markup=False)


def _rate(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _with_interval(value: float, interval: tuple[float, float]) -> str:
    low, high = interval
    return _rate(value) if math.isnan(low) else f"{_rate(value)} ({_rate(low)}-{_rate(high)})"
