"""`stream-dedup topics create|check`: create and check the five topics."""

from typing import Annotated

import typer

from stream_dedup.cli.common import ConfigOption
from stream_dedup.phrases import counted

topics_app = typer.Typer(help="Create and check the topics.", no_args_is_help=True, rich_markup_mode=None)


@topics_app.command("create")
def create_command(
    config: ConfigOption = None,
    partitions: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=1, help="Partitions of a new input topic; the other topics get as many."),
    ] = None,
    replication: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=1, help="Replication factor; default: the brokers' default.")
    ] = None,
) -> None:
    """Create those of the five topics that are missing.

    Each gets the configuration with which no data is lost.
    """
    from stream_dedup.kafka.topics import check_topics, create_topics
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    created = create_topics(settings, partitions, replication)
    typer.echo(f"created: {', '.join(created)}" if created else "all five topics exist; nothing was created")
    source = settings.topics.input
    if source in created:
        typer.echo(
            f"{source}, the input, is new and empty. If your feed writes to another topic, set [topics] input to that "
            "topic and run this command again",
            err=True,
        )
    if replication is not None and not created:
        typer.echo(
            f"--replication {replication} was not used, because nothing was created. To change it for an existing "
            "topic, use kafka-reassign-partitions.sh",
            err=True,
        )
    metadata = check_topics(settings)
    if partitions is not None and metadata.partitions[source] != partitions:
        present = counted(metadata.partitions[source], "partition")
        typer.echo(
            f"--partitions {partitions} was not used: the input {source} has {present}, and the other topics get as "
            "many. To add partitions, use kafka-topics.sh --alter",
            err=True,
        )


@topics_app.command("check")
def check_command(config: ConfigOption = None) -> None:
    """Check the topics as the worker does at its start.

    Each problem comes with the command that fixes it.
    """
    from stream_dedup.kafka.topics import check_topics
    from stream_dedup.settings import load_settings

    metadata = check_topics(load_settings(config))
    for name, count in metadata.partitions.items():
        typer.echo(f"{name}: {counted(count, 'partition')}, ok")
