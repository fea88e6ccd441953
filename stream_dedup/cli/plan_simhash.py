"""`stream-dedup plan` for a SimHash or given fingerprints: the Hamming distance, the layouts, and settings to paste."""

from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from stream_dedup.cli.common import new_console, print_json
from stream_dedup.cli.plan_text import MIGRATION, NO_MIGRATION, memory_text, rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from stream_dedup.evaluate.simhash_planner import LayoutPlan, SimHashAdvice
    from stream_dedup.settings import DecisionSettings, FingerprintSettings


def plan_simhash(
    items: int,
    fingerprint: "FingerprintSettings",
    decision: "DecisionSettings",
    recall: float | None,
    threshold: float | None,
    hamming: int | None,
    memory: int | None,
    id_bytes: float,
    *,
    as_json: bool,
) -> None:
    """Plan the distance and the layout, and print them. `decision.body`: the Jaccard at which the recall counts."""
    from stream_dedup.evaluate.simhash_model import remarks
    from stream_dedup.evaluate.simhash_planner import MOST_FINGERPRINTS, advise

    if not 0 < items <= MOST_FINGERPRINTS:
        raise typer.BadParameter(f"--items is {items}; it must be from 1 to {MOST_FINGERPRINTS} (2^34)")
    if fingerprint.family == "given":
        for option, value in (("--recall", recall), ("--threshold", threshold)):
            if value is not None:
                raise typer.BadParameter(
                    f"{option} has no meaning for family = 'given': how far apart your fingerprints of near-duplicates "
                    "are is unknown; give --hamming"
                )
    if recall is not None and hamming is not None:
        raise typer.BadParameter("--recall determines the distance, and --hamming gives it: leave one of them out")
    advice = advise(items, fingerprint, decision, recall=recall, hamming=hamming, memory=memory, id_bytes=id_bytes)
    paste = advice.proposed.toml() if advice.proposed else ""
    if as_json:
        print_json(_as_json(advice, paste, remarks(fingerprint)))
        return
    _print(new_console(soft_wrap=True), advice, fingerprint, paste, memory is not None)


def _print(
    console: "Console", advice: "SimHashAdvice", fingerprint: "FingerprintSettings", paste: str, is_limited: bool
) -> None:
    from stream_dedup.evaluate.simhash_model import remarks
    from stream_dedup.index.footprint import ROWS_OF_AN_INDEX
    from stream_dedup.settings.memory import sized

    now, proposed = advice.present, advice.proposed
    chosen = proposed or now
    console.print("PRESENT SETTINGS")
    _print_plan(console, advice, now)
    asked = f"within {advice.layouts[0].hamming} of {fingerprint.bits} bits"
    if advice.recall is not None:
        asked = f"recall {advice.recall:.4g} at Jaccard {advice.similarity:g}: {asked}"
    bound = f"at most {sized(advice.limit)}" + ("" if is_limited else " (as now)")
    console.print(f"REQUESTED: {advice.items:,} originals, {asked}, {bound}\n")
    if proposed:
        console.print("PROPOSED")
        _print_plan(console, advice, proposed)
    console.print(_conclusion(advice))
    if paste:
        console.print("\n" + paste)
        console.print(MIGRATION if advice.changes_scheme else NO_MIGRATION)
    console.print()
    _print_layouts(console, f"Layouts that guarantee {advice.layouts[0].hamming} bits", advice.layouts, now, chosen)
    _print_layouts(console, "The layout with the least work, by distance", advice.distances, now, chosen)
    if advice.curve:
        table = Table(
            "Jaccard", "recall now", *(["recall proposed"] if proposed else []), title="Recall by body Jaccard"
        )
        for at, first, second in advice.curve:
            table.add_row(f"{at:g}", f"{first:.3f}", *([f"{second:.3f}"] if proposed else []))
        console.print(table)
    for text in remarks(fingerprint):
        console.print(text)
    if advice.indexes > 1:
        console.print(
            f"One index numbers {ROWS_OF_AN_INDEX:,} originals at most: on paper, {advice.indexes} of them hold these, "
            "and each item asks all."
        )


