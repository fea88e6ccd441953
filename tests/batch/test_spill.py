"""Temporary files are complete or missing, and damage is detected."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from stream_dedup.batch.spill import SpillDirectory
from stream_dedup.errors import InputError


class Head(msgspec.Struct, frozen=True):
    count: int


ARRAYS = {
    "bytes": np.arange(7, dtype=np.uint8),
    "table": np.arange(12, dtype=np.uint32).reshape(3, 4),
    "none": np.empty((0, 5), np.float32),
    "wide": np.array([2**63, 1], np.uint64),
}


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    spill = SpillDirectory(tmp_path)
    spill.write("a", Head(3), ARRAYS)
    head, arrays = spill.read("a", Head) or pytest.fail("it is there")
    assert head == Head(3)
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_a_head_alone_is_a_file_too(tmp_path: Path) -> None:
    SpillDirectory(tmp_path).write("a", Head(1), {})
    assert SpillDirectory(tmp_path).read("a", Head) == (Head(1), {})


def test_a_later_file_replaces_an_earlier_one(tmp_path: Path) -> None:
    spill = SpillDirectory(tmp_path)
    spill.write("a", Head(1), ARRAYS)
    spill.write("a", Head(2), {})
    assert spill.read_back("a", Head) == (Head(2), {})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_any_changed_byte_makes_it_missing(tmp_path: Path) -> None:
    spill = SpillDirectory(tmp_path)
    spill.write("a", Head(3), ARRAYS)
    whole = (tmp_path / "a").read_bytes()
    for at in range(len(whole)):
        (tmp_path / "a").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert spill.read("a", Head) is None


@pytest.mark.parametrize("length", [0, 1, 8, 20, 200])
def test_a_file_cut_short_is_missing(tmp_path: Path, length: int) -> None:
    spill = SpillDirectory(tmp_path)
    spill.write("a", Head(3), ARRAYS)
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:length])
    assert spill.read("a", Head) is None


def test_what_was_never_written_is_missing(tmp_path: Path) -> None:
    assert SpillDirectory(tmp_path).read("a", Head) is None
    with pytest.raises(InputError, match="was removed"):
        SpillDirectory(tmp_path).read_back("a", Head)


def test_only_files_of_these_names_are_removed(tmp_path: Path) -> None:
    for name in ("part-1", "part-2.new", "begin", "mine"):
        (tmp_path / name).write_bytes(b"")
    SpillDirectory(tmp_path).clear("part-", "begin")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
