"""`stream-dedup sample DIRECTORY`: a person labels a sample of decisions, which gives settings for this feed.

Draws pairs from the worker's topics or the files of `filter`, and keeps pairs, labels and records in a directory
(evaluate/sampling.py). Two questions a pair: are they the same article, and if so, is anything new? A different article
is always new. The program does not show its verdict before the label, because it would bias the person.
"""

import math
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.rule import Rule
from rich.segment import Segment, Segments
from rich.text import Text

from stream_dedup.cli.common import CleanConsole, ConfigOption, number, one_line, progress_bars
from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import InputError, UsageError
from stream_dedup.phrases import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, RenderableType

    from stream_dedup.evaluate.sampling import Found, Pair, Sample
    from stream_dedup.settings import Settings

_SAME_QUESTION = "s the same article (copy, cut or update)   d different articles   u unsure   q quit"
_NEW_QUESTION = "A reader of the earlier one:   n finds nothing new   m would miss something   u unsure   q quit"
_HOUR_MS = 3_600_000
_LINES_OF_A_QUESTION = 4  # with the line of the pages, that of a wrong key, and the cursor's
_COUNT, _SEED = 60, 1


def sample_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Directory of the sample; the next run continues it.")
    ],
    count: Annotated[int | None, number("Pairs to draw. Default: 60.", min=1)] = None,
    seed: Annotated[int | None, number("The same seed draws the same pairs from the same records. Default: 1.")] = None,
    duplicates: Annotated[
        Path | None, typer.Option(help="Duplicates file of `filter` to draw from, instead of Kafka.")
    ] = None,
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="With --duplicates: an input of that run. Repeat it for each input, in order.",
        ),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Label borderline decisions; find the threshold for your feed.

    Measures on your feed the precision of the items held back, and how much readers would miss. From 40 labels on it
    recommends one of the names of decision.novelty, and says what it promises.

    Needs a terminal. One pair a screen; space turns the pages of a long one. Two questions, answered with a key: s the
    same article, or d different articles; then n nothing new, or m a reader would miss something. The answers are in
    DIRECTORY/labels.jsonl: `label` is copy (s) or different (d), `new` is no (n) or yes (m).

    Draws from the duplicates topic (or a file). Decisions near a threshold are drawn more often, and weights correct
    for it. Run the command again to continue; the pairs are drawn once, so other options are refused then. To try other
    settings on the same labels: `stream-dedup evaluate DIRECTORY/corpus.jsonl --labels DIRECTORY/labels.jsonl --config
    FILE`.
    """
    from stream_dedup.evaluate.sampling import Sample
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    given = {
        "--count": count,
        "--seed": seed,
        "--duplicates": duplicates and str(duplicates.resolve()),
        "--input": [str(path.resolve()) for path in inputs] if inputs else None,
        "--config": config and str(config.resolve()),
    }
    options: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
    exists = Sample.exists(directory)
    if exists:
        if not options.items() <= (drawn_with := Sample.drawn_with(directory)).items():
            raise UsageError(
                f"the pairs in {directory} are drawn once, and were drawn with {drawn_with}: leave other options out, "
                "or name another directory"
            )
    elif bool(duplicates) != bool(inputs):
        raise UsageError("--duplicates FILE and --input FILE go together; without both, the sample comes from Kafka")
    console = CleanConsole()
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
        drawn = _draw(settings, options["--count"], options["--seed"], duplicates, inputs or [])
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


def _draw(settings: "Settings", count: int, seed: int, duplicates: Path | None, inputs: list[Path]) -> "Found":
    from stream_dedup.evaluate.sampling import from_files, from_kafka

    with progress_bars() as bars:
        report = partial(bars, "records")
        if duplicates is None:
            return from_kafka(settings, count, seed, report)
        return from_files(inputs, duplicates, settings, count, seed, report)


def _label(sample: "Sample", console: "Console") -> None:
    for pair in sample.open_pairs():
        screen = _Screen(_shown(pair, len(sample.labels) + 1, len(sample.pairs), console.width), console)
        article, unsure = _ask(_SAME_QUESTION, "sd", screen)
        news, unsure_of_news = _ask(_NEW_QUESTION, "nm", screen) if article == "s" else ("m", False)
        if "q" in (article, news):
            return
        sample.add(pair, article == "s", news == "m", unsure or unsure_of_news)


class _Screen:
    """One pair on the terminal, in pages if it is longer; all of it at once where the output is no terminal."""

    def __init__(self, shown: "RenderableType", console: "Console") -> None:
        self._console, self._page = console, 0
        lines = console.render_lines(shown, pad=False)
        height = max(console.height - _LINES_OF_A_QUESTION, 5) if console.is_terminal else len(lines)
        self._pages = [lines[start : start + height] for start in range(0, len(lines), height)]

    def ask(self, question: str, keys: str) -> str:
        """Show the page and the question until one of the keys answers it."""
        turning = {" ": 1, "b": -1} if len(self._pages) > 1 else {}
        while True:
            self._console.clear()
            for line in self._pages[self._page]:
                self._console.print(Segments([*line, Segment.line()]))
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


def _read_key(keys: "Sequence[str]", console: "Console") -> str:
    while True:
        key = typer.getchar().lower()
        if key in ("\x03", "\x04"):  # Ctrl-C and Ctrl-D, if the terminal passes them on
            return "q"
        if key and key in keys:
            return key
        if not key:
            raise InputError("the terminal has closed; the labels so far are saved")
        console.print(f"keys: {', '.join('space' if key == ' ' else key for key in keys)}")


def _shown(pair: "Pair", number: int, total: int, width: int) -> "RenderableType":
    from stream_dedup.cli.explain import side_by_side
    from stream_dedup.dedup.passages import compare_texts

    sides = [
        Text.assemble((f"{name:9}", "bold"), f"{one_line(side.source) or '-'}  id {one_line(side.id)}")
        for name, side in (("earlier", pair.earlier), ("later", pair.later))
    ]
    times = pair.earlier.time, pair.later.time
    apart = "unknown" if min(times) < 0 else f"{(times[1] - times[0]) / _HOUR_MS:.1f} hours"
    headline = compare_texts(pair.earlier.title, pair.later.title)
    text = compare_texts(pair.earlier.text, pair.later.text)
    heading = Rule(Text(f"{number} of {total}"))
    return Group(heading, *sides, Text(f"{'apart':9}{apart}"), side_by_side(headline, text, width))


def _report(sample: "Sample", directory: Path, settings: "Settings", console: "Console") -> None:
    from stream_dedup.cli.evaluate import print_section
    from stream_dedup.evaluate.evaluation import advice_section, with_interval
    from stream_dedup.evaluate.rates import DECISION, agreement, novelty_report

    pairs, left = sample.judged(), len(sample.open_pairs())
    console.print(f"{len(sample.labels)} of {len(sample.pairs)} pairs are labelled.")
    if left:
        console.print("Run the same command again to continue.")
    if not pairs:
        return
    found = agreement(pairs)
    if math.isnan(found.precision):
        console.print("No labelled pair was held back, so there is no precision yet.")
        return
    updates = any(pair.forward and pair.decision["verdict"] == Kind.UPDATE for pair in sample.pairs)
    population = "items held back or named updates" if updates else "items held back"
    console.print(
        f"precision of all {population}, estimated with weights: "
        f"{with_interval(found.precision, found.precision_interval)}"
    )
    present = settings.decision.threshold
    novelty, advice = novelty_report(pairs, {}, present) or (None, None)
    if novelty and not math.isnan((rates := novelty.rates[DECISION]).missed):
        console.print(
            "missed, the share of the items held back that have something new or are another article: "
            f"{with_interval(rates.missed, rates.missed_interval)}, of {counted(rates.held, 'pair')}"
        )
    if found.another_article:
        why = f"stream-dedup explain ID ID --in {directory}/corpus.jsonl"
        console.print(Text(f"Held back or named an update, but another article (why: {why}):"), soft_wrap=True)
    for label in sorted(found.another_article, key=lambda label: -label.weight):
        text = f"  {label.earlier} {label.later} (stands for {label.weight:.3g} decisions)"
        console.print(Text(one_line(text)), soft_wrap=True)
    if advice and advice.pairs:
        print_section(console, advice_section(advice, present))
