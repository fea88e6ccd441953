"""What a changelog holds, for a person who looks after it: counts, damage, rows.

In: stored blocks, each with the place where it stands. Out: a `Census`, and the remembered rows as plain columns. Of
blocks that were made under another scheme the heads are counted and the checksums verified; only those of the given
one can be unpacked.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from stream_dedup.changelog.block import decode, read_head
from stream_dedup.errors import ChangelogError
from stream_dedup.fingerprint.fingerprint import unmark, variant_key
from stream_dedup.fingerprint.scheme import Scheme

COLUMNS: dict[str, Any] = {
    "id": str, "kind": str, "time": str, "place": str, "source": str, "body_size": int, "block": str,
}  # fmt: skip
"""A row's columns: kind is `original`, `variant` (a held-back copy, in its original's name) or `forgotten` (its id is
then the 64-bit hash of it); place is partition/offset in the input; source the 64-bit hash of its name."""


# Reading what is there changes nothing, so it need not fit the settings of today.
_INSTEAD = "name the settings file of that time with --config"


class Stored(NamedTuple):
    """A block and where it stands: `news.changelog-0 at offset 7`, or `journal, byte 40`.

    `is_folded`: what it says stands in a fold as well, or is older than all of them.
    """

    place: str
    owner: str
    block: bytes
    is_folded: bool = False


@dataclass(slots=True)
class Census:
    """Counts over all blocks, folds included; `folded` of them say what a fold says too, and a restore does not read
    them: their rows are not counted. `schemes`: scheme id in 16 hex digits -> blocks; times in ms, -1: none.
    """

    blocks: int = 0
    folded: int = 0
    bytes: int = 0
    content_bytes: int = 0
    additions: int = 0
    forgotten: int = 0
    first_watermark: int = -1
    last_watermark: int = -1
    schemes: dict[str, int] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)


def census(stored: Iterable[Stored], scheme: Scheme) -> Census:
    """Reads every block; those of `scheme` are unpacked too. Damage is listed, not raised. O(bytes)."""
    found = Census()
    for place, owner, block, is_folded in stored:
        found.blocks += 1
        found.folded += is_folded
        found.bytes += len(block)
        try:
            head = read_head(block)
            if head.scheme == scheme.id:
                decode(block, scheme.id, scheme.signature_dtype)
        except ChangelogError as error:
            found.damaged.append(f"{place}: {error}")
            continue
        found.content_bytes += head.content_bytes
        found.additions += 0 if is_folded else head.additions
        found.forgotten += 0 if is_folded else head.forgotten
        for counts, name in ((found.schemes, f"{head.scheme:016x}"), (found.owners, owner)):
            counts[name] = counts.get(name, 0) + 1
        found.first_watermark = head.watermark if found.first_watermark < 0 else found.first_watermark
        found.last_watermark = max(found.last_watermark, head.watermark)
    return found


def rows(stored: Iterable[Stored], scheme: Scheme) -> Iterator[dict[str, list[Any]]]:
    """The columns of each block's rows, in their order; what is forgotten comes after the additions of its block.

    What blocks and folds say both comes once. Raises SchemeMismatch and CorruptBlock, with the block's place.
    """
    for place, _, block, is_folded in stored:
        if is_folded:
            continue
        try:
            delta = decode(block, scheme.id, scheme.signature_dtype, _INSTEAD)
        except ChangelogError as error:
            raise type(error)(f"{place}: {error}") from None
        signatures, gone = delta.signatures, delta.forgotten["row_id"].tolist()
        variants = delta.keys[:, -1] == np.array([variant_key(int(one)) for one in signatures["row_id"]], np.uint32)
        out: dict[str, list[Any]] = {
            "id": [*delta.ids, *(f"{one:016x}" for one in gone)],
            "kind": [*("variant" if one else "original" for one in variants), *["forgotten"] * len(gone)],
            "time": [*map(_moment, signatures["time"].tolist()), *[None] * len(gone)],
            "place": [
                *(f"{p}/{o}" for p, o in zip(signatures["partition"], unmark(signatures["offset"])[0], strict=True)),
                *[None] * len(gone),
            ],
            "source": [*(f"{one:016x}" if one else None for one in signatures["source"].tolist()), *[None] * len(gone)],
            "body_size": [*signatures["body_size"].tolist(), *[None] * len(gone)],
            "block": [place] * (len(delta) + len(gone)),
        }
        yield out


def _moment(time: int) -> str:
    """
    >>> _moment(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
