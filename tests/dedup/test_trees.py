"""Trees as a table: walked by hand, written and read, and what each feature adds."""

from pathlib import Path

import numpy as np
import pytest

from stream_dedup.dedup.rule import NOVELTY, TABLE, novelty_trees
from stream_dedup.dedup.trees import Trees, read_trees, write_trees

NAMES = ["words", "figures", "headline", "spread", "order"]
DEPTH = 4


def grown(seed: int, count: int) -> Trees:
    """Random trees. The value of a node is the mean of its children's, as if each had half the pairs."""
    random, inner = np.random.default_rng(seed), 2**DEPTH - 1
    values = np.zeros((count, 2 * inner + 1), np.float32)
    values[:, inner:] = random.normal(0, 1, (count, inner + 1))
    for node in reversed(range(inner)):
        values[:, node] = (values[:, 2 * node + 1] + values[:, 2 * node + 2]) / 2
    features = random.integers(0, len(NAMES), (count, inner), np.uint8)
    return Trees(features, random.normal(0, 1, (count, inner)).astype(np.float32), values)


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    trees = grown(1, 20)
    write_trees(tmp_path / "table.json", trees, NAMES)
    read = read_trees(tmp_path / "table.json", NAMES)
    assert np.array_equal(read.features, trees.features)
    assert read.thresholds == pytest.approx(trees.thresholds, abs=6e-5)
    assert read.values == pytest.approx(trees.values, abs=6e-5)
    write_trees(tmp_path / "again.json", read, NAMES)
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "table.json").read_bytes()
    assert [part.dtype for part in read] == [part.dtype for part in trees]


@pytest.mark.parametrize("names", [NAMES[:4], [*NAMES, "time"], NAMES[::-1]], ids=["fewer", "more", "another order"])
def test_a_table_of_other_features_is_refused(tmp_path: Path, names: list[str]) -> None:
    write_trees(tmp_path / "table.json", grown(1, 2), NAMES)
    with pytest.raises(ValueError, match=r"table\.json was fitted to the features .*fit it again"):
        read_trees(tmp_path / "table.json", names)


def test_the_table_of_the_package_is_whole_and_written_by_this_writer(tmp_path: Path) -> None:
    trees = novelty_trees()
    count, inner = trees.features.shape
    assert trees.values.shape == (count, 2 * inner + 1)
    assert trees.features.max() < len(NOVELTY)
    write_trees(tmp_path / "same.json", trees, list(NOVELTY))
    assert (tmp_path / "same.json").read_bytes() == TABLE.read_bytes()
