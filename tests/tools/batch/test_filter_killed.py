"""A filter run killed at each numbered step, or at any moment, and run again writes each item once."""

import multiprocessing
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from stream_dedup.settings import load_settings
from stream_dedup.tools.batch.filter import FilterStep, filter_files
from tests.tools.batch.conftest import Run, stop_at
from tests.tools.batch.feed import feed, write

ITEMS = 400  # 80 batches of 5
FILES = ("unique.jsonl", "duplicates.jsonl", "verdicts.jsonl")
FORKS = multiprocessing.get_context("forkserver")
# A process has one forkserver, so all tests preload the same; a kill then hits a run's work and not its start.
FORKS.set_forkserver_preload(["tests.harness.preload"])
pytestmark = pytest.mark.slow


def filter_in(directory: Path, inputs: list[Path], kill: tuple[FilterStep, int] | None) -> None:
    assert "tests.harness.preload" in sys.modules
    announce = stop_at(*kill, end=lambda: os.kill(os.getpid(), signal.SIGKILL)) if kill else lambda _: None
    settings, state = load_settings(worker={"batch_items": 5}), directory.with_name("state")
    outputs, verdicts = (directory / "unique.jsonl", directory / "duplicates.jsonl"), directory / "verdicts.jsonl"
    # Without force: what a killed run has written is its own.
    filter_files(inputs, *outputs, settings=settings, verdicts=verdicts, state=state, force=False, announce=announce)


class Killed:
    """Runs in one directory that may be killed, and what a run writes that is not."""

    def __init__(self, tmp_path: Path, run: Run) -> None:
        lines = feed(ITEMS)
        self.inputs = [write(tmp_path / "1.jsonl", lines[:150]), write(tmp_path / "2.jsonl", lines[150:])]
        verdicts = tmp_path / "verdicts.jsonl"
        self.expected = *run(*self.inputs, to="undisturbed", verdicts=verdicts).bytes, verdicts.read_bytes()
        self.directory = tmp_path / "killed"
        self.directory.mkdir()

    def run(self, kill: tuple[FilterStep, int] | None = None, after: float | None = None) -> bool:
        """Whether the run ended by itself. `after`: seconds until it is killed."""
        process = FORKS.Process(target=filter_in, args=(self.directory, self.inputs, kill))
        process.start()
        process.join(after)
        process.kill()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        return process.exitcode == 0

    def check(self) -> None:
        outputs = [(self.directory / name).read_bytes() for name in FILES]
        assert tuple(outputs) == self.expected


@pytest.fixture
def killed(tmp_path: Path, run: Run) -> Killed:
    return Killed(tmp_path, run)


@pytest.mark.parametrize("step", list(FilterStep))
def test_killed_at_a_step_and_run_again(killed: Killed, step: FilterStep) -> None:
    assert not killed.run(kill=(step, 1))
    if step not in (FilterStep.BEGIN, FilterStep.FINISH):
        # The run that takes it up is killed at the same step, some batches later.
        assert not killed.run(kill=(step, 1 if step is FilterStep.CUT else 40))
    assert killed.run()
    killed.check()


@pytest.mark.parametrize("seed", range(10))
def test_killed_at_random_moments_and_run_again(killed: Killed, seed: int) -> None:
    chance = random.Random(seed)
    kills = 0
    while not killed.run(after=chance.uniform(0, 0.2) if kills < 5 else None):
        kills += 1
    killed.check()
