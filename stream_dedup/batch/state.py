"""The state directory of `filter --state`: what was done, what must be remembered, and which run goes on.

In: a directory, and the run that is asked for (`Begin`). Out: from where on it has to work (`Commit`), with the
Deduplicator as it was at that point; then each batch's commit record and changelog block, into one journal.
The directory holds `journal` (changelog/files.py) and `lock`.

A journal is a sequence of runs: Begin, any number of Commits, Finish. A run without its Finish was killed; it is
taken up again by the same arguments, and by no others, since its outputs are half written. A finished run that is
asked for again, on files that did not change, is not run again: all its items would be duplicates of themselves.
Standard input cannot be recognised in this way (nor can a pipe), so there a finished run is followed by a new one.
"""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash

from stream_dedup.batch.lines import STDIN
from stream_dedup.changelog import block
from stream_dedup.changelog.files import Entry, Journal, open_locked, sync_directory
from stream_dedup.dedup.batch import Delta
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import CorruptBlock, InputError, SchemeMismatch
from stream_dedup.settings import Settings

_JUDGING = {"item", "window", "fingerprint", "decision", "policy", "index"}
"""The tables of settings that a verdict depends on."""

# Rewriting the journal costs as much as reading it; when half of it goes, each byte is rewritten once at most.
_KEEP_AT_MOST = 0.5

# A directory has no migration: the files are there, and are read again.
_INSTEAD = (
    "name another directory with --state; it remembers nothing until the earlier files are filtered into it again"
)


class Source(msgspec.Struct, frozen=True):
    """One input as it stood when the run began. `size` -1: it is no file, so it cannot be recognised again."""

    name: str  # as it was given; it stands in the rows of the duplicates
    path: str
    size: int = -1
    modified: int = -1  # ns


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """A run: its arguments, and what else its outputs depend on."""

    sources: list[Source]
    output: str
    duplicates: str  # "": none were asked for
    settings: str  # digest of the tables that decide
    now: int  # ms; the clock, read once: a run that is taken up again must not read another
    form: str = ""  # what the inputs were said to be, whatever their names say
    first: int = 0  # number of its first input; inputs are numbered on through all runs of a state


class Commit(msgspec.Struct, frozen=True, tag="commit"):
    """How far a run has come: the last line judged, the outputs' bytes, and the counts up to there."""

    input: int = 0  # place in Begin.sources
    line: int = 0
    digest: str = ""  # of that input's lines up to `line`
    output: int = 0
    duplicates: int = 0
    forwarded: int = 0
    unique: int = 0
    duplicate: int = 0
    update: int = 0
    bad: int = 0

    @property
    def items(self) -> int:
        return self.unique + self.duplicate + self.update + self.bad


