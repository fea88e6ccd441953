"""Commands for the five topics: `topics create`, `check` and `fix`. Each takes the worker's settings file."""

from __future__ import annotations

from typing import Annotated

import click

from stream_dedup import cli
from stream_dedup.cli import ConfigOption
from stream_dedup.phrases import counted
from stream_dedup.tools.cli.shared import number


def create_command(
    config: ConfigOption = None,
    partitions: Annotated[
        int | None, number("Partitions of a new input topic; the other topics get as many.", min=1)
    ] = None,
    replication: Annotated[int | None, number("Replication factor; default: the brokers' default.", min=1)] = None,
) -> None:
    """Create the missing ones of the five topics.

    Each gets a configuration that loses no data.
    """
    from stream_dedup.kafka.topics import check_topics
    from stream_dedup.tools.topics.setup import create_topics

    settings = cli.settings_of(config)
    created = create_topics(settings, partitions, replication)
    click.echo(f"created: {', '.join(created)}" if created else "all five topics exist; nothing was created")
    source = settings.topics.input
    present = check_topics(settings)[source].partitions
    remarks = {
        f"{source}, the input, is new and empty; `stream-dedup send FILE` fills it from files. If your feed writes to "
        "another topic, set [topics] input to that topic and run this command again": source in created,
        f"--replication {replication} was not used, because nothing was created. To change it for an existing topic, "
        "use kafka-reassign-partitions.sh": replication is not None and not created,
        f"--partitions {partitions} was not used: the input {source} has {counted(present, 'partition')}, and "
        "the other topics get as many. To add partitions, use kafka-topics.sh --alter": (
            partitions not in (None, present)
        ),
    }
    for remark, applies in remarks.items():
        if applies:
            click.echo(remark, err=True)


def check_command(config: ConfigOption = None) -> None:
    """Check the topics as the worker does at its start.

    Each problem comes with the command that fixes it.
    """
    from stream_dedup.kafka.topics import check_topics, weaknesses

    settings = cli.settings_of(config)
    for name, topic in check_topics(settings).items():
        is_weak = name != settings.topics.input and weaknesses(topic)
        replicas = f", {counted(topic.replicas, 'replica')}" if topic.replicas else ""
        click.echo(f"{name}: {counted(topic.partitions, 'partition')}{replicas}, {'see above' if is_weak else 'ok'}")


def fix_command(config: ConfigOption = None) -> None:
    """Set what `topics check` finds wrong.

    Settings of the topics, and partitions of the changelog. Needs the right AlterConfigs (and Alter, for partitions).
    Records, replicas and the input stay as they are.
    """
    from stream_dedup.tools.topics.setup import fix_topics

    changed = fix_topics(cli.settings_of(config))
    click.echo("\n".join(changed) or "nothing had to be changed")


topics_commands = {"create": create_command, "check": check_command, "fix": fix_command}
