"""`stream-dedup plan`: recall and memory of the present index settings, and better settings to paste."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from stream_dedup.cli.common import ConfigOption, JsonOption, new_console, parse_count, parse_size, print_json
from stream_dedup.cli.plan_simhash import plan_simhash
from stream_dedup.cli.plan_text import MIGRATION, NO_MIGRATION, memory_text, rounded

if TYPE_CHECKING:
    from rich.console import Console

    from stream_dedup.evaluate.planner import Advice, Plan

_NOTICEABLE = 0.01  # a smaller difference in probability is below the accuracy of the model on real texts


def plan_command(
    number: Annotated[
        str | None,
        typer.Option(
            "--items",
            metavar="NUMBER",
            help="Originals in a window, such as 200k or 2M (K, M, G: powers of 1000). Default: 1M.",
        ),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(
            "--recall",
            metavar="NUMBER",
            min=0.01,
            max=0.9999,
            help="Wanted recall of a copy right at the thresholds (simhash: at --threshold); default: that of the "
            "present settings.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            metavar="NUMBER",
            min=0.05,
            max=1.0,
            help="Jaccard threshold of bodies; default: decision.body.",
        ),
    ] = None,
    hamming: Annotated[
        int | None,
        typer.Option(
            "--hamming",
            metavar="NUMBER",
            min=0,
            max=32,
            help="simhash, given: the Hamming distance to plan for, instead of --recall; default: fingerprint.hamming.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Most bytes for the index, merges included, such as 512M or 4G; the process takes 200M more. Default: "
            "as much as the present settings take.",
        ),
    ] = None,
    id_bytes: Annotated[
        float, typer.Option("--id-bytes", metavar="NUMBER", min=1, help="Mean length of an id.")
    ] = 40.0,
    body_shingles: Annotated[
        float | None,
        typer.Option(
            "--body-shingles",
            metavar="NUMBER",
            min=1,
            help="With verify = exact: mean distinct shingles of a body. Default: 500.",
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plan the index: recall, memory, and settings to paste.

    Prints first the recall and memory of the present settings. Proposes others, within the given memory, only if the
    present ones miss the given recall or memory, or if others save a quarter of the work.

    For family = simhash or given it plans the Hamming distance and the layout of the tables, up to 2^34 fingerprints.
    The recall of a SimHash is the share of the pairs at --threshold whose fingerprints are within the distance.
    """
    from stream_dedup.evaluate.planner import AMPLIFICATION, LETTERS, advise, present
    from stream_dedup.index.footprint import BODY_SHINGLES, ROWS_OF_AN_INDEX
    from stream_dedup.settings import load_settings
    from stream_dedup.settings.memory import sized

    settings = load_settings(config)
    fingerprint, decision = settings.fingerprint, settings.decision
    if body_shingles is not None and fingerprint.verify != "exact":
        raise typer.BadParameter(
            "--body-shingles counts whole bodies, which only [fingerprint] verify = 'exact' keeps; leave it out"
        )
    shingles = BODY_SHINGLES if body_shingles is None else body_shingles
    items = parse_count("1M" if number is None else number)
    if threshold is not None:
        decision = decision.model_copy(update={"body": threshold})
    memory_limit = None if memory is None else parse_size(memory)
    if fingerprint.family != "minhash":
        plan_simhash(items, fingerprint, decision, recall, threshold, hamming, memory_limit, id_bytes, as_json=as_json)
        return
    if hamming is not None:
        raise typer.BadParameter("--hamming is for family = 'simhash' or 'given'; MinHash has none: leave it out")
    if not 0 < items <= ROWS_OF_AN_INDEX:
        raise typer.BadParameter(f"--items is {items}; it must be from 1 to {ROWS_OF_AN_INDEX}, which one index holds")
    given, bytes_each = (fingerprint, decision), (id_bytes, shingles)
    console = new_console(soft_wrap=True)
    if not as_json:  # first, because `advise` may raise
        console.print("PRESENT SETTINGS")
        _print(console, present(items, *given, *bytes_each))
    advice = advise(items, recall, *given, memory_limit, *bytes_each)
    paste = advice.proposed.toml() if advice.proposed else ""
    if threshold is not None and threshold != settings.decision.body:
        paste = "\n".join(filter(None, [paste, f"[decision]\nbody = {threshold:g}\n"]))
    if as_json:
        notes = [LETTERS] if fingerprint.shingle_letters else []
        print_json(_as_json(advice, paste) | {"remarks": notes})
        return
    target = f"recall {advice.recall:.3f}" + (" (as now)" if recall is None else "")
    bound = f"at most {sized(advice.limit)}" + (" (as now)" if memory_limit is None else "")
    console.print(f"REQUESTED: {items:,} originals, {target}, {bound}\n")
    if advice.proposed:
        console.print("PROPOSED")
        _print(console, advice.proposed)
    console.print(_conclusion(advice))
    if paste:
        console.print("\n" + paste)
        console.print(MIGRATION if advice.proposed else NO_MIGRATION)
    console.print("\n" + AMPLIFICATION)
    if fingerprint.shingle_letters:
        console.print(LETTERS)


