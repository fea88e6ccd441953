"""Verdicts depend on the items before, and on nothing else that happened to the memory.

Not on how the stream is cut into batches, on lost and pending batches, on restores from blocks, merged or split, on
saved files, or on merges of the index in the background.
"""

import zlib
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_dedup.changelog import journal
from stream_dedup.changelog.block import decode, encode, merge_deltas, split_delta
from stream_dedup.dedup import decider
from stream_dedup.dedup.batch import Batch, Delta
from stream_dedup.dedup.decider import Decider
from stream_dedup.fingerprint.fingerprint import Fingerprinter, Fingerprints
from stream_dedup.index import runs
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.rows import as_bytes
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from tests.dedup.world import DAY, START, crowded_feed
from tests.index.check import check

pytestmark = pytest.mark.usefixtures("small_tree")

LATEST = START + 365 * DAY
FAMILIES = {
    "sketch": {},
    "crowded": {},
    "exact": {"verify": "exact"},
    "simhash": {"family": "simhash", "hamming": 6},
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


def changes_of(delta: Delta) -> set[str]:
    """What the index is to remember and to forget. A batch forgets a name once, its items one by one forget it anew."""
    rows = zip(delta.names(), as_bytes(delta.signatures).tolist(), delta.keys.tolist(), strict=True)
    return {str(one) for one in (*rows, *delta.forgotten["name"].tolist())}


def restored(settings: Settings, deltas: Sequence[Delta], random: np.random.Generator) -> Decider:
    """A Decider restored from the blocks of these deltas, of which some are merged and split."""
    dedup, at = Decider(settings), 0
    while at < len(deltas):
        size = int(random.choice([1, 2, 30]))
        merged = merge_deltas(deltas[at : at + size])
        for part in split_delta(merged, int(random.choice([5_000, 10**6]))) if size > 1 else deltas[at : at + 1]:
            block = encode(part, dedup.scheme_id)
            dedup.restore(decode(block, dedup.scheme_id, dedup.scheme.signature_dtype))
        at += size
    return dedup


@pytest.mark.parametrize(
    ("seed", "family", "bucket_limit", "most"),
    [
        (0, "sketch", 24, 10**6),
        pytest.param(1, "sketch", 5, 60, marks=pytest.mark.slow),
        pytest.param(2, "exact", 3, 120, marks=pytest.mark.slow),
        pytest.param(3, "simhash", 3, 10**6, marks=pytest.mark.slow),
        pytest.param(4, "simhash", 5, 60, marks=pytest.mark.slow),
        pytest.param(5, "crowded", 24, 10**6, marks=pytest.mark.slow),
        pytest.param(6, "crowded", 5, 60, marks=pytest.mark.slow),
        *(pytest.param(seed, "sketch", 3, 10**6, marks=pytest.mark.slow) for seed in range(7, 13)),
    ],
)
def test_every_history_gives_the_same_verdicts_evidence_and_changes(
    seed: int, family: str, bucket_limit: int, most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if family == "crowded":
        crowd_anchors(monkeypatch)
    monkeypatch.setattr(runs, "_AT_ONCE", 20)  # so that this little data is merged in the background too
    monkeypatch.setattr(decider, "most_originals", lambda *_: most)  # fewer than the settings allow
    monkeypatch.setattr(journal, "_ROWS", 50)
    monkeypatch.setattr(decider, "HybridIndex", partial(HybridIndex, bucket_limit=bucket_limit))
    settings = load_settings(window={"length": "3d"}, fingerprint=FAMILIES[family])
    items, random = crowded_feed(seed), np.random.default_rng(seed)
    expected: list[tuple[Any, set[str]]] = []
    with Decider(settings) as plain:
        for item in items:
            batch = plain.judge([item], LATEST)
            plain.apply(batch)
            expected.append((batch.verdicts[0].as_json(), changes_of(batch.delta)))
    stages = {"none", "id", "body", "policy"} | (set() if family == "simhash" else {"exact", "headline"})
    assert {verdict["stage"] for verdict, _ in expected} >= stages

    dedup, confirmed, pending, at, happened = Decider(settings), list[Delta](), list[Batch](), 0, Counter[str]()
    while at < len(items):
        batch = dedup.judge(items[at : at + int(random.choice([1, 2, 7, 40]))], LATEST)
        part = expected[at : at + len(batch.verdicts)]
        assert [verdict.as_json() for verdict in batch.verdicts] == [verdict for verdict, _ in part]
        assert changes_of(batch.delta) == set().union(*(changes for _, changes in part))
        dedup.apply(batch, pending=True)
        pending.append(batch)
        at += len(part)
        while len(pending) > 2 or (pending and random.random() < 0.4):  # as in the worker, one is being committed
            dedup.confirm()
            confirmed.append(pending.pop(0).delta)
        action = random.choice(["nothing", "rollback", "restore", "save"], p=[0.4, 0.2, 0.2, 0.2])
        if action != "nothing":
            dedup.rollback()
            at -= sum(len(one.verdicts) for one in pending)
            pending.clear()
        if action == "restore":
            dedup.close()
            dedup = restored(settings, confirmed, random)
        if action == "save":
            journal.save(dedup, tmp_path / "memory")
            dedup.close()
            dedup = Decider(settings)
            journal.restore(dedup, tmp_path / "memory")
            check(dedup.index)
        happened[action] += 1
    while pending:
        dedup.confirm()
        pending.pop(0)
    assert (dedup.watermark, dedup.elapsed) == (plain.watermark, plain.elapsed)
    assert len(happened) == 4
    check(dedup.index)
    dedup.close()
