"""`stream-dedup plan`: the memory that a feed needs; recall and memory of the index."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import click

from stream_dedup import cli
from stream_dedup.cli import option
from stream_dedup.tools.cli import shared
from stream_dedup.tools.cli.shared import number
from stream_dedup.tools.terminal import Console, print_table

if TYPE_CHECKING:
    from stream_dedup.tools.evaluate.planner import Plan, Sizing, Traffic

_DAY = timedelta(days=1)
_MOST_HELD = 0.99  # a feed of which everything is held back needs no memory: surely a slip
_LETTERS = (
    "With letters these figures are too low: unrelated texts share more letters than words, so more of them "
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
    memory: Annotated[
        str | None,
        option("With --per-day: most memory of the process ([worker] memory), such as 2G. Default: no limit.", "SIZE"),
    ] = None,
    items: Annotated[str | None, option("Originals in a window, to plan the index. Default: 1M.", "NUMBER")] = None,
    threshold: Annotated[
        float | None,
        number("Jaccard of two bodies at which recall counts; default: decision.jaccard, or .5.", min=0.05, max=1.0),
    ] = None,
    id_bytes: Annotated[float | None, number("Mean length of an id. Default: 40.", min=1)] = None,
    body_shingles: Annotated[
        float | None, number("With verify = exact: mean distinct shingles of a body. Default: 500.", min=1)
    ] = None,
    config: cli.ConfigOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Plan memory and recall.

    How much memory does my feed need? --per-day answers: the setting to paste, whether it fits into --memory, and what
    it costs if not.

    Without --per-day, plans the index for --items originals (up to 2^34 fingerprints): recall, false candidates and
    memory of the settings, the S-curve, and what each name of decision.novelty promises. The recall of a SimHash is the
    share of the pairs at --threshold whose fingerprints are within the distance. deploy/sizing.md says how far measured
    recall is from the model.
    """
    from stream_dedup.index.footprint import BODY_SHINGLES, ROWS_OF_AN_INDEX
    from stream_dedup.tools.evaluate.planner import MOST_FINGERPRINTS, PLAIN_JACCARD, Traffic, evaluate, sizing

    refuse = partial(shared.refuse, error=click.BadParameter)
    limit = None if memory is None else shared.parse_size(memory)
    overrides: dict[str, dict[str, Any]] = {"window": {"length": window}} if window else {}
    if per_day is not None and limit is not None:
        overrides["worker"] = {"memory": limit}  # refused if it is too small for any worker
    settings = cli.settings_of(config, **overrides)
    of_index = {"--items": items, "--threshold": threshold, "--id-bytes": id_bytes, "--body-shingles": body_shingles}
    if per_day is not None:
        text = "{} plans the index, and --per-day the memory: leave one of them out"
        refuse(*((value is not None, text.format(name)) for name, value in of_index.items()))
        share = shared.parse_share(share_held or "0", _MOST_HELD)
        _print_sizing(sizing(settings, shared.parse_count(per_day), share, limit), as_json)
        return
    fingerprint, decision = settings.fingerprint, settings.decision
    is_minhash = fingerprint.family == "minhash"
    bodies = "--body-shingles counts whole bodies, which only [fingerprint] verify = 'exact' keeps; leave it out"
    unknown = "--threshold has no meaning for family = 'given': how far apart your fingerprints are is unknown"
    refuse(
        (window is not None, "--window goes with --per-day"),
        (share_held is not None, "--share-held goes with --per-day"),
        (memory is not None, "--memory goes with --per-day"),
        (body_shingles is not None and fingerprint.verify != "exact", bodies),
        (threshold is not None and fingerprint.family == "given", unknown),
    )
    originals = shared.parse_count(items or "1M")
    most = ROWS_OF_AN_INDEX if is_minhash else MOST_FINGERPRINTS
    if not 0 < originals <= most:
        raise click.BadParameter(f"--items is {originals}; it must be from 1 to {most}, the most that can be planned")
    traffic = Traffic(originals, id_bytes or 40.0, BODY_SHINGLES if body_shingles is None else body_shingles)
    jaccard = threshold or decision.jaccard or PLAIN_JACCARD
    plan = evaluate(traffic, fingerprint, jaccard)
    if as_json:
        shared.print_json({"items": originals, "threshold": jaccard, "plan": plan})
        return
    _print_plan(traffic, jaccard, plan)
    if is_minhash and decision.jaccard is None:
        _print_promises(decision.threshold)
    if fingerprint.shingles == "letters":
        click.echo(_LETTERS)


