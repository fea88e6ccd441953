"""`evaluate CORPUS` and `sample DIRECTORY`: measure the decision on labels, and label a sample of decisions.

`sample` draws pairs from the worker's topics or the files of `filter`, and keeps pairs, labels and records in a
directory (tools/evaluate/sampling.py). A person answers two questions for each pair: is it the same article, and if
so, is anything new? A different article is always new. The program hides its own verdict until the pair is labelled,
because the verdict would bias the person.
"""

from __future__ import annotations

import math
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from stream_dedup import cli
from stream_dedup.cli import option
from stream_dedup.errors import InputError, UsageError
from stream_dedup.extras import require
from stream_dedup.phrases import counted
from stream_dedup.tools.cli import shared
from stream_dedup.tools.cli.shared import argument, number
from stream_dedup.tools.inputs.file_format import FileFormat
from stream_dedup.tools.terminal import Console, Line, ProgressLine, one_line, print_table, warn, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stream_dedup.settings import Settings
    from stream_dedup.tools.evaluate.evaluation import Section
    from stream_dedup.tools.evaluate.sampling import Found, Pair, Sample

# -- evaluate --------------------------------------------------------------------------------------------


def evaluate_command(
    corpus: Annotated[Path, argument("CORPUS", "JSON Lines (.gz, .zst), in order of arrival; - for standard input.")],
    labels: Annotated[
        Path | None, option("Labelled pairs, as JSON Lines: earlier, later, label, new, weight, unsure.")
    ] = None,
    of_corpus: Annotated[str | None, option("Use the labels whose `corpus` is NAME.", "NAME", "--corpus")] = None,
    threshold: Annotated[float, number("Jaccard threshold of the comparison with exact sets.", min=0.1, max=1.0)] = 0.8,
    report: Annotated[
        Path | None,
        option("A page for a browser (HTML): the figures, and the pairs where decision and label disagree."),
    ] = None,
    force: shared.ForceOption = False,
    config: cli.ConfigOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Measure the decision on your own corpus and labels.

    Compares the decision with readers' labels, with exact sets and with the theoretical S-curve of banding.

    A label is a line such as {"earlier": "id 1", "later": "id 2", "label": "copy", "new": "no"}. `label` says whether
    the two are the same article: copy, cut, update; or another: template, furniture, different. Also accepted: same,
    duplicate, dup, distinct, boilerplate, yes, no, true, false, 1, 0. Any other word is an error.

    `new` says whether a reader of the earlier item would miss something of the later one: yes, no, little. With it the
    command also prints the shares missed and repeated, those of a simpler rule, the trade-off between the two, and the
    name of decision.novelty that fits your labels.
    """
    from stream_dedup.tools.evaluate.evaluation import evaluate, examples, figures, page, sections
    from stream_dedup.tools.evaluate.labels import read_labels
    from stream_dedup.tools.inputs.lines import LineReader

    settings = cli.settings_of(config)
    if of_corpus is not None and labels is None:
        raise UsageError("--corpus selects labels: name their file with --labels")
    if report:
        require("matplotlib", "the report")  # fail now, not after minutes of work
    pairs = read_labels(labels, of_corpus) if labels else []
    if labels and not pairs:
        raise InputError(f"{labels} holds no labels; a label is a line with earlier, later and label")
    with shared.report_output(report, force, str(corpus)) as write:
        lines = list(LineReader([str(corpus)], None))
        with ProgressLine() as status:
            evaluation = evaluate(lines, settings, pairs, threshold=threshold, progress=status)
        if report:
            title, drawn = f"stream-dedup on {corpus.name}", figures(evaluation, settings.fingerprint)
            write(page(evaluation, title, drawn, settings))
    console = shared.result_console(report)
    if as_json:
        shared.print_json(evaluation.as_json(), err=console.stderr)
        return
    for remark in evaluation.remarks:
        warn(remark, console)
    answer, *details = sections(evaluation)
    _print_section(console, answer)
    if (wrong := examples(evaluation)).rows:
        _print_section(console, wrong)
    link = report.resolve().as_uri() if report else "none; --report FILE.html makes one, with both texts of each pair"
    console.print(f"\nReport: {link}", soft_wrap=True)
    for section in details:
        _print_section(console, section)


def _print_section(console: Console, section: Section) -> None:
    """Print a part of the report."""
    console.print(f"\n{section.title}", style="bold")
    for text in section.text:
        console.print(text)
    if section.rows:
        print_table(console, section.columns, section.rows)


# -- sample ----------------------------------------------------------------------------------------------

_SAME_QUESTION = "s the same article (copy, cut or update)   d different articles   u unsure   q quit"
_NEW_QUESTION = "A reader of the earlier one:   n finds nothing new   m would miss something   u unsure   q quit"
_HOUR_MS = 3_600_000
_LINES_OF_A_QUESTION = 4  # with the line of the pages, that of a wrong key, and the cursor's
_COUNT, _SEED = 60, 1


def sample_command(
    directory: Annotated[Path, argument("DIRECTORY", "Directory of the sample; the next run continues it.")],
    count: Annotated[int | None, number("Pairs to draw. Default: 60.", min=1)] = None,
    seed: Annotated[int | None, number("The same seed draws the same pairs from the same records. Default: 1.")] = None,
    inputs: Annotated[
        tuple[str, ...],
        option(
            "Draw from files instead of Kafka: any that `filter` reads, or a directory. Repeat it for each, in order.",
            "FILE",
            "--input",
        ),
    ] = (),
    duplicates: Annotated[
        Path | None,
        option("With --input: the duplicates file of a `filter` run on it. Default: judge the inputs here."),
    ] = None,
    file_format: shared.FormatOption = None,
    config: cli.ConfigOption = None,
) -> None:
    """Label borderline decisions; find the threshold for your feed.

    Measures on your feed the precision of the items held back, and how much readers would miss. From 40 labels on it
    recommends a name for decision.novelty, and says what the name promises.

    Needs a terminal. One pair a screen; space turns the pages of a long one. Two questions, answered with a key: s the
    same article, or d different articles; then n nothing new, or m a reader would miss something. The answers are in
    DIRECTORY/labels.jsonl: `label` is copy (s) or different (d), `new` is no (n) or yes (m).

    Draws from the duplicates topic, or from files, which it judges as `filter` does. Decisions near a threshold are
    drawn more often, and weights correct for it. Run the command again to continue. The pairs are drawn once, so later
    runs refuse other options. To try other settings on the same labels: `stream-dedup evaluate DIRECTORY/corpus.jsonl
    --labels DIRECTORY/labels.jsonl --config FILE`.
    """
    from stream_dedup.tools.evaluate.sampling import Sample

    settings = cli.settings_of(config)
    requested = {
        "--count": count,
        "--seed": seed,
        "--duplicates": duplicates and str(duplicates.resolve()),
        "--input": [str(Path(name).resolve()) for name in inputs] if inputs else None,
        "--format": file_format and str(file_format),
        "--config": config and str(config.resolve()),
    }
    options: dict[str, Any] = {option: value for option, value in requested.items() if value is not None}
    exists = Sample.exists(directory)
    if exists:
        if not options.items() <= (drawn_with := Sample.drawn_with(directory)).items():
            raise UsageError(
                f"the pairs in {directory} are drawn once, and were drawn with {drawn_with}: leave other options out, "
                "or name another directory"
            )
    elif not inputs and (duplicates or file_format):
        raise UsageError("--duplicates and --format go with --input FILE; without it, the sample comes from Kafka")
    console = Console()
    if not (_has_terminal() or (exists and not Sample(directory).open_pairs())):
        raise UsageError(
            "sample asks a person about each pair, so it needs a terminal: run it in one, for instance with ssh -t, "
            "docker run -it or kubectl exec -it. Nothing was drawn or changed"
        )
    if not exists:
        for name in ("corpus.jsonl", "labels.jsonl"):
            if (directory / name).exists():
                raise UsageError(f"{directory} holds {name}, but no sample, and it is kept: name another directory")
        options = {"--count": _COUNT, "--seed": _SEED} | options
        drawn = _draw(settings, options["--count"], options["--seed"], inputs, duplicates, file_format)
        if not drawn.pairs:
            raise InputError(
                f"nothing to draw from: {counted(drawn.lost, 'decision')}, but none of their originals can be read"
            )
        Sample.write(directory, drawn.pairs, drawn.corpus, options)
        console.print(f"{counted(len(drawn.pairs), 'pair')} drawn from {counted(drawn.decisions, 'decision')}.")
        if drawn.lost:
            console.print(f"{counted(drawn.lost, 'decision')} left out: the originals can no longer be read.")
    sample = Sample(directory)
    _label(sample, console)
    _report(sample, directory, settings, console)


def _has_terminal() -> bool:
    """Return whether a person can press keys: on standard input, or on the session's terminal if that is a pipe."""
    if sys.stdin.isatty():
        return True
    try:
        with Path("/dev/tty").open("rb"):
            return True
    except OSError:
        return False


def _draw(
    settings: Settings,
    count: int,
    seed: int,
    inputs: Sequence[str],
    duplicates: Path | None,
    file_format: FileFormat | None,
) -> Found:
    from stream_dedup.tools.evaluate.sampling import from_files, from_kafka
    from stream_dedup.tools.inputs.packing import STDIN, check_inputs, files_of

    with ProgressLine() as status:
        report = partial(status, "records")
        if not inputs:
            return from_kafka(settings, count, seed, report)
        if STDIN in inputs:
            raise UsageError("--input - cannot be read twice, to judge and to draw: write it to a file")
        files = files_of(inputs)
        check_inputs(files)
        return from_files(files, duplicates, settings, count, seed, report, file_format)


def _label(sample: Sample, console: Console) -> None:
    for pair in sample.open_pairs():
        screen = _Screen(_shown(pair, len(sample.labels) + 1, len(sample.pairs), console.width), console)
        article, unsure = _ask(_SAME_QUESTION, "sd", screen)
        news, unsure_of_news = _ask(_NEW_QUESTION, "nm", screen) if article == "s" else ("m", False)
        if "q" in (article, news):
            return
        sample.add(pair, article == "s", news == "m", unsure or unsure_of_news)


class _Screen:
    """One pair on the terminal, in pages if it is long; without a terminal, all of it at once."""

    def __init__(self, lines: Sequence[Line], console: Console) -> None:
        self._console, self._page = console, 0
        height = max(console.height - _LINES_OF_A_QUESTION, 5) if console.is_terminal else len(lines)
        self._pages = [lines[start : start + height] for start in range(0, len(lines), height)]

    def ask(self, question: str, keys: str) -> str:
        """Show the page and the question until one of the keys answers it."""
        turning = {" ": 1, "b": -1} if len(self._pages) > 1 else {}
        while True:
            self._console.clear()
            self._console.print_lines(self._pages[self._page])
            if turning:
                self._console.print(f"page {self._page + 1} of {len(self._pages)}: space next   b back", style="dim")
            self._console.print(question, style="dim")
            key = _read_key([*keys, *turning], self._console)
            if key not in turning:
                return key
            self._page = min(max(self._page + turning[key], 0), len(self._pages) - 1)


def _ask(question: str, keys: str, screen: _Screen) -> tuple[str, bool]:
    """Ask a question; return one of the two keys, or q, and whether the person was unsure."""
    key = screen.ask(question, f"{keys}uq")
    if key != "u":
        return key, False
    return screen.ask(f"unsure: {keys[0]} or {keys[1]}, which is more likely?", f"{keys}q"), True


def _read_key(keys: Sequence[str], console: Console) -> str:
    while True:
        key = click.getchar().lower()
        if key in ("\x03", "\x04"):  # Ctrl-C and Ctrl-D, if the terminal passes them on
            return "q"
        if key and key in keys:
            return key
        if not key:
            raise InputError("the terminal has closed; the labels so far are saved")
        console.print(f"keys: {', '.join('space' if key == ' ' else key for key in keys)}")


def _shown(pair: Pair, number: int, total: int, width: int) -> list[Line]:
    from stream_dedup.tools.cli.compare import side_by_side
    from stream_dedup.tools.marks import compare_items

    sides: list[Line] = [
        [(f"{name:9}", "bold"), (f"{one_line(side.source) or '-'}  id {one_line(side.id)}", "")]
        for name, side in (("earlier", pair.earlier), ("later", pair.later))
    ]
    times = pair.earlier.time, pair.later.time
    apart = "unknown" if min(times) < 0 else f"{(times[1] - times[0]) / _HOUR_MS:.1f} hours"
    table = side_by_side(*compare_items(pair.earlier, pair.later), width)
    lines: list[Line] = [[(f" {number} of {total} ".center(width, "─"), "")], *sides, [(f"{'apart':9}{apart}", "")]]
    return [*(part for line in lines for part in wrapped(line, width)), *table]


def _report(sample: Sample, directory: Path, settings: Settings, console: Console) -> None:
    from stream_dedup.dedup.verdict import Kind
    from stream_dedup.tools.evaluate.evaluation import advice_section, with_interval
    from stream_dedup.tools.evaluate.rates import DECISION, agreement, novelty_report

    pairs = sample.judged()
    console.print(f"{len(sample.labels)} of {len(sample.pairs)} pairs are labelled.")
    if sample.open_pairs():
        console.print("Run the same command again to continue.")
    if not pairs:
        return
    agreed = agreement(pairs)
    if math.isnan(agreed.precision):
        console.print("No labelled pair was held back, so there is no precision yet.")
        return
    updates = any(pair.forward and pair.decision["verdict"] == Kind.UPDATE for pair in sample.pairs)
    population = "items held back or named updates" if updates else "items held back"
    console.print(
        f"precision of all {population}, estimated with weights: "
        f"{with_interval(agreed.precision, agreed.precision_interval)}"
    )
    present = settings.decision.threshold
    novelty, advice = novelty_report(pairs, {}, present) or (None, None)
    if novelty and not math.isnan((rates := novelty.rates[DECISION]).missed):
        console.print(
            "missed, the share of the items held back that have something new or are another article: "
            f"{with_interval(rates.missed, rates.missed_interval)}, of {counted(rates.held, 'pair')}"
        )
    if agreed.another_article:
        command = f"stream-dedup explain ID ID --in {directory}/corpus.jsonl"
        console.print(f"Held back or named an update, but another article (why: {command}):", soft_wrap=True)
    for label in sorted(agreed.another_article, key=lambda label: -label.weight):
        text = f"  {label.earlier} {label.later} (stands for {label.weight:.3g} decisions)"
        console.print(one_line(text), soft_wrap=True)
    if advice and advice.pairs:
        _print_section(console, advice_section(advice, present))
