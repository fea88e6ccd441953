"""Trees as a table: walked by hand, written and read, and what each feature adds."""

from pathlib import Path

import numpy as np
import pytest

from stream_dedup.dedup.rule import TREE_DEPTH, Trees, read_trees, trees_of
from stream_dedup.tools.pair_rule import KINSHIP, NOVELTY
from tests.lab.labels.trees import KINSHIP_TABLE, NOVELTY_TABLE, write_trees

NAMES = ["words", "figures", "headline", "spread", "order"]


def grown(seed: int, count: int) -> Trees:
    """Random trees. The value of a node is the mean of its children's, as if each had half the pairs."""
    random, inner = np.random.default_rng(seed), 2**TREE_DEPTH - 1
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


def test_a_table_of_other_trees_is_refused(tmp_path: Path) -> None:
    trees = grown(1, 2)
    shorter = Trees(trees.features[:, :7], trees.thresholds[:, :7], trees.values[:, :15])
    for wrong in (shorter, trees._replace(features=trees.features + np.uint8(1))):
        write_trees(tmp_path / "table.json", wrong, NAMES)
        with pytest.raises(ValueError, match=r"table\.json needs trees of depth 4 for 5 features: fit it again"):
            read_trees(tmp_path / "table.json", NAMES)


@pytest.mark.parametrize(
    ("model", "names", "table"),
    [("novelty", list(NOVELTY), NOVELTY_TABLE), ("kinship", list(KINSHIP), KINSHIP_TABLE)],
)
def test_the_tables_of_the_package_are_whole_and_written_by_this_writer(
    tmp_path: Path, model: str, names: list[str], table: Path
) -> None:
    trees = trees_of(model)
    count, inner = trees.features.shape
    assert inner == 2**TREE_DEPTH - 1
    assert trees.values.shape == (count, 2 * inner + 1)
    assert trees.thresholds.shape == (count, inner)
    assert trees.features.max() < len(names)
    write_trees(tmp_path / "same.json", trees, names)
    assert (tmp_path / "same.json").read_bytes() == table.read_bytes()
