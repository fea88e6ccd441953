"""`stream-dedup weights build CORPUS -o FILE`: the table of rarities behind SimHash weights `idf`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_dedup.cli.common import ConfigOption
from stream_dedup.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

weights_app = typer.Typer(
    help="Tables of how rare a feature is, for SimHash.", no_args_is_help=True, rich_markup_mode=None
)


@weights_app.callback()
def _group() -> None:
    """A group with one command stays a group."""


@weights_app.command("build")
def build_command(
    corpus: Annotated[
        Path, typer.Argument(metavar="CORPUS", help="JSON Lines (.gz, .zst) of texts like those to come.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, for [fingerprint] idf.")],
    config: ConfigOption = None,
) -> None:
    """Write the table of rare features for weights = "idf".

    It counts in how many texts of a corpus each feature occurs.

    The table is frozen: it never changes while it is in use, and another one is another fingerprint scheme.
    """
    from stream_dedup.batch.lines import read_lines
    from stream_dedup.fingerprint.fingerprint import Fingerprinter
    from stream_dedup.fingerprint.scheme import Scheme
    from stream_dedup.fingerprint.weights import build
    from stream_dedup.news.decode import Decoder
    from stream_dedup.news.item import Item
    from stream_dedup.settings import load_settings

    # The table is made for whatever the settings are used with later; it does not need itself.
    settings = load_settings(config, fingerprint={"family": "simhash", "weights": "tf"})
    make = Fingerprinter(Scheme(settings.fingerprint))
    decode = Decoder(settings.item)

    def documents() -> "Iterator[NDArray[np.uint64]]":
        for line in read_lines(corpus):
            item = decode(line, None, None)
            if isinstance(item, Item):
                yield make.features(item.text)

    made = build(make.scheme.features_id, documents())
    data = made.to_bytes()
    try:
        output.write_bytes(data)
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror}") from None
    typer.echo(f"{output}: {len(made.hashes):,} features of {made.documents:,} texts, {len(data):,} bytes")
