"""`stream-dedup evaluate CORPUS`: does the decision agree with a reader, and with exact sets?"""

import math
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from stream_dedup.batch.lines import read_lines
from stream_dedup.cli.common import ConfigOption, JsonOption
from stream_dedup.errors import InputError
from stream_dedup.evaluate.evaluation import Evaluation, evaluate
from stream_dedup.evaluate.labels import read_labels
from stream_dedup.settings import Settings, load_settings


def evaluate_command(
    corpus: Annotated[Path, typer.Argument(help="JSON Lines (.gz, .zst), in order of arrival; - for standard input.")],
    labels: Annotated[
        Path | None, typer.Option("--labels", help="Judged pairs: earlier, later, label, weight, unsure.")
    ] = None,
    threshold: Annotated[
        float, typer.Option("--threshold", min=0.1, max=1.0, help="Jaccard at which exact sets are compared.")
    ] = 0.8,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Also run with each threshold moved; implied by --plots and --report.")
    ] = False,
    plots: Annotated[Path | None, typer.Option("--plots", help="Folder for figures, PNG and SVG.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="File for a report, one HTML page.")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the decision on a corpus: against readers' labels, exact sets and the textbook's S-curve."""
    settings = load_settings(config)
    if plots or report:
        from stream_dedup.evaluate.plots import require

        require()  # before the minutes, not after them
    judged = read_labels(labels) if labels else []
    lines = list(read_lines(corpus))
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} of {task.total}"),
        TimeElapsedColumn(), console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True,
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


def _write(found: Evaluation, settings: Settings, title: str, plots: Path | None, report: Path | None) -> None:
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


def _print(found: Evaluation) -> None:
    console = Console(highlight=False)
    if found.labels:
        table = Table("pairs", "count", "recall (95 %)", "precision (95 %)", "F1 (95 %)", "ARI")
        for name, one in found.labels.items():
            cells = []
            for rate, interval in (
                (one.recall, one.recall_interval),
                (one.precision, one.precision_interval),
                (one.f1, one.f1_interval),
            ):
                cells.append(f"{rate:.3f} ({interval[0]:.3f} - {interval[1]:.3f})")
            table.add_row(name, str(one.pairs), *cells, f"{one.ari:.3f}")
        console.print(table)
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
    every = found.labels.get("all")
    for title, pairs in (("missed", every.missed), ("held back wrongly", every.false_drops)) if every else ():
        for label in sorted(pairs, key=lambda one: -one.weight):
            console.print(
                f"{title}: {label.label} {label.earlier} {label.later} (weight {label.weight:g})",
                markup=False,
                soft_wrap=True,
            )
