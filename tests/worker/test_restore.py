"""A restore reads the remembered originals, not all that was ever written, and notices missing entries."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from kafka import TopicPartition

from stream_dedup.changelog import entries
from stream_dedup.changelog.headers import RestoreResult
from stream_dedup.dedup.batch import Delta
from stream_dedup.errors import ChangelogError, Outdated
from stream_dedup.settings import Settings
from stream_dedup.worker import restore
from stream_dedup.worker.restore import index_partitions
from stream_dedup.worker.state_store import StateStore
from tests.harness.feed import feed, made_up
from tests.harness.topics import Make, administrator
from tests.harness.wait import wait_until
from tests.lab.benchmarks.memory import deltas
from tests.worker.remembered import Remembering
from tests.worker.support import open_store, run_until

pytestmark = pytest.mark.kafka


@pytest.fixture
def writer(make: Make) -> Iterator[Remembering]:
    with Remembering(make()) as made:
        yield made


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folds of ten blocks, so that few transactions make many."""
    monkeypatch.setattr(entries, "MAX_BLOCKS", 10)


def one_row_each(settings: Settings, count: int) -> list[Delta]:
    return list(deltas(settings, count, 1))


def restored(settings: Settings) -> tuple[RestoreResult, list[str]]:
    """Restore an index; return what was read, and the ids in the order of the rows."""
    store = open_store(settings)
    try:
        return store.complete(lambda done, total: None), ids(store)
    finally:
        store.close()


def ids(store: StateStore) -> list[str]:
    return [store.dedup.rows.name(row)[0] for row in range(len(store.dedup))]


