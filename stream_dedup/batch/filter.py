"""News files in, near-duplicates held back: lines (lines.py) -> the lines let through, and a row for each held back.

Out: the *output*, the lines of unique items and of updates let through, their bytes untouched (in shadow mode those of
all items), in the form that its name asks for (forms.py); the *duplicates*, if they are asked for, a JSON row for each
other item in the order of the input: `Verdict.as_json()`, its file and line (from 1), the original's file, and for a
bad item its bytes in base64 (`raw`). In a verdict `partition` is the input's number (from 0, through all runs of a
state) and `offset` the line's number. Blank lines are no items. The decision is that of the worker on Kafka for the
same items in the same order, however they are cut into batches.

Exactly once, with a state directory. The numbers stand identically in the fault tests, which kill the process at
each; a step is announced before it is done.

    step        what happens                                          killed before or in it
    1 BEGIN     the journal names the run                             the run never was
    2 CUT       the outputs are cut to what the journal says          is done again (a new run: to nothing)
    3 JUDGE     lines are read and judged; the index is unchanged     the batch is read again
    4 WRITE     their lines and rows are appended, on the disk        they are cut off, the batch is read again
    5 COMMIT    the journal takes place, lengths, changelog block     happened wholly (on the disk) or not at all
    6 APPLY     the index remembers                                   happened; the journal tells the index
    7 FINISH    the journal says that the run is done                 only this is done again

Without a state directory nothing is remembered, so a killed run begins anew: the outputs grow under other names
and step 7 gives them theirs. Then an output may also be a stream, which takes each batch at once, or Parquet.
"""

import base64
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stream_dedup.batch.forms import Lines, check_form, lines_to
from stream_dedup.batch.input_order import in_order_of_time
from stream_dedup.batch.judge import Line, LineJudge, batched, check_items, line_of
from stream_dedup.batch.lines import InputLines, is_blank
from stream_dedup.batch.outputs import Output, Target, check_paths, open_output, target
from stream_dedup.batch.rows import CsvRow, Form
from stream_dedup.batch.state import Begin, Commit, FilterState, ResumePoint, describe, digest_of
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
    """What became of the items: `items` is the sum of the four verdicts, and each stands in one of the two outputs.

    `forwarded` lines are in the output, the rest are rows of the duplicates (and in shadow mode in the output too). A
    run that was killed and taken up again counts as one; `resumed` of its items were done before. `seconds`,
    `odd_times` (items whose date was odd, by the kinds of clocks.py) and `evicted` (originals forgotten because there
    were more than `window.max_originals`) count what came after. `order` names the inputs as they were read, where that
    is not the order given (batch/input_order.py). `summary` is what was understood of what came after; None: nothing
    came.
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
    """How far a run is; told after each batch. `bytes_total` None: an input's size is not known."""

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
    form: Form | None = None,
    progress: Callable[[FilterProgress], None] = lambda _: None,
    announce: Callable[[FilterStep], None] = lambda _: None,
    clock: Callable[[], float] = time.time,
) -> FilterResult:
    """Filters the inputs (files, pipes, "-": standard input). See the module's first lines.

    They are read in the order given, or in that of their dates where the one given goes back by more than a window.
    An output that exists is overwritten, unless it is an input or `state` holds a killed run that fills it; "-" is
    standard output. Without `duplicates` no rows are written. `form`: of all inputs, whatever their names say. `clock`
    (seconds since 1970) is read once, and only bounds how late an item may say it is. Raises InputError, CorruptBlock,
    SchemeMismatch, and BrokenPipeError where nobody reads an output any more.
    """
    started = time.monotonic()
    given = [str(one) for one in inputs]
    state = Path(state) if state is not None else None
    targets = {"--output": target(Path(output))}
    if duplicates is not None:
        targets["--duplicates"] = target(Path(duplicates))
    check_paths(given, targets, state, cut=state is not None)
    check_items(given, form, settings)
    for option, to in targets.items():
        check_form(option, to, list(Form) if option == "--output" else [Form.JSONL, Form.PARQUET])
    try:
        with ExitStack() as stack:
            dedup = stack.enter_context(closing(Deduplicator(settings)))
            memory = stack.enter_context(closing(FilterState(state, dedup))) if state is not None else None
            order = memory.order_before(given) if memory else None
            order = order or in_order_of_time(given, settings, form)
            wanted = Begin(
                describe(order),
                str(targets["--output"].path),
                str(targets["--duplicates"].path) if duplicates is not None else "",
                digest_of(settings),
                int(clock() * 1000),
                str(form or ""),
            )
            plan = memory.plan(wanted) if memory else ResumePoint(wanted, Commit(), False)
            odd_times: Counter[str] = Counter()
            summary = None
            if plan.finished:
                _check_still_there(plan)
                at = plan.at
            else:
                run = _Run(order, form, list(targets.values()), plan, dedup, memory, odd_times, progress, announce)
                at, summary = run.done(), run.summary()
            evicted = dedup.evicted
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot read or write: {error}") from None
    counts = at.items, at.unique, at.duplicate, at.update, at.bad, at.forwarded, plan.at.items
    order = [] if order == given else order
    return FilterResult(*counts, time.monotonic() - started, dict(odd_times), evicted, order, summary)


