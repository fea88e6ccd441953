"""Text -> verdict: ours against the indexes of datasketch, gaoya and rensa, on a corpus and on a stream without copies.

Ours judges and remembers in batches, as the worker does; the peers take text by text: query, and insert what has no
match. All in one thread. `two_threads`: two of our engines in two threads, each with half of the stream, as two
lanes of the worker would be (scope "partition").
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.news.item import Item
from tests.benchmarks.interleave import interleave, speedup, spread
from tests.benchmarks.peers import STREAMS

_BATCH = 1000


def ours(items: Sequence[Item]) -> int:
    """Items held back."""
    dedup, held = Deduplicator(), 0
    for start in range(0, len(items), _BATCH):
        batch = dedup.judge(items[start : start + _BATCH])
        dedup.apply(batch)
        held += sum(not verdict.forward for verdict in batch.verdicts)
    dedup.close()
    return held


def _in_two_threads(items: Sequence[Item]) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(ours, [items[::2], items[1::2]]))


def measure_engine(news: Sequence[Item], unique: Sequence[Item], rounds: int) -> dict[str, float]:
    """`engine_items_per_second_NAME[_unique]`, `engine_vs_NAME[_unique]`, and how many each held back."""
    ours(news[:_BATCH])  # compiled kernels are loaded, caches are warm
    return _measure(news, rounds, "") | _measure(unique, rounds, "_unique")


def _measure(items: Sequence[Item], rounds: int, suffix: str) -> dict[str, float]:
    texts = [f"{item.title} {item.text}" for item in items]
    held: dict[str, float] = {}

    def counted(name: str, run: Callable[[], int]) -> Callable[[], object]:
        return lambda: held.update({f"engine_held_back_{name}{suffix}": run()})

    contestants = {
        "ours": counted("ours", partial(ours, items)),
        "ours_2_threads": partial(_in_two_threads, items),
        **{name: counted(name, partial(run, texts)) for name, run in STREAMS.items()},
    }
    times = interleave(contestants, rounds)
    figures: dict[str, float] = {f"engine_items{suffix}": len(items)}
    for name, seconds in times.items():
        figures |= spread(f"engine_items_per_second_{name}{suffix}", [len(items) / one for one in seconds])
    for name in STREAMS:
        figures |= speedup(f"engine_vs_{name}{suffix}", times["ours"], times[name])
    figures |= speedup(f"engine_two_threads{suffix}", times["ours_2_threads"], times["ours"])
    return figures | held
