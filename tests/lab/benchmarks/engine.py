"""Compare throughput from text to verdict with datasketch, gaoya and rensa, on a corpus and on unique texts.

Ours judges and remembers items in batches, as the worker does. The peers process one text at a time: they query the
index and insert the text if nothing matches. All run in one thread, ours including its merges, and alternate every
thousand items.

`ours_2_threads`: two of our engines in two threads, each with half of the stream in batches of the same size, as two
tasks of the worker in scope "partition". They synchronise only at the end of the stream: if they waited for each other
after each batch, both would do the same part of their work at once and compete for its lock.

`engine_flood_FORM`: throughput on pages of one form (20, 60 or 150 of its 300 words differ), as a share of that on the
news.
"""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from stream_dedup.dedup.decider import Decider
from stream_dedup.news.item import Item
from tests.lab.benchmarks.corpus import Run
from tests.lab.benchmarks.interleave import interleave, interleave_steps, speedup, spread
from tests.lab.benchmarks.peers import STREAMS

_BATCH = 1000
_FORM_WORDS = 300

Part = tuple[Sequence[Item], Sequence[str]]  # one part of the stream, as items and as texts


def ours() -> Callable[[Sequence[Item]], int]:
    """Make an engine that judges a batch and returns the number of items held back."""
    dedup = Decider()
    dedup.close()  # later merges run at once, in this thread

    def judge(items: Sequence[Item]) -> int:
        batch = dedup.judge(items)
        dedup.apply(batch)
        return sum(not verdict.forward for verdict in batch.verdicts)

    return judge


def _judge_all(items: Sequence[Item]) -> None:
    """Judge all items with one engine."""
    judge = ours()
    for start in range(0, len(items), _BATCH):
        judge(items[start : start + _BATCH])


def measure(run: Run) -> dict[str, float]:
    """Return the figures `engine_FIGURE_NAME[_unique]`: `items_per_second`, `vs` (ours against NAME), `held_back`."""
    news, unique = ([item for _, item in part] for part in (run.news, run.unique))
    ours()(news[:_BATCH])  # warms the caches
    figures = _measure_stream(news, run.rounds, "") | _measure_stream(unique, run.rounds, "_unique")
    return figures | _measure_floods(news, run.rounds)


def _measure_floods(news: Sequence[Item], rounds: int) -> dict[str, float]:
    """Return the throughput on floods, as shares of that on news."""
    floods = {f"{changed}": fill_form(len(news), changed) for changed in (20, 60, 150)}
    times = interleave({name: partial(_judge_all, items) for name, items in (floods | {"news": news}).items()}, rounds)
    figures: dict[str, float] = {}
    for name in floods:
        figures |= speedup(f"engine_flood_{name}", times[name], times["news"])
    return figures


def fill_form(count: int, changed: int) -> list[Item]:
    """Make pages of one form and source; each draws `changed` of 300 words anew, and two words of the headline."""
    rng = random.Random(changed)
    vocabulary = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) for _ in range(20_000)]
    form = [rng.choice(vocabulary) + "." * (i % 12 == 11) for i in range(_FORM_WORDS)]
    positions = rng.sample(range(_FORM_WORDS), changed)
    items = []
    for i in range(count):
        for position in positions:
            form[position] = rng.choice(vocabulary)
        headline = f"Weather for {rng.choice(vocabulary)} and {rng.choice(vocabulary)} today and tomorrow"
        items.append(Item(f"form-{i}", headline, " ".join(form), "weather.example", i * 1000))
    return items


def _measure_stream(items: Sequence[Item], rounds: int, suffix: str) -> dict[str, float]:
    texts = [f"{item.title} {item.text}" for item in items]
    parts = [(items[i : i + _BATCH], texts[i : i + _BATCH]) for i in range(0, len(items), _BATCH)]
    held_back: dict[str, float] = {}

    def contestant(name: str, make: Callable[[], Callable[[Any], int]], place: int) -> Callable[[Part], object]:
        """Make one that adds up what it holds back; place: whether it takes the items of a part, or the texts."""
        judge, held_back[name] = make(), 0

        def run(part: Part) -> None:
            held_back[name] += judge(part[place])

        return run

    contestants = {"ours": partial(contestant, "ours", ours, 0)}
    contestants |= {name: partial(contestant, name, make, 1) for name, make in STREAMS.items()}
    times = interleave_steps(contestants, parts, rounds)
    halves = items[::2], items[1::2]
    with ThreadPoolExecutor(2) as pool:
        both = {"ours": lambda: _judge_all(items), "ours_2_threads": lambda: list(pool.map(_judge_all, halves))}
        threads = interleave(both, 3 * rounds)
    times["ours_2_threads"] = threads["ours_2_threads"]
    figures: dict[str, float] = {f"engine_items{suffix}": len(items)}
    for name, seconds in times.items():
        figures |= spread(f"engine_items_per_second_{name}{suffix}", [len(items) / duration for duration in seconds])
    for name in STREAMS:
        figures |= speedup(f"engine_vs_{name}{suffix}", times["ours"], times[name])
    figures |= speedup(f"engine_two_threads{suffix}", threads["ours_2_threads"], threads["ours"])
    return figures | {f"engine_held_back_{name}{suffix}": count for name, count in held_back.items()}
