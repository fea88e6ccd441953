"""Run the benchmarks section by section (`make bench`), print tables and save the results.

    make bench                                              # quick: under three minutes, the made-up feed
    make bench ARGS="--full --corpus a.jsonl.gz --corpus b.jsonl.gz"    # all of it
    make bench ARGS="--corpus a.jsonl.gz --items 6000 --rounds 3 --only engine --only worker"

A quick run measures the sections that depend on texts and Kafka. The sections index, memory, restore and pairs need
large sizes and long times: without --full or --only they keep the figures of their last run (results.py). A section is
a module that returns flat figures; it is imported when it runs, so that a missing peer does not stop the other
sections. If a section fails, the run reports it, saves the others and exits with 1.
"""

import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stream_dedup.news.item import Item
from tests.benchmarks import apart, corpus
from tests.benchmarks.results import Results, Section, describe, packages, save, tables
from tests.broker import EmbeddedKafka

RESULTS = Path(__file__).parent / "results"
Figures = dict[str, float]


@dataclass
class Run:
    """The input of the sections. Expensive inputs are made at their first use."""

    full: bool
    corpora: list[Path]
    items: int
    rounds: int
    results: Path
    console: Console

    @cached_property
    def news(self) -> list[tuple[bytes, Item]]:
        return corpus.news(self.corpora, self.items)

    @cached_property
    def unique(self) -> list[tuple[bytes, Item]]:
        return corpus.all_unique(self.news)

    @cached_property
    def text_dedup(self) -> Path | None:
        """The Python of its environment, which takes 1.3 GB; None in a quick run, which does without."""
        return apart.python_of("text_dedup", self.say) if self.full else None

    def kind(self) -> str:
        name = " + ".join(path.name for path in self.corpora) or "the made-up feed"
        return f"{'full' if self.full else 'quick'}, {self.items} items of {name}, {self.rounds} rounds"

    def say(self, text: str) -> None:
        self.console.print(text)


def _fingerprint(run: Run) -> Figures:
    from tests.benchmarks.fingerprint import measure_fingerprint

    return measure_fingerprint([item.text for _, item in run.news], run.rounds, run.text_dedup)


def _engine(run: Run) -> Figures:
    from tests.benchmarks.engine import measure_engine

    return measure_engine([item for _, item in run.news], [item for _, item in run.unique], run.rounds)


def _worker(run: Run) -> Figures:
    from tests.benchmarks.worker import measure_worker

    with EmbeddedKafka(say=run.say) as kafka:
        # The clock starts after the first commit; the 7,000 records or so that were prefetched by then count for less.
        news = corpus.lengthened([record for record, _ in run.news], 3)
        unique = [record for record, _ in corpus.all_unique(3 * run.news)]
        return measure_worker(kafka.bootstrap, news, unique, run.rounds, run.say)


def _partitions(run: Run) -> Figures:
    from tests.benchmarks.partitions import measure_partitions

    with EmbeddedKafka(say=run.say) as kafka:
        languages = [corpus.news([path], run.items) for path in run.corpora] or [run.news, run.news]
        records = [corpus.lengthened([record for record, _ in news], 4) for news in languages]
        return measure_partitions(kafka.bootstrap, records)


def _latency(run: Run) -> Figures:
    from tests.benchmarks.latency import measure_latency

    with EmbeddedKafka(say=run.say) as kafka:
        return measure_latency(kafka.bootstrap, [record for record, _ in run.unique], 20.0 if run.full else 5.0)


def _index(run: Run) -> Figures:
    from tests.benchmarks.index import measure_index

    return measure_index()


def _memory(run: Run) -> Figures:
    from tests.benchmarks.memory import measure_memory

    return measure_memory()


def _restore(run: Run) -> Figures:
    from tests.benchmarks.memory import measure_restore
    from tests.benchmarks.restore import measure_restore_from_kafka

    with EmbeddedKafka(say=run.say) as kafka:
        return measure_restore() | measure_restore_from_kafka(kafka.bootstrap, 10**6, 3, run.say)


def _pairs(run: Run) -> Figures:
    from tests.benchmarks.pairs import measure_pairs

    if (text_dedup := apart.python_of("text_dedup", run.say)) is None:
        raise ModuleNotFoundError("text-dedup is not installed")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "corpus.jsonl"
        path.write_bytes(b"".join(record + b"\n" for record, _ in run.news))
        return measure_pairs(run.corpora or [path], run.rounds, text_dedup)


SECTIONS: dict[str, Callable[[Run], Figures]] = {
    "fingerprint": _fingerprint,
    "engine": _engine,
    "index": _index,
    "memory": _memory,
    "restore": _restore,
    "pairs": _pairs,
    "worker": _worker,
    "partitions": _partitions,
    "latency": _latency,
}
QUICK = ("fingerprint", "engine", "worker", "latency")


def main(
    full: Annotated[bool, typer.Option("--full/--quick", help="Everything, long; or under three minutes.")] = False,
    corpus: Annotated[list[Path] | None, typer.Option(help="JSON Lines; default: the made-up feed.")] = None,
    items: Annotated[int | None, typer.Option(help="Number of items; quick: 5000, full: 12000.", min=2500)] = None,
    rounds: Annotated[int | None, typer.Option(help="Interleaved rounds; quick: 2, full: 5.", min=1)] = None,
    only: Annotated[list[str] | None, typer.Option(help=f"Sections, of {', '.join(SECTIONS)}.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = RESULTS,
) -> None:
    unknown = set(only or ()) - SECTIONS.keys()
    if unknown:
        raise typer.BadParameter(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    console = Console(highlight=False)
    counts = items or (12_000 if full else 5000), rounds or (5 if full else 2)
    run = Run(full, corpus or [], *counts, results, console)
    now = datetime.now(UTC)
    sections, failed = {}, []
    for name in only or (SECTIONS if full else QUICK):
        start = time.monotonic()
        try:
            figures = SECTIONS[name](run)
        except ModuleNotFoundError as error:
            console.print(f"{name} is skipped: {error}")
            continue
        except Exception:  # noqa: BLE001 - the other sections' hour must not be lost
            console.print(traceback.format_exc())
            failed.append(name)
            continue
        sections[name] = Section(f"{now:%Y-%m-%d}", run.kind(), packages(), figures)
        console.print(f"{name}: {time.monotonic() - start:.0f} s")
    if sections:
        merged = save(Results(describe(), sections), results)
        for table in tables(merged):
            console.print(table)
        console.print(f"Saved in {results}: {merged.name}.json, {merged.name}.md")
    if failed:
        console.print(f"Failed: {', '.join(failed)}")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
