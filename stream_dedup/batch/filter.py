"""Filter news files: forward what is new, hold back near-duplicates.

In: lines of files and pipes (lines.py). Out: the *output*, the lines of unique items and of updates, bytes unchanged
(in shadow mode the lines of all items), in the format that its name asks for (line_writers.py); and, if asked for, the
*duplicates*, a JSON row for each other item in input order: `Verdict.as_json()`, the item's file and line (from 1), the
original's file, and for a bad item its bytes in base64 (`raw`). In a verdict `partition` is the number of the input
(from 0, counted through all runs of a state) and `offset` the number of the line. Blank lines are skipped. The verdicts
are those of the Kafka worker for the same items in the same order, however they are cut into batches.

With a state directory each item is written exactly once. The fault tests use the same step numbers and kill the process
at each step; a step is announced before it is done (resumable.py).

    step        what happens                                          if the process is killed before or in it
    1 BEGIN     the journal names the run                             there was no run
    2 CUT       the outputs are cut to the lengths in the journal     is done again (a new run: cut to nothing)
    3 JUDGE     lines are read and judged; the index is unchanged     the batch is read again
    4 WRITE     their lines and rows are appended and synced          they are cut off, the batch is read again
    5 COMMIT    the journal takes position, lengths, changelog block  it happened completely or not at all
    6 APPLY     the index remembers the batch                         it is restored from the journal
    7 FINISH    the journal marks the run as done                     only this step is done again

Without a state directory nothing is remembered, so a killed run starts from the beginning. The outputs grow under
temporary names, and step 7 renames them. Only then may an output also be a stream, which receives each batch at once,
or a Parquet file.
"""

import base64
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stream_dedup.batch.input_order import order_by_time
from stream_dedup.batch.judge import Line, LineJudge, batched
from stream_dedup.batch.line_reader import LineReader, Position
from stream_dedup.batch.line_writers import LineWriter, line_writer
from stream_dedup.batch.outputs import Output
from stream_dedup.batch.resumable import (
    START_OVER,
    OutputOption,
    ResumableRun,
    RunRequest,
    describe,
    settings_digest,
    summary_or_none,
    total_bytes,
)
from stream_dedup.batch.rows import CsvRow, FileFormat
from stream_dedup.batch.state import Begin, Commit, FilterState, ResumePoint
from stream_dedup.dedup.batch import Batch
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import InputError
from stream_dedup.news.summary import Summary
from stream_dedup.settings import Settings


