"""`stream-dedup plan`: the memory that a feed needs; recall and memory of the index, and better settings to paste."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from stream_dedup.cli import common
from stream_dedup.cli.common import number, option, print_table
from stream_dedup.tools.cli import shared

if TYPE_CHECKING:
    from stream_dedup.tools.evaluate.planner import Advice, Plan, Sizing, Traffic

_DAY = timedelta(days=1)
_MOST_HELD = 0.99  # a feed of which everything is held back needs no memory: surely a slip
_MIGRATION = """\
These settings change the fingerprint scheme: the present changelog cannot be used with them. To keep what is
remembered, put them into a new settings file with a new [topics] changelog. Then, while the workers run:
  stream-dedup topics create --config NEW
  stream-dedup migrate --config NEW
A state directory of `filter --state` cannot be migrated: name a new one."""
_NO_MIGRATION = "These settings keep the fingerprint scheme, so no migration is needed."
_LETTERS = (
    "With shingle_letters these figures are too low: unrelated texts share more letters than words, so more of them "
    "are proposed. Measure your own with `stream-dedup evaluate CORPUS`."
)


def plan_command(
    per_day: Annotated[
        str | None, option("Items that come in a day, such as 200k or 2M (K, M, G: powers of 1000).", "NUMBER")
    ] = None,
    window: Annotated[
        str | None, option("With --per-day: the window, such as 7d. Default: window.length.", "TIME")
    ] = None,
    share_held: Annotated[
        str | None,
        option("With --per-day: the share of items held back, such as .2 or 20%. Default: 0, the safe side.", "SHARE"),
    ] = None,
    items: Annotated[
        str | None, option("Originals in a window, to plan recall and keys. Default: 1M.", "NUMBER")
    ] = None,
    recall: Annotated[
        float | None,
        number("Wanted recall of a copy at --threshold; default: that of the present settings.", min=0.01, max=0.9999),
    ] = None,
    threshold: Annotated[
        float | None,
        number("Jaccard of the two bodies at which recall counts; default: decision.body.", min=0.05, max=1.0),
    ] = None,
    hamming: Annotated[
        int | None,
        number(
            "simhash, given: Hamming distance to plan for, not --recall; default: fingerprint.hamming.", min=0, max=32
        ),
    ] = None,
    memory: Annotated[
        str | None, option("Most memory of the process ([worker] memory), such as 2G. Default: no limit.", "SIZE")
    ] = None,
    id_bytes: Annotated[float | None, number("Mean length of an id. Default: 40.", min=1)] = None,
    body_shingles: Annotated[
        float | None, number("With verify = exact: mean distinct shingles of a body. Default: 500.", min=1)
    ] = None,
    config: common.ConfigOption = None,
    as_json: common.JsonOption = False,
) -> None:
    """Plan memory and recall, and print settings to paste.

    How much memory does my feed need? --per-day answers: the setting to paste, whether it fits into --memory, and what
    it costs if not.

    Without --per-day, plans the index for --items originals. Prints first the recall and memory of the present
    settings, and last what each name of decision.novelty promises. Proposes the cheapest others if the present ones
    miss the wanted recall, distance or memory.

    Plans the number of anchors, or bands and rows where there are no anchors. For family = simhash or given it plans
    the Hamming distance and the layout of the tables, up to 2^34 fingerprints. The recall of a SimHash is the share of
    the pairs at --threshold whose fingerprints are within the distance. deploy/sizing.md says how far measured recall
    is from the model.
    """
    from stream_dedup.index.footprint import BODY_SHINGLES, ROWS_OF_AN_INDEX
    from stream_dedup.tools.evaluate.planner import MOST_FINGERPRINTS, Traffic, advise, evaluate, sizing

    refuse = partial(common.refuse, error=typer.BadParameter)
    limit = None if memory is None else shared.parse_size(memory)
    overrides: dict[str, dict[str, Any]] = {"window": {"length": window}} if window else {}
    if per_day is not None and limit is not None:
        overrides["worker"] = {"memory": limit}  # refused if it is too small for any worker
    settings = common.settings_of(config, **overrides)
    of_index = {"--items": items, "--recall": recall, "--threshold": threshold, "--hamming": hamming}
    of_index |= {"--id-bytes": id_bytes, "--body-shingles": body_shingles}
    if per_day is not None:
        text = "{} plans the index, and --per-day the memory: leave one of them out"
        refuse(*((value is not None, text.format(name)) for name, value in of_index.items()))
        share = shared.parse_share(share_held or "0", _MOST_HELD)
        _print_sizing(sizing(settings, shared.parse_count(per_day), share, limit), as_json)
        return
    fingerprint, decision = settings.fingerprint, settings.decision
    unknown = (
        "has no meaning for family = 'given': how far apart your fingerprints of near-duplicates are is unknown; give "
        "--hamming"
    )
    has_own_prints = fingerprint.family == "given"
    is_minhash = fingerprint.family == "minhash"
    bodies = "--body-shingles counts whole bodies, which only [fingerprint] verify = 'exact' keeps; leave it out"
    distance = "--hamming is for family = 'simhash' or 'given'; MinHash has none: leave it out"
    twice = "--recall determines the distance, and --hamming gives it: leave one of them out"
    refuse(
        (window is not None, "--window goes with --per-day"),
        (share_held is not None, "--share-held goes with --per-day"),
        (body_shingles is not None and fingerprint.verify != "exact", bodies),
        (hamming is not None and is_minhash, distance),
        (recall is not None and has_own_prints, f"--recall {unknown}"),
        (threshold is not None and has_own_prints, f"--threshold {unknown}"),
        (recall is not None and hamming is not None, twice),
    )
    originals = shared.parse_count(items or "1M")
    most = ROWS_OF_AN_INDEX if is_minhash else MOST_FINGERPRINTS
    if not 0 < originals <= most:
        raise typer.BadParameter(f"--items is {originals}; it must be from 1 to {most}, the most that can be planned")
    traffic = Traffic(originals, id_bytes or 40.0, BODY_SHINGLES if body_shingles is None else body_shingles)
    if threshold is not None:
        decision = decision.model_copy(update={"body": threshold})
    console = common.CleanConsole(soft_wrap=True)
    if not as_json:  # first, because `advise` may raise
        console.print("PRESENT SETTINGS")
        _print_plan(console, traffic, decision.body, evaluate(traffic, fingerprint, decision))
    advice = advise(traffic, fingerprint, decision, recall=recall, hamming=hamming, memory=limit)
    if as_json:
        paste = advice.proposed.toml() if advice.proposed else ""
        common.print_json({"items": originals, "migrate": advice.changes_scheme, "settings": paste, "plan": advice})
        return
    _print_advice(console, traffic, advice)
    if is_minhash and decision.rule == "novelty":
        _print_promises(console, decision.threshold)
    if fingerprint.shingle_letters:
        console.print(_LETTERS)


def _print_sizing(needs: Sizing, as_json: bool) -> None:
    instead = "" if needs.fits or not needs.given else needs.window(needs.fitting)
    if as_json:
        common.print_json({"sizing": needs, "fits": needs.fits, "settings": needs.toml(), "instead": instead})
        return
    console = common.CleanConsole(soft_wrap=True)
    days = needs.length / _DAY
    console.print(f"{needs.originals:,} originals are remembered in {days:g} days. They need {_gib(needs.memory)}.")
    if needs.given:
        fits = "That fits into" if needs.fits else "That does not fit into"
        console.print(f"{fits} {_gib(needs.given)}, which has room for {needs.room:,}.")
    console.print(f"\nPaste, and give the container this memory:\n\n{needs.toml()}", markup=False)
    if instead:
        console.print(
            f"Or keep {_gib(needs.given or 0)}, and paste\n\n{instead}\nIt costs the copies that come more than "
            f"{needs.fitting / _DAY:.1f} days after their article: they are let through again. (In labelled news they "
            "came within 13 hours.)",
            markup=False,
        )


def _gib(count: int) -> str:
    """Format a memory as the table of deploy/sizing.md does.

    >>> _gib(2**33), _gib(700 * 2**20)
    ('8 GiB', '0.6836 GiB')
    """
    return f"{count / 2**30:.4g} GiB"


def _print_promises(console: Console, present: float) -> None:
    from stream_dedup.settings.judging import NOVELTY_NAMES, NOVELTY_PROMISES, with_name

    console.print(f"\nWHAT IS HELD BACK: decision.novelty is {with_name(present)}")
    for name, promise in NOVELTY_PROMISES.items():
        console.print(f"{with_name(NOVELTY_NAMES[name])}: {promise}")


def _rounded(count: float) -> str:
    """Round to two significant digits.

    >>> _rounded(30123.4), _rounded(220.1), _rounded(2.345), _rounded(0)
    ('30,000', '220', '2.3', '0')
    """
    return f"{float(f'{count:.2g}'):,.0f}" if count >= 10 else f"{count:.2g}"


def _recall(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _print_plan(console: Console, traffic: Traffic, threshold: float, plan: Plan) -> None:
    from stream_dedup.index.footprint import BOOKKEEPING
    from stream_dedup.settings.memory import sized

    takes, settings = plan.takes, ", ".join(f"{name} = {value!r}" for name, value in plan.settings.items())
    recall = "" if plan.recall is None else f"; recall at body Jaccard {threshold:g}: {plan.recall:.3f}"
    body = f"+ {plan.body_bytes:.0f} body " if plan.body_bytes else ""
    console.print(
        f"{settings}{recall}\n"
        f"false candidates an item: {_rounded(plan.false_candidates)}\n"
        f"bytes an original: {takes.record_bytes} signature {body}+ {takes.keys} keys × {takes.key_bytes:.2f} "
        f"+ {takes.id_bytes:g} id + {BOOKKEEPING} = {takes.bytes_per_item:.0f}\n"
        f"memory for {traffic.items:,} originals: {sized(plan.memory)}, at most {sized(plan.peak)} while tables merge\n"
        f"[worker] memory, with batches and the allocator: {sized(plan.process)}\n"
    )


def _print_advice(console: Console, traffic: Traffic, advice: Advice) -> None:
    from stream_dedup.settings.memory import sized

    wanted = [] if advice.recall is None else [f"recall {advice.recall:.3f} at body Jaccard {advice.threshold:g}"]
    wanted += [] if advice.hamming is None else [f"within {advice.hamming} bits"]
    wanted += [] if advice.memory is None else [f"[worker] memory of at most {sized(advice.memory)}"]
    console.print(f"REQUESTED: {traffic.items:,} originals, {', '.join(wanted)}\n")
    if advice.proposed:
        console.print("PROPOSED")
        _print_plan(console, traffic, advice.threshold, advice.proposed)
        console.print(f"{advice.proposed.toml()}\n{_MIGRATION if advice.changes_scheme else _NO_MIGRATION}\n")
    else:
        console.print("Keep the present settings: they do what is requested.\n")
    rows = [
        (
            *map(str, plan.settings.values()),
            "-".join(map(str, sorted({*plan.key_bits}))),
            _rounded(plan.keys_read),
            plan.takes.keys,
            _recall(plan.recall),
            _rounded(plan.false_candidates),
            sized(plan.peak),
            "present" if plan.settings == advice.present.settings else "proposed" if plan == advice.proposed else "",
        )
        for plan in advice.choices
    ]
    columns = (*advice.choices[0].settings, "key bits", "keys read", "keys", "recall", "false", "at most", "")
    print_table(console, columns, rows, "What does this, the cheapest first")
    if advice.curve:
        curve = [(f"{jaccard:g}", _recall(present), _recall(proposed)) for jaccard, present, proposed in advice.curve]
        title = "\nWhat the index proposes, by Jaccard (the S-curve)"
        print_table(console, ("Jaccard", "present", "proposed"), curve, title)
