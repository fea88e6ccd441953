"""A story has one name, the id of its first original, on each of its copies, updates and versions."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from stream_dedup.changelog.block import decode, encode, merge_deltas, split_delta
from stream_dedup.changelog.saved import restore, save
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import load_settings
from tests.dedup.test_rollback import some_items
from tests.dedup.world import HOUR, START, judged, kinds

TEXT = "The bridge over the Elm opened on Monday after two years of work, the mayor of the town said at noon."
NEWS = " Police closed it again on Tuesday night because falling stones had injured 14 people."
MORE = " A judge in the capital ordered an inquiry into the builder, who had won the contract in 2019."


def item(name: str, text: str, hour: int = 0) -> Item:
    return Item(name, "Elm bridge opens after two years", text, f"{name[0]}.example", START + hour * HOUR)


LINEAGE = [
    item("first", TEXT),
    item("copy", TEXT),
    item("update", TEXT + NEWS),
    item("later copy", TEXT + NEWS),
    item("update", TEXT + NEWS + MORE),
    item("of the version", TEXT + NEWS + MORE),
    Item("other", "Goats on a ferry", "A ferry brought forty goats to an island.", "o.example", START),
    Tombstone("other", START),
    BadItem("json", "cut"),
    Item("empty", "", "", "", START),
]
STORIES = [*["first"] * 6, "other", "", "", ""]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_copies_updates_and_versions_keep_the_story(size: int) -> None:
    with Deduplicator() as dedup:
        verdicts = judged(dedup, LINEAGE, size)
    assert kinds(verdicts) == ["unique", "duplicate", "update", "duplicate", "update", "duplicate", "unique",
                               "tombstone", "bad", "bad"]  # fmt: skip
    assert [one.story for one in verdicts] == STORIES
    assert [one.as_json()["story"] for one in verdicts] == [one or None for one in STORIES]
    assert verdicts[5].original is not None
    assert verdicts[5].original.id == "update", "not the first one"


def test_an_update_that_is_held_back_has_the_story_too() -> None:
    with Deduplicator(load_settings(policy={"updates": "drop"})) as dedup:
        first, update = judged(dedup, [LINEAGE[0], LINEAGE[2]])
    assert (first.forward, update.forward, update.story) == (True, False, "first")


def test_a_story_outlives_its_first_original() -> None:
    with Deduplicator() as dedup:
        judged(dedup, [item("first", TEXT), item("update", TEXT + NEWS, 1)])
        assert dedup.forget("first")
        [copy] = judged(dedup, [item("copy", TEXT + NEWS, 2)])
        assert (copy.original and copy.original.id, copy.story) == ("update", "first")
        assert dedup.forget("update")
        [again] = judged(dedup, [item("again", TEXT + NEWS, 3)])
        assert (again.kind, again.story) == (Kind.UNIQUE, "again")


def followed(verdicts: list[Verdict]) -> list[str]:
    """The stories that follow from the originals that verdicts name. Items have their number as offset."""
    stories: list[str] = []
    for one in verdicts:
        is_story = one.kind not in (Kind.BAD, Kind.TOMBSTONE)
        stories.append((stories[one.original.offset] if one.original else one.id) if is_story else "")
    return stories


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("verify", ["sketch", "exact"])
def test_stories_follow_the_originals_through_pending_and_lost_batches_restores_and_files(
    seed: int, verify: str, tmp_path: Path
) -> None:
    settings = load_settings(window={"length": "3d"}, fingerprint={"verify": verify})
    random, dedup, verdicts, confirmed, number = np.random.default_rng(seed), Deduplicator(settings), [], [], 0
    id_, dtype = dedup.scheme_id, dedup.scheme.signature_dtype
    for turn in range(40):
        items = some_items(random, int(random.integers(1, 30)), START + turn * 3 * HOUR)
        items = [msgspec.structs.replace(one, partition=0, offset=number + n) for n, one in enumerate(items)]
        half = len(items) // 2
        dedup.apply(dedup.judge(items[:half]), pending=True)
        dedup.apply(dedup.judge(items[half:]), pending=True)
        dedup.rollback()
        for part in (items[:half], items[half:]):
            batch = dedup.judge(part)
            dedup.apply(batch, pending=True)
            verdicts += batch.verdicts
            confirmed.append(batch.delta)
        dedup.confirm()
        dedup.confirm()
        number += len(items)
        if turn % 8 == 3:
            save(dedup, tmp_path / "state")
            dedup = Deduplicator(settings)
            restore(dedup, tmp_path / "state")
        elif turn % 8 == 7:
            dedup = Deduplicator(settings)
            for part in split_delta(merge_deltas(confirmed), 20_000):
                dedup.restore(decode(encode(part, id_), id_, dtype))
    stories = followed(verdicts)
    assert [one.story for one in verdicts] == stories
    chains = sum(one.original is not None and one.original.id != one.story for one in verdicts)
    assert chains > 20
    dedup.close()
