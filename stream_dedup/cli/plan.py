"""`stream-dedup plan`: recall and memory of the present index settings, and better settings to paste."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.table import Table

from stream_dedup.cli.common import ConfigOption, JsonOption, new_console, parse_count, parse_size
from stream_dedup.cli.plan_capacity import (
    HeldBackOption,
    ItemBytesOption,
    OutageOption,
    PeakOption,
    RateOption,
    ReplicasOption,
    RetentionOption,
    StreamOptions,
    WindowOption,
    print_capacity,
    refuse_with_rate,
    refuse_without_rate,
)
from stream_dedup.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from stream_dedup.evaluate.planner import Advice, Footprint, Plan

_MIGRATION = """\
These settings change the fingerprint scheme: the present changelog cannot be used with them. To keep what is
remembered, put them into a new settings file with a new [topics] changelog. Then, while the workers run:
  stream-dedup topics create --config NEW
  stream-dedup migrate --config NEW
A state directory of `filter --state` cannot be migrated: name a new one."""
_NO_MIGRATION = "These settings keep the fingerprint scheme, so no migration is needed."
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
            help="Wanted recall of a copy right at the thresholds; default: that of the present settings.",
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
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Most bytes for the index, merges included, such as 512M or 4G; the process takes 200M more. Default: "
            "as much as the present settings take. With --rate: most bytes of a process; default: 64G.",
        ),
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
            help="Mean distinct shingles of a body; used with verify = exact.",
        ),
    ] = 500.0,
    rate: RateOption = None,
    window: WindowOption = None,
    peak: PeakOption = None,
    item_bytes: ItemBytesOption = None,
    held_back: HeldBackOption = None,
    replicas: ReplicasOption = None,
    outage: OutageOption = None,
    retention: RetentionOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plan the index: recall, memory, and settings to paste.

    Prints first the recall and memory of the present settings. Proposes others, within the given memory, only if the
    present ones miss the given recall or memory, or if others save a quarter of the work.

    With --rate it says instead what the present settings need for such a stream: a single worker or split mode,
    processes and memory of each role, traffic and disk of the brokers, restore and catching up, and what the limit is.
    """
    from stream_dedup.evaluate.planner import AMPLIFICATION, advise, footprint, present, sized
    from stream_dedup.fingerprint.scheme import Scheme
    from stream_dedup.settings import load_settings

    stream = StreamOptions(window, peak, item_bytes, held_back, replicas, outage, retention)
    if rate is not None:
        refuse_with_rate({"--items": number, "--recall": recall, "--threshold": threshold})
        print_capacity(load_settings(config), rate, stream, memory, id_bytes, body_shingles, as_json=as_json)
        return
    refuse_without_rate(stream)
    items = parse_count(number or "1M")
    if not 0 < items < 2**32:
        raise typer.BadParameter(f"--items is {items}; it must be from 1 to {2**32 - 1}")
    settings = load_settings(config)
    decision = settings.decision
    if threshold is not None:
        decision = decision.model_copy(update={"body": threshold})
    memory_limit = parse_size(memory) if memory else None
    if settings.fingerprint.family != "minhash" or settings.fingerprint.views == "body":
        if recall is not None or threshold is not None:
            raise typer.BadParameter(
                "--recall and --threshold need [fingerprint] family = 'minhash' and views = 'all'; leave them out"
            )
        _print_footprint(footprint(Scheme(settings.fingerprint), items, id_bytes), items, memory_limit, as_json)
        return
    given, bytes_each = (settings.fingerprint, decision), (id_bytes, body_shingles)
    console = new_console(soft_wrap=True)
    if not as_json:  # first, because `advise` may raise
        console.print("PRESENT SETTINGS")
        _print(console, present(items, *given, *bytes_each))
    advice = advise(items, recall, *given, memory_limit, *bytes_each)
    paste = advice.proposed.toml() if advice.proposed else ""
    if threshold is not None and threshold != settings.decision.body:
        paste = "\n".join(filter(None, [paste, f"[decision]\nbody = {threshold:g}\n"]))
    if as_json:
        sys.stdout.write(msgspec.json.encode(_as_json(advice, paste)).decode() + "\n")
        return
    target = f"recall {advice.recall:.3f}" + (" (as now)" if recall is None else "")
    bound = f"at most {sized(advice.limit)}" + (" (as now)" if memory_limit is None else "")
    console.print(f"REQUESTED: {items:,} originals, {target}, {bound}\n")
    if advice.proposed:
        console.print("PROPOSED")
        _print(console, advice.proposed)
    console.print(_conclusion(advice))
    if paste:
        console.print("\n" + paste, markup=False)
        console.print(_MIGRATION if advice.proposed else _NO_MIGRATION, markup=False)
    console.print("\n" + AMPLIFICATION)


