"""Resident memory, read from the kernel's file."""

from pathlib import Path

from stream_dedup.observe import memory


def test_resident_memory_is_read_or_none(tmp_path: Path) -> None:
    statm = tmp_path / "statm"
    statm.write_text("nonsense")
    assert memory.resident(statm) is None
    assert memory.resident(tmp_path / "missing") is None
    statm.write_text("9 2 1 0 0 0 0\n")
    assert (memory.resident(statm) or 0) >= 2 * 1024
