"""The largest items: how much memory one takes, that one at a time is worked on, and that none stays.

The memory of an item is that of its fingerprint: arrays of the tokens and shingles of the whole text, and a hash table
four times as long. They are freed with the item.
"""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_dedup.settings.memory import COPIES
from stream_dedup.tools.demo.embedded import EmbeddedKafka
from tests.harness.check import outcome
from tests.harness.feed import article, feed
from tests.harness.member import Command
from tests.harness.topics import make_settings, ready, worked_off
from tests.lab.load.process import highest, resident
from tests.lab.load.texts import VOCABULARY
from tests.lab.measured import record

MEBIBYTES = 30
# Bytes of memory for a byte of text: 14 for English, 26 for words of one letter, the worst case.
MOST_PER_BYTE = {"words": 18, "letters": 30}
# What malloc keeps of one item for the next one.
KEPT = 3
COUNT = 10
# The value as it is fetched, unpacked, decoded, fingerprinted and packed, of the item that is committed and the next:
# 33, and 10 more that glibc keeps; in compressed batches 57 in all. glibc raises the size from which it returns freed
# memory at once to that of the largest block so far; with a fixed MALLOC_MMAP_THRESHOLD_ it does not.
MOST_IN_WORKER = COPIES


def text_of(kind: str, size: int) -> str:
    """An ASCII text of this many bytes: sentences of words, or words of one letter."""
    if kind == "letters":
        return "a b " * (size // 4)
    words = random.Random(1).choices(VOCABULARY, k=size // 7)
    return ". ".join(" ".join(words[at : at + 15]).capitalize() for at in range(0, len(words), 15))[:size]


def measured(kind: str) -> dict[str, int]:
    """Bytes that the decider alone takes for one item, and for ten one after the other; run by itself."""
    import os

    from stream_dedup.dedup.decider import Decider
    from stream_dedup.news.decode import Decoder
    from stream_dedup.settings import load_settings

    settings, own = load_settings(), os.getpid()
    decode = Decoder(settings.item)
    value = article("large", text_of(kind, MEBIBYTES * 2**20))
    found = {"value": len(value)}
    with Decider(settings) as dedup:
        small = article("small", "Of some words.")
        dedup.apply(dedup.judge([decode(small, None, 0, 0, 0)]))
        Path("/proc/self/clear_refs").write_text("5")  # the highest from here on
        before = resident(own)
        for number in range(COUNT):
            dedup.apply(dedup.judge([decode(value, None, 0, 0, 1 + number)]))
            if number == 0:
                found["first"] = highest(own) - before
        found |= {"most": highest(own) - before, "kept": resident(own) - before}
    return found


@pytest.mark.soak
@pytest.mark.parametrize("kind", list(MOST_PER_BYTE))
def test_the_memory_of_a_large_item_is_bounded_and_freed(kind: str) -> None:
    done = subprocess.run([sys.executable, "-m", __name__, kind], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    size = found["value"]
    figures = {name: found[name] / size for name in ("first", "most", "kept")}
    named = {f"bytes_a_byte_{name}": value for name, value in figures.items()}
    record("load", {f"one item of {MEBIBYTES} MiB, {kind}, without Kafka": named})
    assert figures["most"] < MOST_PER_BYTE[kind]
    assert figures["most"] < figures["first"] + KEPT, "ten items take more than one"
    assert figures["kept"] < KEPT


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.timeout(1200)
def test_a_worker_holds_few_of_the_largest_items_at_a_time(
    kafka: EmbeddedKafka, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    """A batch ends at batch_bytes, so one item of 30 MiB is a batch of its own; ten of them wait in the topic."""
    worker = {"session_timeout": "10s", "memory": "8G"}  # with less such records are dead letters
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker=worker))
    value = article("large", text_of("words", MEBIBYTES * 2**20))

    def send(first: int, count: int) -> None:
        for number in range(first, first + count):  # one at a time, so that no fetch holds several
            feed(settings, [(b"%d" % number, value.replace(b'"large"', b'"large-%d"' % number))])

    with Command("a", settings, tmp_path) as worker:
        worker.start().wait_until("ok")
        before = resident(worker.pid)
        most = []
        for first, count in ((0, 1), (1, COUNT), (1 + COUNT, COUNT)):
            send(first, count)
            worked_off(settings)
            most.append(highest(worker.pid) - before)
        kept = resident(worker.pid) - before
    came = outcome(settings)
    sizes = dict(zip(("more_for_one", "more_for_ten", "more_for_twenty"), most, strict=True))
    sizes |= {"before": before, "kept": kept}
    figures = {f"mib_{name}": round(size / 2**20) for name, size in sizes.items()}
    figures |= {"items": len(came.fates), "bytes_a_byte": most[2] / len(value)}
    record("load", {f"items of {MEBIBYTES} MiB through the worker": figures})
    assert len(came.fates) == 1 + 2 * COUNT
    assert not came.dead_letters
    assert most[2] < MOST_IN_WORKER * len(value)
    assert most[2] < 1.25 * most[1], "more items take more memory"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measured(sys.argv[1])))
