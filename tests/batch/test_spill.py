"""Temporary files hold arrays as they were, and leave no trace."""

from pathlib import Path

import numpy as np

from stream_dedup.batch.spill import spill

ARRAYS = {
    "bytes": np.arange(7, dtype=np.uint8),
    "table": np.arange(12, dtype=np.uint32).reshape(3, 4),
    "none": np.empty((0, 5), np.float32),
    "wide": np.array([2**63, 1], np.uint64),
}


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    for some in (ARRAYS, {"none": ARRAYS["none"]}, {}):
        arrays = spill(some, tmp_path)
        assert list(arrays) == list(some)
        for name, array in some.items():
            assert arrays[name].dtype == array.dtype
            np.testing.assert_array_equal(arrays[name], array)


def test_the_files_have_no_names(tmp_path: Path) -> None:
    arrays = spill(ARRAYS, tmp_path)
    assert not list(tmp_path.iterdir())
    assert arrays["wide"][0] == 2**63
