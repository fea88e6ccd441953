"""`stream-dedup evaluate CORPUS --labels FILE`: does the decision agree with a reader?"""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from stream_dedup.batch.judge import judge_lines
from stream_dedup.batch.lines import read_lines
from stream_dedup.cli.common import ConfigOption, JsonOption
from stream_dedup.dedup.verdict import Kind
from stream_dedup.evaluate.labels import Agreement, Label, agreement, read_labels
from stream_dedup.settings import load_settings


def evaluate_command(
    corpus: Annotated[Path, typer.Argument(help="JSON Lines (.gz, .zst), in order of arrival.")],
    labels: Annotated[Path, typer.Option("--labels", help="Judged pairs: earlier, later, label, weight, unsure.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the decision on labelled pairs: the whole corpus is judged, as `filter` would."""
    settings = load_settings(config)
    verdicts = {}
    counts = dict.fromkeys(Kind, 0)
    for verdict in judge_lines(read_lines(corpus), settings):
        counts[verdict.kind] += 1
        verdicts[verdict.id] = verdict
    judged = read_labels(labels)
    rows = {"all": agreement(judged, verdicts)}
    sure = [label for label in judged if not label.unsure]
    if len(sure) < len(judged):
        rows["sure"] = agreement(sure, verdicts)
    if as_json:
        out = {name: _as_json(found) for name, found in rows.items()} | {
            "items": {str(k): n for k, n in counts.items()}
        }
        sys.stdout.write(msgspec.json.encode(out).decode() + "\n")
        return
    console = Console(highlight=False)
    table = Table("pairs", "count", "recall", "95 %", "precision", "95 %")
    for name, found in rows.items():
        table.add_row(
            name,
            str(found.pairs),
            f"{found.recall:.3f}",
            "{:.3f} - {:.3f}".format(*found.recall_interval),
            f"{found.precision:.3f}",
            "{:.3f} - {:.3f}".format(*found.precision_interval),
        )
    console.print(table)
    console.print("  ".join(f"{kind}: {count}" for kind, count in counts.items() if count))
    for title, pairs in (("missed", rows["all"].missed), ("held back wrongly", rows["all"].false_drops)):
        for label in sorted(pairs, key=lambda one: -one.weight):
            console.print(
                f"{title}: {label.label} {label.earlier} {label.later} (weight {label.weight:g})", markup=False
            )


def _as_json(found: Agreement) -> dict[str, object]:
    def pair(label: Label) -> dict[str, object]:
        return {"earlier": label.earlier, "later": label.later, "label": label.label, "weight": label.weight}

    return {
        "pairs": found.pairs,
        "recall": found.recall,
        "recall_interval": found.recall_interval,
        "precision": found.precision,
        "precision_interval": found.precision_interval,
        "missed": [pair(label) for label in found.missed],
        "false_drops": [pair(label) for label in found.false_drops],
    }
