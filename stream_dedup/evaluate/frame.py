"""Collect the decisions to sample, with their items, from the topics of a worker or the files of `filter`.

In: settings, and files or Kafka. Out: `Pair`s with their items, the records of both, and the number of decisions that
could not be drawn because their original is gone. From Kafka only items that were held back can be drawn, since records
in the output carry no evidence. From files the items are judged again, so those let through beside a candidate are
drawn too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from stream_dedup.batch.judge import LineJudge, batched, item_of
from stream_dedup.batch.lines import Line, LineReader, read_lines
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Evidence, Kind, Stage, Verdict
from stream_dedup.errors import InputError
from stream_dedup.evaluate.sample import Pair, pair_of
from stream_dedup.evaluate.strata import Drawn, Strata
from stream_dedup.kafka.reader import TopicReader
from stream_dedup.news.decode import Decoder
from stream_dedup.news.fields import BOM, paths_of
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings
from stream_dedup.worker.records import EVIDENCE

Place = tuple[int, int]  # partition and offset, or input and line
Report = Callable[[int], None]  # called with the number of decisions seen so far
_NO_LIMIT = 2**62  # ms: no date counts as in the future, since the sampled run has accepted it


@dataclass(frozen=True, slots=True)
class Found:
    """The drawn pairs. `corpus`: the records of their items in order. `lost`: decisions whose original is gone."""

    pairs: list[Pair]
    corpus: list[bytes]
    decisions: int
    lost: int


def from_kafka(settings: Settings, count: int, seed: int, report: Report = lambda seen: None) -> Found:
    """Draw from the duplicates topic, and read the originals at their offsets in the input topic."""
    topics, decode = settings.topics, Decoder(settings.item)
    strata, lost = Strata[tuple[Any, Place]](count, seed, settings), 0
    with TopicReader(settings) as reader:
        beginnings = reader.beginnings(topics.input)
        for seen, record in enumerate(reader.all(topics.duplicates), 1):
            decision = _decision(record)
            original = decision and decision["original"]
            if (
                decision is None
                or not original
                or original["offset"] < beginnings.get(original["partition"], _NO_LIMIT)
            ):
                lost += 1
            else:
                strata.add(decision, (record, (original["partition"], original["offset"])))
            report(seen)
        drawn = strata.draw()
        originals = reader.at(topics.input, (draw.what[1] for draw in drawn))
    pairs, corpus = [], {}
    for draw in drawn:
        records = originals.get(draw.what[1]), draw.what[0]
        first, second = (r and decode(r.value, r.key, r.timestamp, r.partition, r.offset) for r in records)
        if not (isinstance(first, Item) and isinstance(second, Item)):
            lost += 1
            continue
        pairs.append(pair_of(draw, first, second, forward=False))
        for item, record in zip((first, second), records, strict=True):
            # In order of time, an original before its duplicates.
            corpus[item.time, item is second, item.id] = _as_line(record.value, item, settings)
    return Found(pairs, [corpus[key] for key in sorted(corpus)], len(strata), lost)


class _Place(msgspec.Struct):
    """What is read of `original` in the decision about a record."""

    partition: int
    offset: int


class _Decision(msgspec.Struct):
    """What is read of a decision; the whole of it goes into the sample."""

    verdict: Kind
    stage: Stage
    original: _Place | None
    evidence: Evidence | None = None


class _LineOfFile(msgspec.Struct):
    """What is read of `original` in a row of a duplicates file."""

    file: str
    offset: int


class _FileRow(msgspec.Struct):
    """What is read of a row of a duplicates file."""

    verdict: Kind
    stage: Stage
    original: _LineOfFile | None
    file: str
    line: int
    evidence: Evidence | None = None


_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _decision(record: Any) -> dict[str, Any] | None:
    value = next((value for name, value in reversed(record.headers) if name == EVIDENCE), None)
    try:
        return _checked(value, _Decision) if value else None
    except _UNREADABLE:
        return None  # not written by stream_dedup


def _checked(value: bytes, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The members of a JSON object that has those of `kind`. Raises `_UNREADABLE`."""
    fields = msgspec.json.decode(value, type=dict[str, Any])
    msgspec.convert(fields, kind)
    return fields


