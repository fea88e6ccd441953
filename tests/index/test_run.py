"""Building and merging runs."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stream_dedup.index.runs import build_run, merge_runs
from tests.index.check import run_faults

# The first call of a kernel compiles it; this must not count towards a deadline.
SIZES = st.integers(1, 70)


@st.composite
def columns(draw, parts):
    """Keys (n, C) of several runs, drawn from few values, so that they repeat, or from all; and `first_columns`."""
    widths = draw(st.sampled_from([[1], [1, 1, 1], [3], [2, 1], [1, 3]]))
    elements = draw(st.sampled_from([st.integers(0, 3), st.integers(0, 2**32 - 1)]))
    keys = [draw(arrays(np.uint32, (draw(SIZES), sum(widths)), elements=elements)) for _ in range(parts)]
    return keys, np.cumsum([0, *widths])


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("base", "end", "rows", "starts", "keys", "offsets", "directory", "newest")
    )


def entries_of(keys, first_columns, is_alive=None):
    """The (key, row) of each table, as a run should hold them."""
    rows = range(len(keys)) if is_alive is None else np.flatnonzero(is_alive).tolist()
    return [
        sorted((key, row) for row in rows for key in keys[row, first:end].tolist() if key)
        for first, end in pairwise(first_columns.tolist())
    ]


def held(run):
    return [list(zip(keys.tolist(), offsets.tolist(), strict=True)) for keys, offsets, _ in run.tables()]


@given(columns(1))
def test_a_run_is_each_table_in_order_of_key_and_row(parts):
    (keys,), first_columns = parts
    run = build_run(1000, keys, first_columns, newest=5)
    assert run_faults(run) == []
    assert (run.base, run.end, run.rows, run.newest) == (1000, 1000 + len(keys), len(keys), 5)
    assert held(run) == entries_of(keys, first_columns)


@pytest.mark.parametrize("values", [2**32, 40])
def test_a_table_that_does_not_fit_into_the_cache_is_sorted_too(values):
    """A key of few values has thousands of rows, some of them twice."""
    keys = np.random.default_rng(5).integers(0, values, (40_000, 3), np.uint32)
    run = build_run(0, keys, np.array([0, 2, 3]), newest=5)
    assert run_faults(run) == []
    assert held(run) == entries_of(keys, np.array([0, 2, 3]))


@given(columns(3), st.randoms(use_true_random=False), st.integers(0, 3))
def test_a_merge_leaves_out_the_dead_and_the_order_of_merges_does_not_matter(parts, random, gap):
    runs, lines = [], []
    base = 0
    for keys in parts[0]:
        runs.append(build_run(base, keys, parts[1], newest=1))
        lines += [keys, np.zeros((gap, keys.shape[1]), np.uint32)]  # runs in between may have been dropped
        base += len(keys) + gap
    alive = np.zeros(base, bool)
    for run in runs:
        alive[run.base : run.end] = [random.random() < 0.6 for _ in range(run.rows)]
    alive[runs[0].base] = True
    a, b, c = runs
    left = merge_runs(merge_runs(a, b, alive[: b.end]), c, alive[: c.end])
    right = merge_runs(a, merge_runs(b, c, alive[b.base : c.end]), alive[: c.end])
    assert run_faults(left) == []
    assert same(left, right)
    assert left.rows == np.count_nonzero(alive)
    assert held(left) == entries_of(np.concatenate(lines), parts[1], alive)
