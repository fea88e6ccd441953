"""SimHashes, of texts and given by the items: the distance alone decides."""

import numpy as np
import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import ConfigError
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import load_settings
from tests.dedup.world import BANK, judged

FERRY = " ".join(BANK[:5])
GIVEN = {"item": {"fields": {"fingerprint": "phash"}}, "fingerprint": {"family": "given"}}


def picture(name: str, fingerprint: int, time: int = 0, source: str = "a.example") -> Item:
    return Item(name, "", "", source, time, fingerprint=fingerprint)


# -- texts -------------------------------------------------------------------------------------------------


def test_the_distance_alone_decides() -> None:
    """Neither a headline, a site, a day nor a new sentence: within the distance it is held back, beyond it is not."""
    cut, dedup = " ".join(FERRY.split()[:30]), Decider(load_settings(fingerprint={"family": "simhash"}))
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


def test_given_fingerprints_know_nothing_else() -> None:
    dedup = Decider(load_settings(**GIVEN))
    assert dedup.scheme.key_columns == 11
    assert dedup.scheme.signature_dtype.itemsize < 70
    pictures = [("a", 0), ("b", 0b111), ("c", 0b1111), ("a", 0), ("a", 2**40 - 1)]
    feed = [*(picture(*one) for one in pictures), Tombstone("c", 0), picture("d", 0b11111)]
    assert [f"{one.kind} {one.stage}" for one in judged(dedup, feed)] == [
        "unique none", "duplicate body", "unique none", "duplicate id", "update policy", "tombstone policy",
        "unique none",
    ]  # fmt: skip


@pytest.mark.parametrize("table", GIVEN)
def test_half_a_choice_is_refused(table: str) -> None:
    with pytest.raises(ConfigError, match="belong together"):
        load_settings(**{table: GIVEN[table]})
