"""Runs every kernel once, so that numba's cache on disk holds them all before the first real start.

In: settings. Out: nothing but the cache, beside the modules (or where NUMBA_CACHE_DIR says). Kernels are compiled for
the types they are called with; so each family is judged with the sizes of arrays that matter: a batch that goes
straight to a run, a trickle that goes to the tree, a merge, and a changelog block's round trip.
"""

from stream_dedup.changelog.block import decode, encode
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings

_TEXT = "The bridge over the Elm opened on Monday after two years of work, the mayor of {} said at noon."


def warm(settings: Settings) -> None:
    """Judges and remembers a few made-up items under the settings' scheme. O(compilation), else milliseconds."""
    given = settings.fingerprint.family == "given"
    items = [
        Item(
            f"warm-{n}",
            f"Elm bridge number {n} opens 桥梁",
            _TEXT.format(f"town {n // 2}") + " 易姆河上的大桥周一开通。",
            "a.example",
            n,
            fingerprint=n // 2 + 1 if given else None,
        )
        for n in range(12)
    ]
    first, second = Deduplicator(settings), Deduplicator(settings)
    for some in (items[:1], items[:9], items[:9], items[9:]):
        batch = first.judge(some)
        first.apply(batch)
        block = encode(batch.delta, first.scheme_id)
        second.restore(decode(block, second.scheme_id, second.scheme.record_dtype))
    for dedup in (first, second):
        dedup.judge(items)
        dedup.index.merge()
        dedup.judge(items)
        dedup.close()
