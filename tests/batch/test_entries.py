"""One function decides, whichever way the items come: the stream, `filter`, `pairs`, `explain` and `evaluate`."""

from pathlib import Path

import pytest

from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from tests.batch.entries import by_cut, names_article, otherwise_explained, otherwise_in_pairs
from tests.batch.feed import feed, line, prose, write
from tests.batch.test_pairs import one_site

WIDE = {"window": {"length": "3650d"}}
FAMILIES = {
    "minhash": {},
    "exact": {"fingerprint": {"verify": "exact"}},
    "simhash": {"fingerprint": {"family": "simhash"}},
}


def notices(count: int) -> list[bytes]:
    """Short notices that one site sends again, within the day and days later, and whole articles likewise."""
    lines = []
    for i in range(count):
        words = 12 if i % 2 else 90
        lines.append(line(f"n{i}", prose(-(i % 7) - 1, 8), prose(i % 7, words), i * 5, source="wire.example"))
    return lines


CORPORA = {"feed": feed(250), "one site": one_site(250, 3), "notices": notices(60)}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.slow
def test_every_entry_point_says_the_same(corpus: str, family: str, tmp_path: Path) -> None:
    lines, settings = CORPORA[corpus], load_settings(**WIDE, **FAMILIES[family])
    verdicts, cuts = by_cut(lines, settings, (60, 1, 7))
    assert cuts == {"1": 0, "7": 0}
    items = [item for one in lines if isinstance(item := Decoder(settings.item)(one, None, None), Item)]
    names = [item.id for item in items]
    once = {name for name in names if names.count(name) == 1}  # an id is no evidence to `pairs`
    named = [one for one in verdicts if names_article(one) and one.original and {one.id, one.original.id} <= once]
    assert len(named) > 10
    differing, same = otherwise_explained(items, named, settings)
    assert differing == 0
    assert otherwise_in_pairs(write(tmp_path / "in.jsonl", lines), same, settings) == 0