def _as_line(value: bytes, item: Item, settings: Settings) -> bytes:
    """Return the record as a line that contains id and time, which came from key and timestamp, as fields."""
    if settings.item.format == "text":
        return msgspec.json.encode({"id": item.id, "text": item.text, "published": _iso(item.time)})
    fields = msgspec.json.decode(value.removeprefix(BOM))
    paths = paths_of(settings.item, Decoder(settings.item).read(value).shape)
    for name, content in (("id", item.id), ("published", _iso(item.time))):
        at = fields
        *outer, last = paths[name][0]
        for part in outer:
            at = at.setdefault(part, {}) if isinstance(at, dict) else {}
        if isinstance(at, dict):
            at[last] = content
    return msgspec.json.encode(fields)


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def from_files(
    inputs: list[Path], duplicates: Path, settings: Settings, count: int, seed: int, report: Report = lambda seen: None
) -> Found:
    """Draw items held back from a duplicates file of `filter`, and items let through from its inputs.

    The inputs are read in the order in which `filter` reads them.
    """
    names = [str(path) for path in inputs]
    numbers = {str(Path(name).resolve()): number for number, name in enumerate(names)}
    strata, lost = Strata[tuple[Place, Place, bool]](count, seed, settings), 0
    for row in map(_row, read_lines(duplicates)):
        if row["verdict"] == Kind.BAD or not row["original"]:
            continue
        later, earlier = (numbers.get(str(Path(reference["file"]).resolve())) for reference in (row, row["original"]))
        if later is None:
            raise InputError(f"{duplicates} speaks of {row['file']}; name it with --input")
        if earlier is None:  # from an earlier run with the same state
            lost += 1
        else:
            strata.add(row, ((earlier, row["original"]["offset"]), (later, row["line"]), False))
    for seen, (line, decision) in enumerate(_let_through(names, settings), 1):
        if decision is not None:
            original = decision["original"]
            strata.add(decision, ((original["partition"], original["offset"]), (line.input, line.number), True))
        report(seen)
    return _with_items(names, strata.draw(), settings, len(strata), lost)


def _row(line: bytes) -> dict[str, Any]:
    try:
        return _checked(line, _FileRow)
    except _UNREADABLE as error:
        raise InputError(f"no row of a duplicates file: {error}") from None


def _let_through(inputs: Sequence[str], settings: Settings) -> Iterator[tuple[Line, Mapping[str, Any] | None]]:
    """Yield each line, with the decision if it was let through beside a near candidate."""
    with closing(Deduplicator(settings)) as dedup:
        judge = LineJudge(dedup, _NO_LIMIT)
        for lines in batched(LineReader(inputs, None), settings):
            batch = judge.judge(lines)
            dedup.apply(batch)
            for line, verdict in zip(lines, batch.verdicts, strict=True):
                yield line, verdict.as_json() if _has_near_candidate(verdict) else None


def _has_near_candidate(verdict: Verdict) -> bool:
    """Whether the item was let through beside a candidate; new versions of an id are not compared."""
    original = verdict.original
    return (
        verdict.kind in (Kind.UNIQUE, Kind.UPDATE)
        and verdict.forward
        and original is not None
        and (original.id != verdict.id)
    )


def _with_items(
    inputs: Sequence[str], drawn: list[Drawn[tuple[Place, Place, bool]]], settings: Settings, decisions: int, lost: int
) -> Found:
    wanted = {place for draw in drawn for place in draw.what[:2]}
    read = (((line.input, line.number), line) for line in LineReader(inputs, None))
    lines = {place: line for place, line in read if place in wanted}
    decode = Decoder(settings.item)
    pairs = []
    for draw in drawn:
        first, second = (item_of(decode, lines.get(place, Line(b"", *place))) for place in draw.what[:2])
        if not (isinstance(first, Item) and isinstance(second, Item)) or second.id != draw.decision["id"]:
            raise InputError("the inputs are not those that were filtered: a line that was drawn has changed")
        pairs.append(pair_of(draw, first, second, draw.what[2]))
    return Found(pairs, [lines[place].value for place in sorted(lines)], decisions, lost)
