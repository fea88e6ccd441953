"""`stream-dedup sample DIRECTORY`: a person labels decisions, and knows what their own readers miss.

In: the worker's topics or the files of `filter`. Out: a directory with pairs, labels and records (evaluate/sample.py).
Two questions a pair: is it the same article, and if it is, is anything new? Another article is new by itself. The
verdict is not shown before the label is given: whoever knows it agrees with it.
"""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from stream_dedup.cli.common import ConfigOption
from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import ConfigError, InputError

if TYPE_CHECKING:
    from stream_dedup.evaluate.frame import Found
    from stream_dedup.evaluate.sample import Pair, Sample, Side
    from stream_dedup.settings import Settings

_SAME = "s the same article (copy, cut or update)   d different articles   u unsure   q quit"
_NEW = "Who has read the earlier one:   n finds nothing new   m would miss something   u unsure   q quit"
_HOUR = 3_600_000


def sample_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Where the sample is kept; the next run goes on with it.")
    ],
    count: Annotated[int, typer.Option("--count", metavar="NUMBER", min=1, help="Pairs to draw.")] = 100,
    seed: Annotated[
        int, typer.Option("--seed", metavar="NUMBER", help="The same seed draws the same pairs of the same records.")
    ] = 1,
    duplicates: Annotated[
        Path | None, typer.Option("--duplicates", help="Draw from this duplicates file of `filter`, not from Kafka.")
    ] = None,
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="With --duplicates: an input of that run; repeat it for each, in their order.",
        ),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Label borderline decisions, and know your own precision.

    Measures on your own feed the precision of what is held back, and what its readers miss.

    It needs a terminal. Two questions, a key each: s the same article, or d different ones; then n nothing new, or m
    a reader would miss something. DIRECTORY/labels.jsonl keeps the answers: `label` is copy (s) or different (d), `new`
    is no (n) or yes (m).

    Draws from the duplicates topic (or a file), more where a number is near its threshold, with weights that make up
    for it. Run it again to go on. To try other settings on the same labels: `stream-dedup evaluate
    DIRECTORY/corpus.jsonl --labels DIRECTORY/labels.jsonl --config FILE`.
    """
    from stream_dedup.evaluate.sample import Sample
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    if bool(duplicates) != bool(inputs):
        raise ConfigError("--duplicates FILE and --input FILE go together; without both the sample comes from Kafka")
    console = Console(emoji=False, highlight=False)
    if not (_has_terminal() or (Sample.exists(directory) and not Sample(directory).open_pairs())):
        raise ConfigError(
            "sample asks a person for each pair and needs a terminal, which this is not: run it in one, for instance "
            "with ssh -t, docker run -it or kubectl exec -it. Nothing was drawn or changed"
        )
    if not Sample.exists(directory):
        found = _draw(settings, count, seed, duplicates, inputs or [])
        if not found.pairs:
            raise InputError(f"nothing to draw from: {found.lost} decisions, no original of which can be read")
        Sample.write(directory, found.pairs, found.corpus)
        console.print(f"{len(found.pairs)} pairs drawn of {found.decisions} decisions.")
        if found.lost:
            console.print(f"{found.lost} were left out: their originals can no longer be read.")
    sample = Sample(directory)
    _label(sample, console)
    _report(sample, console)


def _has_terminal() -> bool:
    """Whether keys can be asked for: from standard input, or, where that is a pipe, from the session's terminal."""
    if sys.stdin.isatty():
        return True
    try:
        with Path("/dev/tty").open("rb"):
            return True
    except OSError:
        return False


def _draw(settings: "Settings", count: int, seed: int, duplicates: Path | None, inputs: list[Path]) -> "Found":
    from stream_dedup.evaluate.frame import from_files, from_kafka

    columns = TextColumn("{task.description}"), TextColumn("{task.completed:,} records"), TimeElapsedColumn()
    with Progress(
        *columns, console=Console(emoji=False, stderr=True), disable=not sys.stderr.isatty(), transient=True
    ) as bars:  # fmt: skip
        task = bars.add_task("drawing", total=None)

        def tell(seen: int) -> None:
            if seen % 1000 == 0:
                bars.update(task, completed=seen)

        if duplicates is None:
            return from_kafka(settings, count, seed, tell)
        return from_files(inputs, duplicates, settings, count, seed, tell)


