"""Fixtures of the tests of files: one run of a command in a directory of its own, and how it is stopped."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stream_dedup.cli.main import app
from stream_dedup.settings import load_settings
from stream_dedup.tools.batch.filter import FilterStep, filter_files
from tests.tools.batch.feed import rows


def invoke(*arguments: object) -> Result:
    """Run `filter` or `pairs` as a command."""
    return CliRunner().invoke(app, list(map(str, arguments)))


class Stopped(Exception):  # noqa: N818 - stands in for a kill
    """Ends a run at once, wherever it is."""


def stop_at(step: Enum, time: int = 1, end: Callable[[], object] | None = None) -> Callable[[Enum], None]:
    """An `announce` that ends the run before it does this step for the nth time."""
    left = [time]

    def announce(now: Enum) -> None:
        left[0] -= now == step
        if left[0] == 0:
            if end:
                end()
            raise Stopped

    return announce


@dataclass
class Outcome:
    """The result of a run and the content of its two files."""

    result: Any
    output: Path
    second: Path
    """The duplicates, or the clusters."""

    @property
    def lines(self) -> list[bytes]:
        return self.output.read_bytes().splitlines()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return rows(self.second)

    @property
    def bytes(self) -> tuple[bytes, bytes]:
        return self.output.read_bytes(), self.second.read_bytes()


Run = Callable[..., Outcome]
KEYWORDS = ("clock", "progress", "announce", "force", "verdicts", "report", "state")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """run(*inputs, state=, to=, names=, verdicts=, **tables of settings): filters into the directory `to`."""

    def run(
        *inputs: Path | str,
        to: str = "out",
        names: Sequence[str] = ("unique.jsonl", "duplicates.jsonl"),
        batch_items: int = 5,
        **more: Any,
    ) -> Outcome:
        (tmp_path / to).mkdir(exist_ok=True)
        outputs = [tmp_path / to / name for name in names]
        keywords = {name: more.pop(name) for name in KEYWORDS if name in more}
        settings = load_settings(worker={"batch_items": batch_items}, **more)
        return Outcome(filter_files(list(inputs), *outputs, settings=settings, **keywords), *outputs)

    return run


def stop(run: Run, *inputs: Path | str, step: FilterStep = FilterStep.JUDGE, time: int = 3, **more: object) -> None:
    with pytest.raises(Stopped):
        run(*inputs, announce=stop_at(step, time), **more)
