"""What an equal id means: a new version only of the same source or the same article; else nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import msgspec
import pytest

from stream_dedup import Deduplicator as ScriptDeduplicator
from stream_dedup.changelog.block import decode
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.errors import UsageError
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import load_settings
from tests.batch.feed import prose
from tests.dedup.world import HOUR, judged, kinds, told

SITES = ("a.example", "b.example", "c.example")
BRIDGE, FERRY, MUSEUM = 1, 2, 3


def story(name: str, number: int, source: str = SITES[0], hour: int = 0, more: str = "") -> Item:
    """The article `number` under an id; every article is unlike all others."""
    return Item(name, prose(-number, 8), f"{prose(number)}. {more}", source, hour * HOUR)


# -- an id of another source -----------------------------------------------------------------------------------


@pytest.mark.parametrize("updates", ["compare", "forward", "drop"])
def test_two_feeds_that_count_from_one_do_not_disturb_each_other(updates: str) -> None:
    with Deduplicator(load_settings(policy={"updates": updates})) as dedup:
        verdicts = judged(
            dedup,
            [
                story("1", BRIDGE, "a.example"),
                story("1", FERRY, "b.example", 1),
                story("7", BRIDGE, "c.example", 2),
                story("8", FERRY, "c.example", 3),
            ],
        )
    assert told(verdicts) == [("unique", None), ("unique", None), ("duplicate", "1"), ("duplicate", "1")]
    assert [one.original.time for one in verdicts if one.original] == [0, HOUR]


@pytest.mark.parametrize("updates", ["compare", "forward", "drop"])
def test_each_feed_may_send_new_versions_under_an_id_that_both_have(updates: str) -> None:
    news = f"{prose(50, 60)}. {prose(51, 60)}."
    with Deduplicator(load_settings(policy={"updates": updates})) as dedup:
        first = judged(dedup, [story("1", BRIDGE, "a.example"), story("1", FERRY, "b.example")])
        later = judged(dedup, [story("1", BRIDGE, "a.example", 1, news), story("9", FERRY, "c.example", 2)])
    assert kinds(first) == ["unique", "unique"]
    assert (later[0].kind, later[0].stage, later[0].forward) == (Kind.UPDATE, Stage.POLICY, updates != "drop")
    assert told(later[1:]) == [("duplicate", "1")], "the other feed's item is not forgotten with the version"


def test_a_known_text_under_the_id_of_another_article_is_a_duplicate() -> None:
    with Deduplicator() as dedup:
        verdicts = judged(dedup, [story("1", BRIDGE), story("2", FERRY), story("1", FERRY, "b.example", 1)])
        own = judged(dedup, [story("2", BRIDGE, SITES[0], 2)])
    assert told(verdicts) == [("unique", None), ("unique", None), ("duplicate", "2")]
    assert told(own) == [("duplicate", "1")], "of the same source, too"


def test_an_equal_id_of_another_source_is_a_new_version_if_the_article_is_the_same() -> None:
    news = f"{prose(50, 60)}. {prose(51, 60)}."
    with Deduplicator() as dedup:
        verdicts = judged(dedup, [story("1", BRIDGE, "a.example"), story("1", BRIDGE, "www.a.example", 1, news)])
    assert told(verdicts) == [("unique", None), ("update", "1")]
    assert "same id" in verdicts[1].reason


# -- versions are asked as copies elsewhere --------------------------------------------------------------------


NEW_SENTENCE = "Divers found a second crack below the water line, four metres long."


@pytest.mark.parametrize(
    ("more", "is_news"),
    [
        *(("", False), ("And so on.", False), (prose(BRIDGE, 9), False)),
        *((NEW_SENTENCE, True), (f"{prose(62, 40)}. {prose(63, 40)}.", True)),
    ],
)
@pytest.mark.parametrize("cut", [30, 60])
def test_a_new_version_is_held_back_like_a_copy_under_another_id_unless_a_sentence_is_new(
    more: str, cut: int, is_news: bool
) -> None:
    def held(name: str) -> bool:
        text = f"{' '.join(prose(BRIDGE).split()[:cut])}. {more}"
        with Deduplicator() as dedup:
            known = story("1", BRIDGE, more="Only the first has this.")
            later = msgspec.structs.replace(known, id=name, text=text, time=HOUR)
            return judged(dedup, [known, later])[1].kind is Kind.DUPLICATE

    assert held("1") is not is_news
    assert held("2") >= held("1")


def test_a_version_without_news_is_no_update_even_if_its_words_differ() -> None:
    with Deduplicator() as dedup:
        held = judged(dedup, [story("1", BRIDGE), story("1", BRIDGE, hour=1, more="Read more here.")])[1]
    assert (held.kind, held.forward) == (Kind.DUPLICATE, False)
    assert held.evidence is not None
    assert held.evidence.novelty is not None, "it was asked"


def test_a_version_that_is_withdrawn_again_is_an_update() -> None:
    """The latest version counts, not every earlier one: the reader of the second has to see the first again."""
    with Deduplicator() as dedup:
        verdicts = judged(dedup, [story("1", BRIDGE), story("1", FERRY, hour=1), story("1", BRIDGE, hour=2)])
    assert told(verdicts) == [("unique", None), ("update", "1"), ("update", "1")]


def test_a_unique_item_names_the_nearest_one_and_no_original() -> None:
    with Deduplicator() as dedup:
        _, second = judged(dedup, [story("1", BRIDGE), story("1", FERRY, "b.example", 1)])
    row = second.as_json()
    assert (row["verdict"], row["original"], row["nearest"]["id"]) == ("unique", None, "1")
    assert second.compared is second.nearest


# -- tombstones and `forget` -----------------------------------------------------------------------------------


def test_a_tombstone_forgets_all_that_have_its_id_because_it_names_no_source() -> None:
    with Deduplicator() as dedup:
        judged(dedup, [story("1", BRIDGE, "a.example"), story("1", FERRY, "b.example"), story("2", MUSEUM)])
        verdicts = judged(
            dedup,
            [Tombstone("1", HOUR), *(story(f"{n}", n + 1, "c.example", 2) for n in range(3))],
        )
    assert kinds(verdicts) == ["tombstone", "unique", "unique", "duplicate"]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("hour", [-1, 0, 24 * 900])
def test_a_tombstone_need_not_have_the_clock_of_the_items(hour: int, size: int) -> None:
    """As one that somebody sends by hand, long after the dates of an archive."""
    items = [story("1", BRIDGE, hour=9), Tombstone("1", hour * HOUR), story("2", BRIDGE, hour=10)]
    blocks: list[bytes] = []
    with Deduplicator() as dedup, Deduplicator() as restored:
        assert kinds(judged(dedup, items, size, blocks=blocks)) == ["unique", "tombstone", "unique"]
        for data in blocks:
            restored.restore(decode(data, dedup.scheme_id, dedup.scheme.signature_dtype))
        assert told(judged(restored, [story("3", BRIDGE, hour=11)])) == [("duplicate", "2")]


def test_what_is_forgotten_by_hand_is_let_through_again() -> None:
    with ScriptDeduplicator() as dedup:
        dedup.apply(dedup.judge([story("1", BRIDGE), story("2", FERRY)]))
        before = dedup.judge([story("3", BRIDGE)])
        assert dedup.forget("1")
        assert not dedup.forget("1")
        with pytest.raises(UsageError, match="judge its items again"):
            dedup.apply(before)
        verdicts = dedup.judge([story("3", BRIDGE), story("4", FERRY)]).verdicts
        with pytest.raises(UsageError, match="a string"):
            dedup.forget(1)  # type: ignore[arg-type]
    assert kinds(verdicts) == ["unique", "duplicate"]


def test_nothing_is_forgotten_by_hand_while_a_batch_is_pending() -> None:
    with Deduplicator() as dedup:
        dedup.apply(dedup.judge([story("1", BRIDGE)]), pending=True)
        with pytest.raises(UsageError, match="forget: 1 pending"):
            dedup.forget("1")


# -- properties ------------------------------------------------------------------------------------------------


@dataclass
class Feeds:
    """Items of three sites, each with ids 0, 1, 2, ...: first versions, new ones, redeliveries, copies."""

    chance: Random

    def items(self, count: int) -> list[Item | Tombstone]:
        items: list[Item | Tombstone] = []
        versions: dict[tuple[str, int], int] = {}  # of an id: the number of its last article
        for n in range(count):
            site, number = self.chance.choice(SITES), self.chance.randrange(12)
            key = site, number
            kind = self.chance.random()
            if key not in versions or kind < 0.15:  # also: another article under a known id of its source
                versions[key] = n + 1
            title, text = prose(-versions[key], 8), prose(versions[key])
            if kind > 0.8:
                text += f". {prose(5000 + n, self.chance.choice([3, 80]))}."
            if 0.5 < kind < 0.65:  # a copy of another site's article, under an id of its own
                number, article = 1000 + n, self.chance.choice([*versions.values()])
                title, text = prose(-article, 8), prose(article)
            items.append(Item(f"{number}", title, text, site, n * HOUR // 20))
        return items


def by_place(items: Sequence[Item | Tombstone]) -> list[Item | Tombstone]:
    """The same items, each with its number as offset, so that a verdict names its original without doubt."""
    return [msgspec.structs.replace(one, offset=n) for n, one in enumerate(items)]


def fates(verdicts: Sequence[Verdict]) -> list[tuple[str, bool, int | None]]:
    """Kind, whether it is let through, and the offset of the original."""
    return [(str(one.kind), one.forward, one.original.offset if one.original else None) for one in verdicts]


@pytest.mark.parametrize("updates", ["compare", "forward", "drop"])
@pytest.mark.parametrize("seed", range(3))
def test_ids_that_sites_share_change_nothing(seed: int, updates: str) -> None:
    shared = by_place(Feeds(Random(seed)).items(250))
    own = [msgspec.structs.replace(one, id=f"{one.source}/{one.id}") for one in shared if isinstance(one, Item)]
    assert len({one.id for one in own}) > len({one.id for one in shared}) + 10
    settings = load_settings(policy={"updates": updates})
    with Deduplicator(settings) as one, Deduplicator(settings) as other:
        found, expected = judged(one, shared, 7), judged(other, own, 7)
    assert fates(found) == fates(expected)
    assert len({str(one.kind) for one in found}) == 3


def test_one_id_on_everything_does_not_crowd_out_the_originals() -> None:
    """Of other sources, so that each is an article of its own."""
    items = [Item("x", prose(-n - 1, 8), prose(n + 1), f"s{n}.example", n) for n in range(40)]
    copies = [Item("x", prose(-n - 1, 8), f"{prose(n + 1)} More.", f"t{n}.example", 100 + n) for n in range(40)]
    with Deduplicator() as dedup:
        verdicts = judged(dedup, by_place([*items, *copies]), 7)
    assert kinds(verdicts) == ["unique"] * 40 + ["duplicate"] * 40
    assert [one.original.offset for one in verdicts if one.original] == list(range(40))
