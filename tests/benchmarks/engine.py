"""Text -> verdict: ours against the indexes of datasketch, gaoya and rensa, on a corpus and on a stream without copies.

Ours judges and remembers in batches, as the worker does; the peers take text by text: query, and insert what has no
match. All in one thread, ours with its merges. They take turns every thousand items.

`ours_2_threads`: two of our engines in two threads, each with half of the stream and in batches as large as those of
one, as two tasks of the worker would be (scope "partition"). They meet at the stream's end only: were they to wait for
each other after each batch, both would stand in the same part of their work, and for its lock. How much two threads
can gain on this machine is measured beside it: SHA-256 of the same bytes, compiled code that holds no lock and hardly
reads memory (`engine_two_threads_ceiling`).

`engine_flood_FORM`: items a second while one form is filled in again and again (20, 60 or 150 of its 300 words differ),
as a share of those of the news; `engine_flood_FORM_same_length`: of those of the stream without copies, cut to texts of
the form's length.
"""

import hashlib
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.news.item import Item
from tests.benchmarks.interleave import interleave, interleave_steps, speedup, spread
from tests.benchmarks.peers import STREAMS, Stream

_BATCH = 1000
_FORM_WORDS = 300

Part = tuple[Sequence[Item], Sequence[str]]  # the same part of the stream, as items and as texts


def ours() -> Callable[[Sequence[Item]], int]:
    """An engine that takes a batch and says how many items it held back."""
    dedup = Deduplicator()
    dedup.close()  # merges are then done at once, in this thread

    def take(items: Sequence[Item]) -> int:
        batch = dedup.judge(items)
        dedup.apply(batch)
        return sum(not verdict.forward for verdict in batch.verdicts)

    return take


def _whole(items: Sequence[Item]) -> None:
    """The stream through one engine."""
    take = ours()
    for start in range(0, len(items), _BATCH):
        take(items[start : start + _BATCH])


def measure_engine(news: Sequence[Item], unique: Sequence[Item], rounds: int) -> dict[str, float]:
    """`engine_items_per_second_NAME[_unique]`, `engine_vs_NAME[_unique]`, and how many each held back."""
    ours()(news[:_BATCH])  # compiled kernels are loaded, caches are warm
    return _measure(news, rounds, "") | _measure(unique, rounds, "_unique") | _floods(news, unique, rounds)


def _floods(news: Sequence[Item], unique: Sequence[Item], rounds: int) -> dict[str, float]:
    """Throughput of floods, as a share of that of news, and of unlike texts of the form's length."""
    short = [
        msgspec.structs.replace(item, text=" ".join(item.text.split(None, _FORM_WORDS)[:_FORM_WORDS]))
        for item in unique
    ]
    floods = {f"{changed}": filled_in(len(short), changed) for changed in (20, 60, 150)}
    contestants = {name: partial(_whole, items) for name, items in floods.items()}
    times = interleave(contestants | {"news": partial(_whole, news), "unique": partial(_whole, short)}, rounds)
    an_item = [seconds * len(short) / len(news) for seconds in times["news"]]  # as if there were as many
    figures: dict[str, float] = {}
    for name in floods:
        figures |= speedup(f"engine_flood_{name}", times[name], an_item)
        figures |= speedup(f"engine_flood_{name}_same_length", times[name], times["unique"])
    return figures


def filled_in(count: int, changed: int) -> list[Item]:
    """Pages of one form and source: `changed` of 300 words are drawn anew for each, and two of the headline."""
    chance = random.Random(changed)
    vocabulary = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 9))) for _ in range(20_000)]
    form = [chance.choice(vocabulary) + "." * (i % 12 == 11) for i in range(_FORM_WORDS)]
    places = chance.sample(range(_FORM_WORDS), changed)
    items = []
    for i in range(count):
        for place in places:
            form[place] = chance.choice(vocabulary)
        headline = f"Weather for {chance.choice(vocabulary)} and {chance.choice(vocabulary)} today and tomorrow"
        items.append(Item(f"form-{i}", headline, " ".join(form), "weather.example", i * 1000))
    return items


def _measure(items: Sequence[Item], rounds: int, suffix: str) -> dict[str, float]:
    texts = [f"{item.title} {item.text}" for item in items]
    parts = [(items[i : i + _BATCH], texts[i : i + _BATCH]) for i in range(0, len(items), _BATCH)]
    held: dict[str, float] = {}

    def counted(name: str, take: Callable[[Part], int]) -> Callable[[Part], object]:
        held[name] = 0

        def run(part: Part) -> None:
            held[name] += take(part)

        return run

    def item_by_item(make: Callable[[], Callable[[Sequence[Item]], int]]) -> Callable[[Part], int]:
        take = make()
        return lambda part: take(part[0])

    def text_by_text(make: Callable[[], Stream]) -> Callable[[Part], int]:
        take = make()
        return lambda part: take(part[1])

    contestants: dict[str, Callable[[], Callable[[Part], object]]] = {
        "ours": lambda: counted("ours", item_by_item(ours)),
    }
    for name, make in STREAMS.items():
        contestants[name] = lambda name=name, make=make: counted(name, text_by_text(make))  # type: ignore[misc]
    times = interleave_steps(contestants, parts, rounds)
    halves = items[::2], items[1::2]
    hashed = ["".join(texts[start::2]).encode() for start in (0, 1)]
    with ThreadPoolExecutor(2) as pool:
        threads = interleave(
            {
                "ours": lambda: _whole(items),
                "ours_2_threads": lambda: list(pool.map(_whole, halves)),
                "hashes": lambda: list(map(hashlib.sha256, hashed)),
                "hashes_2_threads": lambda: list(pool.map(hashlib.sha256, hashed)),
            },
            3 * rounds,
        )
    times["ours_2_threads"] = threads["ours_2_threads"]
    figures: dict[str, float] = {f"engine_items{suffix}": len(items)}
    for name, seconds in times.items():
        figures |= spread(f"engine_items_per_second_{name}{suffix}", [len(items) / one for one in seconds])
    for name in STREAMS:
        figures |= speedup(f"engine_vs_{name}{suffix}", times["ours"], times[name])
    figures |= speedup(f"engine_two_threads{suffix}", threads["ours_2_threads"], threads["ours"])
    figures |= speedup(f"engine_two_threads_ceiling{suffix}", threads["hashes_2_threads"], threads["hashes"])
    return figures | {f"engine_held_back_{name}{suffix}": count for name, count in held.items()}
