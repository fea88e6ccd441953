"""With verify = "exact", bodies are compared exactly, and every verdict follows from that."""

import numpy as np
import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import InputError
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index import rows
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.evaluate.exact import body_sets, fidelity
from stream_dedup.tools.pair_rule import compare
from tests.dedup.world import judged
from tests.tools.evaluate.news import copies

EXACT = load_settings(fingerprint={"verify": "exact"})


@pytest.fixture(scope="module")
def news() -> list[Item]:
    """Copies with a Jaccard on both sides of .8, and items without a body."""
    items = copies(60, [0.02, 0.09, 0.1, 0.105, 0.11, 0.115, 0.5])
    items[7] = Item("no body", "Only a headline that stands alone", "", "x.example", 0)
    return items


def test_every_verdict_at_a_threshold_is_that_of_exact_sets(news: list[Item]) -> None:
    sets = body_sets(news, Fingerprinter(Scheme(EXACT.fingerprint)))
    found = fidelity(news, sets, EXACT, 0.8)
    assert found.agreement == 1.0
    assert 0 < found.held_exactly < found.items
    assert found.sketch_bytes == pytest.approx(2.3 * 118, rel=0.05)  # 118 shingles; 24 bits less log2(118), and 1.5
    assert fidelity(news, sets, Settings(), 0.8).agreement < 1.0


def test_bodies_beyond_four_gigabytes_are_read_where_they_are(
    news: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = judged(Decider(EXACT), news, 50)
    monkeypatch.setattr(rows, "_MAX_UINT32", 5000)  # bytes
    assert judged(Decider(EXACT), news, 50) == plain


def test_a_body_that_is_cut_short_is_compared_as_far_as_it_is_stored(news: list[Item]) -> None:
    prints = Fingerprinter(Scheme(EXACT.fingerprint))(news[:40])
    later, earlier = np.arange(1, 40), np.arange(39)
    for size in (0, 1, 9, 400):
        cut = [body[:size] for body in prints.bodies]
        found = compare(prints, prints.signatures, later, earlier, cut)
        shares = found["containment"][~np.isnan(found["containment"])]
        assert ((shares >= 0) & (shares <= 1)).all()


@pytest.mark.parametrize(("later", "earlier"), [(-1, 0), (10, 0), (1, -1), (1, 10), (2**62, 0)])
def test_a_position_that_is_none_is_refused(later: int, earlier: int, news: list[Item]) -> None:
    prints = Fingerprinter(Scheme(EXACT.fingerprint))(news[:10])
    with pytest.raises(InputError, match="does not fit"):
        compare(prints, prints.signatures, np.array([later]), np.array([earlier]))