class Finish(msgspec.Struct, frozen=True, tag="finish"):
    """The run that began last is done."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """What is to be done: the run, from where on, and whether there is nothing left of it."""

    run: Begin
    at: Commit
    finished: bool


class _Mark(NamedTuple):
    start: int  # byte of the journal
    end: int
    newest: float = -np.inf  # latest event time that this entry remembers, ms
    elapsed: int = 0  # of the watermark, after it


def describe(inputs: list[str]) -> list[Source]:
    """The inputs as they stand now."""
    return [_describe(one) for one in inputs]


def digest_of(settings: Settings) -> str:
    """The same for settings that give the same verdicts."""
    return xxhash.xxh3_128_hexdigest(settings.model_dump_json(include=_JUDGING).encode())


class FilterState:
    """One state directory, locked, its memory restored into `dedup`. Close it.

    Raises InputError where another process holds it, CorruptBlock, SchemeMismatch.
    """

    def __init__(self, directory: Path, dedup: Deduplicator) -> None:
        self._dedup = dedup
        self._directory = directory
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(Begin | Commit | Finish).decode
        self._run: Begin | None = None
        self._at = Commit()
        self._finished = True
        self._begins: list[_Mark] = []
        self._commits: list[_Mark] = []
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

    def plan(self, wanted: Begin) -> ResumePoint:
        """What is to be done for the run that is wanted; raises InputError where an earlier one is in its way."""
        run = self._run
        if run is None:
            return ResumePoint(wanted, Commit(), False)
        if not self._finished and self._at == Commit():  # it has written nothing: as if it had never begun
            return ResumePoint(msgspec.structs.replace(wanted, first=run.first), Commit(), False)
        new = ResumePoint(msgspec.structs.replace(wanted, first=run.first + len(run.sources)), Commit(), False)
        same = _arguments(run) == _arguments(wanted)
        if self._finished:
            unchanged = all(map(_is_same_file, run.sources, wanted.sources))
            if not (same and unchanged):
                return new
            self._refuse_other_settings(run, wanted)
            return ResumePoint(run, self._at, True)
        if not same:
            raise InputError(
                f"{self._directory} holds a run that was killed; finish it first, with its own arguments: "
                f"{_command(run, self._directory)}"
            )
        self._refuse_other_settings(run, wanted)
        for before, now in list(zip(run.sources, wanted.sources, strict=True))[: self._at.input]:
            if before.size >= 0 and not _is_same_file(before, now):
                raise InputError(
                    f"{before.name} changed since the run that was killed read it; bring the former file back, "
                    "or start anew with another state directory (which remembers nothing)"
                )
        return ResumePoint(run, self._at, False)

    def order_before(self, inputs: list[str]) -> list[str] | None:
        """These inputs in the order in which the last run read them; None where it read others, or they changed since.

        The order of a killed run holds to its end, even if a file that it has not come to says another by now.
        """
        if self._run is None or (not self._finished and self._at == Commit()):
            return None
        sources = {one.path: (one, name) for one, name in zip(describe(inputs), inputs, strict=True)}
        before = self._run.sources
        if len(sources) < len(inputs) or sorted(sources) != sorted(one.path for one in before):
            return None
        if self._finished and not all(_is_same_file(one, sources[one.path][0]) for one in before):
            return None
        return [sources[one.path][1] for one in before]

    def _refuse_other_settings(self, run: Begin, wanted: Begin) -> None:
        if run.settings != wanted.settings:
            raise InputError(
                f"{self._directory} holds this very run under other settings; bring the former settings back, "
                "or start anew with another state directory (which remembers nothing)"
            )

    def _replay(self, entry: Entry) -> None:
        try:
            record = self._decode(entry.record)
            delta = self._delta(entry.block) if entry.block else None
        except (CorruptBlock, msgspec.MsgspecError) as error:
            raise CorruptBlock(f"{self._directory / 'journal'}, byte {entry.start}: {error}") from None
        except SchemeMismatch as error:
            raise SchemeMismatch(f"{self._directory / 'journal'}: {error}") from None
        if delta is not None:
            self._dedup.restore(delta)
            newest = float(delta.signatures["time"].max()) if len(delta) else -np.inf
            self._commits.append(_Mark(entry.start, entry.end, newest, self._dedup.elapsed))
        if isinstance(record, Begin):
            self._begins.append(_Mark(entry.start, entry.end))
            self._enter(record)
        elif isinstance(record, Commit):
            self._at = record
        else:
            self._finished = True

    def _delta(self, of: bytes) -> Delta:
        return block.decode(of, self._dedup.scheme_id, self._dedup.scheme.signature_dtype, _INSTEAD)

    def _enter(self, run: Begin) -> None:
        self._run, self._at, self._finished = run, Commit(), False
        self.names |= {run.first + i: one.name for i, one in enumerate(run.sources)}

    # -- what is added to it -----------------------------------------------------------------------------

    def begin(self, run: Begin) -> None:
        """Names a new run; nothing of its outputs may be touched before."""
        self._drop_expired()
        self._journal.append(self._encode(run))
        for path in filter(None, (run.output, run.duplicates)):
            sync_directory(Path(path).parent)
        self._enter(run)

    def commit(self, at: Commit, delta: Delta) -> None:
        """The commit point: when this returns, the batch has happened."""
        self._journal.append(self._encode(at), block.encode(delta, self._dedup.scheme_id))

    def finish(self) -> None:
        self._journal.append(self._encode(Finish()))

    def _drop_expired(self) -> None:
        """Between two runs: drops the journal's beginning, as far as nothing in it can matter any more.

        A beginning, and not whatever expired: a block may forget what an earlier one added, so it must stay
        while that one does. The last block stays always, for its clock and watermark; and the Begin of the run in which
        the cut falls, for the names of its inputs.
        """
        if not self._commits:
            return
        held = (mark for mark in self._commits if self._dedup.may_hold(mark.newest, mark.elapsed))
        cut = next(held, self._commits[-1])
        begin = [mark for mark in self._begins if mark.start < cut.start][-1]
        spans = [(begin.start, begin.end), (cut.start, self._journal.size)]
        if sum(end - start for start, end in spans) <= _KEEP_AT_MOST * self._journal.size:
            self._journal.keep(spans)


def _describe(name: str) -> Source:
    if name == STDIN:
        return Source(STDIN, STDIN)
    status = Path(name).stat()
    path = _text(str(Path(name).resolve()))
    if not S_ISREG(status.st_mode):
        return Source(_text(name), path)
    return Source(_text(name), path, status.st_size, status.st_mtime_ns)


def _text(path: str) -> str:
    """A path as text, where a file system allows bytes that are none."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _is_same_file(before: Source, now: Source) -> bool:
    return before.size >= 0 and (before.path, before.size, before.modified) == (now.path, now.size, now.modified)


def _arguments(run: Begin) -> tuple[list[str], str, str, str]:
    return [one.path for one in run.sources], run.output, run.duplicates, run.form


def _command(run: Begin, directory: Path) -> str:
    names = [one.name for one in run.sources]
    options = {
        "--output": run.output, "--duplicates": run.duplicates, "--state": str(directory), "--format": run.form
    }  # fmt: skip
    given = [part for option, value in options.items() if value for part in (option, value)]
    return shlex.join(["stream-dedup", "filter", *names, *given])
