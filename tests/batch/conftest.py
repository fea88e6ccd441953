"""Fixtures of the tests of files: one run of a command in a directory of its own, and how it is stopped."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from stream_dedup.batch.filter import FilterResult, FilterStep, filter_files
from stream_dedup.cli.corpora import filter_command, pairs_command
from stream_dedup.settings import load_settings
from tests.batch.feed import rows

APP = typer.Typer()
APP.command("filter")(filter_command)
APP.command("pairs")(pairs_command)


def invoke(*arguments: object) -> Result:
    """Run `filter` or `pairs` as a command."""
    return CliRunner().invoke(APP, list(map(str, arguments)))


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

    result: FilterResult
    output: Path
    duplicates: Path

    @property
    def lines(self) -> list[bytes]:
        return self.output.read_bytes().splitlines()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return rows(self.duplicates)

    @property
    def bytes(self) -> tuple[bytes, bytes]:
        return self.output.read_bytes(), self.duplicates.read_bytes()


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """run(*inputs, state=, to=, names=, verdicts=, **tables of settings): filters into the directory `to`."""

    def run(
        *inputs: Path | str,
        to: str = "out",
        names: Sequence[str] = ("unique.jsonl", "duplicates.jsonl"),
        batch_items: int = 5,
        state: Path | None = None,
        **more: Any,
    ) -> Outcome:
        directory = tmp_path / to
        directory.mkdir(exist_ok=True)
        names_of = ("clock", "progress", "announce", "force", "verdicts", "report")
        keywords = {name: more.pop(name) for name in names_of if name in more}
        settings = load_settings(worker={"batch_items": batch_items}, **more)
        output, duplicates = (directory / name for name in names)
        result = filter_files(list(inputs), output, duplicates, settings=settings, state=state, **keywords)
        return Outcome(result, output, duplicates)

    return run


def stop(run: Run, *inputs: Path | str, step: FilterStep = FilterStep.JUDGE, time: int = 3, **more: object) -> None:
    with pytest.raises(Stopped):
        run(*inputs, announce=stop_at(step, time), **more)
