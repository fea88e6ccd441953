"""What an equal id means: a new version only of the same source or the same article; else nothing. And stories."""

from random import Random

import msgspec
import pytest

from stream_dedup import Deduplicator as ScriptDeduplicator
from stream_dedup.changelog.block import decode
from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Kind, Stage
from stream_dedup.errors import BadItem, UsageError
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import load_settings
from tests.dedup.world import DAY, FERRY, HOUR, OTHER, START, item, judged, kinds, original_of, story, told
from tests.tools.batch.feed import prose

SITES = ("a.example", "b.example", "c.example")
BRIDGE, QUAY, MUSEUM = 1, 2, 3
NEWS = f"{prose(50, 60)}. {prose(51, 60)}."


@pytest.mark.parametrize("updates", ["compare", "forward", "drop"])
def test_two_feeds_that_count_from_one_do_not_disturb_each_other(updates: str) -> None:
    with Decider(load_settings(policy={"updates": updates})) as dedup:
        first = judged(dedup, [story("1", BRIDGE, "a.example"), story("1", QUAY, "b.example", 1)])
        copies = judged(dedup, [story("7", BRIDGE, "c.example", 2), story("8", QUAY, "c.example", 3)])
        later = judged(dedup, [story("1", BRIDGE, "a.example", 4, NEWS), story("9", QUAY, "c.example", 5)])
    assert told([*first, *copies]) == [("unique", None)] * 2 + [("duplicate", "1")] * 2
    assert [one.original.time - START for one in copies if one.original] == [0, HOUR]
    assert (later[0].kind, later[0].stage, later[0].forward) == (Kind.UPDATE, Stage.POLICY, updates != "drop")
    assert told(later[1:]) == [("duplicate", "1")], "the other feed's item is not forgotten with the version"


def test_a_known_text_under_the_id_of_another_article_is_a_duplicate() -> None:
    items = [story("1", BRIDGE), story("2", QUAY), story("1", QUAY, "b.example", 1), story("2", BRIDGE, "a.example", 2)]
    with Decider() as dedup:
        assert told(judged(dedup, items)) == [("unique", None)] * 2 + [("duplicate", "2"), ("duplicate", "1")]


def test_an_equal_id_of_another_source_is_a_new_version_if_the_article_is_the_same() -> None:
    with Decider() as dedup:
        verdicts = judged(dedup, [story("1", BRIDGE, "a.example"), story("1", BRIDGE, "www.a.example", 1, NEWS)])
    assert told(verdicts) == [("unique", None), ("update", "1")]
    assert "same id" in verdicts[1].reason


@pytest.mark.parametrize(
    ("more", "is_news"),
    [
        *(("", False), ("And so on", False), (prose(BRIDGE, 9), False)),
        *(("Divers found a second crack below the water line, four metres long.", True), (NEWS, True)),
    ],
)
@pytest.mark.parametrize("cut", [30, 60])
def test_a_new_version_is_held_back_like_a_copy_under_another_id_unless_a_sentence_is_new(
    more: str, cut: int, is_news: bool
) -> None:
    known, held = story("1", BRIDGE, more="Only the first has this."), {}
    for name in ("1", "2"):
        text = f"{' '.join(prose(BRIDGE).split()[:cut])}. {more}"
        with Decider() as dedup:
            verdict = judged(dedup, [known, msgspec.structs.replace(known, id=name, text=text, time=START + HOUR)])[1]
        held[name] = verdict.kind is Kind.DUPLICATE
        assert verdict.evidence is None or verdict.evidence.novelty is not None, "it is computed"
    assert held["1"] is not is_news
    assert held["2"] >= held["1"]


def test_an_update_that_is_let_through_replaces_its_original() -> None:
    """The latest version counts, not every earlier one: the reader of the second has to see the first again."""
    versions = [item("a"), item("a", OTHER, title="Asteroid")]
    with Decider() as dedup, Decider() as again:
        verdicts = judged(dedup, [*versions, item("b"), item("c", OTHER, title="Asteroid")])
        assert told(verdicts) == [("unique", None), ("update", "a"), ("unique", None), ("duplicate", "a")]
        assert told(judged(again, [*versions, item("a")])) == [("unique", None), ("update", "a"), ("update", "a")]


def test_a_unique_item_names_the_nearest_one_and_no_original() -> None:
    with Decider() as dedup:
        _, second = judged(dedup, [story("1", BRIDGE), story("1", QUAY, "b.example", 1)])
    row = second.as_json()
    assert (row["verdict"], row["original"], row["nearest"]["id"]) == ("unique", None, "1")
    assert second.compared is second.nearest


# -- tombstones and `forget` -----------------------------------------------------------------------------------


def test_a_tombstone_forgets_all_that_have_its_id_because_it_names_no_source() -> None:
    items = [story("1", BRIDGE, "a.example"), story("1", QUAY, "b.example"), story("2", MUSEUM), Tombstone("1", START)]
    with Decider() as dedup:
        verdicts = judged(dedup, [*items, *(story(f"{n}", n + 1, "c.example", 2) for n in range(3))])
    assert kinds(verdicts)[3:] == ["tombstone", "unique", "unique", "duplicate"]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("days", [-1, 0, 900])
