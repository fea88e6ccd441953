"""What split mode costs: processor time an item of each role, against one worker of role `all` on the same Kafka.

The roles work one after the other on the same records, each with the whole machine. So the figures are what a process
of that role costs and how many items a second it could do alone; together they are the price of split mode. The judge
runs a second time with a million originals in its index. Processor time is that of the whole process, all threads.

    make bench ARGS="--only split --corpus a.jsonl.gz"
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.settings import Settings
from stream_dedup.stream.roles.names import RoleName
from stream_dedup.stream.topics import create_topics
from tests.benchmarks import passthrough
from tests.benchmarks.interleave import spread
from tests.benchmarks.kafka_texts import TIMESTAMP_MS, fill, fresh_topics
from tests.benchmarks.memory import deltas
from tests.benchmarks.worker import run_worker

_ORIGINALS = 1_000_000
_ROLES = (RoleName.FINGERPRINT, RoleName.JUDGE, RoleName.PUBLISH)
_FULL_JUDGE = "judge_1m"


def measure_split(
    bootstrap: str, news: Sequence[bytes], rounds: int, say: Callable[[str], None] = lambda text: None
) -> dict[str, float]:
    """`split_cpu_us_ROLE`, `split_items_per_second_ROLE`, `split_cpu_vs_all`, `split_judge_1m_vs_all`."""
    seconds: dict[str, list[tuple[float, float]]] = {}
    for n in range(rounds + 1):
        for name, clock in _round(bootstrap, f"bench-split-{n}", news):
            say(f"{name}: {1 / clock[0]:,.0f} items/s, {clock[1] * 1e6:.1f} µs of processor time an item")
            if n:  # the first round compiles
                seconds.setdefault(name, []).append(clock)
    figures: dict[str, float] = {"split_items": len(news)}
    for name, clocks in seconds.items():
        figures |= spread(f"split_cpu_us_{name}", [processor * 1e6 for _, processor in clocks])
        figures |= spread(f"split_items_per_second_{name}", [1 / wall for wall, _ in clocks])
    together = [sum(parts) for parts in zip(*([c for _, c in seconds[role]] for role in _ROLES), strict=True)]
    whole = seconds[RoleName.ALL]
    figures |= spread("split_cpu_vs_all", [split / one for split, (_, one) in zip(together, whole, strict=True)])
    rates = [one / judge for (one, _), (judge, _) in zip(whole, seconds[_FULL_JUDGE], strict=True)]
    return figures | spread("split_judge_1m_vs_all", rates)


def _round(bootstrap: str, name: str, news: Sequence[bytes]) -> Iterable[tuple[str, tuple[float, float]]]:
    """The clock of each role, once."""
    settings = fresh_topics(bootstrap, name, is_split=True)
    fill(settings, news)
    yield RoleName.ALL, _costs(run_worker(settings, len(news)))
    apart = fresh_topics(bootstrap, f"{name}-roles", is_split=True)
    fill(apart, news)
    for role in _ROLES:
        yield role, _costs(run_worker(apart, len(news), role=role))
    # Another group reads the same blocks, with another changelog.
    again = apart.model_copy(
        update={
            "kafka": apart.kafka.model_copy(update={"group_id": f"{name}-full"}),
            "topics": apart.topics.model_copy(
                update={"changelog": f"{name}-full.changelog", "verdicts": f"{name}-full.verdicts"}
            ),
        }
    )
    create_topics(again, is_split=True)
    yield _FULL_JUDGE, _costs(run_worker(again, len(news), role=RoleName.JUDGE, deduplicator=_full))


def _full(settings: Settings) -> Deduplicator:
    """An index with a million originals that are like none of the news."""
    dedup = Deduplicator(settings)
    begin = TIMESTAMP_MS - 86_400_000  # the day before the news
    for delta in deltas(settings, _ORIGINALS, 20_000):
        delta.signatures["time"] += begin
        dedup.restore(replace(delta, watermark=delta.watermark + begin))
    dedup.wait_for_merges()
    return dedup


def _costs(clock: passthrough.Clock) -> tuple[float, float]:
    wall, processor = clock.seconds_per_item
    return wall, processor
