"""Fixtures of the tests of files: one run of the filter in a directory of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.batch.filter import FilterResult, filter_files
from stream_dedup.settings import load_settings
from tests.batch.feed import rows


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


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Outcome]:
    """run(*inputs, state=, to=, batch_items=, **tables of settings): filters into the directory `to`."""

    def run(
        *inputs: Path | str, to: str = "out", batch_items: int = 5, state: Path | None = None, **more: Any
    ) -> Outcome:
        directory = tmp_path / to
        directory.mkdir(exist_ok=True)
        keywords = {name: more.pop(name) for name in ("clock", "progress", "announce", "force") if name in more}
        settings = load_settings(worker={"batch_items": batch_items}, **more)
        output, duplicates = directory / "unique.jsonl", directory / "duplicates.jsonl"
        result = filter_files(list(inputs), output, duplicates, settings=settings, state=state, **keywords)
        return Outcome(result, output, duplicates)

    return run
