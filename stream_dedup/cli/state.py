"""`stream-dedup state inspect|verify|export`: what a changelog remembers, on Kafka or in a directory of `filter`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table as RichTable

from stream_dedup.cli.common import ConfigOption, JsonOption
from stream_dedup.errors import ConfigError, InputError
from stream_dedup.news.summary import moment

if TYPE_CHECKING:
    from stream_dedup.changelog.census import Stored
    from stream_dedup.changelog.files import Entry
    from stream_dedup.settings import Settings

state_app = typer.Typer(
    help="Look at what a changelog or a directory remembers.", no_args_is_help=True, rich_markup_mode=None
)

DirectoryArgument = Annotated[
    Path | None,
    typer.Argument(metavar="DIRECTORY", help="What `filter --state` keeps; without it the changelog topic is read."),
]
StateOption = Annotated[Path | None, typer.Option("--state", help="The directory, named as in `filter --state`.")]


@contextmanager
def _stored(settings: "Settings", directory: Path | None, state: Path | None) -> "Iterator[Iterator[Stored]]":
    if directory and state:
        raise ConfigError(f"{directory} and --state {state} are two directories: name one")
    if place := directory or state:
        yield iter(_journal(place))
        return
    from stream_dedup.stream.changelog_listing import changelog_entries
    from stream_dedup.stream.topic_reader import TopicReader

    with TopicReader(settings) as reader:
        yield changelog_entries(reader, settings.topics.changelog)


def _journal(state: Path) -> "list[Stored]":
    """Locked while it is read; a run that was killed may have left a torn end, which is cut off as `filter` does."""
    from stream_dedup.changelog.census import Stored
    from stream_dedup.changelog.files import Journal, open_locked

    path = state / "journal"
    if not state.is_dir():
        raise InputError(f"there is no directory {state}")
    if not path.exists():
        raise InputError(f"{state} is no state directory of `filter --state`: it has no journal")
    found: list[Stored] = []

    def take(entry: "Entry") -> None:
        if entry.block:
            found.append(Stored(f"{path}, byte {entry.start}", "filter", entry.block))

    with open_locked(state / "lock"):
        Journal(path, take).close()
    return found


@state_app.command("inspect")
def inspect_command(
    directory: DirectoryArgument = None,
    state: StateOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count what is remembered.

    Blocks, bytes, additions (originals and variants), what was forgotten, fingerprint schemes, owners (the tasks that
    wrote it), and from when to when (watermarks). `folded` blocks are summed up by later ones.
    """
    from stream_dedup.changelog.census import census
    from stream_dedup.fingerprint.scheme import Scheme
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    scheme = Scheme(settings.fingerprint)
    with _stored(settings, directory, state) as stored:
        found = asdict(census(stored, scheme)) | {"settings_scheme": f"{scheme.id:016x}"}
    if as_json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    shown = RichTable("", "", show_header=False)
    for name, value in found.items():
        shown.add_row(name.replace("_", " "), _said(name, value))
    Console(emoji=False, highlight=False).print(shown)
    if found["schemes"] and found["settings_scheme"] not in found["schemes"]:
        typer.echo(
            "warning: nothing of this was written under the scheme of these settings: a worker with them would refuse "
            "it (README, Other fingerprints without forgetting)",
            err=True,
        )


def _said(name: str, value: object) -> str:
    """A count, a moment or names, for a person; --json has the bare numbers.

    >>> _said("bytes", 1827209), _said("last_watermark", 1795345099959), _said("first_watermark", -1)
    ('1,827,209', '2026-11-22 10:58 UTC', 'none')
    >>> _said("owners", {"my-dedup-global": 1577}), _said("damaged", [])
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
    """Verify every checksum of what is remembered.

    What the settings' scheme has written is unpacked too. Exit code 1 if anything is damaged.
    """
    from stream_dedup.changelog.census import census
    from stream_dedup.fingerprint.scheme import Scheme
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    with _stored(settings, directory, state) as stored:
        found = census(stored, Scheme(settings.fingerprint))
    for damage in found.damaged:
        typer.echo(damage, err=True)
    typer.echo(f"{found.blocks:,} blocks, {found.additions:,} additions, {len(found.damaged)} damaged")
    if found.damaged:
        raise typer.Exit(1)


@state_app.command("export")
def export_command(
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            help="JSON Lines, packed if it ends in .gz or .zst; or .parquet. - is standard output.",
        ),
    ],
    directory: DirectoryArgument = None,
    state: StateOption = None,
    config: ConfigOption = None,
) -> None:
    """Write what is remembered as rows.

    Originals, variants, and what was forgotten, in the order in which it came.
    """
    from stream_dedup.batch.line_writers import check_output_format
    from stream_dedup.batch.outputs import open_output, target
    from stream_dedup.batch.table_writers import table_writer
    from stream_dedup.changelog.census import COLUMNS, rows
    from stream_dedup.fingerprint.scheme import Scheme
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    to = target(output)
    check_output_format("--output", to)
    count = 0
    with _stored(settings, directory, state) as stored, open_output(to, in_place=False) as file:
        written = table_writer(file, COLUMNS)
        for columns in rows(stored, Scheme(settings.fingerprint)):
            written.write(columns)
            count += len(columns["id"])
        written.publish()
    typer.echo(f"{to}: {count:,} rows", err=to.is_stdout)