def _print_plan(console: "Console", advice: "SimHashAdvice", plan: "LayoutPlan") -> None:
    within = "finds every pair within" if plan.hamming else "finds every pair of"
    bits = f"{plan.hamming} bits" if plan.hamming else "equal fingerprints"
    recall = "" if plan.recall is None else f"; recall at Jaccard {advice.similarity:g}: {plan.recall:.3f}"
    others = f", lead and headline {rounded(plan.other_candidates)} more" if plan.other_candidates else ""
    console.print(
        f"hamming = {plan.hamming}, layout = '{plan.layout}': {within} {bits}{recall}\n"
        f"false candidates an item: {rounded(plan.false_candidates)}{others}\n"
        f"{memory_text(plan, advice.items)}",
    )


def _print_layouts(
    console: "Console", title: str, plans: "Sequence[LayoutPlan]", now: "LayoutPlan", chosen: "LayoutPlan"
) -> None:
    from stream_dedup.settings.memory import sized

    columns = ("bits", "layout", "tables", "key bits", "recall", "false", "keys read", "at most", "")
    # Without a frame it fits into 80 columns.
    table = Table(*columns, title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for plan in plans:
        is_now = (plan.hamming, plan.layout) == (now.hamming, now.layout)
        is_chosen = (plan.hamming, plan.layout) == (chosen.hamming, chosen.layout)
        low, high = plan.key_bits
        table.add_row(
            str(plan.hamming),
            plan.layout,
            str(plan.body_tables),
            f"{low}" if low == high else f"{low}-{high}",
            "-" if plan.recall is None else f"{plan.recall:.3f}",
            rounded(plan.false_candidates),
            rounded(plan.keys_read),
            sized(plan.peak),
            "present" if is_now else "proposed" if is_chosen else "",
        )
    console.print(table)


def _conclusion(advice: "SimHashAdvice") -> str:
    from stream_dedup.settings.memory import sized

    now, proposed = advice.present, advice.proposed
    if proposed is None:
        return (
            "Keep the present settings: they guarantee the requested distance within the memory, and no other layout "
            "that takes as little memory would save a quarter of the work."
        )
    lacks = []
    if now.hamming < proposed.hamming:
        lacks.append(f"find pairs within {now.hamming} bits only")
    if now.peak > advice.limit:
        lacks.append(f"take up to {sized(now.peak)}, not {sized(advice.limit)}")
    if not lacks:
        return (
            f"The present settings suffice. These take less work: {proposed.body_tables} tables of the body and "
            f"{rounded(proposed.false_candidates)} false candidates an item, instead of {now.body_tables} and "
            f"{rounded(now.false_candidates)}, and at most {sized(proposed.peak)} instead of {sized(now.peak)}. "
            "To paste:"
        )
    text = f"The present settings {' and '.join(lacks)}. "
    if advice.exceeded:
        text += f"This takes more memory than they have: {sized(proposed.peak)} at most, not {sized(advice.limit)}. "
    return text + "To paste:"


def _as_json(advice: "SimHashAdvice", paste: str, notes: list[str]) -> dict[str, Any]:
    return {
        "items": advice.items,
        "recall": advice.recall,
        "threshold": advice.similarity,
        "limit": advice.limit,
        "indexes": advice.indexes,
        "present": advice.present.as_json(),
        "proposed": advice.proposed.as_json() if advice.proposed else None,
        "layouts": [made.as_json() for made in advice.layouts],
        "distances": [made.as_json() for made in advice.distances],
        "curve": [{"jaccard": at, "present": present, "proposed": chosen} for at, present, chosen in advice.curve],
        "migrate": advice.changes_scheme,
        "settings": paste,
        "remarks": notes,
    }
