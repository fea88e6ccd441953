"""Filter news files: forward what is new, hold back near-duplicates.

In: lines of files and pipes (lines.py). Out, in formats that the names of the files say (output_files.py):

- the *output*: the lines of unique items and of updates, bytes unchanged; in shadow mode the lines of all items;
- the *duplicates*, if asked for: a JSON row for each other item in input order: `Verdict.as_json()`, the item's file
  and line (from 1), the file of its original, and for a bad item its bytes in base64 (`raw`);
- the *verdicts*, if asked for: such a row for every item.

In a verdict `partition` is the number of the input (from 0, counted through all runs of a state) and `offset` the
number of the line. Blank lines are skipped. The verdicts are those of the Kafka worker for the same items in the same
order, however they are cut into batches, unless ids name no articles (`LineJudge`).

Everything else that works on files judges lines in the same way. A Kafka record has a timestamp; a line has only the
date in its item (`published`). A line without a date, or with one in the future, takes the watermark
(`Decider.judge`). So the wall clock never changes a verdict: the same file gives the same verdicts today and
tomorrow. Undated lines at the head of a dated file count as of 1970 and are soon forgotten, while a file without any
dates never forgets.

With a state directory each item is written exactly once. The fault tests use the same step numbers and kill the process
at each step. A step is announced before it is done.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

import msgspec

from stream_dedup.dedup.batch import Batch, batches
from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import BadItem, InputError
from stream_dedup.news.decode import Beside, Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.filter_state import START_OVER, Begin, Commit, FilterState, ResumePoint
from stream_dedup.tools.batch.output_files import LineWriter, Output, check_free, checked_outputs, file_errors
from stream_dedup.tools.inputs.file_format import FileFormat
from stream_dedup.tools.inputs.lines import LINE_FORMATS, Line, LineReader, Position, item_of, size_of
from stream_dedup.tools.inputs.packing import CsvRow, files_of
from stream_dedup.tools.survey.summary import Summary
from stream_dedup.tools.survey.survey import FIRST, SharedIds, Survey

AnyItem = Item | Tombstone | BadItem
Place = Callable[[int, int], str]
"""Names a place, given the numbers of an input and of a line, or a partition and an offset."""


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
    """The counts of a run. `items` is the sum of the four verdicts; each item is in the output or the duplicates.

    `forwarded` lines are in the output, the rest are rows of the duplicates (in shadow mode also in the output). A run
    that was killed and resumed counts as one: `resumed` of its items were done before. odd_times: items with an odd
    date, by the kinds of dedup/clocks.py. evicted: originals forgotten because there were more than
    `window.max_originals`. rules: verdicts that each rule for sources has changed. summary: how the records were
    understood; None if there were none.
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
    rules: Mapping[str, int]
    summary: Summary | None


@dataclass(frozen=True, slots=True)
class FilterProgress:
    """How far a run is, reported after each batch. `bytes_total` is None if the size of an input is unknown."""

    items: int
    forwarded: int
    bytes_read: int
    bytes_total: int | None


class FilterReport(Protocol):
    """Sees each batch of a run when it is done, and makes a page of them; tools/report.py has one.

    `path`: where the page goes.
    """

    path: Path

    def add(self, items: Sequence[AnyItem], verdicts: Sequence[Verdict], place: Place) -> None: ...
    def html(self, done_before: int = 0) -> str: ...


