"""Commands that look at a running deployment and set it: `groups show|set-offset`, `tail`, `give-back`, `reset`."""

from typing import Annotated

import click

from stream_dedup import cli
from stream_dedup.cli import ConfigOption, option
from stream_dedup.errors import UsageError
from stream_dedup.phrases import counted, moment
from stream_dedup.tools.cli import shared
from stream_dedup.tools.cli.shared import JsonOption, argument
from stream_dedup.tools.terminal import ProgressLine


def show_command(config: ConfigOption = None) -> None:
    """Show who is active, who stands by, and what is read."""
    from stream_dedup.tools.topics.groups import show

    settings = cli.settings_of(config)
    group = show(settings)
    click.echo(f"{settings.kafka.group_id}: {group.state}, {counted(len(group.members), 'member')}")
    for member in group.members:
        numbers = ", ".join(map(str, member.partitions))
        shares = f", partition{'s' if len(member.partitions) > 1 else ''} {numbers}" if numbers else ""
        click.echo(f"  {member.role:7}  {member.host}  {member.id}{shares}")
    for partition, (offset, end) in sorted(group.offsets.items()):
        read = f"at {offset}, {end - offset} wait" if offset >= 0 else "no offset"
        click.echo(f"partition {partition}: {read}, the end is {end}")


def set_offset_command(
    to: Annotated[str, argument("TO", "An offset, earliest, latest, current, or a time: 2026-01-31T00:00:00Z.")],
    partitions: Annotated[
        str | None, option("Only these partitions of the input: 0 or 0,3. Default: all.", "NUMBERS")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Set where the group reads on.

    With every member stopped. Records before the offset are not read again, those from it on are; what went out before
    goes out again unless it is still remembered. `current` confirms the offsets as they are.
    """
    from stream_dedup.tools.topics.groups import set_offsets

    settings = cli.settings_of(config)
    try:
        chosen = [int(number) for number in (partitions or "").split(",") if number]
    except ValueError:
        raise UsageError(f"--partitions {partitions}: write numbers, as 0,3") from None
    for partition, offset in sorted(set_offsets(settings, to, chosen).items()):
        click.echo(f"{settings.topics.input}, partition {partition}: {settings.kafka.group_id} reads on at {offset}")


def tail_command(
    topic: Annotated[str | None, argument("TOPIC", "Default: the output; the duplicates were held back.")] = None,
    since: Annotated[str, option("How far back to begin: 90m, 2h, 7d. Default: now.", "DURATION")] = "0s",
    once: Annotated[bool, option("End at the topic's present end.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print headlines and verdicts as they come.

    Time, verdict, headline, id, and the id of the original or what is wrong. It joins no group and writes nothing to
    Kafka. Ctrl-C ends it.
    """
    from dataclasses import asdict

    from stream_dedup.tools.topics.tail import tail

    settings, stop = cli.settings_of(config), cli.stop_on_signals()
    begin = shared.begin_ms(since)
    for line in tail(settings, topic or settings.topics.output, begin, stop, follows=not once):
        if as_json:
            shared.print_json(asdict(line))
        else:
            marks = "  ".join(part for part in (line.title or "(no headline)", line.id, line.detail) if part)
            click.echo(f"{moment(line.time)}  {line.verdict or '-':9}  {marks}")


def give_back_command(
    item_id: Annotated[str, argument("ID", "The id of the item, as the status page shows it.")],
    since: Annotated[
        str | None, option("How far back to look: 90m, 2h, 30d. Default: [window] length.", "DURATION")
    ] = None,
    reason: Annotated[str, option("Why, for the header dedup-given-back.", "TEXT")] = "by hand",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a held-back item out by hand.

    Reads the duplicates topic, the newest records first, and writes the item to the output with its bytes and headers.
    The memory stays as it is, so further copies are held back. The workers may run meanwhile. A second run writes the
    item again. Exit code 1 if there is no such item.
    """
    from stream_dedup.tools.reference import duration
    from stream_dedup.tools.topics.give_back import GIVEN_BACK, give_back

    settings = cli.settings_of(config)
    begin = shared.begin_ms(duration(settings.window.length) if since is None else since)
    with ProgressLine() as status:
        given_back = give_back(settings, item_id, begin, reason, lambda read, total: status("looking", read, total))
    if as_json:
        shared.print_json(given_back)
        return
    original = (given_back.decision.get("original") or {}).get("id")
    click.echo(
        f"gave {item_id} back: {given_back.found} is {given_back.written} now, with the header {GIVEN_BACK}. It was "
        f"held back as a copy of {original}, which is still remembered"
    )


def reset_command(
    to: Annotated[
        str, option("Where to begin in the input: earliest, latest, or a time as 2026-01-31T00:00:00Z.", "PLACE")
    ] = "earliest",
    confirm: Annotated[bool, option("Do it. Without this it only says what it would do.")] = False,
    config: ConfigOption = None,
) -> None:
    """Begin anew in the same topics.

    Deletes the records of output, duplicates, dead letters and changelog, so that nothing is remembered, and sets the
    group's offsets. The input stays. With every member stopped. Needs the right Delete on the four topics.
    """
    from stream_dedup.tools.topics.groups import reset

    settings = cli.settings_of(config)
    done = reset(settings, to, confirmed=confirm)
    would = "" if confirm else "would be "
    for topic, count in done.deleted.items():
        click.echo(f"{topic}: {counted(count, 'offset')} {would}deleted")
    for partition, offset in sorted(done.offsets.items()):
        click.echo(f"{settings.topics.input}, partition {partition}: {would}read from {offset} on")
    if not confirm:
        click.echo("nothing was changed; to do this, add --confirm")


groups_commands = {"show": show_command, "set-offset": set_offset_command}
