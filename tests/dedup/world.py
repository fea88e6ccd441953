"""What the tests of the decision share: made-up items, and a feed that is judged as a caller does it."""

from collections.abc import Sequence

import numpy as np

from stream_dedup.changelog.block import encode
from stream_dedup.dedup.clocks import FAR_FUTURE
from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone
from tests.tools.batch.feed import prose

HOUR = 3_600_000
DAY = 24 * HOUR
START = 1_700_000_000_000
BANK = [
    "The old ferry between the two banks of the Elm was taken out of service on Monday morning.",
    "Engineers had found cracks in the hull during a routine check last week, the town said.",
    "Some four hundred people use the crossing every day to reach the market and the school.",
    "A replacement boat from the coast is expected to arrive before the end of the month.",
    "Until then buses will run every twenty minutes over the northern bridge.",
    "Shopkeepers on the eastern bank fear for their Christmas trade and ask for free parking.",
    "The council will meet on Thursday to discuss the cost, which is put at two million crowns.",
]
TITLE, FERRY = "Ferry over the Elm taken out of service after cracks in its hull", " ".join(BANK)
OTHER = (
    "Astronomers at the Hill Observatory have measured the rotation of a small asteroid with a new camera. "
    "Its day lasts only ninety seconds, the shortest known, they write. Such a body cannot be a heap of rubble, "
    "because it would fly apart; it must be one solid rock. The camera takes a thousand pictures a second. "
    "Nobody had looked for such short periods before, says the head of the group, since older cameras need a minute "
    "for a single frame. Two amateurs from the valley helped with the search and may now choose a name for it."
)
MENU = "\n".join(f"Section {n} of the paper" for n in range(12))


def item(name: str, text: str = FERRY, source: str = "", hour: float = 0, title: str = TITLE) -> Item:
    return Item(name, title, text, source or f"{name}.example", START + int(hour * HOUR))


def story(name: str, number: int, source: str = "a.example", hour: float = 0, more: str = "") -> Item:
    """The article `number` under an id; every article is unlike all others."""
    return item(name, f"{prose(number)}. {more}", source, hour, prose(-number, 8))


def judged(
    dedup: Decider,
    items: Sequence[Item | Tombstone | BadItem],
    size: int = 1,
    latest: int = FAR_FUTURE,
    blocks: list[bytes] | None = None,
) -> list[Verdict]:
    """The verdicts of all items, batch by batch, each applied; `blocks` gets what the changelog would."""
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


# -- a feed in which everything happens -------------------------------------------------------------------------------

_SENTENCES = [f"Sentence {n} says at some length what the town council thinks of matter {n * 7}." for n in range(40)]
_FORM = " ".join(f"f{k}" for k in range(70))


def some_items(random: np.random.Generator, count: int, now: int) -> list[Item | Tombstone]:
    """Items with few ids, texts, sites and sentences, so that updates, variants and tombstones are frequent."""
    items: list[Item | Tombstone] = []
    for _ in range(count):
        time, partition = now + int(random.integers(-30, 6)) * HOUR, int(random.integers(0, 3))
        if random.random() < 0.05:  # late, far ahead, or none at all
            time = int(random.choice([-1, now + 900 * HOUR, max(0, now - 200 * HOUR)]))
        name = f"n{random.integers(0, 150)}"
        if random.random() < 0.08:
            items.append(Tombstone(name, time, partition))
            continue
        number = int(random.integers(0, 60))
        words = " ".join(f"w{k}" for k in np.random.default_rng(number).integers(0, 300, 60).tolist())
        words = words[: int(random.integers(40, len(words)))]
        sentences = " ".join(_SENTENCES[k] for k in random.integers(0, 40, int(random.integers(0, 4))))
        title, source = f"Headline of {number}", f"s{random.integers(0, 5)}.example"
        items.append(Item(name, title, f"{words} {sentences}", source, time, partition))
    return items


def crowded_feed(seed: int, count: int = 250) -> list[Item | Tombstone]:
    """A feed with all that may depend on a batch: keys that dozens share, ties, copies of copies, new versions of an id
    and withdrawals, sentences that become boilerplate, odd dates, three partitions, and leaps of the watermark.
    """
    random, items, now = np.random.default_rng(seed), list[Item | Tombstone](), START
    while len(items) < count:
        for one in some_items(random, int(random.integers(1, 12)), now):
            if isinstance(one, Item) and random.random() < 0.3:
                number = int(random.integers(0, 40))  # a form that is filled in again and again
                name = f"form{number if random.random() < 0.3 else len(items)}"
                text = f"{_FORM} n{number}"
                one = Item(name, f"Report {number} of the council", text, "forms.example", one.time, one.partition)
            items.append(one)
            if isinstance(one, Item) and random.random() < 0.1:  # sent twice
                items.append(Item(one.id, one.title, one.text, one.source, one.time + HOUR, one.partition))
        now += int(random.choice([0, 1, 2, 5])) * HOUR + (random.random() < 0.02) * 300 * HOUR
    return items
