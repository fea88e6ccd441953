"""A filter run killed at each numbered step, or at any moment, and run again writes each item once."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stream_dedup.batch.filter import FilterStep
from tests.batch.conftest import Outcome
from tests.batch.feed import feed, write
from tests.batch.runner import Runner

ITEMS = 400  # 80 batches of 5
Run = Callable[..., Outcome]


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    one = Runner()
    yield one
    one.close()


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    lines = feed(ITEMS)
    return [write(tmp_path / "1.jsonl", lines[:150]), write(tmp_path / "2.jsonl", lines[150:])]


@pytest.fixture
def expected(run: Run, inputs: list[Path]) -> tuple[bytes, bytes]:
    """The two files of a run that is not killed."""
    return run(*inputs, to="undisturbed").bytes


def outputs(directory: Path) -> tuple[bytes, bytes]:
    return (directory / "unique.jsonl").read_bytes(), (directory / "duplicates.jsonl").read_bytes()


@pytest.mark.parametrize("step", list(FilterStep))
@pytest.mark.slow
def test_killed_at_a_step_and_run_again(
    runner: Runner, inputs: list[Path], expected: tuple[bytes, bytes], tmp_path: Path, step: FilterStep
) -> None:
    state = tmp_path / "state"
    directory = tmp_path / "killed"
    directory.mkdir()
    assert not runner(inputs, directory, state, kill=(step, 1))
    if step not in (FilterStep.BEGIN, FilterStep.FINISH):
        # The run that takes it up is killed at the same step, some batches later.
        killed_again = (step, 1 if step is FilterStep.CUT else 40)
        assert not runner(inputs, directory, state, kill=killed_again)
    assert runner(inputs, directory, state)
    assert outputs(directory) == expected


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.slow
def test_killed_at_random_moments_and_run_again(
    runner: Runner, inputs: list[Path], expected: tuple[bytes, bytes], tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    directory = tmp_path / "killed"
    directory.mkdir()
    kills = 0
    while not runner(inputs, directory, tmp_path / "state", after=chance.uniform(0, 0.15) if kills < 5 else None):
        kills += 1
    assert outputs(directory) == expected
