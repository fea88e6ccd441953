"""`stream-dedup topics create|check`: the five topics, made and checked."""

from typing import Annotated

import typer

from stream_dedup.cli.common import ConfigOption

topics_app = typer.Typer(help="Make and check the topics.", no_args_is_help=True, rich_markup_mode=None)


@topics_app.command("create")
def create_command(
    config: ConfigOption = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", min=1, help="Partitions of the input topic, if it must be made; the others follow it."
        ),
    ] = None,
    replication: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=1, help="Replication factor; default: the brokers'.")
    ] = None,
) -> None:
    """Make those of the five topics that are missing.

    Each is made with what it needs so that nothing is lost.
    """
    from stream_dedup.settings import load_settings
    from stream_dedup.stream.topics import check_topics, create_topics

    settings = load_settings(config)
    made = create_topics(settings, partitions, replication)
    typer.echo(f"made: {', '.join(made)}" if made else "all five topics exist; nothing was made")
    source = settings.topics.input
    if source in made:
        typer.echo(
            f"{source}, the input, is new and empty. If your feed writes to another topic, set [topics] input to that "
            "one and run this again",
            err=True,
        )
    metadata = check_topics(settings)
    if partitions is not None and metadata.partitions[source] != partitions:
        typer.echo(
            f"--partitions {partitions} was not used: the input {source} has {_counted(metadata.partitions[source])}, "
            "which the others follow. Partitions are added with kafka-topics.sh --alter",
            err=True,
        )


@topics_app.command("check")
def check_command(config: ConfigOption = None) -> None:
    """Check the topics as the worker does at its start.

    Each problem comes with the command that mends it.
    """
    from stream_dedup.settings import load_settings
    from stream_dedup.stream.topics import check_topics

    metadata = check_topics(load_settings(config))
    for name, count in metadata.partitions.items():
        typer.echo(f"{name}: {_counted(count)}, ok")


def _counted(partitions: int) -> str:
    return f"{partitions} partition{'s' if partitions != 1 else ''}"
