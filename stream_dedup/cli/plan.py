"""`stream-dedup plan`: recall and memory of the present index settings, and better settings to paste."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from stream_dedup.cli import common
from stream_dedup.cli.common import number, print_table

if TYPE_CHECKING:
    from stream_dedup.evaluate.planner import Advice, Plan, Traffic

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
    items: Annotated[
        str, typer.Option(metavar="NUMBER", help="Originals in a window, such as 200k or 2M (K, M, G: powers of 1000).")
    ] = "1M",
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
            "simhash, given: the Hamming distance to plan for, instead of --recall; default: fingerprint.hamming.",
            min=0,
            max=32,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Most bytes for the index, merges included, such as 512M or 4G; the process takes 200M more. Default: "
            "no limit.",
        ),
    ] = None,
    id_bytes: Annotated[float, number("Mean length of an id.", min=1)] = 40.0,
    body_shingles: Annotated[
        float | None, number("With verify = exact: mean distinct shingles of a body. Default: 500.", min=1)
    ] = None,
    config: common.ConfigOption = None,
    as_json: common.JsonOption = False,
) -> None:
    """Plan the index: recall, memory, and settings to paste.

    Prints first the recall and memory of the present settings, and last what each name of decision.novelty promises.
    Proposes the cheapest others if the present ones miss the given recall, distance or memory.

    Plans the number of anchors; without anchors bands and rows; for family = simhash or given the Hamming distance and
    the layout of the tables, up to 2^34 fingerprints. The recall of a SimHash is the share of the pairs at --threshold
    whose fingerprints are within the distance. docs/operating.md says how far measured recall is from the model.
    """
    from stream_dedup.evaluate.planner import MOST_FINGERPRINTS, Traffic, advise, evaluate
    from stream_dedup.index.footprint import BODY_SHINGLES, ROWS_OF_AN_INDEX
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    fingerprint, decision = settings.fingerprint, settings.decision
    unknown = (
        "has no meaning for family = 'given': how far apart your fingerprints of near-duplicates are is unknown; give "
        "--hamming"
    )
    is_given = fingerprint.family == "given"
    wrong = {
        "--body-shingles counts whole bodies, which only [fingerprint] verify = 'exact' keeps; leave it out": (
            body_shingles is not None and fingerprint.verify != "exact"
        ),
        "--hamming is for family = 'simhash' or 'given'; MinHash has none: leave it out": (
            hamming is not None and fingerprint.family == "minhash"
        ),
        f"--recall {unknown}": recall is not None and is_given,
        f"--threshold {unknown}": threshold is not None and is_given,
        "--recall determines the distance, and --hamming gives it: leave one of them out": (
            recall is not None and hamming is not None
        ),
    }
    common.refuse_all(wrong, typer.BadParameter)
    originals = common.parse_count(items)
    most = ROWS_OF_AN_INDEX if fingerprint.family == "minhash" else MOST_FINGERPRINTS
    if not 0 < originals <= most:
        raise typer.BadParameter(f"--items is {originals}; it must be from 1 to {most}, the most that can be planned")
    traffic = Traffic(originals, id_bytes, BODY_SHINGLES if body_shingles is None else body_shingles)
    if threshold is not None:
        decision = decision.model_copy(update={"body": threshold})
    limit = None if memory is None else common.parse_size(memory)
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
    if fingerprint.family == "minhash" and decision.rule == "novelty":
        _print_promises(console, decision.threshold)
    if fingerprint.shingle_letters:
        console.print(_LETTERS)


def _print_promises(console: "Console", present: float) -> None:
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


def _print_plan(console: "Console", traffic: "Traffic", threshold: float, plan: "Plan") -> None:
    from stream_dedup.index.footprint import BOOKKEEPING, MEMORY_SLACK
    from stream_dedup.settings.memory import needed, sized

    takes, settings = plan.takes, ", ".join(f"{name} = {value!r}" for name, value in plan.settings.items())
    found = "" if plan.recall is None else f"; recall at body Jaccard {threshold:g}: {plan.recall:.3f}"
    body = f"+ {plan.body_bytes:.0f} body " if plan.body_bytes else ""
    console.print(
        f"{settings}{found}\n"
        f"false candidates an item: {_rounded(plan.false_candidates)}\n"
        f"bytes an original: {takes.record_bytes} signature {body}+ {takes.keys} keys × {takes.key_bytes:.2f} "
        f"+ {takes.id_bytes:g} id + {BOOKKEEPING} = {takes.bytes_per_item:.0f}\n"
        f"memory for {traffic.items:,} originals: {sized(plan.memory)}, at most {sized(plan.peak)} while tables merge\n"
        f"[worker] memory, with batches and the allocator: {sized(needed(MEMORY_SLACK * plan.peak))}\n"
    )


def _print_advice(console: Console, traffic: "Traffic", advice: "Advice") -> None:
    from stream_dedup.settings.memory import sized

    asked = [] if advice.recall is None else [f"recall {advice.recall:.3f} at body Jaccard {advice.threshold:g}"]
    asked += [] if advice.hamming is None else [f"within {advice.hamming} bits"]
    asked += [] if advice.memory is None else [f"at most {sized(advice.memory)}"]
    console.print(f"REQUESTED: {traffic.items:,} originals, {', '.join(asked)}\n")
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
        curve = [(f"{at:g}", _recall(now), _recall(then)) for at, now, then in advice.curve]
        title = "\nWhat the index proposes, by Jaccard (the S-curve)"
        print_table(console, ("Jaccard", "present", "proposed"), curve, title)
