"""`stream-dedup plan`: what the present tables find and take, whether others do better, and the settings to paste."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from stream_dedup.cli.common import ConfigOption, JsonOption, bytes_of, count_of
from stream_dedup.errors import ConfigError

if TYPE_CHECKING:
    from stream_dedup.evaluate.planner import Advice, Footprint, Plan

_MIGRATE = """\
Pasting this changes the fingerprint scheme: what is remembered now cannot be compared with what comes. To forget
nothing, put it into a new settings file with a new [topics] changelog, then, beside the running workers:
  stream-dedup topics create --config NEW
  stream-dedup migrate --config NEW
A state directory of `filter --state` cannot be taken along: name a new one."""
_NOTICEABLE = 0.01  # of a chance; less is lost in what a model of hashes says of real texts
_NO_MIGRATION = "Pasting this leaves the fingerprint scheme as it is: nothing has to be migrated."


def plan_command(
    number: Annotated[
        str,
        typer.Option(
            "--items",
            metavar="NUMBER",
            help="Originals remembered at a time: let through in a window. 1 to 4294967295.",
        ),
    ] = "1000000",
    recall: Annotated[
        float | None,
        typer.Option(
            "--recall",
            metavar="NUMBER",
            min=0.01,
            max=0.9999,
            help="Wanted for a copy that only just counts; default: what the present settings give.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", metavar="NUMBER", min=0.05, max=1.0, help="Body Jaccard; default: decision.body."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Most bytes for what is remembered, merges included, such as 512M or 4G; the process takes 200M more. "
            "Default: what the present settings take.",
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
            help="Mean distinct shingles of a body; counts with verify = exact.",
        ),
    ] = 500.0,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plan the index: recall, memory, and the settings to paste.

    Says first what the present settings give. It proposes others only if these do not reach the recall or the memory
    that was asked for, or if others save a quarter of the work, and nothing bigger than was asked for.
    """
    from stream_dedup.evaluate.planner import AMPLIFICATION, advise, footprint, present, sized
    from stream_dedup.fingerprint.scheme import Scheme
    from stream_dedup.settings import load_settings

    items = count_of(number)
    if not 0 < items < 2**32:
        raise typer.BadParameter(f"--items is {items}; give 1 to {2**32 - 1}")
    settings = load_settings(config)
    decision = settings.decision
    if threshold is not None:
        decision = decision.model_copy(update={"body": threshold})
    most = bytes_of(memory) if memory else None
    if settings.fingerprint.family != "minhash" or settings.fingerprint.views == "body":
        if recall is not None or threshold is not None:
            raise typer.BadParameter(
                "--recall and --threshold choose bands of MinHash over several views; the present settings have none"
            )
        _print_footprint(footprint(Scheme(settings.fingerprint), items, id_bytes), items, most, as_json)
        return
    given, bytes_each = (settings.fingerprint, decision), (id_bytes, body_shingles)
    console = Console(emoji=False, highlight=False, soft_wrap=True)
    if not as_json:  # before anything can be refused
        console.print("PRESENT SETTINGS")
        _print(console, present(items, *given, *bytes_each))
    found = advise(items, recall, *given, most, *bytes_each)
    paste = found.proposed.toml() if found.proposed else ""
    if threshold is not None and threshold != settings.decision.body:
        paste = "\n".join(filter(None, [paste, f"[decision]\nbody = {threshold:g}\n"]))
    if as_json:
        sys.stdout.write(msgspec.json.encode(_as_json(found, paste)).decode() + "\n")
        return
    asked = f"recall {found.recall:.3f}" + (" (as now)" if recall is None else "")
    bound = f"at most {sized(found.limit)}" + (" (as now)" if most is None else "")
    console.print(f"ASKED FOR: {items:,} originals, {asked}, {bound}\n")
    if found.proposed:
        console.print("PROPOSED")
        _print(console, found.proposed)
    console.print(_verdict(found))
    if paste:
        console.print("\n" + paste, markup=False)
        console.print(_MIGRATE if found.proposed else _NO_MIGRATION, markup=False)
    console.print("\n" + AMPLIFICATION)


