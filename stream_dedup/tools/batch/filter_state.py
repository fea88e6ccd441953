"""The state directory of `filter --state`: what was done, what the index remembers, and how a killed run continues.

`FilterState` opens the directory, which holds two files, `journal` (changelog/journal.py) and `lock`, and restores the
Decider. For the run that the user asks for (`Begin`) it says where it continues (`ResumePoint`). Then it appends
the commit record and the changelog block of each batch.

A journal is a sequence of runs: a Begin, any number of Commits, a Finish. A run without a Finish was killed; only the
same arguments resume it, because its outputs are half written. Before its first Commit nothing of it is remembered, so
another run may take its place, unless it left something in files that the other run does not cut. A finished run that
is asked for again on unchanged files is not repeated: all its items would be duplicates of themselves. Standard input
and pipes cannot be recognised, so there a new run always follows a finished one.
"""

from collections.abc import Sequence
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash

from stream_dedup.changelog import block
from stream_dedup.changelog.journal import Entry
from stream_dedup.dedup.batch import Delta
from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import CorruptBlock, InputError, SchemeMismatch
from stream_dedup.files import open_locked, sync_directory
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.journal import Journal
from stream_dedup.tools.inputs.packing import STDIN, as_text

START_OVER = "start over with another state directory (which remembers nothing)"
"""The last resort in messages about a state that does not fit the run."""
# The settings tables that a verdict depends on.
_DECIDING_SETTINGS = {"item", "window", "fingerprint", "decision", "policy", "sources", "index"}
# Rewriting the journal costs as much as reading it. If half of it goes each time, no byte is rewritten more than once.
_REWRITE_AT = 0.5

# A directory has no migration: the files are still there and can be read again.
_OTHER_SCHEME_CURE = (
    "name another directory with --state; it remembers nothing until the earlier files are filtered into it again"
)


class RecordedInput(msgspec.Struct, frozen=True):
    """An input at the begin of a run. A later run recognises a file by path, size and time of change.

    `size` -1: standard input or a pipe, which no later run can recognise.
    """

    name: str  # as the user gave it; the rows of the duplicates show it
    path: str
    size: int = -1
    modified: int = -1  # ns

    @classmethod
    def of(cls, name: str) -> "RecordedInput":
        """The input as it is now."""
        if name == STDIN:
            return cls(STDIN, STDIN)
        status = Path(name).stat()
        path = as_text(str(Path(name).resolve()))
        if not S_ISREG(status.st_mode):
            return cls(as_text(name), path)
        return cls(as_text(name), path, status.st_size, status.st_mtime_ns)

    def is_unchanged(self, now: "RecordedInput") -> bool:
        """Whether `now` describes the same file with the same content."""
        return self.size >= 0 and (self.path, self.size, self.modified) == (now.path, now.size, now.modified)


def settings_digest(settings: Settings) -> str:
    """A digest that is equal for settings that give the same verdicts."""
    exclude = {"fingerprint": {"salt", "salt_file"}}  # another salt is another scheme, which is refused
    # Without rules for sources the digest is that of versions that had none.
    include = _DECIDING_SETTINGS - (set() if settings.sources.rules else {"sources"})
    fields = settings.model_dump_json(include=include, exclude=exclude)
    return xxhash.xxh3_128_hexdigest(fields.encode())


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """A run: its arguments, and whatever else its outputs depend on."""

    sources: list[RecordedInput]
    output: str
    duplicates: str  # "": not asked for
    settings: str  # digest of the settings that decide
    now: int  # ms; the clock is read once, and a resumed run keeps its first reading
    form: str = ""  # file format of the inputs if the user named it
    first: int = 0  # number of its first input; the numbers of inputs go on through all runs of a state
    verdicts: str = ""  # "": not asked for

    @classmethod
    def of(cls, inputs: Sequence[str], outputs: Sequence[str], settings: Settings, now: int, form: str) -> "Begin":
        """A run on these inputs. `outputs`: as the property."""
        output, duplicates, verdicts = outputs
        sources, digest = list(map(RecordedInput.of, inputs)), settings_digest(settings)
        return cls(sources, output, duplicates, digest, now, form, verdicts=verdicts)

    @property
    def outputs(self) -> tuple[str, str, str]:
        """The paths of its outputs, in the order of `Commit.lengths`; "" for one that is not asked for."""
        return self.output, self.duplicates, self.verdicts


class Commit(msgspec.Struct, frozen=True, tag="commit"):
    """How far a run is: the last line judged, the lengths of the outputs in bytes, and the counts up to there."""

    input: int = 0  # index in Begin.sources
    line: int = 0
    digest: str = ""  # of the lines of that input up to `line`
    output: int = 0
    duplicates: int = 0
    forwarded: int = 0
    unique: int = 0
    duplicate: int = 0
    update: int = 0
    bad: int = 0
    verdicts: int = 0

    @property
    def lengths(self) -> tuple[int, int, int]:
        return self.output, self.duplicates, self.verdicts

    @property
    def items(self) -> int:
        return self.unique + self.duplicate + self.update + self.bad


class Finish(msgspec.Struct, frozen=True, tag="finish"):
    """The run of the last Begin is done."""


class ResumePoint(NamedTuple):
    """The run to do, the commit behind which it continues, and whether all of it is done."""

    run: Begin
    commit: Commit = Commit()
    is_finished: bool = False


class _JournalSpan(NamedTuple):
    """Where an entry is in the journal, and how long its block is needed."""

    start: int  # bytes
    end: int
    newest: float = -np.inf  # latest event time that the entry adds, ms
    elapsed: int = 0  # `Decider.elapsed` after the entry