class FilterStep(IntEnum):
    """The steps of the commit protocol on files."""

    BEGIN = 1
    CUT = 2
    JUDGE = 3
    WRITE = 4
    COMMIT = 5
    APPLY = 6
    FINISH = 7


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The counts of a run. `items` is the sum of the four verdicts; each item is in one of the two outputs.

    `forwarded` lines are in the output, the rest are rows of the duplicates (in shadow mode also in the output). A run
    that was killed and resumed counts as one; `resumed` of its items were done before. `seconds`, `odd_times` (items
    with an odd date, by the kinds of dedup/clocks.py), `evicted` (originals forgotten because there were more than
    `window.max_originals`) and `summary` (how the records were understood; None if there were none) cover the rest.
    `order` lists the inputs in reading order if it differs from the given one (input_order.py).
    """

    items: int
    unique: int
    duplicate: int
    update: int
    bad: int
    forwarded: int
    resumed: int
    seconds: float
    odd_times: Mapping[str, int]
    evicted: int
    order: Sequence[str]
    summary: Summary | None


@dataclass(frozen=True, slots=True)
class FilterProgress:
    """How far a run is, reported after each batch. `bytes_total` is None if the size of an input is unknown."""

    items: int
    forwarded: int
    bytes_read: int
    bytes_total: int | None


def filter_files(
    inputs: Sequence[str | Path],
    output: str | Path,
    duplicates: str | Path | None,
    *,
    settings: Settings,
    state: str | Path | None = None,
    file_format: FileFormat | None = None,
    progress: Callable[[FilterProgress], None] = lambda _: None,
    announce: Callable[[FilterStep], None] = lambda _: None,
    clock: Callable[[], float] = time.time,
) -> FilterResult:
    """Filter the inputs: files, pipes, or "-" for standard input. The module docstring describes the outputs.

    The inputs are read in the given order, or in the order of their dates if the given one goes back by more than a
    window. An existing output is overwritten, unless it is an input or `state` holds a killed run that fills it; "-" is
    standard output. Without `duplicates` no rows are written. `file_format` overrides what the names of the inputs say.
    `clock` (seconds since 1970) is read once; it only bounds how late an item may claim to be. Raises InputError,
    ConfigError, CorruptBlock, SchemeMismatch, and BrokenPipeError where nobody reads an output any more.
    """
    request = RunRequest(
        inputs,
        {"--output": OutputOption(output, list(FileFormat)), "--duplicates": OutputOption(duplicates)},
        state=state,
        in_place=state is not None,
        file_format=file_format,
        settings=settings,
        steps=FilterStep,
        progress=progress,
        announce=announce,
    )
    run = _FilterRun(request, int(clock() * 1000))
    run.execute()
    return run.result()


class _OpenOutput(NamedTuple):
    """One of the two outputs: the file, and the writer of its format."""

    file: Output
    writer: LineWriter


class _FilterRun(ResumableRun[FilterStep, FilterProgress]):
    """One run of `filter_files`. Its resume point is the last Commit in the journal."""

    def __init__(self, request: RunRequest[FilterStep, FilterProgress], now: int) -> None:
        super().__init__(request)
        self._now = now

    def result(self) -> FilterResult:
        done = self._commit
        counts = done.items, done.unique, done.duplicate, done.update, done.bad, done.forwarded, self._resumed
        order = [] if self._inputs == self._given_order else self._inputs
        odd_times, evicted = dict(self._odd_times), self._dedup.evicted
        return FilterResult(*counts, self._seconds(), odd_times, evicted, order, self._summary)

    def _open(self, stack: ExitStack) -> bool:
        self._dedup = stack.enter_context(closing(Deduplicator(self._settings)))
        self._state = (
            stack.enter_context(closing(FilterState(self._state_path, self._dedup))) if self._state_path else None
        )
        self._given_order = self._inputs
        former_order = self._state.previous_order(self._inputs) if self._state else None
        self._inputs = former_order or order_by_time(self._inputs, self._settings, self._file_format)
        point = self._resume_point()
        self._run, self._commit = point.run, point.commit
        self._resumed = self._commit.items
        self._odd_times: Counter[str] = Counter()
        if point.is_finished:
            _check_outputs_unchanged(point)
            return False
        self._names = (
            self._state.names if self._state else {i: source.name for i, source in enumerate(self._run.sources)}
        )
        self._judge = LineJudge(self._dedup, self._run.now, lambda number, line: f"{self._names[number]}:{line}")
        files = self._open_outputs(stack)
        self._outputs = [_OpenOutput(file, stack.enter_context(closing(line_writer(file)))) for file in files]
        return True

    def _resume_point(self) -> ResumePoint:
        output, duplicates = [*(str(to.path) for to in self._targets.values()), ""][:2]
        wanted = Begin(
            describe(self._inputs),
            output,
            duplicates,
            settings_digest(self._settings),
            self._now,
            str(self._file_format or ""),
        )
        return self._state.resume_point(wanted) if self._state else ResumePoint(wanted, Commit(), False)

    def _is_new(self) -> bool:
        return self._state is not None and self._commit == Commit()

    def _begin(self) -> None:
        if self._state:
            self._state.begin(self._run)

    def _work(self) -> None:
        self._announce(FilterStep.CUT)
        for (file, _), length in zip(self._outputs, (self._commit.output, self._commit.duplicates), strict=False):
            file.cut(length)
        reader = LineReader(
            self._inputs,
            self._run.sources,
            self._file_format,
            Position(self._commit.input, self._commit.line, self._commit.digest),
            first_number=self._run.first,
            on_header=self._outputs[0].writer.start_input,  # the header is in the output even if no row follows
        )
        for lines in batched(reader, self._settings):
            self._announce(FilterStep.JUDGE)
            batch = self._judge.judge(lines)
            self._announce(FilterStep.WRITE)
            self._write(lines, batch)
            self._commit = self._next_commit(reader.position, batch)
            if self._state:
                self._announce(FilterStep.COMMIT)
                self._state.commit(self._commit, batch.delta)
            self._announce(FilterStep.APPLY)
            self._dedup.apply(batch)
            self._odd_times.update(batch.odd_times())
            self._progress(
                FilterProgress(
                    self._commit.items, self._commit.forwarded, reader.bytes_read, total_bytes(self._run.sources)
                )
            )
        self._summary = summary_or_none(self._judge.summary())

    def _finish(self) -> None:
        if not self._state:
            self._publish([output.writer for output in self._outputs])
            return
        for output in reversed(self._outputs):
            output.file.complete()
        lengths = self._lengths()
        if lengths != (self._commit.output, self._commit.duplicates):
            self._commit = msgspec.structs.replace(self._commit, output=lengths[0], duplicates=lengths[1])
            self._state.commit(self._commit, self._judge.judge([]).delta)
        self._state.finish()

    def _write(self, lines: list[Line], batch: Batch) -> None:
        judged = list(zip(lines, batch.verdicts, strict=True))
        output, *duplicates = (output.writer for output in self._outputs)
        for _, lines_of_input in groupby(lines, key=attrgetter("input")):
            output.start_input(next(lines_of_input))
        shadow = self._settings.policy.shadow
        output.write([line for line, verdict in judged if verdict.forward or shadow])
        for writer in duplicates:
            writer.write([self._row(line, verdict) for line, verdict in judged if not verdict.forward])
        if self._state:
            for file, _ in self._outputs:
                file.sync()

    def _next_commit(self, position: Position, batch: Batch) -> Commit:
        counts, before = batch.counts(), self._commit
        return Commit(
            *position,
            *self._lengths(),
            before.forwarded + sum(verdict.forward for verdict in batch.verdicts),
            before.unique + counts[Kind.UNIQUE],
            before.duplicate + counts[Kind.DUPLICATE],
            before.update + counts[Kind.UPDATE],
            before.bad + counts[Kind.BAD],
        )

    def _lengths(self) -> tuple[int, int]:
        output, *duplicates = (output.file.length for output in self._outputs)
        return output, sum(duplicates)

    def _row(self, line: Line, verdict: Verdict) -> Line:
        """The row of an item that is held back, as a line."""
        row: dict[str, Any] = verdict.as_json()
        if verdict.original is not None:
            row["original"]["file"] = self._names[verdict.original.partition]
        row |= {"file": self._names[line.input], "line": line.number}
        if verdict.kind is Kind.BAD:
            raw = line.source_row.raw if isinstance(line.source_row, CsvRow) else line.value
            row["raw"] = base64.b64encode(raw).decode()
        return Line(msgspec.json.encode(row), line.input, line.number)


def _check_outputs_unchanged(point: ResumePoint) -> None:
    run, commit = point.run, point.commit
    for name, length in ((run.output, commit.output), (run.duplicates, commit.duplicates)):
        path = Path(name)
        if name and (not path.is_file() or path.stat().st_size != length):
            raise InputError(
                f"these inputs were filtered already, but {path} is no longer what was written then; "
                f"name other inputs, or {START_OVER}"
            )
