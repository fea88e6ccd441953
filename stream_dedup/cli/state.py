"""`stream-dedup state inspect|verify`: look into a changelog, on Kafka or in a directory of `filter --state`."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_dedup.cli.common import ConfigOption, JsonOption, new_console, print_json
from stream_dedup.cli.console import print_table
from stream_dedup.errors import UsageError
from stream_dedup.phrases import counted, moment

if TYPE_CHECKING:
    from stream_dedup.changelog.inspection import StoredBlock
    from stream_dedup.settings import Settings

state_app = typer.Typer(
    help="Inspect and verify a changelog or state directory.", no_args_is_help=True, rich_markup_mode=None
)

DirectoryArgument = Annotated[
    Path | None,
    typer.Argument(metavar="DIRECTORY", help="State directory of `filter --state`; default: the changelog topic."),
]
StateOption = Annotated[Path | None, typer.Option("--state", help="The same as DIRECTORY.")]


@contextmanager
def _open_blocks(settings: "Settings", directory: Path | None, state: Path | None) -> "Iterator[Iterable[StoredBlock]]":
    from stream_dedup.changelog.inspection import journal_blocks, topic_blocks

    if directory and state:
        raise UsageError(f"{directory} and --state {state} are two directories: name one")
    if path := directory or state:
        yield journal_blocks(path)
        return
    from stream_dedup.kafka.reader import TopicReader
    from stream_dedup.kafka.record_batch import MOST_BYTES

    with TopicReader(settings, MOST_BYTES) as reader:
        yield topic_blocks(reader, settings.topics.changelog)


@state_app.command("inspect")
def inspect_command(
    directory: DirectoryArgument = None,
    state: StateOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count the blocks, and what they add and forget.

    Also bytes, fingerprint schemes, owners (the tasks that wrote the blocks) and the first and last watermark.
    Additions are originals and variants. `folded` counts the blocks that later ones replace.
    """
    from stream_dedup.changelog.inspection import summarize
    from stream_dedup.fingerprint.scheme import Scheme
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    scheme = Scheme(settings.fingerprint)
    with _open_blocks(settings, directory, state) as blocks:
        counts = asdict(summarize(blocks, scheme)) | {"settings_scheme": f"{scheme.id:016x}"}
    if as_json:
        print_json(counts)
        return
    rows = [(name.replace("_", " "), _for_people(name, value)) for name, value in counts.items()]
    print_table(new_console(), (), rows)
    if counts["schemes"] and counts["settings_scheme"] not in counts["schemes"]:
        typer.echo(
            "warning: no block was written under the scheme of these settings, so a worker with these settings would "
            "refuse the changelog; `stream-dedup migrate` builds a new one",
            err=True,
        )


def _for_people(name: str, value: object) -> str:
    """Format a count, a time, a table or a list.

    >>> _for_people("bytes", 1827209), _for_people("last_watermark", 1795345099959), _for_people("first_watermark", -1)
    ('1,827,209', '2026-11-22 10:58 UTC', 'none')
    >>> _for_people("owners", {"my-dedup-global": 1577}), _for_people("damaged", [])
    ('my-dedup-global: 1,577', 'none')
    """
    if isinstance(value, int):
        if name.endswith("watermark"):
            return moment(value) if value >= 0 else "none"
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {count:,}" for key, count in value.items()) or "none"
    if isinstance(value, list):
        return "\n".join(value) or "none"
    return str(value)


@state_app.command("verify")
def verify_command(directory: DirectoryArgument = None, state: StateOption = None, config: ConfigOption = None) -> None:
    """Verify the checksum of every block.

    Blocks of the settings' scheme are decoded, too. Exit code 1 if any block is damaged. Records of other programs are
    listed; workers skip them.
    """
    from stream_dedup.changelog.inspection import summarize
    from stream_dedup.changelog.records import CURE
    from stream_dedup.fingerprint.scheme import Scheme
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    scheme = Scheme(settings.fingerprint)
    with _open_blocks(settings, directory, state) as blocks:
        counts = summarize(blocks, scheme)
    for damage in counts.damaged:
        typer.echo(damage, err=True)
    for place in counts.foreign:
        typer.echo(f"{place}: a record of another program, which workers skip", err=True)
    if counts.skipped > len(counts.foreign):
        typer.echo(f"and {counts.skipped - len(counts.foreign):,} more", err=True)
    typer.echo(
        f"{counted(counts.blocks, 'block')}, {counted(counts.additions, 'addition')}, {len(counts.damaged):,} damaged, "
        f"{counted(counts.skipped, 'record')} of other programs"
    )
    others = sum(blocks for name, blocks in counts.schemes.items() if name != f"{scheme.id:016x}")
    if others:
        typer.echo(
            f"warning: {others:,} of them were written under another scheme than that of these settings, so only their "
            "checksums were verified; name the settings of their workers with --config",
            err=True,
        )
    if counts.damaged:
        if directory is None and state is None:
            typer.echo(CURE, err=True)
        raise typer.Exit(1)
