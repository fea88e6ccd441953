"""A made-up feed with everything that a block must carry: copies, cuts, corrections, notices, and bad items."""

import random
from collections.abc import Sequence

from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone
from tests.batch.feed import prose
from tests.dedup.test_novelty import NOTICE, sentences

HOUR = 3_600_000
START = 1_700_000_000_000
CHINESE = "大桥星期一在市长和两千名居民的见证下重新开放交通，工程历时两年。"


def feed(seed: int, count: int = 120, partition: int = 0) -> list[Item | Tombstone | BadItem]:
    """Items of one partition, with ascending offsets."""
    chance = random.Random(seed)
    items: list[Item | Tombstone | BadItem] = []
    for n in range(count):
        story = chance.randrange(max(count // 3, 1))
        lines = sentences(100 * seed + story, 2 + story % 9).split(". ")
        title = prose(-1 - 100 * seed - story, 8)
        form = chance.randrange(12)
        if form == 0:
            lines = lines[: 1 + len(lines) // 2]
        elif form == 1:
            lines += sentences(5000 + n, 3).split(". ")
        elif form == 2:
            title = f"CORRECTED-{title}"
        elif form == 3:
            lines = [CHINESE * (1 + story % 7)]
        elif form == 4:
            lines += lines[:2] * chance.randrange(1, 4)
        name = f"id\ud800 {n}" if form == 5 else f"{'é' * (n % 3)}{n}"
        text = ". ".join(lines) + (f". {NOTICE}" if story % 3 == 0 else ".")
        time = START + n * HOUR // 4 if chance.random() < 0.95 else -1
        place = {"partition": partition, "offset": n}
        if form == 6:
            items.append(BadItem("json", f"cannot be read \udcff {n}", name))
        elif form == 7:
            items.append(Tombstone(str(chance.randrange(n + 1)), time, **place))
        elif form == 8:
            items.append(Item(name, "", " - ", "", time, **place, fingerprint=None))
        else:
            site = f"{chance.choice('abc')}.example"
            given = chance.getrandbits(64) & ~(1 << story) if chance.random() < 0.3 else (story * 2**40) ^ (1 << n % 9)
            items.append(Item(name, title, text, site, time, **place, fingerprint=given))
    return items


def long_item(name: str, passages: int, offset: int = 0) -> Item:
    """A page with this many sentences, each of which is a passage; every third is said before."""
    told = [sentences(90_000 + n, 1) for n in range(passages)]
    text = " ".join(told[n // 2] if n % 3 == 0 else one for n, one in enumerate(told))
    return Item(name, "A page with all comments", text, "long.example", START, 0, offset)


def readable(items: Sequence[Item | Tombstone | BadItem]) -> list[Item]:
    return [item for item in items if isinstance(item, Item)]
