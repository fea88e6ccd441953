"""`make bench`: measures, prints a table, writes results/latest.json (flat; ratios are the claim).

make bench ARGS="--corpus news.jsonl.gz --items 13000 --rounds 3"
"""

import json
import os
import platform
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stream_dedup.demo.embedded import EmbeddedKafka
from tests.benchmarks import corpus as texts
from tests.benchmarks import engine, worker

_RESULTS = Path(__file__).parent / "results"


def main(
    corpus: Annotated[Path | None, typer.Option(help="JSON Lines; default: the made-up feed.")] = None,
    items: Annotated[int, typer.Option(help="Items of it.")] = 4000,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds; the median counts.")] = 3,
) -> None:
    console = Console(highlight=False)
    news = texts.news(corpus, items)
    unique = texts.all_unique(news)
    found: dict[str, float] = engine.measure([item for _, item in news], rounds)
    with EmbeddedKafka(say=console.print) as kafka:
        found |= worker.measure(kafka, "news", [record for record, _ in news], rounds)
        found |= worker.measure(kafka, "unique", [record for record, _ in unique], rounds)
    table = Table("figure", "value")
    for name, value in found.items():
        table.add_row(name, f"{value:,.2f}")
    console.print(table)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    _RESULTS.mkdir(exist_ok=True)
    rounded = {name: round(value, 3) for name, value in found.items()}
    (_RESULTS / "latest.json").write_text(json.dumps(machine | rounded, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    typer.run(main)
