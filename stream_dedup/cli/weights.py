"""`stream-dedup weights build CORPUS -o FILE`: count how rare each feature is, for SimHash with weights = "idf"."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_dedup.cli.common import ConfigOption, ForceOption
from stream_dedup.errors import InputError
from stream_dedup.phrases import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

weights_app = typer.Typer(
    help="Build tables of feature rarity for SimHash.", no_args_is_help=True, rich_markup_mode=None
)


@weights_app.callback()
def _group() -> None:
    """Keep this a group although it has one command."""


@weights_app.command("build")
def build_command(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="JSON Lines (.gz, .zst) with typical items.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write; name it in [fingerprint] idf.")],
    force: ForceOption = False,
    config: ConfigOption = None,
) -> None:
    """Write the table of feature rarities for weights = "idf".

    Counts in how many texts of a corpus each feature occurs.

    The table is part of the fingerprint scheme: another table is another scheme.
    """
    from stream_dedup.batch.lines import read_lines
    from stream_dedup.batch.outputs import check_free, target
    from stream_dedup.fingerprint.fingerprint import Fingerprinter
    from stream_dedup.fingerprint.scheme import Scheme
    from stream_dedup.fingerprint.simhash import build_weights
    from stream_dedup.news.decode import Decoder
    from stream_dedup.news.item import Item
    from stream_dedup.settings import load_settings

    # The settings may name the table that this command is about to write; "tf" needs none.
    if not force:
        check_free({"--output": target(output)})
    settings = load_settings(config, fingerprint={"family": "simhash", "weights": "tf"})
    fingerprinter = Fingerprinter(Scheme(settings.fingerprint))
    decode = Decoder(settings.item)

    def documents() -> "Iterator[NDArray[np.uint64]]":
        for line in read_lines(corpus):
            item = decode(line, None, None)
            if isinstance(item, Item):
                yield fingerprinter.features(item.text)

    table = build_weights(fingerprinter.scheme.features_id, documents())
    data = table.to_bytes()
    try:
        output.write_bytes(data)
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror}") from None
    typer.echo(
        f"{output}: {counted(len(table.hashes), 'feature')} of {counted(table.documents, 'text')}, {len(data):,} bytes"
    )