def _print_footprint(footprint: "Footprint", items: int, memory_limit: int | None, as_json: bool) -> None:
    """Print the memory. A SimHash layout has no recall to choose: it finds every pair within its distance."""
    from stream_dedup.evaluate.planner import BOOKKEEPING, peak_bytes, sized

    peak = peak_bytes(items, footprint)
    if memory_limit is not None and peak > memory_limit:
        raise ConfigError(
            f"{items:,} originals take {sized(peak)} with the present settings while tables merge, more than "
            f"{sized(memory_limit)}; choose a shorter window, another [fingerprint] layout or more memory"
        )
    if as_json:
        sys.stdout.write(msgspec.json.encode(msgspec.to_builtins(footprint) | {"peak": peak}).decode() + "\n")
        return
    sys.stdout.write(
        "PRESENT SETTINGS; they find every pair within their Hamming distance, so there is no recall to choose\n"
        f"bytes an original: {footprint.record_bytes} signature + {footprint.tables} tables × "
        f"{footprint.table_bytes:.2f} + {footprint.id_bytes:g} id + {BOOKKEEPING} = {footprint.bytes_per_item:.0f}\n"
        f"memory for {items:,} originals: {sized(items * footprint.bytes_per_item)}, "
        f"at most {sized(peak)} while tables merge\n"
    )


def _rounded(count: float) -> str:
    """Round to two significant digits.

    >>> _rounded(30123.4), _rounded(220.1), _rounded(2.345), _rounded(0.01234)
    ('30,000', '220', '2.3', '0.012')
    """
    return f"{float(f'{count:.2g}'):,.0f}" if count >= 10 else f"{count:.2g}"


def _print(console: "Console", plan: "Plan") -> None:
    from stream_dedup.evaluate.planner import BOOKKEEPING, sized

    table = Table("view", "threshold", "bands × rows", "recall there", "recall .1 above", "false candidates an item")
    for view in plan.views:
        table.add_row(
            view.name,
            f"{view.similarity:.3f}",
            f"{view.bands} × {view.rows}",
            f"{view.recall:.3f}",
            f"{view.recall_above:.3f}",
            _rounded(view.false_candidates),
        )
    console.print(table)
    table = Table("Jaccard", *(f"{view.name} recall" for view in plan.views))
    for similarity, chances in plan.curve():
        table.add_row(f"{similarity:.1f}", *(f"{chance:.4f}" for chance in chances))
    console.print(table)
    console.print(
        f"recall of a copy right at the threshold of every view: {plan.recall:.3f}\n"
        f"false candidates an item: {plan.false_candidates:,.0f}\n"
        f"bytes an original: {plan.record_bytes} signature "
        + (f"+ {plan.body_bytes:.0f} body " if plan.body_bytes else "")
        + f"+ {plan.tables} tables × {plan.table_bytes:.2f} "
        f"+ {plan.id_bytes:g} id + {BOOKKEEPING} = {plan.bytes_per_item:.0f}\n"
        f"memory for {plan.items:,} originals: {sized(plan.memory)}, at most {sized(plan.peak)} while tables merge\n"
        + (
            f"standard error of a body Jaccard near its threshold: at most {plan.standard_error:.3f}\n"
            if plan.body_bins
            else "bodies are compared in full: their Jaccard is exact\n"
        )
    )


def _conclusion(advice: "Advice") -> str:
    from stream_dedup.evaluate.planner import sized

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
