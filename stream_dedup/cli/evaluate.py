"""`stream-dedup evaluate CORPUS`: compare the decision with readers' labels and with exact similarities."""

import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from stream_dedup.cli.common import ConfigOption, ForceOption, JsonOption, new_console, print_json
from stream_dedup.errors import InputError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from stream_dedup.evaluate.evaluation import Evaluation
    from stream_dedup.evaluate.novelty import NoveltyReport
    from stream_dedup.evaluate.sweep import SweepPoint
    from stream_dedup.settings import Settings

# Kinds of errors, by the names of Evaluation.errors.
_ERRORS = {
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
        typer.Option("--labels", help="Labelled pairs, as JSON Lines: earlier, later, label, new, weight, unsure."),
    ] = None,
    of_corpus: Annotated[
        str | None,
        typer.Option("--corpus", metavar="NAME", help="Use the labels whose `corpus` is NAME."),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(
            "--threshold",
            metavar="NUMBER",
            min=0.1,
            max=1.0,
            help="Jaccard threshold of the comparison with exact sets.",
        ),
    ] = 0.8,
    sweep: Annotated[
        bool,
        typer.Option(
            "--sweep",
            help="Also run with the threshold varied (simhash: the distance and the layout), and show what each step "
            "adds; implied by --plots and --report.",
        ),
    ] = False,
    plots: Annotated[Path | None, typer.Option("--plots", help="Folder for figures, PNG and SVG.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="File for the report, a single HTML page.")] = None,
    force: ForceOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the decision on your own corpus and labels.

    Compares it with readers' labels, with exact sets and with the theoretical S-curve of banding.

    A label is a line such as {"earlier": "id 1", "later": "id 2", "label": "copy", "new": "no"}. `label` says whether
    the two are the same article: copy, cut, update; or another: template, furniture, different. Also accepted: same,
    duplicate, dup, distinct, boilerplate, yes, no, true, false, 1, 0. Any other word is an error.

    `new` says whether a reader of the earlier item would miss something of the later one: yes, no, little. With it the
    command also prints the shares missed and repeated, those of simpler rules, and the trade-off between the two.
    """
    from stream_dedup.batch.lines import LineReader
    from stream_dedup.evaluate.evaluation import evaluate
    from stream_dedup.evaluate.labels import read_labels
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    if of_corpus is not None and labels is None:
        raise UsageError("--corpus selects labels: name their file with --labels")
    if plots or report:
        from stream_dedup.evaluate.plots import require

        require()  # fail now, not after minutes of work
        if not force:
            _check_free(plots, report)
    elif force:
        raise UsageError("--force is for --plots and --report, which write files")
    pairs = read_labels(labels, of_corpus) if labels else []
    if labels and not pairs:
        raise InputError(f"{labels} holds no labels; a label is a line with earlier, later and label")
    lines = list(LineReader([str(corpus)], None))
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} of {task.total}"),
        TimeElapsedColumn(), console=new_console(stderr=True), disable=not sys.stderr.isatty(), transient=True,
    ) as bars:  # fmt: skip
        tasks = {}

        def progress(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total)

        evaluation = evaluate(
            lines,
            settings,
            pairs,
            threshold=threshold,
            with_sweep=sweep or plots is not None or report is not None,
            progress=progress,
        )
    if plots or report:
        _write(evaluation, settings, f"stream-dedup on {corpus.name}", plots, report)
    if as_json:
        print_json(evaluation.as_json())
    else:
        _print(evaluation)


def _check_free(plots: Path | None, report: Path | None) -> None:
    from stream_dedup.batch.outputs import check_free, target

    if report:
        check_free({"--report": target(report)})
    if plots and plots.is_dir() and any(plots.iterdir()):
        raise UsageError(f"{plots} is not empty; name another folder for --plots, or let --force replace its figures")


def _write(evaluation: "Evaluation", settings: "Settings", title: str, plots: Path | None, report: Path | None) -> None:
    from stream_dedup.evaluate.plots import figures, save
    from stream_dedup.evaluate.report import page

    drawn = figures(evaluation, settings.fingerprint)
    if plots:
        save(drawn, plots)
    if report:
        try:
            report.write_text(page(evaluation, title, drawn), "utf-8")
        except OSError as error:
            raise InputError(f"cannot write the report to {report}: {error.strerror}") from None


def _print(evaluation: "Evaluation") -> None:
    from stream_dedup.cli.advice import print_advice, rate, with_interval
    from stream_dedup.cli.console import warn
    from stream_dedup.evaluate.curve import INTERVALS

    console = new_console()
    if evaluation.labels:
        columns = ("pairs", "count", "recall (95 %)", "precision (95 %)", "F1 (95 %)", "ARI")
        table = Table(*columns, box=None, padding=(0, 1, 0, 0), pad_edge=False)  # fits 80 columns
        for name, scores in evaluation.labels.items():
            cells = [
                with_interval(scores.recall, scores.recall_interval),
                with_interval(scores.precision, scores.precision_interval),
                with_interval(scores.f1, scores.f1_interval),
            ]
            table.add_row(name, str(scores.pairs), *cells, f"{scores.ari:.3f}")
        console.print(table)
    for remark in evaluation.remarks:
        warn(console, remark)
    if evaluation.novelty:
        _print_novelty(evaluation.novelty, console)
        if evaluation.advice:
            print_advice(evaluation.advice, evaluation.novelty.present, console)
    console.print("  ".join(f"{name}: {count}" for name, count in evaluation.stages.items()))
    oracle = evaluation.oracle
    console.print(
        f"exact sets at Jaccard {oracle.threshold:g}: agreement {oracle.agreement:.4f} of {oracle.items} items, "
        f"{oracle.sketch_bytes} bytes a body; {oracle.held_exactly} held back exactly, {oracle.misses} missed, "
        f"{oracle.false_drops} held back wrongly"
    )
    table = Table("exact Jaccard", "items", "missed", "held back wrongly")
    for band in oracle.bands:
        table.add_row(f"{band.low:g} to {band.high:g}", str(band.items), str(band.misses), str(band.false_drops))
    console.print(table)
    table = Table("Jaccard", "pairs", "clusters", "proposed (95 %)", "predicted")
    for point in evaluation.curve:
        table.add_row(
            f"{point.low:.2f} to {point.high:.2f}",
            str(point.pairs),
            f"{point.clusters:.1f}",
            with_interval(point.measured, point.interval),
            rate(point.predicted),
        )
    console.print(table)
    console.print(INTERVALS)
    if evaluation.sweep:
        _print_sweep(evaluation.sweep, console)
    for kind, pairs in evaluation.errors().items():
        for label in pairs:
            console.print(
                f"{_ERRORS[kind]}: {label.earlier} and {label.later}, labelled {label.label} (weight {label.weight:g})",
                soft_wrap=True,
            )


def _print_sweep(points: "list[SweepPoint]", console: "Console") -> None:
    from stream_dedup.cli.advice import rate

    has_layouts = any(point.layout for point in points)
    columns = ["value", *(["layout"] if has_layouts else []), "held", "recall", "prec.", "missed", "repeated", "found"]
    table = Table(*columns, box=None, padding=(0, 2, 0, 0), pad_edge=False)  # fits 80 columns
    for p in points:
        rates = (rate(share) for share in (p.recall, p.precision, p.missed, p.repeated))
        layout = [p.layout] if has_layouts else []
        table.add_row(p.title, *layout, f"{p.held_share:.2%}", *rates, f"{p.candidates:.3g}")
    console.print(f"{points[0].setting}, a run for each value:")
    console.print(table)
    console.print("held: share held back; found: candidates an item")
    for p in points:
        if p.examples:
            pairs = ", ".join(f"{item} for {original}" for original, item in p.examples)
            console.print(f"held back from {p.title} on: {pairs}", soft_wrap=True)
    if any(p.examples for p in points):
        console.print("`stream-dedup explain ID ID --in CORPUS` shows such a pair.")


def _print_novelty(report: "NoveltyReport", console: "Console") -> None:
    from stream_dedup.cli.advice import rate, with_interval
    from stream_dedup.settings.decision import with_name

    table = Table("pairs and rule", "held", "missed (95 %)", "repeated (95 %)")
    for (title, pairs), rules in groupby(report.groups, key=lambda group: (group.title, group.rates.rows)):
        table.add_row(f"{title}: {pairs}", style="bold")
        for rule in rules:
            rates = rule.rates
            missed = with_interval(rates.missed, rates.missed_interval)
            repeated = with_interval(rates.repeated, rates.repeated_interval)
            table.add_row(f"  {rule.rule}", str(rates.held), missed, repeated)
        table.add_section()
    console.print(table)
    if report.curve:
        table = Table(report.setting, "missed", "repeated", "")
        for point in report.shown():
            note = "present setting" if point.threshold == report.present else ""
            table.add_row(with_name(point.threshold), rate(point.missed), rate(point.repeated), note)
        console.print(table)
    for remark in report.remarks():
        console.print(remark)