class FilterState:
    """One state directory, locked. Its journal is restored into `dedup`. Close it.

    Raises InputError if another process holds it, CorruptBlock, SchemeMismatch. `names` maps the number of each input
    of all runs to its name.
    """

    def __init__(self, directory: Path, dedup: Decider) -> None:
        self._dedup = dedup
        self._directory = directory
        self._decode = msgspec.json.Decoder(Begin | Commit | Finish).decode
        self._run: Begin | None = None
        self._commit = Commit()
        self._is_finished = True
        self._begins: list[_JournalSpan] = []
        self._commits: list[_JournalSpan] = []
        self.names: dict[int, str] = {}
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = open_locked(directory / "lock")
        try:
            self._journal = Journal(directory / "journal", self._replay)
        except BaseException:
            self._lock.close()
            raise

    def close(self) -> None:
        self._journal.close()
        self._lock.close()

    # -- what the journal says ---------------------------------------------------------------------------

    def resume_point(self, wanted: Begin) -> ResumePoint:
        """Where the wanted run continues. Raises InputError if an unfinished run must be finished first."""
        run = self._run
        if run is None:
            return ResumePoint(wanted)
        is_same = _arguments(run) == _arguments(wanted)
        if self._is_finished and not (is_same and all(map(RecordedInput.is_unchanged, run.sources, wanted.sources))):
            return ResumePoint(msgspec.structs.replace(wanted, first=run.first + len(run.sources)))
        kept = [path for path in self._outputs if path not in wanted.outputs]
        if not self._is_finished and self._commit == Commit() and not any(map(_size, kept)):
            # As if it had never begun: nothing of it is remembered, and the wanted run cuts what it wrote.
            return ResumePoint(msgspec.structs.replace(wanted, first=run.first))
        if not is_same:
            raise InputError(
                f"{self._directory} holds a run that was killed; finish it first, with its own arguments: "
                f"{', '.join(source.name for source in run.sources)} to {' '.join(self._outputs)}"
                + (", or delete what it wrote there" if self._commit == Commit() else "")
            )
        if run.settings != wanted.settings:
            raise InputError(
                f"{self._directory} holds this very run under other settings; bring the former settings back, or "
                f"{START_OVER}"
            )
        for before, now in list(zip(run.sources, wanted.sources, strict=True))[: self._commit.input]:
            if before.size >= 0 and not before.is_unchanged(now):
                raise InputError(
                    f"{before.name} changed since the run that was killed read it; bring the former file back, or "
                    f"{START_OVER}"
                )
        return ResumePoint(run, self._commit, self._is_finished)

    @property
    def unfinished_outputs(self) -> Sequence[str]:
        """The files that a killed run has begun to fill."""
        return () if self._is_finished else self._outputs

    @property
    def _outputs(self) -> list[str]:
        return [path for path in self._run.outputs if path] if self._run else []

    def _replay(self, entry: Entry) -> None:
        try:
            record = self._decode(entry.record)
            delta = self._delta(entry.block) if entry.block else None
            if delta is not None:
                self._dedup.restore(delta)
        except (CorruptBlock, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise CorruptBlock(f"{self._directory / 'journal'}, byte {entry.start}: {error}") from None
        except SchemeMismatch as error:
            raise SchemeMismatch(f"{self._directory / 'journal'}: {error}") from None
        if delta is not None:
            newest = float(delta.signatures["time"].max()) if len(delta) else -np.inf
            self._commits.append(_JournalSpan(entry.start, entry.end, newest, self._dedup.elapsed))
        if isinstance(record, Begin):
            self._begins.append(_JournalSpan(entry.start, entry.end))
            self._enter(record)
        elif isinstance(record, Commit):
            self._commit = record
        else:
            self._is_finished = True

    def _delta(self, data: bytes) -> Delta:
        return block.decode(data, self._dedup.scheme_id, self._dedup.scheme.signature_dtype, _OTHER_SCHEME_CURE)

    def _enter(self, run: Begin) -> None:
        self._run, self._commit, self._is_finished = run, Commit(), False
        self.names |= {run.first + i: source.name for i, source in enumerate(run.sources)}

    # -- what a run appends ------------------------------------------------------------------------------

    def begin(self, run: Begin) -> None:
        """Name a new run. Its outputs must not be touched before."""
        self._drop_expired()
        self._journal.append(msgspec.json.encode(run))
        self._enter(run)
        for path in self._outputs:
            sync_directory(Path(path).parent)

    def commit(self, commit: Commit, delta: Delta) -> None:
        """The commit point: once this returns, the batch is done."""
        self._journal.append(msgspec.json.encode(commit), block.encode(delta, self._dedup.scheme_id))

    def finish(self) -> None:
        self._journal.append(msgspec.json.encode(Finish()))

    def _drop_expired(self) -> None:
        """Between two runs, drop the entries at the beginning of the journal that are no longer needed.

        A block may forget what an earlier one added, so it stays as long as that one does. The last block always
        stays, for its clock and watermark. So does the Begin of the run in which the cut falls, for the names of its
        inputs.
        """
        if not self._commits:
            return
        needed = (span for span in self._commits if self._dedup.may_hold(span.newest, span.elapsed))
        cut = next(needed, self._commits[-1])
        begin = [span for span in self._begins if span.start < cut.start][-1]
        spans = [(begin.start, begin.end), (cut.start, self._journal.size)]
        if sum(end - start for start, end in spans) <= _REWRITE_AT * self._journal.size:
            self._journal.keep(spans)


def _arguments(run: Begin) -> tuple[list[str], tuple[str, ...], str]:
    return [source.path for source in run.sources], run.outputs, run.form


def _size(path: str) -> int:
    return Path(path).stat().st_size if Path(path).is_file() else 0
