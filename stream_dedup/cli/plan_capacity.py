"""`stream-dedup plan --rate`: the options that describe a stream, and what a deployment for it needs."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.table import Table

from stream_dedup.cli.common import new_console, parse_size, print_json
from stream_dedup.errors import ConfigError
from stream_dedup.phrases import counted

if TYPE_CHECKING:
    from rich.console import Console

    from stream_dedup.evaluate.capacity import Capacity, Deployment, Limit
    from stream_dedup.settings import Settings


def _option(name: str, metavar: str, text: str) -> Any:
    return typer.Option(name, metavar=metavar, help=text)


RateOption = Annotated[
    str | None,
    _option("--rate", "NUMBER", "Items a second on average, such as 500 or 20k. Plans a deployment for them."),
]
WindowOption = Annotated[
    str | None,
    _option("--window", "DURATION", "How long an original is remembered. Default: window.length."),
]
PeakOption = Annotated[
    float | None, _option("--peak", "NUMBER", "Rate at the busiest time, times the average. Default: 2.")
]
ItemBytesOption = Annotated[
    str | None, _option("--item-bytes", "SIZE", "Mean bytes of a record. Default: 4200, web news with full text.")
]
HeldBackOption = Annotated[
    float | None, _option("--held-back", "SHARE", "Share of the items held back, from 0 to 1. Default: 0.25.")
]
ReplicasOption = Annotated[int | None, _option("--replicas", "NUMBER", "Replication factor of the topics. Default: 3.")]
OutageOption = Annotated[
    str | None, _option("--outage", "DURATION", "An outage to catch up after, such as 10m (the default).")
]
RetentionOption = Annotated[
    str | None,
    _option("--retention", "DURATION", "Retention of the input, fingerprints and verdicts. Default: 1d."),
]


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options that describe a stream, beside its rate, as given."""

    window: str | None
    peak: float | None
    item_bytes: str | None
    held_back: float | None
    replicas: int | None
    outage: str | None
    retention: str | None


def refuse_without_rate(options: StreamOptions) -> None:
    """Refuse options that would have no effect, since there is no rate."""
    for name, value in asdict(options).items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"{option} has no effect without --rate; add --rate, or leave {option} out")


def refuse_with_rate(others: dict[str, object]) -> None:
    """Refuse options of the other task of `plan`; `others`: option -> value, None if not given."""
    for option, value in others.items():
        if value is not None:
            reason = (
                "rate and window say how many originals there are"
                if option == "--items"
                else ("--rate plans a deployment of the present settings")
            )
            raise typer.BadParameter(f"{option} has no effect with --rate: {reason}; leave one of the two out")


def parse_rate(text: str) -> float:
    """Parse items a second; K and M are powers of 1000.

    >>> [parse_rate(text) for text in ("500", "0.5", "20k", "1e5", "10,000")]
    [500.0, 0.5, 20000.0, 100000.0, 10000.0]
    """
    plain = text.strip().replace(",", "").replace("_", "").lower()
    factor = {"k": 1e3, "m": 1e6}.get(plain[-1:], 1.0)
    try:
        return float(plain.rstrip("km") if factor > 1 else plain) * factor
    except ValueError:
        raise typer.BadParameter(f"--rate {text!r} is not a number; write items a second, as 500, 0.5 or 20k") from None


def _seconds(option: str, text: str) -> float:
    from stream_dedup.settings import parse_duration

    try:
        return float(parse_duration(text).total_seconds())
    except ValueError as error:
        raise typer.BadParameter(f"{option} {text!r}: {error}") from None


def print_capacity(
    settings: "Settings",
    rate: str,
    options: StreamOptions,
    memory: str | None,
    id_bytes: float,
    body_shingles: float,
    *,
    as_json: bool,
) -> None:
    """Plan a deployment and print it."""
    from stream_dedup.evaluate.capacity import Load, capacity

    window = options.window
    given: dict[str, Any] = {
        "peak": options.peak,
        "item_bytes": None if options.item_bytes is None else parse_size(options.item_bytes),
        "held_back": options.held_back,
        "replicas": options.replicas,
        "outage": None if options.outage is None else _seconds("--outage", options.outage),
        "retention": None if options.retention is None else _seconds("--retention", options.retention),
        "memory": None if memory is None else parse_size(memory),
    }
    seconds = settings.window.length.total_seconds() if window is None else _seconds("--window", window)
    load = Load(
        parse_rate(rate),
        seconds,
        id_bytes=id_bytes,
        body_shingles=body_shingles,
        **{name: value for name, value in given.items() if value is not None},
    )
    try:
        made = capacity(load, settings)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
    if as_json:
        print_json(as_dict(made))
    else:
        _print(new_console(soft_wrap=True), made)


def as_dict(made: "Capacity") -> dict[str, Any]:
    """Return the plan as plain values; all times in seconds, all sizes in bytes."""
    out: dict[str, Any] = msgspec.to_builtins(made)
    for limit, written in zip(made.limits, out["limits"], strict=True):
        written["exceeded"] = limit.is_exceeded
    return out


