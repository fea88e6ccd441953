"""`stream-dedup plan`: recall and memory of the present index settings, and better settings to paste."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_dedup.cli.common import ConfigOption, JsonOption, new_console, parse_count, parse_size, print_json
from stream_dedup.cli.console import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from stream_dedup.evaluate.planner import Advice, Plan, Traffic
    from stream_dedup.settings import FingerprintSettings

_MIGRATION = """\
These settings change the fingerprint scheme: the present changelog cannot be used with them. To keep what is
remembered, put them into a new settings file with a new [topics] changelog. Then, while the workers run:
  stream-dedup topics create --config NEW
  stream-dedup migrate --config NEW
A state directory of `filter --state` cannot be migrated: name a new one."""
_NO_MIGRATION = "These settings keep the fingerprint scheme, so no migration is needed."


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
            help="Wanted recall of a copy at --threshold; default: that of the present settings.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            metavar="NUMBER",
            min=0.05,
            max=1.0,
            help="Jaccard of the two bodies at which recall counts; default: decision.body.",
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

    Plans the number of anchors; without anchors bands and rows; for family = simhash or given the Hamming distance and
    the layout of the tables, up to 2^34 fingerprints. The recall of a SimHash is the share of the pairs at --threshold
    whose fingerprints are within the distance.
    """
    from stream_dedup.evaluate.planner import MOST_FINGERPRINTS, Traffic, advise, evaluate
    from stream_dedup.evaluate.simhash_model import remarks
    from stream_dedup.index.footprint import BODY_SHINGLES, ROWS_OF_AN_INDEX
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    fingerprint, decision = settings.fingerprint, settings.decision
    _check_options(fingerprint, recall, threshold, hamming, body_shingles)
    items = parse_count("1M" if number is None else number)
    most = ROWS_OF_AN_INDEX if fingerprint.family == "minhash" else MOST_FINGERPRINTS
    if not 0 < items <= most:
        raise typer.BadParameter(f"--items is {items}; it must be from 1 to {most}, the most that can be planned")
    traffic = Traffic(items, id_bytes, BODY_SHINGLES if body_shingles is None else body_shingles)
    if threshold is not None:
        decision = decision.model_copy(update={"body": threshold})
    limit = None if memory is None else parse_size(memory)
    console = new_console(soft_wrap=True)
    if not as_json:  # first, because `advise` may raise
        console.print("PRESENT SETTINGS")
        _print_plan(console, traffic, decision.body, evaluate(traffic, fingerprint, decision))
    advice = advise(traffic, fingerprint, decision, recall=recall, hamming=hamming, memory=limit)
    paste = advice.proposed.toml() if advice.proposed else ""
    if decision.rule == "jaccard" and fingerprint.family == "minhash" and decision.body != settings.decision.body:
        paste = "\n".join(filter(None, [paste, f"[decision]\nbody = {decision.body:g}\n"]))
    if as_json:
        print_json(_as_json(traffic, advice, paste) | {"remarks": remarks(fingerprint)})
        return
    _print_advice(console, traffic, advice, paste, is_as_now=(recall is None and hamming is None, limit is None))
    for text in remarks(fingerprint):
        console.print(text)


def _check_options(
    fingerprint: "FingerprintSettings",
    recall: float | None,
    threshold: float | None,
    hamming: int | None,
    body_shingles: float | None,
) -> None:
    """Refuse options that have no meaning for the family."""
    if body_shingles is not None and fingerprint.verify != "exact":
        raise typer.BadParameter(
            "--body-shingles counts whole bodies, which only [fingerprint] verify = 'exact' keeps; leave it out"
        )
    if hamming is not None and fingerprint.family == "minhash":
        raise typer.BadParameter("--hamming is for family = 'simhash' or 'given'; MinHash has none: leave it out")
    if fingerprint.family == "given":
        for option, value in (("--recall", recall), ("--threshold", threshold)):
            if value is not None:
                raise typer.BadParameter(
                    f"{option} has no meaning for family = 'given': how far apart your fingerprints of near-duplicates "
                    "are is unknown; give --hamming"
                )
    if recall is not None and hamming is not None:
        raise typer.BadParameter("--recall determines the distance, and --hamming gives it: leave one of them out")


def rounded(count: float) -> str:
    """Round to two significant digits.

    >>> rounded(30123.4), rounded(220.1), rounded(2.345), rounded(0.01234), rounded(0)
    ('30,000', '220', '2.3', '0.012', '0')
    """
    return f"{float(f'{count:.2g}'):,.0f}" if count >= 10 else f"{count:.2g}"


def _print_plan(console: "Console", traffic: "Traffic", threshold: float, plan: "Plan") -> None:
    from stream_dedup.index.footprint import BOOKKEEPING, MEMORY_SLACK
    from stream_dedup.settings.memory import needed, sized

    takes = plan.takes
    recall = "" if plan.recall is None else f"; recall at body Jaccard {threshold:g}: {plan.recall:.3f}"
    body = f"+ {plan.body_bytes:.0f} body " if plan.body_bytes else ""
    console.print(
        f"{_settings(plan)}{recall}\n"
        f"false candidates an item: {rounded(plan.false_candidates)}\n"
        f"bytes an original: {takes.record_bytes} signature {body}+ {takes.keys} keys × {takes.key_bytes:.2f} "
        f"+ {takes.id_bytes:g} id + {BOOKKEEPING} = {takes.bytes_per_item:.0f}\n"
        f"memory for {traffic.items:,} originals: {sized(plan.memory)}, at most {sized(plan.peak)} while tables merge\n"
        f"[worker] memory, with batches and the allocator: {sized(needed(MEMORY_SLACK * plan.peak))}\n"
    )


