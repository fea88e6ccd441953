"""Summarise the content of a changelog, for a person who looks after it: counts and damage.

In: stored blocks, each with its place. Out: a `ChangelogSummary`. Blocks of another fingerprint scheme cannot be
unpacked; their heads are counted and their checksums verified.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_dedup.changelog.block import decode, read_head
from stream_dedup.errors import ChangelogError, CorruptBlock
from stream_dedup.fingerprint.scheme import Scheme

_LISTED = 1000  # a program that writes to the wrong topic may have written millions


class StoredBlock(NamedTuple):
    """A block and its place: `news.changelog-0 at offset 7`, or `journal, byte 40`.

    `is_folded`: a merged block has the same content, or all merged blocks are newer. `problem`: why a worker refuses
    it, whatever its content; empty: nothing. `is_foreign`: another program's record, which workers skip.
    """

    place: str
    owner: str
    block: bytes
    is_folded: bool = False
    problem: str = ""
    is_foreign: bool = False


@dataclass(slots=True)
class ChangelogSummary:
    """Counts over all blocks, merged ones included.

    `folded`: blocks that a merged block repeats. A restore does not read them, so their rows are not counted.
    `schemes`: scheme id in 16 hex digits -> blocks. `owners`: owner -> blocks. Watermarks in ms, -1: none.
    `skipped`: the number of records of other programs; `foreign`: the places of the first thousand.
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
    skipped: int = 0
    foreign: list[str] = field(default_factory=list)


def summarize(stored: Iterable[StoredBlock], scheme: Scheme) -> ChangelogSummary:
    """Verify every block, and unpack those of `scheme`. Damage is listed, not raised. O(bytes)."""
    summary = ChangelogSummary()
    for place, owner, block, is_folded, problem, is_foreign in stored:
        if is_foreign:
            summary.skipped += 1
            if len(summary.foreign) < _LISTED:
                summary.foreign.append(f"{place}, key {owner!r}")
            continue
        summary.blocks += 1
        summary.folded += is_folded
        summary.bytes += len(block)
        try:
            if problem:
                raise CorruptBlock(problem)
            head = read_head(block)
            if head.scheme == scheme.id:
                decode(block, scheme.id, scheme.signature_dtype)
        except ChangelogError as error:
            summary.damaged.append(f"{place}: {error}")
            continue
        summary.content_bytes += head.content_bytes
        summary.additions += 0 if is_folded else head.additions
        summary.forgotten += 0 if is_folded else head.forgotten
        for counts, name in ((summary.schemes, f"{head.scheme:016x}"), (summary.owners, owner)):
            counts[name] = counts.get(name, 0) + 1
        summary.first_watermark = head.watermark if summary.first_watermark < 0 else summary.first_watermark
        summary.last_watermark = max(summary.last_watermark, head.watermark)
    return summary