def _print(console: "Console", made: "Capacity") -> None:
    load = made.load
    console.print(
        f"STREAM: {load.rate:,g} items a second, {load.rate * load.peak:,g} at the peak, {load.item_bytes:,.0f} bytes "
        f"each, {load.held_back:.0%} held back; remembered for {_time(load.window)}: {made.originals:,} originals\n"
    )
    console.print(_answer(made) + "\n")
    for deployment in dict.fromkeys((made.deployment.name, made.single.name, made.split.name)):
        _print_roles(console, made, made.single if deployment == made.single.name else made.split)
    _print_flows(console, made.deployment, load.replicas)
    for outage in made.deployment.outages:
        catch_up = "never caught up" if outage.catch_up is None else f"caught up in {_time(outage.catch_up)}"
        console.print(f"{_time(outage.seconds)} without {outage.role}: {outage.items:,} items wait; {catch_up}")
    console.print(f"restore of an empty index: {_time(made.seconds_to_restore)}; a standby takes over at once\n")
    _print_limits(console, made.limits)
    for warning in made.warnings:
        console.print(f"WARNING: {warning}")
    console.print(
        "\nCosts are processor time on the reference machine (docs/benchmarks.md); in split mode, those of the blocks "
        "of fingerprints and verdicts are estimates. The more originals, the more unrelated ones share a key with an "
        f"item: here {made.found:,.0f}, of which {made.compared:,.0f} are compared (measured on news up to 50,000 "
        f"originals, extrapolated beyond). Without any, a judge would take {made.fastest_judge:,.0f} items a second."
    )


def _answer(made: "Capacity") -> str:
    from stream_dedup.evaluate.capacity import UTILISATION

    pays = f"split mode pays from {made.split_from:,.0f} items a second on average, with this window and peak"
    judge = made.limits[0]
    if made.choice == "single":
        return f"ANSWER: a single worker and a standby suffice; {pays}"
    parts = counted(made.partitions, "partition")
    if made.choice == "split":
        return f"ANSWER: split mode, {parts}; a single worker is too slow: {pays}"
    return (
        f"ANSWER: one judge is too slow, with split mode too: it carries {judge.rate or 0:,.0f} items a second at "
        f"{UTILISATION:.0%}. Shorten the window, or divide the stream into parts that need not be compared (by "
        "language, say), each with topics of its own"
    )


def _print_roles(console: "Console", made: "Capacity", deployment: "Deployment") -> None:
    chosen = " (chosen)" if deployment is made.deployment and made.choice != "none" else ""
    title = (
        f"{deployment.name}{chosen}: {deployment.cores:.2f} cores busy on average, {_bytes(deployment.memory)} in all"
    )
    heads = "role", "processes", "standbys", "µs an item", "items/s each", "busy at the peak", "memory each"
    table = Table(*heads, title=title)
    for role in deployment.roles:
        table.add_row(
            role.name,
            f"{role.processes:,}",
            f"{role.standbys}",
            f"{role.cost_us:.0f}",
            f"{role.rate:,.0f}",
            f"{role.load:.0%}",
            _bytes(role.memory),
        )
    console.print(table)


def _print_flows(console: "Console", deployment: "Deployment", replicas: int) -> None:
    title = f"{deployment.name}: MB a second on average, replication factor {replicas}"
    table = Table("topic", "written", "read", "between brokers", "disk in all", title=title)
    for flow in deployment.flows:
        table.add_row(flow.topic, *map(_rate, (flow.written, flow.read, flow.replicated)), _disk(flow.disk))
    flows = deployment.flows
    totals = (sum(getattr(flow, name) for flow in flows) for name in ("written", "read", "replicated"))
    table.add_section()
    table.add_row("all", *map(_rate, totals), _disk(sum(flow.disk for flow in flows)))
    console.print(table)


def _print_limits(console: "Console", limits: "list[Limit]") -> None:
    table = Table("limit of one index", "needed", "at most", "items a second with this window", title="limits")
    shown: dict[str, Callable[[float], str]] = {
        "memory": _bytes,
        "restore": _time,
        "processor": lambda cores: f"{cores:.2f} cores",
    }
    for limit in limits:
        form = shown.get(limit.name, "{:,.0f}".format)
        rate = "any" if limit.rate is None else f"{limit.rate:,.0f}" if limit.rate >= 10 else f"{limit.rate:.2g}"
        table.add_row(limit.name, form(limit.value), form(limit.bound), rate)
    console.print(table)


def _bytes(count: float) -> str:
    """Format bytes of memory.

    >>> _bytes(300 * 2**20), _bytes(64 * 2**30)
    ('300 MiB', '64.0 GiB')
    """
    return f"{count / 2**20:,.0f} MiB" if count < 2**30 else f"{count / 2**30:,.1f} GiB"


def _disk(count: float) -> str:
    """Format bytes of disk; 0 is what this deployment does not decide.

    >>> _disk(5e9), _disk(2e12), _disk(0)
    ('5.0 GB', '2.0 TB', '')
    """
    if not count:
        return ""
    return f"{count / 1e9:,.1f} GB" if count < 1e12 else f"{count / 1e12:,.1f} TB"


def _rate(count: float) -> str:
    return f"{count / 1e6:,.2f}" if count < 1e7 else f"{count / 1e6:,.0f}"


def _time(seconds: float) -> str:
    """Format a duration with the unit that fits.

    >>> _time(0.4), _time(90), _time(5400), _time(7 * 86400)
    ('0.4 s', '90 s', '90 min', '7 days')
    """
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds:,.2g} s" if seconds < 10 else f"{seconds:,.0f} s"