def filter_files(
    inputs: Sequence[str | Path],
    output: str | Path,
    duplicates: str | Path | None,
    *,
    settings: Settings,
    verdicts: str | Path | None = None,
    state: str | Path | None = None,
    file_format: FileFormat | None = None,
    force: bool = True,
    report: FilterReport | None = None,
    progress: Callable[[FilterProgress], None] = lambda _: None,
    announce: Callable[[FilterStep], None] = lambda _: None,
    clock: Callable[[], float] = time.time,
) -> FilterResult:
    """Filter the inputs: files, directories of them, pipes, or "-" for standard input.

    The inputs are read in the given order, the files of a directory in the order of their paths. The module's docstring
    describes the outputs. Without `duplicates` and `verdicts` no rows are written; "-" is standard output. An existing
    output is replaced, unless it is an input or `state` holds a killed run that fills it; without `force` it is
    refused. The report is written last. `file_format` overrides what the names of the inputs say. `clock` (seconds
    since 1970) is read once; it only bounds how late an item may claim to be. Raises InputError, ConfigError,
    UsageError, CorruptBlock, SchemeMismatch, and BrokenPipeError if an output has no reader any more.
    """
    started = time.monotonic()
    names = files_of(inputs)
    directory = Path(state) if state is not None else None
    rows = [FileFormat.JSONL]
    wanted: dict[str, tuple[str | Path | None, Sequence[FileFormat]]] = {
        "--output": (output, LINE_FORMATS), "--duplicates": (duplicates, rows), "--verdicts": (verdicts, rows),
        "--report": (report.path if report else None, ()),
    }  # fmt: skip
    targets = checked_outputs(names, wanted, directory)
    for_report = targets.pop("--report", None)
    with file_errors(), ExitStack() as stack:
        dedup = stack.enter_context(closing(Decider(settings)))
        journal = stack.enter_context(closing(FilterState(directory, dedup))) if directory else None
        paths = [str(targets[name].path) if name in targets else "" for name in [*wanted][:3]]
        wanted_run = Begin.of(names, paths, settings, int(clock() * 1000), str(file_format or ""))
        point = journal.resume_point(wanted_run) if journal else ResumePoint(wanted_run)
        run = _FilterRun(dedup, journal, point.run, point.commit)
        run.judge.look_ahead(names, file_format, point.run.first)
        if for_report and not force:
            check_free({"--report": for_report})
        page = stack.enter_context(Output(for_report, in_place=False)) if for_report else None
        if point.is_finished:
            _check_outputs_unchanged(point.run, point.commit)
        else:
            if not force:
                check_free(targets, journal.unfinished_outputs if journal else ())
            # The main output is opened last, so a failed run deletes it first.
            writers = {
                option.removeprefix("--"): LineWriter(stack.enter_context(Output(to, in_place=journal is not None)))
                for option, to in reversed(targets.items())
            }
            run.filter(names, file_format, writers, report, progress, announce)
        done = run.commit
        if page and report:
            page.write_whole(report.html(point.commit.items))
        counts = done.items, done.unique, done.duplicate, done.update, done.bad, done.forwarded, point.commit.items
        seconds = time.monotonic() - started
        return FilterResult(*counts, seconds, dict(run.odd_times), dedup.evicted, dict(run.rules), run.judge.summary())


