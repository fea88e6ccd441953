"""`stream-dedup evaluate CORPUS`: compare the decision with readers' labels and with exact sets (evaluate/)."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stream_dedup.batch.lines import LineReader
from stream_dedup.cli import common
from stream_dedup.errors import InputError, UsageError
from stream_dedup.evaluate.evaluation import Section, evaluate, figures, page, require_matplotlib, sections
from stream_dedup.evaluate.labels import read_labels
from stream_dedup.settings import load_settings


def evaluate_command(
    corpus: Annotated[
        Path,
        typer.Argument(metavar="CORPUS", help="JSON Lines (.gz, .zst), in order of arrival; - for standard input."),
    ],
    labels: Annotated[
        Path | None,
        typer.Option(help="Labelled pairs, as JSON Lines: earlier, later, label, new, weight, unsure."),
    ] = None,
    of_corpus: Annotated[
        str | None, typer.Option("--corpus", metavar="NAME", help="Use the labels whose `corpus` is NAME.")
    ] = None,
    threshold: Annotated[
        float, common.number("Jaccard threshold of the comparison with exact sets.", min=0.1, max=1.0)
    ] = 0.8,
    report: Annotated[
        Path | None,
        typer.Option(help="A page for a browser (HTML): the figures, and the pairs where decision and label disagree."),
    ] = None,
    force: common.ForceOption = False,
    config: common.ConfigOption = None,
    as_json: common.JsonOption = False,
) -> None:
    """Measure the decision on your own corpus and labels.

    Compares it with readers' labels, with exact sets and with the theoretical S-curve of banding.

    A label is a line such as {"earlier": "id 1", "later": "id 2", "label": "copy", "new": "no"}. `label` says whether
    the two are the same article: copy, cut, update; or another: template, furniture, different. Also accepted: same,
    duplicate, dup, distinct, boilerplate, yes, no, true, false, 1, 0. Any other word is an error.

    `new` says whether a reader of the earlier item would miss something of the later one: yes, no, little. With it the
    command also prints the shares missed and repeated, those of a simpler rule, the trade-off between the two, and the
    name of decision.novelty that fits your labels.
    """
    settings = load_settings(config)
    if of_corpus is not None and labels is None:
        raise UsageError("--corpus selects labels: name their file with --labels")
    if report:
        require_matplotlib()  # fail now, not after minutes of work
    pairs = read_labels(labels, of_corpus) if labels else []
    if labels and not pairs:
        raise InputError(f"{labels} holds no labels; a label is a line with earlier, later and label")
    with common.report_output(report, force, str(corpus)) as write:
        lines = list(LineReader([str(corpus)], None))
        with common.progress_bars() as bars:
            found = evaluate(lines, settings, pairs, threshold=threshold, progress=bars)
        if report:
            write(page(found, f"stream-dedup on {corpus.name}", figures(found, settings.fingerprint), settings))
    console = common.result_console(report)
    if as_json:
        common.print_json(found.as_json(), err=console.stderr)
        return
    for remark in found.remarks:
        common.warn(console, remark)
    for section in sections(found):
        print_section(console, section)


def print_section(console: Console, section: Section) -> None:
    """Print a part of the report."""
    console.print(f"\n{section.title}", style="bold")
    for text in section.text:
        console.print(text)
    if section.rows:
        common.print_table(console, section.columns, section.rows)
