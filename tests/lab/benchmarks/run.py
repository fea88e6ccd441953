"""Run the benchmarks section by section (`make bench`), print tables and save the results.

    make bench                                              # quick: under three minutes, the made-up feed
    make bench ARGS="--full --corpus a.jsonl.gz --corpus b.jsonl.gz"    # all of it
    make bench ARGS="--corpus a.jsonl.gz --items 6000 --rounds 3 --only engine --only worker"

A quick run measures the sections that depend on texts and Kafka. The sections index, memory, restore and pairs need
large sizes and long times: without --full or --only they keep the figures of their last run (results.py). A section is
a module whose `measure` returns flat figures; it is imported when it runs, so that a missing peer does not stop the
other sections. If a section fails, the run reports it, saves the others and exits with 1.
"""

import sys
import time
import traceback
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import click

from tests.lab.benchmarks.corpus import Run
from tests.lab.benchmarks.results import Results, Section, describe, markdown, packages, save

RESULTS = Path(__file__).parent / "results"


SECTIONS = ("fingerprint", "engine", "index", "memory", "restore", "pairs", "worker", "partitions", "latency")
QUICK = ("fingerprint", "engine", "worker", "latency")


@click.command()
@click.option("--full/--quick", help="Everything, long; or under three minutes.")
@click.option("--corpus", multiple=True, type=click.Path(path_type=Path), help="JSON Lines; default: the made-up feed.")
@click.option("--items", type=click.IntRange(2500), help="Number of items; quick: 5000, full: 12000.")
@click.option("--rounds", type=click.IntRange(1), help="Interleaved rounds; quick: 2, full: 5.")
@click.option("--only", multiple=True, type=click.Choice(SECTIONS), help="A section. Repeatable.")
def main(full: bool, corpus: tuple[Path, ...], items: int | None, rounds: int | None, only: tuple[str, ...]) -> None:
    counts = items or (12_000 if full else 5000), rounds or (5 if full else 2)
    run = Run(full, corpus, *counts)
    now = datetime.now(UTC)
    sections, failed = {}, []
    for name in only or (SECTIONS if full else QUICK):
        start = time.monotonic()
        try:
            figures = import_module(f"tests.lab.benchmarks.{name}").measure(run)
        except ModuleNotFoundError as error:
            click.echo(f"{name} is skipped: {error}")
            continue
        except Exception:  # noqa: BLE001 - the other sections' hour must not be lost
            click.echo(traceback.format_exc())
            failed.append(name)
            continue
        sections[name] = Section(f"{now:%Y-%m-%d}", run.kind(), packages(), figures)
        click.echo(f"{name}: {time.monotonic() - start:.0f} s")
    if sections:
        merged = save(Results(describe(), sections), RESULTS)
        click.echo(markdown(merged))
        click.echo(f"Saved in {RESULTS}: {merged.name}.json, {merged.name}.md")
    if failed:
        click.echo(f"Failed: {', '.join(failed)}")
        sys.exit(1)


if __name__ == "__main__":
    main()
