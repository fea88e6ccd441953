"""How much memory there is: what the kernel's files say."""

from pathlib import Path

from stream_dedup.observe import memory


def test_the_smallest_bound_counts_and_the_setting_wins(tmp_path: Path) -> None:
    none, small = tmp_path / "none", tmp_path / "small"
    none.write_text("max\n")
    small.write_text("1000000\n")
    assert memory.limit(None, (tmp_path / "missing", none, small)) == 1_000_000
    assert memory.limit(7, (small,)) == 7
    machine = memory.limit(None, (none,))
    assert machine is None or machine > 2**20


def test_what_is_taken_is_told_or_nothing(tmp_path: Path) -> None:
    odd = tmp_path / "statm"
    odd.write_text("nonsense")
    assert memory.resident(odd) is None
    assert memory.resident(tmp_path / "missing") is None
    odd.write_text("9 2 1 0 0 0 0\n")
    assert (memory.resident(odd) or 0) >= 2 * 1024