def ids_of(*some: Delta) -> list[str]:
    return [name for delta in some for name in delta.ids]


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The records of the changelog that were read so far."""
    records: list[Any] = []
    take = restore.ChangelogReader._accept

    def counted(self: restore.ChangelogReader, place: TopicPartition, polled: Sequence[Any]) -> None:
        records.extend(polled)
        take(self, place, polled)

    monkeypatch.setattr(restore.ChangelogReader, "_accept", counted)
    return records


def test_a_trickle_costs_a_restore_no_more_than_its_merged_blocks(
    writer: Remembering, small: None, fetched: list[Any]
) -> None:
    every = one_row_each(writer.settings, 205)
    for delta in every:
        writer.write(delta)
    found, rows = restored(writer.settings)
    assert rows == ids_of(*every)
    assert found.blocks == 20 + 5, "205 transactions: twenty merged blocks, and five blocks that are in none"
    assert len(fetched) == 20 + 5, "the blocks before are not even fetched: the last merged block says where to begin"
    fetched.clear()
    feed(writer.settings, made_up(1))
    run_until(writer.settings, 1)
    assert len(fetched) == 20 + 5, "a worker reads no more"


def test_a_worker_reads_only_the_last_blocks_of_the_worker_before(make: Make, small: None, fetched: list[Any]) -> None:
    """Merged blocks name the topic whose offset they give; a worker takes that offset only in this topic."""
    settings = make(worker={"batch_items": 1})
    feed(settings, made_up(25))
    run_until(settings, 25)
    feed(settings, made_up(1))
    run_until(settings, 1)
    of_blocks = index_partitions(settings.topics.changelog, 0).blocks.partition
    blocks = [record.offset for record in fetched if record.partition == of_blocks]
    assert blocks
    assert min(blocks) >= 20, "ten blocks and the markers of their transactions are merged, and then ten more"


@pytest.mark.parametrize("is_merged", [True, False])
def test_a_lost_entry_is_refused(writer: Remembering, is_merged: bool, small: None) -> None:
    every = one_row_each(writer.settings, 35)
    entries = [entry for delta in every for entry in writer.builder.build(delta)]
    lost = [entry for entry in entries if entry.is_merged is is_merged][1 if is_merged else -3]
    for entry in entries:
        # The blocks of the fold that is lost have expired too.
        if entry is not lost and not (is_merged and not entry.is_merged and entry.span.last <= lost.span.last):
            writer.commit([entry])
    with pytest.raises(ChangelogError, match=rf"lacks the entries from {lost.span.first} on, .* name a new topic"):
        restored(writer.settings)


def test_a_standby_that_lacks_an_entry_reads_anew(
    writer: Remembering, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "_GAP_SECONDS", 0.5)
    entries = [entry for delta in one_row_each(writer.settings, 5) for entry in writer.builder.build(delta)]
    writer.commit([*entries[:2], *entries[3:]])
    store = open_store(writer.settings)
    with pytest.raises(Outdated, match="lacks the entries from 3 on"):
        wait_until(store.follow, "the gap is noticed")
    store.close()


@pytest.mark.parametrize("expired", [(15, 0), (25, 2), (35, 0), (35, 3), (0, 3)])
@pytest.mark.slow
def test_expired_entries_are_no_loss(writer: Remembering, small: None, expired: tuple[int, int]) -> None:
    """Blocks expire before their merged block, so there may be a gap between the last merged block and the blocks."""
    every = one_row_each(writer.settings, 38)
    for delta in every:
        writer.commit(writer.builder.build(delta))
    blocks, merged = expired
    # Each is a record and a marker.
    delete_before(writer.settings, 2 * blocks, 2 * merged)
    oldest = 10 * merged if merged < 3 else max(30, blocks) if blocks else 0
    kept = ids_of(*every[oldest:])
    if (blocks, merged) == (35, 0):
        kept = ids_of(*every[:30], *every[35:])
    _, rows = restored(writer.settings)
    assert rows == kept
    # The next owner continues the sequence numbers so that a reader understands them.
    store = open_store(writer.settings)
    store.complete(lambda done, total: None)
    writer.builder = store._builder
    store.close()
    more = [*one_row_each(writer.settings, 30), *deltas(writer.settings, 700, 700)]
    for delta in more:
        writer.write(delta)
    assert restored(writer.settings)[1] == kept + ids_of(*more)


def test_sequence_numbers_are_not_reused_when_all_has_expired(writer: Remembering, small: None) -> None:
    """A standby knows entries that have expired since; the next ones must not pass for those."""
    every = one_row_each(writer.settings, 38)
    for delta in every:
        writer.write(delta)
    standby = open_store(writer.settings)
    wait_until(lambda: standby.follow() or len(standby.dedup) == 38, "the standby has read all")
    delete_before(writer.settings, -1, 2)
    store = open_store(writer.settings)
    store.complete(lambda done, total: None)
    assert ids(store) == ids_of(*every[10:30])
    writer.builder = store._builder
    store.close()
    more = [*deltas(writer.settings, 1200, 600), *one_row_each(writer.settings, 15)]
    for delta in more:
        writer.write(delta)
    assert restored(writer.settings)[1] == ids_of(*every[10:30], *more)
    standby.complete(lambda done, total: None)
    assert ids(standby) == ids_of(*every, *more)
    standby.close()


@pytest.mark.parametrize("is_merged", [False, True], ids=["blocks", "folds"])
def test_a_store_that_no_longer_fits_its_changelog_is_outdated(
    writer: Remembering, small: None, is_merged: bool
) -> None:
    """In either partition the next entry was deleted, or the partition ends before it, as after a cluster's loss."""
    every = one_row_each(writer.settings, 40)
    for delta in every[:20]:
        writer.write(delta)
    store, other = open_store(writer.settings), open_store(writer.settings)
    store.complete(lambda done, total: None)
    place = store.places.merged if is_merged else store.places.blocks
    store.reader.mark_read({place: 900}, store._builder.next, ())
    with pytest.raises(Outdated, match=f"-{place.partition} ends at offset .*, and 900 was to be read next"):
        store.complete(lambda done, total: None)
    other.complete(lambda done, total: None)
    for delta in every[20:]:
        writer.write(delta)
    delete_before(writer.settings, 0 if is_merged else 60, 4 if is_merged else 0)
    with pytest.raises(Outdated, match=f"-{place.partition} begins at offset .* now, and .* was to be read next"):
        other.complete(lambda done, total: None)
    store.close()
    other.close()


def delete_before(settings: Settings, blocks: int, merged: int) -> None:
    places = index_partitions(settings.topics.changelog, 0)
    with administrator(settings) as admin:
        admin.delete_records({place: offset for place, offset in zip(places, (blocks, merged), strict=True) if offset})
