"""Verdicts and evidence depend on the items before, and not on how the stream is cut into batches."""

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from stream_dedup.changelog.block import decode, encode
from stream_dedup.dedup import deduplicator
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.fingerprint.fingerprint import Fingerprinter, Fingerprints
from stream_dedup.index import runs
from stream_dedup.index.rows import as_bytes
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings, load_settings
from tests.dedup.test_rollback import some_items
from tests.dedup.world import HOUR

pytestmark = pytest.mark.usefixtures("small_tree")

FORM = " ".join(f"f{k}" for k in range(70))
FAMILIES = {
    "sketch": {},
    "crowded": {},
    "exact": {"verify": "exact"},
    "simhash": {"family": "simhash", "hamming": 6, "layout": "8 choose 2"},
}


def crowd_anchors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anchors that items share by chance, in another order for each item, some of them twice."""
    make = Fingerprinter.__call__

    def shuffled(self: Fingerprinter, items: Sequence[Item]) -> Fingerprints:
        prints = make(self, items)
        for line, item in zip(prints.keys, items, strict=True):
            random = np.random.default_rng(zlib.crc32(item.id.encode()))
            line[:12] = random.permutation(line[:12] % 1000)
            line[12:16] = random.choice(line[:12], 4)
        return prints

    monkeypatch.setattr(Fingerprinter, "__call__", shuffled)


def crowded_feed(seed: int, count: int = 250) -> list[Item | Tombstone]:
    """A feed with all that may hang on a batch: keys that dozens share, ties, copies of copies, new versions of an id
    and withdrawals, sentences that become boilerplate, odd dates, and leaps of the watermark.
    """
    random = np.random.default_rng(seed)
    items: list[Item | Tombstone] = []
    now = 400 * HOUR
    while len(items) < count:
        for item in some_items(random, int(random.integers(1, 12)), now):
            if isinstance(item, Item) and random.random() < 0.3:
                number = int(random.integers(0, 40))  # a form that is filled in again and again
                name = f"form{number if random.random() < 0.3 else len(items)}"
                item = Item(name, f"Report {number} of the council", f"{FORM} n{number}", "forms.example", item.time)
            items.append(item)
            if isinstance(item, Item) and random.random() < 0.1:
                items.append(Item(item.id, item.title, item.text, item.source, item.time + HOUR))  # sent twice
        now += int(random.choice([0, 1, 2, 5])) * HOUR + (random.random() < 0.01) * 300 * HOUR
    return items


def cuts(items: Sequence[Item | Tombstone], sizes: Iterator[int]) -> Iterator[Sequence[Item | Tombstone]]:
    start = 0
    while start < len(items):
        size = next(sizes)
        yield items[start : start + size]
        start += size


def outcome(
    settings: Settings, items: Sequence[Item | Tombstone], sizes: Iterator[int], *, restores: bool = False
) -> tuple[list[dict], list[object]]:
    """Verdicts with evidence, and all that the index is told to remember. restores: each batch by another process."""
    dedup = Deduplicator(settings)
    blocks, verdicts = [], []
    remembered: list[object] = []
    for batch in cuts(items, sizes):
        judged = dedup.judge(batch, 10_000 * HOUR)
        verdicts += [verdict.as_json() for verdict in judged.verdicts]
        remembered += zip(
            judged.delta.ids, as_bytes(judged.delta.signatures).tolist(), judged.delta.keys.tolist(), strict=True
        )
        blocks.append(encode(judged.delta, dedup.scheme_id))
        if restores:
            dedup.close()
            dedup = Deduplicator(settings)
            for block in blocks:
                dedup.restore(decode(block, dedup.scheme_id, dedup.scheme.signature_dtype))
        else:
            dedup.apply(judged)
    return verdicts, remembered


@pytest.mark.parametrize(
    ("seed", "family", "bucket_limit", "most"),
    [
        (0, "sketch", 24, 10**6),
        (1, "sketch", 3, 10**6),
        (2, "sketch", 5, 60),
        (3, "sketch", 40, 10**6),
        (4, "exact", 3, 10**6),
        (5, "simhash", 3, 10**6),
        (6, "simhash", 5, 60),
        (7, "crowded", 24, 10**6),
        (8, "crowded", 3, 10**6),
        (9, "crowded", 5, 60),
    ],
)
@pytest.mark.slow
def test_every_cut_gives_the_same_verdicts_and_evidence(
    seed: int, family: str, bucket_limit: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if family == "crowded":
        crowd_anchors(monkeypatch)
    monkeypatch.setattr(runs, "_AT_ONCE", 20)  # so that this little data is merged in the background too
    monkeypatch.setattr(deduplicator, "most_originals", lambda *_: most)  # fewer than the settings allow
    limits = {"bucket_limit": bucket_limit}
    settings = load_settings(index=limits, window={"length": "3d"}, fingerprint=FAMILIES[family])
    items, random = crowded_feed(seed), np.random.default_rng(seed)
    one_by_one = outcome(settings, items, iter(lambda: 1, 0))
    stages = {"none", "id", "body", "policy"} | (set() if family == "simhash" else {"exact", "headline"})
    assert {row["stage"] for row in one_by_one[0]} >= stages
    for sizes in (iter(lambda: len(items), 0), iter(lambda: 40, 0), iter(lambda: int(random.integers(1, 90)), 0)):
        assert outcome(settings, items, sizes) == one_by_one
    if seed in (0, 9):
        assert outcome(settings, items, iter(lambda: 60, 0), restores=True) == one_by_one