def test_a_tombstone_need_not_have_the_clock_of_the_items(days: int, size: int) -> None:
    """As one that somebody sends by hand, long after the dates of an archive."""
    items, blocks = (
        [story("1", BRIDGE, hour=9), Tombstone("1", START + days * DAY), story("2", BRIDGE, hour=10)],
        list[bytes](),
    )
    with Decider() as dedup, Decider() as restored:
        assert kinds(judged(dedup, items, size, blocks=blocks)) == ["unique", "tombstone", "unique"]
        for data in blocks:
            restored.restore(decode(data, dedup.scheme_id, dedup.scheme.signature_dtype))
        assert told(judged(restored, [story("3", BRIDGE, hour=11)])) == [("duplicate", "2")]


def test_what_is_forgotten_by_hand_is_let_through_again() -> None:
    with ScriptDeduplicator() as dedup:
        dedup.apply(dedup.judge([story("1", BRIDGE), story("2", QUAY)]))
        before = dedup.judge([story("3", BRIDGE)])
        assert dedup.forget("1")
        assert not dedup.forget("1")
        with pytest.raises(UsageError, match="judge its items again"):
            dedup.apply(before)
        verdicts = dedup.judge([story("3", BRIDGE), story("4", QUAY)]).verdicts
        with pytest.raises(UsageError, match="a string"):
            dedup.forget(1)  # type: ignore[arg-type]
    assert kinds(verdicts) == ["unique", "duplicate"]


# -- stories ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 100])
def test_copies_updates_and_versions_keep_the_story(size: int) -> None:
    longer, longest = f"{FERRY} {OTHER}", f"{FERRY} {OTHER} {NEWS}"
    lineage = [
        item("first"), item("copy"), item("update", longer), item("later copy", longer), item("update", longest),
        item("of the version", longest), story("other", BRIDGE), Tombstone("other", START), BadItem("json", "cut"),
        item("empty", "", title=""),
    ]  # fmt: skip
    with Decider() as dedup:
        verdicts = judged(dedup, lineage, size)
    assert kinds(verdicts) == ["unique", "duplicate", "update", "duplicate", "update", "duplicate", "unique",
                               "tombstone", "bad", "bad"]  # fmt: skip
    stories = [*["first"] * 6, "other", "", "", ""]
    assert [one.story for one in verdicts] == stories
    assert [one.as_json()["story"] for one in verdicts] == [one or None for one in stories]
    assert original_of(verdicts[5]) == "update", "not the first one"


def test_a_story_outlives_its_first_original() -> None:
    longer = f"{FERRY} {OTHER}"
    with Decider() as dedup:
        judged(dedup, [item("first"), item("update", longer, hour=1)])
        assert dedup.forget("first")
        [copy] = judged(dedup, [item("copy", longer, hour=2)])
        assert (original_of(copy), copy.story) == ("update", "first")
        assert dedup.forget("update")
        [again] = judged(dedup, [item("again", longer, hour=3)])
        assert (again.kind, again.story) == (Kind.UNIQUE, "again")


# -- properties ------------------------------------------------------------------------------------------------


def three_feeds(chance: Random, count: int) -> list[Item]:
    """Items of three sites, each with ids 0, 1, 2, ...: first versions, new ones, redeliveries, copies.

    The offset is the number of an item, so that a verdict names its original without doubt.
    """
    items, versions = list[Item](), dict[tuple[str, int], int]()  # of an id: the number of its last article
    for n in range(count):
        site, number, kind = chance.choice(SITES), chance.randrange(12), chance.random()
        key = site, number
        if key not in versions or kind < 0.15:  # also: another article under a known id of its source
            versions[key] = n + 1
        article, more = versions[key], ""
        if kind > 0.8:
            more = f"{prose(5000 + n, chance.choice([3, 80]))}."
        if 0.5 < kind < 0.65:  # a copy of another site's article, under an id of its own
            number, article = 1000 + n, chance.choice([*versions.values()])
        items.append(msgspec.structs.replace(story(f"{number}", article, site, n / 20, more), offset=n))
    return items


@pytest.mark.parametrize("updates", ["compare", "forward", "drop"])
@pytest.mark.parametrize("seed", range(3))
def test_ids_that_sites_share_change_nothing(seed: int, updates: str) -> None:
    shared = three_feeds(Random(seed), 250)
    own = [msgspec.structs.replace(one, id=f"{one.source}/{one.id}") for one in shared]
    assert len({one.id for one in own}) > len({one.id for one in shared}) + 10
    fates = []
    for items in (shared, own):
        with Decider(load_settings(policy={"updates": updates})) as dedup:
            verdicts = judged(dedup, items, 7)
        fates.append([(one.kind, one.forward, one.original and one.original.offset) for one in verdicts])
    assert fates[0] == fates[1]
    assert len({kind for kind, _, _ in fates[0]}) == 3


def test_one_id_on_everything_does_not_crowd_out_the_originals() -> None:
    """Of other sources, so that each is an article of its own."""
    items = [story("x", n + 1, f"s{n}.example", n / 100) for n in range(40)]
    items += [story("x", n + 1, f"t{n}.example", 1 + n / 100, "More.") for n in range(40)]
    with Decider() as dedup:
        verdicts = judged(dedup, [msgspec.structs.replace(one, offset=n) for n, one in enumerate(items)], 7)
    assert kinds(verdicts) == ["unique"] * 40 + ["duplicate"] * 40
    assert [one.original.offset for one in verdicts if one.original] == list(range(40))