def _label(sample: "Sample", console: Console) -> None:
    for pair in sample.open_pairs():
        _show(pair, len(sample.labels) + 1, len(sample.pairs), console)
        article, unsure = _answer(_SAME, "sd", console)
        news, unsure_of_news = _answer(_NEW, "nm", console) if article == "s" else ("m", False)
        if "q" in (article, news):
            return
        sample.add(pair, article == "s", news == "m", unsure or unsure_of_news)


def _answer(question: str, keys: str, console: Console) -> tuple[str, bool]:
    """One of two keys, or q; and whether the person was unsure."""
    console.print(question, style="dim")
    key = _ask(f"{keys}uq", console)
    if key != "u":
        return key, False
    console.print(f"unsure: {keys[0]} or {keys[1]}, which is it rather?")
    return _ask(f"{keys}q", console), True


def _ask(keys: str, console: Console) -> str:
    while True:
        key = typer.getchar().lower()
        if key in ("\x03", "\x04"):  # Ctrl-C and Ctrl-D, where the terminal hands them on
            return "q"
        if key and key in keys:
            return key
        if not key:
            raise InputError("the terminal has closed; what was labelled is kept")
        console.print(f"keys: {', '.join(keys)}")


def _show(pair: "Pair", number: int, total: int, console: Console) -> None:
    from stream_dedup.cli.side_by_side import harmless, side_by_side
    from stream_dedup.dedup.passages import compare_texts

    console.rule(Text(f"{number} of {total}"))
    for name, side in (("earlier", pair.earlier), ("later", pair.later)):
        console.print(Text.assemble((f"{name:9}", "bold"), f"{harmless(side.source) or '-'}  id {harmless(side.id)}"))
    console.print(f"{'apart':9}{_apart(pair.earlier, pair.later)}")
    headline = compare_texts(pair.earlier.title, pair.later.title)
    text = compare_texts(pair.earlier.text, pair.later.text)
    console.print(side_by_side(headline, text, console.width))


def _apart(earlier: "Side", later: "Side") -> str:
    return "not known" if min(earlier.time, later.time) < 0 else f"{(later.time - earlier.time) / _HOUR:.1f} hours"


def _report(sample: "Sample", console: Console) -> None:
    from stream_dedup.cli.side_by_side import harmless

    found, left = sample.agreement(), len(sample.open_pairs())
    console.print(f"{len(sample.labels)} of {len(sample.pairs)} pairs are labelled.")
    if left:
        console.print("Run the same command again to go on.")
    if found is None:
        return
    if math.isnan(found.precision):
        console.print("None of them was held back, so there is no precision yet.")
        return
    updates = any(pair.forward and pair.decision["verdict"] == Kind.UPDATE for pair in sample.pairs)
    what = "what is held back or named an update" if updates else "what is held back"
    console.print(
        f"precision of {what}, weighted to all of it: {found.precision:.3f}{_interval(found.precision_interval)}"
    )
    novelty = sample.novelty()
    if not math.isnan(novelty.missed):
        console.print(
            "missed, the share of what is held back that has something new or is another article: "
            f"{novelty.missed:.3f}{_interval(novelty.missed_interval)}, of {novelty.held} pairs"
        )
    for label in sorted(found.another_article, key=lambda one: -one.weight):
        told = f"another article: {label.earlier} {label.later} (weight {label.weight:g})"
        console.print(Text(harmless(told)), soft_wrap=True)


def _interval(interval: tuple[float, float]) -> str:
    low, high = interval
    return "" if math.isnan(low) else f" (95 %: {low:.3f} to {high:.3f})"
