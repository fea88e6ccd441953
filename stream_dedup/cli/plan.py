"""`stream-dedup plan`: which tables find what, how many bytes they take, and the settings to paste."""

import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from stream_dedup.cli.common import ConfigOption, JsonOption, bytes_of

if TYPE_CHECKING:
    from stream_dedup.evaluate.planner import Footprint, Plan


def plan_command(
    items: Annotated[
        int,
        typer.Option(
            "--items",
            metavar="NUMBER",
            min=1,
            max=2**32 - 1,
            help="Originals remembered at a time: let through in a window.",
        ),
    ] = 1_000_000,
    recall: Annotated[
        float,
        typer.Option(
            "--recall", metavar="NUMBER", min=0.01, max=0.9999, help="Wanted for a copy that only just counts."
        ),
    ] = 0.95,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", metavar="NUMBER", min=0.05, max=1.0, help="Body Jaccard; default: decision.body."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="SIZE", help="Most bytes for what is remembered, such as 512M or 4G."),
    ] = None,
    id_bytes: Annotated[
        float, typer.Option("--id-bytes", metavar="NUMBER", min=1, help="Mean length of an id.")
    ] = 40.0,
    body_shingles: Annotated[
        float,
        typer.Option(
            "--body-shingles",
            metavar="NUMBER",
            min=1,
            help="Mean distinct shingles of a body; counts with verify = exact.",
        ),
    ] = 500.0,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plan the index: recall, memory, and the settings to paste.

    Shows the bands and rows of each view, what they find, their false candidates, and the bytes they take.
    """
    from stream_dedup.evaluate.planner import footprint, plan
    from stream_dedup.fingerprint.scheme import Scheme
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    decision = settings.decision
    if threshold is not None:
        decision = decision.model_copy(update={"body": threshold})
    if settings.fingerprint.family != "minhash" or settings.fingerprint.views == "body":
        _print_footprint(footprint(Scheme(settings.fingerprint), items, id_bytes), items, as_json)
        return
    most = bytes_of(memory) if memory else None
    made = plan(items, recall, settings.fingerprint, decision, most, id_bytes, body_shingles)
    if as_json:
        sys.stdout.write(msgspec.json.encode(made.as_json()).decode() + "\n")
    else:
        _print(made, made.toml() + (f"\n[decision]\nbody = {threshold:g}\n" if threshold is not None else ""))


def _print_footprint(made: "Footprint", items: int, as_json: bool) -> None:
    """The memory alone: what a layout finds within its bits it finds for certain, so nothing else is to be chosen."""
    from stream_dedup.evaluate.planner import BOOKKEEPING

    if as_json:
        sys.stdout.write(msgspec.json.encode(made).decode() + "\n")
        return
    sys.stdout.write(
        f"bytes an original: {made.record_bytes} record + {made.tables} tables × {made.table_bytes:.2f} "
        f"+ {made.id_bytes:g} id + {BOOKKEEPING} = {made.bytes_per_item:.0f}\n"
        f"memory for {items:,} originals: {items * made.bytes_per_item / 2**20:,.0f} MiB "
        f"(while tables merge: up to {items * made.tables * made.table_bytes / 2**20:,.0f} more)\n"
    )


def _print(made: "Plan", settings: str) -> None:
    from stream_dedup.evaluate.planner import AMPLIFICATION, BOOKKEEPING

    console = Console(highlight=False)
    table = Table("view", "just counts at", "bands × rows", "proposed", "alike by .1 more", "false candidates an item")
    for view in made.views:
        table.add_row(
            view.name,
            f"{view.similarity:.3f}",
            f"{view.bands} × {view.rows}",
            f"{view.recall:.3f}",
            f"{view.recall_above:.3f}",
            f"{view.false_candidates:.2g}",
        )
    console.print(table)
    table = Table("Jaccard", *(f"{view.name} proposes" for view in made.views))
    for similarity, chances in made.curve():
        table.add_row(f"{similarity:.1f}", *(f"{chance:.4f}" for chance in chances))
    console.print(table)
    console.print(AMPLIFICATION)
    merging = made.items * made.tables * made.table_bytes / 2**20
    console.print(
        f"recall of a copy that only just counts in every view: {made.recall:.3f}\n"
        f"bytes an original: {made.record_bytes} record "
        + (f"+ {made.body_bytes:.0f} body " if made.body_bytes else "")
        + f"+ {made.tables} tables × {made.table_bytes:.2f} "
        f"+ {made.id_bytes:g} id + {BOOKKEEPING} = {made.bytes_per_item:.0f}\n"
        f"memory for {made.items:,} originals: {made.memory / 2**20:,.0f} MiB "
        f"(while tables merge: up to {merging:,.0f} more)\n"
        + (
            f"standard error of a body Jaccard near its threshold: at most {made.standard_error:.3f}\n"
            if made.body_bins
            else "bodies are compared whole: their Jaccard is exact\n"
        )
    )
    console.print(settings, markup=False, end="")