def _settings(plan: "Plan") -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in plan.settings.items())


def _print_advice(
    console: "Console", traffic: "Traffic", advice: "Advice", paste: str, is_as_now: tuple[bool, bool]
) -> None:
    from stream_dedup.index.footprint import ROWS_OF_AN_INDEX
    from stream_dedup.settings.memory import sized

    asked = [f"recall {advice.recall:.3f} at body Jaccard {advice.threshold:g}"] if advice.recall is not None else []
    asked += [f"within {advice.hamming} bits"] if advice.hamming is not None else []
    as_now, limit_as_now = (" (as now)" if same else "" for same in is_as_now)
    limit = f"at most {sized(advice.limit)}{limit_as_now}"
    console.print(f"REQUESTED: {traffic.items:,} originals, {', '.join(asked)}{as_now}, {limit}\n")
    if advice.proposed:
        console.print("PROPOSED")
        _print_plan(console, traffic, advice.threshold, advice.proposed)
    console.print(_conclusion(advice))
    if paste:
        console.print("\n" + paste)
        console.print(_MIGRATION if advice.changes_scheme else _NO_MIGRATION)
    console.print()
    _print_choices(console, "What does this, the cheapest first", advice.choices, advice)
    if advice.distances:
        _print_choices(console, "The layout with the least work, by distance", advice.distances, advice)
    if advice.curve:
        columns = list(advice.curve[0][1])
        rows = [(f"{at:g}", *(f"{chances[name]:.3f}" for name in columns)) for at, chances in advice.curve]
        print_table(console, ("Jaccard", *columns), rows, "What the index proposes, by Jaccard (the S-curve)")
    if advice.indexes > 1:
        console.print(
            f"A table of an index holds {ROWS_OF_AN_INDEX:,} keys at most: on paper, {advice.indexes} of them hold "
            "these originals, and each item asks all."
        )


def _print_choices(console: "Console", title: str, plans: "Sequence[Plan]", advice: "Advice") -> None:
    from stream_dedup.settings.memory import sized

    of_layout = ("key bits", "keys read") if plans[0].key_bits else ()
    columns = (*plans[0].settings, *of_layout, "keys", "recall", "false", "at most", "")
    rows = []
    proposed = advice.proposed and advice.proposed.settings
    for plan in plans:
        is_now, is_proposed = plan.settings == advice.present.settings, plan.settings == proposed
        row = (
            *map(str, plan.settings.values()),
            *(("-".join(map(str, sorted({*plan.key_bits}))), rounded(plan.keys_read)) if plan.key_bits else ()),
            plan.takes.keys,
            "-" if plan.recall is None else f"{plan.recall:.3f}",
            rounded(plan.false_candidates),
            sized(plan.peak),
            "present" if is_now else "proposed" if is_proposed else "",
        )
        rows.append(row)
    print_table(console, columns, rows, title)


def _conclusion(advice: "Advice") -> str:
    from stream_dedup.settings.memory import sized

    now, proposed = advice.present, advice.proposed
    if proposed is None:
        return (
            "Keep the present settings: they do what is requested within the memory, and no others that take as little "
            "memory would save a quarter of the work."
        )
    lacks = []
    if advice.hamming is not None and now.settings["hamming"] < advice.hamming:
        lacks.append(f"find pairs within {now.settings['hamming']} bits only")
    elif advice.hamming is None and (now.recall or 0) < (advice.recall or 0):
        lacks.append(f"reach recall {now.recall:.3f}, not {advice.recall:.3f}")
    if now.peak > advice.limit:
        lacks.append(f"take up to {sized(now.peak)}, not {sized(advice.limit)}")
    if not lacks:
        return (
            f"The present settings suffice. These take less work: {proposed.takes.keys} keys and "
            f"{rounded(proposed.false_candidates)} false candidates an item, instead of {now.takes.keys} and "
            f"{rounded(now.false_candidates)}, and at most {sized(proposed.peak)} instead of {sized(now.peak)}. "
            "To paste:"
        )
    text = f"The present settings {' and '.join(lacks)}. "
    if advice.exceeded:
        text += f"This takes more memory than they have: {sized(proposed.peak)} at most, not {sized(advice.limit)}. "
    return text + "To paste:"


def _as_json(traffic: "Traffic", advice: "Advice", paste: str) -> dict[str, Any]:
    return {
        "items": traffic.items,
        "recall": advice.recall,
        "hamming": advice.hamming,
        "threshold": advice.threshold,
        "limit": advice.limit,
        "indexes": advice.indexes,
        "present": advice.present.as_json(),
        "proposed": advice.proposed and advice.proposed.as_json(),
        "choices": [made.as_json() for made in advice.choices],
        "distances": [made.as_json() for made in advice.distances],
        "curve": [{"jaccard": at, "proposed": chances} for at, chances in advice.curve],
        "migrate": advice.changes_scheme,
        "settings": paste,
    }