def _print_sizing(needs: Sizing, as_json: bool) -> None:
    instead = "" if needs.fits or not needs.given else needs.window(needs.fitting)
    if as_json:
        shared.print_json({"sizing": needs, "fits": needs.fits, "settings": needs.toml(), "instead": instead})
        return
    days = needs.length / _DAY
    click.echo(f"{needs.originals:,} originals are remembered in {days:g} days. They need {_gib(needs.memory)}.")
    if needs.given:
        fits = "That fits into" if needs.fits else "That does not fit into"
        click.echo(f"{fits} {_gib(needs.given)}, which has room for {needs.room:,}.")
    click.echo(f"\nPaste, and give the container this memory:\n\n{needs.toml()}")
    if instead:
        click.echo(
            f"Or keep {_gib(needs.given or 0)}, and paste\n\n{instead}\nIt costs the copies that come more than "
            f"{needs.fitting / _DAY:.1f} days after their article: they are let through again. (In labelled news they "
            "came within 13 hours.)",
        )


def _gib(count: int) -> str:
    """Format a memory as the table of deploy/sizing.md does.

    >>> _gib(2**33), _gib(700 * 2**20)
    ('8 GiB', '0.6836 GiB')
    """
    return f"{count / 2**30:.4g} GiB"


def _print_promises(present: float) -> None:
    from stream_dedup.settings.judging import NOVELTY_NAMES, NOVELTY_PROMISES
    from stream_dedup.tools.evaluate.rates import with_name

    click.echo(f"\nWHAT IS HELD BACK: decision.novelty is {with_name(present)}")
    for name, promise in NOVELTY_PROMISES.items():
        click.echo(f"{with_name(NOVELTY_NAMES[name])}: {promise}")


def _rounded(count: float) -> str:
    """Round to two significant digits.

    >>> _rounded(30123.4), _rounded(220.1), _rounded(2.345), _rounded(0)
    ('30,000', '220', '2.3', '0')
    """
    return f"{float(f'{count:.2g}'):,.0f}" if count >= 10 else f"{count:.2g}"


def _print_plan(traffic: Traffic, threshold: float, plan: Plan) -> None:
    from stream_dedup.index.footprint import BOOKKEEPING
    from stream_dedup.settings.memory import sized

    takes, body = plan.takes, f"+ {plan.body_bytes:.0f} body " if plan.body_bytes else ""
    lines = [] if plan.recall is None else [f"recall at body Jaccard {threshold:g}: {plan.recall:.3f}"]
    lines += [f"false candidates an item: {_rounded(plan.false_candidates)}"]
    lines += [f"keys that an item reads: {_rounded(plan.keys_read)}"] if plan.keys_read else []
    click.echo(
        "\n".join(lines) + f"\nbytes an original: {takes.record_bytes} signature {body}"
        f"+ {takes.keys} keys × {takes.key_bytes:.2f} + {takes.id_bytes:g} id + {BOOKKEEPING} = "
        f"{takes.bytes_per_item:.0f}\n"
        f"memory for {traffic.items:,} originals: {sized(plan.memory)}, at most {sized(plan.peak)} while tables merge\n"
        f"[worker] memory, with batches and the allocator: {sized(plan.process)}\n"
    )
    if plan.curve:
        rows = [(f"{jaccard:g}", f"{recall:.3f}") for jaccard, recall in plan.curve]
        print_table(Console(), ("Jaccard", "proposed"), rows, "What the index proposes, by Jaccard (the S-curve)")
