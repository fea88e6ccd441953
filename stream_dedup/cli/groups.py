"""Commands about the consumer group: `groups show`, `groups set-offset`."""

from typing import Annotated

import typer

from stream_dedup.cli import common
from stream_dedup.cli.common import ConfigOption, argument, option
from stream_dedup.errors import UsageError

groups_app = common.command_group()


@groups_app.command("show")
def show_command(config: ConfigOption = None) -> None:
    """Show the members of the group, and how far it has read."""
    from stream_dedup.kafka.groups import show

    settings = common.settings_of(config)
    group = show(settings)
    typer.echo(f"{settings.kafka.group_id}: {group.state}, {len(group.members)} members")
    for client, host in group.members:
        typer.echo(f"  {client} {host}")
    for partition, (offset, end) in sorted(group.offsets.items()):
        read = f"at {offset}, {end - offset} wait" if offset >= 0 else "no offset"
        typer.echo(f"partition {partition}: {read}, the end is {end}")


@groups_app.command("set-offset")
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
    from stream_dedup.kafka.groups import set_offsets

    settings = common.settings_of(config)
    try:
        chosen = [int(number) for number in (partitions or "").split(",") if number]
    except ValueError:
        raise UsageError(f"--partitions {partitions}: write numbers, as 0,3") from None
    for partition, offset in sorted(set_offsets(settings, to, chosen).items()):
        typer.echo(f"{settings.topics.input}, partition {partition}: {settings.kafka.group_id} reads on at {offset}")