class _FilterRun:
    """One run of `filter_files`. It continues behind the last Commit in the journal."""

    def __init__(self, dedup: Decider, journal: FilterState | None, begin: Begin, commit: Commit) -> None:
        self._dedup = dedup
        self._journal = journal
        self._begin, self.commit = begin, commit
        # A state has the names of all its runs; a new run adds its own.
        self._names = journal.names if journal else {i: source.name for i, source in enumerate(begin.sources)}
        self._place: Place = lambda number, line: f"{self._names[number]}:{line}"
        self.judge = LineJudge(dedup, begin.now, self._place)
        self.odd_times: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()

    def filter(
        self,
        inputs: Sequence[str],
        file_format: FileFormat | None,
        writers: dict[str, LineWriter],
        report: FilterReport | None,
        progress: Callable[[FilterProgress], None],
        announce: Callable[[FilterStep], None],
    ) -> None:
        """Do the rest of the run. `writers`: by the names in `Commit`. `announce` is called before each step."""
        self._writers = writers
        if self._journal and self.commit == Commit():
            announce(FilterStep.BEGIN)
            self._journal.begin(self._begin)
        announce(FilterStep.CUT)
        for name, writer in writers.items():
            writer.output.cut(getattr(self.commit, name))
        settings, start = self._dedup.settings, Position(self.commit.input, self.commit.line, self.commit.digest)
        on_header = writers["output"].start_input  # the output has the header even if no row follows
        reader = LineReader(
            inputs, file_format, start, first_number=self._begin.first, on_header=on_header,
            most=settings.worker.max_record_bytes, query=settings.item.query,
        )  # fmt: skip
        self.judge.survey.notes = reader.notes
        bytes_total = reader.bytes_total
        for lines in batched(reader, settings):
            announce(FilterStep.JUDGE)
            batch = self.judge.judge(lines)
            announce(FilterStep.WRITE)
            self._write(lines, batch)
            self.commit = self._next_commit(reader.position, batch)
            if self._journal:
                announce(FilterStep.COMMIT)
                self._journal.commit(self.commit, batch.delta)
            announce(FilterStep.APPLY)
            self._dedup.apply(batch)
            self.odd_times.update(batch.odd_times())
            self.rules.update(batch.source_rules())
            if report:
                report.add(self.judge.items, batch.verdicts, self._place)
            progress(FilterProgress(self.commit.items, self.commit.forwarded, reader.bytes_read, bytes_total))
        announce(FilterStep.FINISH)
        self._finish()

    def _finish(self) -> None:
        if not self._journal:
            for writer in self._writers.values():
                writer.publish()  # the output last: once it is there, everything is
            return
        for writer in self._writers.values():
            writer.output.complete()
        before, self.commit = self.commit, msgspec.structs.replace(self.commit, **self._lengths())
        if self.commit != before:
            self._journal.commit(self.commit, self.judge.judge([]).delta)
        self._journal.finish()

    def _write(self, lines: list[Line], batch: Batch) -> None:
        judged = list(zip(lines, batch.verdicts, strict=True))
        output = self._writers["output"]
        for _, lines_of_input in groupby(lines, key=attrgetter("input")):
            output.start_input(next(lines_of_input))
        shadow = self._dedup.settings.policy.shadow
        output.write([line for line, verdict in judged if verdict.forward or (shadow and not line.is_cut)])
        chosen = {"duplicates": [pair for pair in judged if not pair[1].forward], "verdicts": judged}
        for name in chosen.keys() & self._writers.keys():
            self._writers[name].write([self._row(line, verdict) for line, verdict in chosen[name]])
        if self._journal:
            for writer in self._writers.values():
                writer.output.sync()

    def _next_commit(self, position: Position, batch: Batch) -> Commit:
        before, counts = self.commit, batch.counts()
        kinds = (Kind.UNIQUE, Kind.DUPLICATE, Kind.UPDATE, Kind.BAD)
        forwarded = before.forwarded + sum(verdict.forward for verdict in batch.verdicts)
        sums = {str(kind): getattr(before, kind) + counts[kind] for kind in kinds}
        return msgspec.structs.replace(Commit(*position, forwarded=forwarded), **sums, **self._lengths())

    def _lengths(self) -> dict[str, int]:
        return {name: writer.output.length for name, writer in self._writers.items()}

    def _row(self, line: Line, verdict: Verdict) -> Line:
        """The row of an item in the duplicates and in the verdicts, as a line."""
        row: dict[str, Any] = verdict.as_json()
        for name in ("original", "nearest"):
            if row[name] is not None:
                row[name]["file"] = self._names[row[name]["partition"]]
        row |= {"file": self._names[line.input], "line": line.number}
        if verdict.kind is Kind.BAD:
            raw = line.source_row.raw if isinstance(line.source_row, CsvRow) else line.value
            row["raw"] = base64.b64encode(raw).decode()
        return Line(msgspec.json.encode(row), line.input, line.number)


