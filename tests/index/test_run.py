"""Building and merging runs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stream_dedup.index.run import build_run, compact_run, merge_runs
from tests.index.check import run_faults

# The first call of a kernel compiles it; this must not count towards a deadline.
SIZES = st.integers(1, 70)


@st.composite
def columns(draw, parts):
    """Keys (n, T) of several runs, drawn from few values, so that they repeat, or from all."""
    tables = draw(st.integers(1, 3))
    elements = draw(st.sampled_from([st.integers(0, 3), st.integers(0, 2**32 - 1)]))
    return [draw(arrays(np.uint32, (draw(SIZES), tables), elements=elements)) for _ in range(parts)]


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("base", "end", "keys", "offsets", "directory", "newest")
    )


@given(columns(1))
def test_a_run_is_each_table_in_order_of_key_and_row(parts):
    (keys,) = parts
    run = build_run(1000, keys, newest=5)
    assert run_faults(run) == []
    assert (run.base, run.end, run.rows, run.newest) == (1000, 1000 + len(keys), len(keys), 5)
    for table, column in enumerate(keys.T):
        assert np.array_equal(run.keys[table], np.sort(column))
        assert np.array_equal(column[run.offsets[table]], run.keys[table])


@given(columns(2), st.integers(0, 9))
def test_merging_two_runs_is_building_one(parts, base):
    one, other = parts
    merged = merge_runs(
        build_run(base, one, newest=3),
        build_run(base + len(one), other, newest=2),
        np.ones(len(one) + len(other), bool),
    )
    assert same(merged, build_run(base, np.concatenate(parts), newest=3))


@given(columns(3), st.randoms(use_true_random=False), st.integers(0, 3))
def test_a_merge_leaves_out_the_dead_and_the_order_of_merges_does_not_matter(parts, random, gap):
    runs = []
    base = 0
    for keys in parts:
        runs.append(build_run(base, keys, newest=1))
        base += len(keys) + gap  # runs in between may have been dropped
    alive = np.zeros(base, bool)
    for run in runs:
        alive[run.base : run.end] = [random.random() < 0.6 for _ in range(len(run.keys[0]))]
    alive[runs[0].base] = True
    a, b, c = runs
    left = merge_runs(merge_runs(a, b, alive[: b.end]), c, alive[: c.end])
    right = merge_runs(a, merge_runs(b, c, alive[b.base : c.end]), alive[: c.end])
    assert run_faults(left) == []
    assert same(left, right)
    assert sorted(left.offsets[0].tolist()) == np.flatnonzero(alive).tolist()


@given(columns(1), st.randoms(use_true_random=False))
def test_compacting_keeps_the_live_rows_and_the_range(parts, random):
    (keys,) = parts
    alive = np.array([random.random() < 0.5 for _ in keys])
    alive[-1] = True
    run = compact_run(build_run(7, keys, newest=1), alive)
    assert run_faults(run) == []
    assert (run.base, run.end) == (7, 7 + len(keys))
    assert sorted(run.offsets[0].tolist()) == np.flatnonzero(alive).tolist()


def test_the_directory_takes_at_most_a_quarter_of_the_tables():
    for rows in (64, 100, 127, 1000, 4096):
        run = build_run(0, np.arange(2 * rows, dtype=np.uint32).reshape(rows, 2), newest=0)
        assert run.directory.nbytes <= (run.keys.nbytes + run.offsets.nbytes) / 4 + 2 * 4
