"""Filter news files: forward what is new, hold back near-duplicates.

In: lines of files and pipes (lines.py). Out: the *output*, the lines of unique items and of updates, bytes unchanged
(in shadow mode the lines of all items), in the format that its name asks for (line_writers.py); and, if asked for, the
*duplicates*, a JSON row for each other item in input order: `Verdict.as_json()`, the item's file and line (from 1), the
original's file, and for a bad item its bytes in base64 (`raw`). In a verdict `partition` is the number of the input
(from 0, counted through all runs of a state) and `offset` the number of the line. Blank lines are skipped. The verdicts
are those of the Kafka worker for the same items in the same order, however they are cut into batches.

With a state directory each item is written exactly once. The fault tests use the same step numbers and kill the process
at each step; a step is announced before it is done.

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
from typing import Any

import msgspec

from stream_dedup.batch.input_order import order_by_time
from stream_dedup.batch.judge import Line, LineJudge, batched, is_cut
from stream_dedup.batch.line_reader import LineReader, Position
from stream_dedup.batch.line_writers import line_writer
from stream_dedup.batch.outputs import check_free
from stream_dedup.batch.resumable import START_OVER, FileRun, OutputOption, settings_digest
from stream_dedup.batch.rows import CsvRow, FileFormat
from stream_dedup.batch.state import Begin, Commit, FilterState, ResumePoint
from stream_dedup.dedup.batch import Batch
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import InputError
from stream_dedup.news.survey import Summary
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
    force: bool = True,
    progress: Callable[[FilterProgress], None] = lambda _: None,
    announce: Callable[[FilterStep], None] = lambda _: None,
    clock: Callable[[], float] = time.time,
) -> FilterResult:
    """Filter the inputs: files, pipes, or "-" for standard input. The module docstring describes the outputs.

    The inputs are read in the given order, or in the order of their dates if the given one goes back by more than a
    window. An existing output is replaced, unless it is an input or `state` holds a killed run that fills it; without
    `force` it is refused. "-" is standard output. Without `duplicates` no rows are written. `file_format` overrides
    what the names of the inputs say. `clock` (seconds since 1970) is read once; it only bounds how late an item may
    claim to be. Raises InputError, ConfigError, CorruptBlock, SchemeMismatch, and BrokenPipeError if an output has no
    reader any more.
    """
    run = _FilterRun(
        inputs=inputs,
        outputs={"--output": OutputOption(output, list(FileFormat)), "--duplicates": OutputOption(duplicates)},
        state=state,
        in_place=state is not None,
        force=force,
        file_format=file_format,
        settings=settings,
        progress=progress,
        announce=announce,
        now=int(clock() * 1000),
    )
    run.execute()
    return run.result()


@dataclass(kw_only=True)
class _FilterRun(FileRun):
    """One run of `filter_files`. It continues behind the last Commit in the journal.

    `now`: the clock, ms since 1970. `announce` is called before each step.
    """

    now: int
    progress: Callable[[FilterProgress], None]
    announce: Callable[[FilterStep], None]

    def result(self) -> FilterResult:
        done = self._commit
        counts = done.items, done.unique, done.duplicate, done.update, done.bad, done.forwarded, self._resumed
        order = [] if self._names == [str(path) for path in self.inputs] else self._names
        odd_times, evicted = dict(self._odd_times), self._dedup.evicted
        return FilterResult(*counts, self._seconds(), odd_times, evicted, order, self._summary)

    def _run(self, stack: ExitStack) -> None:
        if not self._open(stack):
            return
        if self._journal is not None and self._commit == Commit():
            self.announce(FilterStep.BEGIN)
            self._journal.begin(self._begin)
        self._work()
        self.announce(FilterStep.FINISH)
        self._finish()

    def _open(self, stack: ExitStack) -> bool:
        """Open the state and decide where to go on; False if nothing is left to do."""
        self._dedup = stack.enter_context(closing(Deduplicator(self.settings)))
        self._journal = None
        if self._directory:
            self._journal = stack.enter_context(closing(FilterState(self._directory, self._dedup)))
        former_order = self._journal.previous_order(self._names) if self._journal else None
        self._names = former_order or order_by_time(self._names, self.settings, self.file_format)
        self._describe_inputs()
        output, duplicates = [*(str(to.path) for to in self._targets.values()), ""][:2]
        digest, file_format = settings_digest(self.settings), str(self.file_format or "")
        wanted = Begin(self._sources, output, duplicates, digest, self.now, file_format)
        point = self._journal.resume_point(wanted) if self._journal else ResumePoint(wanted, Commit(), False)
        self._begin, self._commit = point.run, point.commit
        self._resumed = self._commit.items
        self._odd_times: Counter[str] = Counter()
        if point.is_finished:
            _check_outputs_unchanged(point)
            return False
        if not self.force:
            check_free(self._targets, self._journal.unfinished_outputs if self._journal else ())
        self._all_names = (
            self._journal.names if self._journal else {i: source.name for i, source in enumerate(self._sources)}
        )
        self._judge = LineJudge(self._dedup, self._begin.now, lambda number, line: f"{self._all_names[number]}:{line}")
        self._files = self._open_outputs(stack)
        self._writers = [stack.enter_context(closing(line_writer(file))) for file in self._files]
        return True

    def _work(self) -> None:
        self.announce(FilterStep.CUT)
        for file, length in zip(self._files, (self._commit.output, self._commit.duplicates), strict=False):
            file.cut(length)
        reader = LineReader(
            self._names,
            self.file_format,
            Position(self._commit.input, self._commit.line, self._commit.digest),
            sources=self._sources,
            first_number=self._begin.first,
            on_header=self._writers[0].start_input,  # the header is in the output even if no row follows
            most=self.settings.worker.max_record_bytes,
        )
        for lines in batched(reader, self.settings):
            self.announce(FilterStep.JUDGE)
            batch = self._judge.judge(lines)
            self.announce(FilterStep.WRITE)
            self._write(lines, batch)
            self._commit = self._next_commit(reader.position, batch)
            if self._journal:
                self.announce(FilterStep.COMMIT)
                self._journal.commit(self._commit, batch.delta)
            self.announce(FilterStep.APPLY)
            self._dedup.apply(batch)
            self._odd_times.update(batch.odd_times())
            done = self._commit
            self.progress(FilterProgress(done.items, done.forwarded, reader.bytes_read, self._total_bytes))
        self._summary = self._judge.summary()

    def _finish(self) -> None:
        if not self._journal:
            for writer in reversed(self._writers):
                writer.publish()  # the output last: once it is there, everything is
            return
        for file in reversed(self._files):
            file.complete()
        output, duplicates = self._lengths()
        if (output, duplicates) != (self._commit.output, self._commit.duplicates):
            self._commit = msgspec.structs.replace(self._commit, output=output, duplicates=duplicates)
            self._journal.commit(self._commit, self._judge.judge([]).delta)
        self._journal.finish()

    def _write(self, lines: list[Line], batch: Batch) -> None:
        judged = list(zip(lines, batch.verdicts, strict=True))
        output, *duplicates = self._writers
        for _, lines_of_input in groupby(lines, key=attrgetter("input")):
            output.start_input(next(lines_of_input))
        shadow = self.settings.policy.shadow
        output.write([line for line, verdict in judged if verdict.forward or (shadow and not is_cut(line))])
        for writer in duplicates:
            writer.write([self._row(line, verdict) for line, verdict in judged if not verdict.forward])
        if self._journal:
            for file in self._files:
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
        output, *duplicates = (file.length for file in self._files)
        return output, sum(duplicates)

    def _row(self, line: Line, verdict: Verdict) -> Line:
        """The row of an item that is held back, as a line."""
        row: dict[str, Any] = verdict.as_json()
        if verdict.original is not None:
            row["original"]["file"] = self._all_names[verdict.original.partition]
        row |= {"file": self._all_names[line.input], "line": line.number}
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