def _check_outputs_unchanged(run: Begin, commit: Commit) -> None:
    for name, length in zip(run.outputs, commit.lengths, strict=True):
        path = Path(name)
        if name and (not path.is_file() or path.stat().st_size != length):
            raise InputError(
                f"these inputs were filtered already, but {path} is no longer what was written then; name other "
                f"inputs, or {START_OVER}"
            )


# -- judge lines -------------------------------------------------------------------------------------------------------


class LineJudge:
    """Judges lines with a Decider. `now` (ms since 1970) bounds how late a line may claim to be.

    `place` makes the text that names a line of an input in the survey. Ids that name no article (`SharedIds`) do not
    count: such an item is judged as one without an id, whose place stands in. What they are is seen in the first lines
    of an input, of a pipe in those of its first batch.
    """

    def __init__(self, dedup: Decider, now: int, place: Place = lambda number, line: f"{number}:{line}") -> None:
        self._dedup = dedup
        self._decode = Decoder(dedup.settings.item)
        self._latest = dedup.settings.window.latest(now)
        self.items: Sequence[AnyItem] = ()
        """Those of the lines judged last."""
        self.survey = Survey(self._decode.read, dedup.settings, latest=self._latest, place=place)
        self._shared_ids: dict[int, frozenset[str]] = {}  # by the number of an input

    def look_ahead(self, inputs: Sequence[str], file_format: FileFormat | None = None, first_number: int = 0) -> None:
        """Look at the first lines of the inputs that can be read twice, so that no verdict depends on the batches.

        An input that cannot be read is left to the run, which says why.
        """
        settings = self._dedup.settings
        most, query = settings.worker.max_record_bytes, settings.item.query
        for number, name in enumerate(inputs, first_number):
            if size_of(name) is not None:
                reader = LineReader([name], file_format, most=most, query=query)
                with suppress(InputError):
                    self._look_at(number, islice(reader, FIRST))

    def _look_at(self, number: int, lines: Iterable[Line]) -> None:
        decode, shared = Decoder(self._dedup.settings.item), SharedIds()  # an own decoder, since it counts the shapes
        for line in lines:
            if isinstance(item := item_of(decode, line), Item):
                shared.add(item, "")
        self._shared_ids[number] = shared.ids

    def _named(self, line: Line, item: AnyItem) -> AnyItem:
        """The item, by its place if its id names no article."""
        if isinstance(item, Item) and item.id in self._shared_ids[line.input]:
            return msgspec.structs.replace(item, id=f"{line.input}:{line.number}")
        return item

    def judge(self, lines: Sequence[Line]) -> Batch:
        """The verdicts in the order of the lines. Nothing is remembered before `Decider.apply`."""
        for number in dict.fromkeys(line.input for line in lines):
            if number not in self._shared_ids:
                self._look_at(number, (line for line in lines if line.input == number))
        items: list[AnyItem] = []
        for line in lines:
            beside: list[Beside] = []
            item = item_of(self._decode, line, beside)
            self.survey.add(item, line.value, line.input, line.number, beside=beside[0] if beside else None)
            items.append(self._named(line, item))
        self.items = items
        return self._dedup.judge(self.items, self._latest, one_clock=True)

    def summary(self) -> Summary | None:
        """How the lines so far were understood; None if there were none."""
        return summary if (summary := self.survey.summary()).items else None


def judge_batches(dedup: Decider, lines: Iterable[Line], clock: Callable[[], float] = time.time) -> Iterator[Batch]:
    """Judge lines batch by batch. A batch is applied when the next one is asked for."""
    judge = LineJudge(dedup, int(clock() * 1000))
    for chunk in batched(lines, dedup.settings):
        batch = judge.judge(chunk)
        yield batch
        dedup.apply(batch)


def batched(lines: Iterable[Line], settings: Settings) -> Iterator[list[Line]]:
    """Cut lines into batches as the Kafka worker cuts records: bounded in number and in bytes."""
    return batches(lines, attrgetter("size"), settings.worker.batch_items, settings.worker.batch_bytes)
