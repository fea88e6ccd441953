"""Memory limits and resident memory, read from the kernel's files."""

from pathlib import Path

from stream_dedup.observe import memory


def test_the_smallest_limit_counts_and_the_setting_overrides_it(tmp_path: Path) -> None:
    unlimited, limited = tmp_path / "none", tmp_path / "small"
    unlimited.write_text("max\n")
    limited.write_text("1000000\n")
    assert memory.limit(None, (tmp_path / "missing", unlimited, limited)) == 1_000_000
    assert memory.limit(7, (limited,)) == 7
    machine = memory.limit(None, (unlimited,))
    assert machine is None or machine > 2**20


def test_resident_memory_is_read_or_none(tmp_path: Path) -> None:
    statm = tmp_path / "statm"
    statm.write_text("nonsense")
    assert memory.resident(statm) is None
    assert memory.resident(tmp_path / "missing") is None
    statm.write_text("9 2 1 0 0 0 0\n")
    assert (memory.resident(statm) or 0) >= 2 * 1024
