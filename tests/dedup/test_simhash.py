"""The SimHash family decides like a comparison of all pairs; also with fingerprints given by the items."""

import numpy as np
import pytest

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import ConfigError
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import load_settings
from tests.dedup.world import judged

pytestmark = pytest.mark.usefixtures("small_tree")

FERRY = (
    "The old ferry between the two banks of the Elm was taken out of service on Monday morning. Engineers had found "
    "cracks in the hull during a routine check last week, the town said. Some four hundred people use the crossing "
    "every day to reach the market and the school. A replacement boat from the coast is expected to arrive before the "
    "end of the month. Until then buses will run every twenty minutes over the northern bridge."
)
OTHER = "Astronomers at the Hill Observatory have measured the rotation of a small asteroid with a new camera."
GIVEN = {"item": {"fingerprint": "phash"}, "fingerprint": {"family": "given"}}


def picture(name: str, fingerprint: int, time: int = 0, source: str = "a.example") -> Item:
    return Item(name, "", "", source, time, fingerprint=fingerprint)


# -- texts -------------------------------------------------------------------------------------------------


def test_the_distance_alone_decides() -> None:
    """Neither a headline, a site, a day nor a new sentence: within the distance it is held back, beyond it is not."""
    cut, dedup = " ".join(FERRY.split()[:30]), Deduplicator(load_settings(fingerprint={"family": "simhash"}))
    feed = [
        Item("a", "Ferry out of service", FERRY, "a.example", 0),
        Item("b", "A wholly different headline", f"{FERRY} 38", "a.example", 3 * 24 * 3_600_000),
        Item("c", "Ferry out of service", cut, "c.example", 2),
        Item("d", "Ferry out of service", "", "d.example", 3),
        Item("e", "FERRY out of service", FERRY.upper(), "e.example", 4),
        Item("a", "Ferry out of service", FERRY, "a.example", 5),
    ]
    prints = dedup.prepare(feed).prints.signatures["simhash"]
    assert [int(np.bitwise_count(prints[0] ^ other).sum()) <= 3 for other in prints[1:3]] == [True, False]
    verdicts = judged(dedup, feed)
    assert [(str(one.kind), str(one.stage)) for one in verdicts] == [
        ("unique", "none"), ("duplicate", "body"), ("unique", "none"), ("unique", "none"), ("duplicate", "exact"),
        ("duplicate", "id"),
    ]  # fmt: skip
    assert verdicts[1].evidence is not None
    assert (verdicts[1].evidence.headline, verdicts[1].evidence.novelty) == (None, None)


# -- fingerprints given by the items -----------------------------------------------------------------------


def stream(count: int, within: int, seed: int) -> list[Item]:
    """Random fingerprints, half of them copies of an earlier one with 0 to max_hamming + 3 bits flipped."""
    random = np.random.default_rng(seed)
    values: list[int] = [0, 2**64 - 1]  # valid values
    while len(values) < count:
        value = int(random.integers(0, 2**64, dtype=np.uint64))
        if random.random() < 0.5:
            value = values[int(random.integers(0, len(values)))]
            for bit in random.choice(64, int(random.integers(0, within + 4)), replace=False).tolist():
                value ^= 1 << bit
        values.append(value)
    return [picture(str(n), value, n) for n, value in enumerate(values)]


@pytest.mark.parametrize("size", [1, 64, 1000])
@pytest.mark.parametrize(
    ("layout", "within"),
    [("4 choose 1", 3), ("5 choose 2", 3), ("6 choose 3", 3), ("4 x 4", 3), ("8 choose 2", 6), ("5 choose 2", 2)],
)
@pytest.mark.slow
def test_every_verdict_is_that_of_comparing_with_all_originals(layout: str, within: int, size: int) -> None:
    items = stream(1000, within, seed=within)
    settings = load_settings(
        item=GIVEN["item"],
        fingerprint={"family": "given", "layout": layout, "hamming": within},
        index={"bucket_limit": 100_000},
    )
    dedup = Deduplicator(settings)
    originals: list[Item] = []
    for item, verdict in zip(items, judged(dedup, items, size), strict=True):
        near = [(((one.fingerprint or 0) ^ (item.fingerprint or 0)).bit_count(), one.id) for one in originals]
        least = min((d for d, _ in near), default=65)
        if least > within:
            assert verdict.kind == Kind.UNIQUE, item
            originals.append(item)
            continue
        assert verdict.kind == Kind.DUPLICATE, item
        assert verdict.evidence is not None
        assert verdict.original is not None
        assert verdict.evidence.distance == least
        assert (least, verdict.original.id) in near
    assert 300 < len(originals) < 900


def test_given_fingerprints_know_nothing_else() -> None:
    dedup = Deduplicator(load_settings(**GIVEN))
    assert dedup.scheme.key_columns == 11
    assert dedup.scheme.signature_dtype.itemsize < 70
    pictures = [("a", 0), ("b", 0b111), ("c", 0b1111), ("a", 0), ("a", 2**40 - 1)]
    feed = [*(picture(*one) for one in pictures), Tombstone("c", 0), picture("d", 0b11111)]
    assert [f"{one.kind} {one.stage}" for one in judged(dedup, feed)] == [
        "unique none", "duplicate body", "unique none", "duplicate id", "update policy", "tombstone policy",
        "unique none",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "tables",
    [
        {"item": {"fingerprint": "phash"}},
        {"fingerprint": {"family": "given"}},
        {"item": {"fingerprint": "phash"}, "fingerprint": {"family": "given", "bits": 128}},
        {"fingerprint": {"family": "simhash", "weights": "idf"}},
    ],
)
def test_half_a_choice_is_refused(tables: dict[str, dict[str, object]]) -> None:
    with pytest.raises(ConfigError, match=r"belong together|64 bits|weights build"):
        load_settings(**tables)