def _print(console: "Console", plan: "Plan") -> None:

    table = Table("view", "threshold", "bands × rows", "recall there", "recall .1 above", "false candidates an item")
    for view in plan.views:
        table.add_row(
            view.name,
            f"{view.similarity:.3f}",
            f"{view.bands} × {view.rows}",
            f"{view.recall:.3f}",
            f"{view.recall_above:.3f}",
            rounded(view.false_candidates),
        )
    console.print(table)
    table = Table("Jaccard", *(f"{view.name} recall" for view in plan.views))
    for similarity, chances in plan.curve():
        table.add_row(f"{similarity:.1f}", *(f"{chance:.4f}" for chance in chances))
    console.print(table)
    console.print(
        f"recall of a copy right at the threshold of every view: {plan.recall:.3f}\n"
        f"false candidates an item: {plan.false_candidates:,.0f}\n"
        f"{memory_text(plan, plan.items, plan.body_bytes)}"
        + (
            f"standard error of a body Jaccard near its threshold: at most {plan.standard_error:.3f}\n"
            if plan.body_bins
            else "bodies are compared in full: their Jaccard is exact\n"
        )
    )


def _conclusion(advice: "Advice") -> str:
    from stream_dedup.settings.memory import sized

    now, proposed = advice.present, advice.proposed
    if proposed is None:
        return (
            "Keep the present settings: they reach the requested recall and memory, and no others that take as little "
            "memory would save a quarter of the work."
        )
    lacks = []
    if now.recall < advice.recall:
        lacks.append(f"reach recall {now.recall:.3f}, not {advice.recall:.3f}")
    if now.peak > advice.limit:
        lacks.append(f"take up to {sized(now.peak)}, not {sized(advice.limit)}")
    if not lacks:
        return (
            f"The present settings suffice. These save work: {proposed.false_candidates:.0f} false candidates an item "
            f"instead of {now.false_candidates:.0f}, and at most {sized(proposed.peak)} instead of {sized(now.peak)}. "
            f"{_price(now, proposed)}To paste:"
        )
    text = f"The present settings {' and '.join(lacks)}. "
    if advice.exceeded:
        text += (
            f"This recall takes more memory than they have: {sized(proposed.peak)} at most, not {sized(advice.limit)}. "
        )
    return text + _price(now, proposed) + "To paste:"


def _price(now: "Plan", proposed: "Plan") -> str:
    """Name the views in which the proposed settings find fewer pairs .1 above the threshold than the present ones."""
    worse = [
        f"{new.name} {new.recall_above:.3f}, not {old.recall_above:.3f}"
        for old, new in zip(now.views, proposed.views, strict=True)
        if new.recall_above < old.recall_above - _NOTICEABLE
    ]
    if not worse:
        return ""
    return f"In return, the recall .1 above the threshold falls: {'; '.join(worse)}. "


def _as_json(advice: "Advice", paste: str) -> dict[str, Any]:
    return {
        "recall": advice.recall,
        "limit": advice.limit,
        "present": advice.present.as_json(),
        "proposed": advice.proposed.as_json() if advice.proposed else None,
        "migrate": advice.proposed is not None,
        "settings": paste,
    }