class _Written(NamedTuple):
    """One of the two outputs, and its lines in their form."""

    file: Output
    lines: Lines


class _Run:
    """One run, from where its plan says to its end."""

    def __init__(
        self,
        inputs: list[str],
        form: Form | None,
        targets: list[Target],
        plan: ResumePoint,
        dedup: Deduplicator,
        memory: FilterState | None,
        odd_times: Counter[str],
        progress: Callable[[FilterProgress], None],
        announce: Callable[[FilterStep], None],
    ) -> None:
        self._inputs, self._plan, self._dedup, self._memory = inputs, plan, dedup, memory
        self._form, self._targets = form, targets
        self._odd_times, self._progress, self._announce = odd_times, progress, announce
        self._names = memory.names if memory else {i: one.name for i, one in enumerate(plan.run.sources)}
        self._judge = LineJudge(dedup, plan.run.now, lambda number, line: f"{self._names[number]}:{line}")
        self._at = plan.at
        self._input = plan.at.input
        sizes = [one.size for one in plan.run.sources]
        self._bytes_before = sum(max(size, 0) for size in sizes[: self._input])
        self._bytes_total = None if min(sizes, default=0) < 0 else sum(sizes)

    def done(self) -> Commit:
        """Does all steps; how far it has come, which is the end."""
        run, memory, announce = self._plan.run, self._memory, self._announce
        with ExitStack() as stack:
            # Left in the reverse order, so in a failed run the output is the last to go, as it is the last to come.
            self._output, self._duplicates = self._open(stack)
            if memory and self._at == Commit():
                announce(FilterStep.BEGIN)
                memory.begin(run)
            announce(FilterStep.CUT)
            self._output.file.cut(self._at.output)
            if self._duplicates:
                self._duplicates.file.cut(self._at.duplicates)
            for lines in batched(self._lines(), self._dedup.settings):
                announce(FilterStep.JUDGE)
                batch = self._judge.judge(lines)
                announce(FilterStep.WRITE)
                self._write(lines, batch)
                if memory:
                    announce(FilterStep.COMMIT)
                    memory.commit(self._at, batch.delta)
                announce(FilterStep.APPLY)
                self._dedup.apply(batch)
                self._odd_times.update(batch.odd_times())
                self._tell()
            announce(FilterStep.FINISH)
            self._finish()
        return self._at

    def summary(self) -> Summary | None:
        """Of the lines that this process judged."""
        summary = self._judge.summary()
        return summary if summary.items else None

    def _open(self, stack: ExitStack) -> tuple["_Written", "_Written | None"]:
        opened = []
        for to in reversed(self._targets):
            file = stack.enter_context(open_output(to, in_place=self._memory is not None))
            opened.append(_Written(file, stack.enter_context(closing(lines_to(file)))))
        return opened[-1], opened[0] if len(opened) > 1 else None

    def _write(self, lines: list[Line], batch: Batch) -> None:
        judged = list(zip(lines, batch.verdicts, strict=True))
        shadow = self._dedup.settings.policy.shadow
        for _, of_one in groupby(lines, key=attrgetter("input")):
            self._output.lines.head(next(of_one))
        self._output.lines.append([line for line, verdict in judged if verdict.forward or shadow])
        if self._duplicates:
            self._duplicates.lines.append([self._row(line, verdict) for line, verdict in judged if not verdict.forward])
        if self._memory:
            self._sync()
        counts, at = batch.counts(), self._at
        self._at = Commit(
            self._input,
            self._reading.number,
            self._reading.digest(),
            *self._lengths(),
            at.forwarded + sum(verdict.forward for verdict in batch.verdicts),
            at.unique + counts[Kind.UNIQUE],
            at.duplicate + counts[Kind.DUPLICATE],
            at.update + counts[Kind.UPDATE],
            at.bad + counts[Kind.BAD],
        )

    def _finish(self) -> None:
        written = [one for one in (self._duplicates, self._output) if one]
        if not self._memory:
            for one in written:
                one.lines.finish()
                one.file.publish()  # the output's is the last step of all: where it is, everything is
            return
        for one in written:
            one.file.complete()
        lengths = self._lengths()
        if lengths != (self._at.output, self._at.duplicates):
            self._at = msgspec.structs.replace(self._at, output=lengths[0], duplicates=lengths[1])
            self._memory.commit(self._at, self._judge.judge([]).delta)
        self._memory.finish()

    def _sync(self) -> None:
        self._output.file.sync()
        if self._duplicates:
            self._duplicates.file.sync()

    def _lengths(self) -> tuple[int, int]:
        return self._output.file.length, self._duplicates.file.length if self._duplicates else 0

    def _row(self, line: Line, verdict: Verdict) -> Line:
        row: dict[str, Any] = verdict.as_json()
        if verdict.original is not None:
            row["original"]["file"] = self._names[verdict.original.partition]
        row |= {"file": self._names[line.input], "line": line.number}
        if verdict.kind is Kind.BAD:
            raw = line.kept.raw if isinstance(line.kept, CsvRow) else line.value
            row["raw"] = base64.b64encode(raw).decode()
        return Line(msgspec.json.encode(row), line.input, line.number)

    def _lines(self) -> Iterator[Line]:
        """The items' lines from where the plan says; `_reading` is at the last one handed out."""
        start = self._plan.at
        for place in range(start.input, len(self._inputs)):
            self._input = place
            number = self._plan.run.first + place
            with InputLines(self._inputs[place], self._form) as self._reading:
                values = iter(self._reading)
                if place == start.input and start.line:
                    self._skip(values)
                for value in values:
                    line = line_of(self._reading, value, number)
                    if not is_blank(value):
                        yield line
                    elif line.kept is not None:  # a header: it stands in the output even if no row follows
                        self._output.lines.head(line)
                self._bytes_before += self._reading.bytes_read

    def _skip(self, values: Iterator[bytes]) -> None:
        start = self._plan.at
        for _ in islice(values, start.line):
            pass
        if self._reading.digest() != start.digest:
            raise InputError(
                f"the first {start.line} lines of {self._inputs[self._input]} are not those the killed run judged; "
                "bring the former input back, or start anew with another state directory (which remembers nothing)"
            )

    def _tell(self) -> None:
        read = self._bytes_before + self._reading.bytes_read
        self._progress(FilterProgress(self._at.items, self._at.forwarded, read, self._bytes_total))


def _check_still_there(plan: ResumePoint) -> None:
    for name, length in ((plan.run.output, plan.at.output), (plan.run.duplicates, plan.at.duplicates)):
        path = Path(name)
        if name and (not path.is_file() or path.stat().st_size != length):
            raise InputError(
                f"these inputs were filtered already, but {path} is no longer what was written then; "
                "name other inputs, or start anew with another state directory (which remembers nothing)"
            )