def _print_footprint(made: "Footprint", items: int, most: int | None, as_json: bool) -> None:
    """The memory alone: what a layout finds within its bits it finds for certain, so nothing else is to be chosen."""
    from stream_dedup.evaluate.planner import BOOKKEEPING, peak_bytes, sized

    peak = peak_bytes(items, made)
    if most is not None and peak > most:
        raise ConfigError(
            f"{items:,} originals need {sized(peak)} under the present settings while tables merge, not {sized(most)}; "
            "take a shorter window, another [fingerprint] layout or more memory"
        )
    if as_json:
        sys.stdout.write(msgspec.json.encode(msgspec.to_builtins(made) | {"peak": peak}).decode() + "\n")
        return
    sys.stdout.write(
        "PRESENT SETTINGS; they find everything within their bits for certain, so there is no recall to choose\n"
        f"bytes an original: {made.record_bytes} record + {made.tables} tables × {made.table_bytes:.2f} "
        f"+ {made.id_bytes:g} id + {BOOKKEEPING} = {made.bytes_per_item:.0f}\n"
        f"memory for {items:,} originals: {sized(items * made.bytes_per_item)}, "
        f"at most {sized(peak)} while tables merge\n"
    )


def _rounded(count: float) -> str:
    """Two digits for a person.

    >>> _rounded(30123.4), _rounded(220.1), _rounded(2.345), _rounded(0.01234)
    ('30,000', '220', '2.3', '0.012')
    """
    return f"{float(f'{count:.2g}'):,.0f}" if count >= 10 else f"{count:.2g}"


def _print(console: Console, made: "Plan") -> None:
    from stream_dedup.evaluate.planner import BOOKKEEPING, sized

    table = Table("view", "just counts at", "bands × rows", "finds", "alike by .1 more", "false candidates an item")
    for view in made.views:
        table.add_row(
            view.name,
            f"{view.similarity:.3f}",
            f"{view.bands} × {view.rows}",
            f"{view.recall:.3f}",
            f"{view.recall_above:.3f}",
            _rounded(view.false_candidates),
        )
    console.print(table)
    table = Table("Jaccard", *(f"{view.name} finds" for view in made.views))
    for similarity, chances in made.curve():
        table.add_row(f"{similarity:.1f}", *(f"{chance:.4f}" for chance in chances))
    console.print(table)
    console.print(
        f"recall of a copy that only just counts in every view: {made.recall:.3f}\n"
        f"false candidates an item: {made.false_candidates:,.0f}\n"
        f"bytes an original: {made.record_bytes} record "
        + (f"+ {made.body_bytes:.0f} body " if made.body_bytes else "")
        + f"+ {made.tables} tables × {made.table_bytes:.2f} "
        f"+ {made.id_bytes:g} id + {BOOKKEEPING} = {made.bytes_per_item:.0f}\n"
        f"memory for {made.items:,} originals: {sized(made.memory)}, at most {sized(made.peak)} while tables merge\n"
        + (
            f"standard error of a body Jaccard near its threshold: at most {made.standard_error:.3f}\n"
            if made.body_bins
            else "bodies are compared whole: their Jaccard is exact\n"
        )
    )


def _verdict(found: "Advice") -> str:
    from stream_dedup.evaluate.planner import sized

    now, made = found.present, found.proposed
    if made is None:
        return (
            "Keep the present settings: they reach what was asked for, and no others that take as little memory would "
            "save even a quarter of the work."
        )
    lacks = []
    if now.recall < found.recall:
        lacks.append(f"reach recall {now.recall:.3f}, not {found.recall:.3f}")
    if now.peak > found.limit:
        lacks.append(f"take up to {sized(now.peak)}, not {sized(found.limit)}")
    if not lacks:
        return (
            f"The present settings do. These save work: {made.false_candidates:.0f} false candidates an item, not "
            f"{now.false_candidates:.0f}; they take at most {sized(made.peak)}, not {sized(now.peak)}. "
            f"{_price_of_it(now, made)}To paste:"
        )
    said = f"The present settings {' and '.join(lacks)}. "
    if found.exceeded:
        said += f"This recall takes more memory than they have: {sized(made.peak)} at most, not {sized(found.limit)}. "
    return said + _price_of_it(now, made) + "To paste:"


def _price_of_it(now: "Plan", made: "Plan") -> str:
    """Where what is proposed finds less than the present settings: its recall is of copies that only just count."""
    worse = [
        f"{new.name} {new.recall_above:.3f}, not {old.recall_above:.3f}"
        for old, new in zip(now.views, made.views, strict=True)
        if new.recall_above < old.recall_above - _NOTICEABLE
    ]
    if not worse:
        return ""
    return f"In return fewer are found that are alike by .1 more than the threshold: {'; '.join(worse)}. "


def _as_json(found: "Advice", paste: str) -> dict[str, Any]:
    return {
        "recall": found.recall,
        "limit": found.limit,
        "present": found.present.as_json(),
        "proposed": found.proposed.as_json() if found.proposed else None,
        "migrate": found.proposed is not None,
        "settings": paste,
    }
