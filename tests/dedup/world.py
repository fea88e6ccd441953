"""Judge a feed as a caller does: batch by batch, each applied before the next one."""

from collections.abc import Sequence

from stream_dedup.changelog.block import encode
from stream_dedup.dedup.clocks import FAR_FUTURE
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone

HOUR = 3_600_000
DAY = 24 * HOUR
START = 1_700_000_000_000


def judged(
    dedup: Deduplicator,
    items: Sequence[Item | Tombstone | BadItem],
    size: int = 1,
    latest: int = FAR_FUTURE,
    blocks: list[bytes] | None = None,
) -> list[Verdict]:
    """The verdicts of all items; `blocks` gets what the changelog would."""
    verdicts = []
    for start in range(0, len(items), size):
        batch = dedup.judge(items[start : start + size], latest)
        dedup.apply(batch)
        verdicts += batch.verdicts
        if blocks is not None:
            blocks.append(encode(batch.delta, dedup.scheme_id))
    return verdicts


def kinds(verdicts: Sequence[Verdict]) -> list[str]:
    return [str(one.kind) for one in verdicts]


def original_of(verdict: Verdict) -> str | None:
    return verdict.original.id if verdict.original else None


def told(verdicts: Sequence[Verdict]) -> list[tuple[str, str | None]]:
    """Kind, and the id of the original, of each verdict."""
    return [(str(one.kind), original_of(one)) for one in verdicts]
