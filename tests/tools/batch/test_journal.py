"""A journal returns what was appended, cuts off a torn tail, and reports damage with its place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.changelog.journal import MAGIC, Entry
from stream_dedup.errors import CorruptBlock
from stream_dedup.tools.batch.journal import Journal

HEAD = 40
PARTS = st.lists(st.tuples(st.binary(max_size=50), st.binary(max_size=200)), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One path for all examples; each begins with `write_journal`."""
    return tmp_path_factory.mktemp("state") / "journal"


def write_journal(path: Path, parts: list[tuple[bytes, bytes]]) -> None:
    path.unlink(missing_ok=True)
    journal = Journal(path, lambda _: None)
    for record, block in parts:
        journal.append(record, block)
    journal.close()


def read(path: Path) -> list[Entry]:
    entries: list[Entry] = []
    Journal(path, entries.append).close()
    return entries


def content(path: Path) -> list[tuple[bytes, bytes]]:
    return [(entry.record, entry.block) for entry in read(path)]


@given(PARTS)
def test_a_journal_returns_what_was_appended(path: Path, parts: list[tuple[bytes, bytes]]) -> None:
    write_journal(path, parts)
    entries = read(path)
    assert [(entry.record, entry.block) for entry in entries] == parts
    assert entries[0].start == len(MAGIC)
    assert [entry.end for entry in entries] == [entry.start for entry in entries[1:]] + [path.stat().st_size]


@given(PARTS, st.data())
def test_a_torn_tail_is_cut_off_and_the_journal_goes_on(
    path: Path, parts: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    write_journal(path, parts)
    last, whole = read(path)[-1], path.read_bytes()
    torn = data.draw(st.integers(last.start, last.end - 1))
    # A power failure leaves the beginning of an append, and zeros for the rest.
    path.write_bytes(whole[:torn] + bytes(data.draw(st.integers(0, last.end - torn))))
    expected = parts if path.read_bytes() == whole else parts[:-1]
    assert content(path) == expected
    assert path.stat().st_size == (last.end if expected == parts else last.start)
    journal = Journal(path, lambda _: None)
    journal.append(b"next")
    journal.close()
    assert content(path) == [*expected, (b"next", b"")]


@given(PARTS, st.data())
def test_a_changed_byte_before_the_last_entry_is_corruption_at_its_offset(
    path: Path, parts: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    write_journal(path, [*parts, (b"last", b"one")])
    entry = data.draw(st.sampled_from(read(path)[:-1]))
    whole = bytearray(path.read_bytes())
    whole[data.draw(st.integers(entry.start, entry.end - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    with pytest.raises(CorruptBlock, match=f"{path}, byte {entry.start}:"):
        read(path)
    assert path.read_bytes() == whole  # a user may want to rescue it


def test_another_file_is_not_taken_for_a_journal(path: Path) -> None:
    path.write_bytes(b"my precious notes")
    with pytest.raises(CorruptBlock, match="was not written by"):
        read(path)
    assert path.read_bytes() == b"my precious notes"


def test_only_the_kept_spans_remain_and_appending_goes_on(path: Path) -> None:
    write_journal(path, [(b"%d" % i, bytes(i)) for i in range(6)])
    entries = read(path)
    journal = Journal(path, lambda _: None)
    journal.keep([(entries[1].start, entries[1].end), (entries[4].start, journal.size)])
    journal.append(b"new", b"block")
    assert journal.size == path.stat().st_size
    journal.close()
    assert content(path) == [(b"1", b"\0"), (b"4", bytes(4)), (b"5", bytes(5)), (b"new", b"block")]
