"""A sample of decisions for a person to label: drawn once, stored in a directory, labelled at any time, resumable.

Decisions come from the topics of a worker (`from_kafka`) or the files of `filter` (`from_files`). A `Sample` is a
directory with

- `pairs.jsonl`: each pair with its two items as they were compared, the decision, and its weight;
- `labels.jsonl`: the labels, appended one by one; `evaluate --labels` reads them;
- `corpus.jsonl`: the records of the items, so that `evaluate` can judge them again under other settings;
- `drawn.json`: the options with which the pairs were drawn.

The pairs contain the original decisions, so precision and missed need no second run. From Kafka only items that were
held back can be drawn, because records in the output carry no evidence. From files the items are judged again, so
items that were let through beside a candidate are drawn too.

The sample is stratified: a stratum combines the deciding stage with the distance from its threshold. Decisions near a
threshold err most, so they are drawn more often and weigh less. The weighted sum over the sample is an unbiased
estimate of the sum over all decisions (Horvitz and Thompson 1952), whatever the allocation. Drawing takes one pass, and
memory for `count` decisions a stratum (reservoir sampling: Vitter 1985, algorithm R).
"""

import os
import random
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from math import sqrt
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Evidence, Kind, Stage
from stream_dedup.errors import InputError
from stream_dedup.files import replace_file
from stream_dedup.loose_json import decode_json
from stream_dedup.news.decode import Decoder
from stream_dedup.news.fields import paths_of
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.filter import LineJudge, batched
from stream_dedup.tools.evaluate.labels import NEW, NOTHING_NEW, Label, read_labels
from stream_dedup.tools.evaluate.rates import Judged
from stream_dedup.tools.inputs.file_format import FileFormat
from stream_dedup.tools.inputs.lines import Line, LineReader, item_of, read_lines
from stream_dedup.tools.topics.reader import TopicReader
from stream_dedup.tools.wording import NOT_ASKED, margin_of
from stream_dedup.worker.outgoing import EVIDENCE

T = TypeVar("T")
Place = tuple[int, int]  # partition and offset, or input and line
Report = Callable[[int], None]  # called with the number of decisions seen so far

SAME, DIFFERENT = "copy", "different"
_NO_LIMIT = 2**62  # ms: no date is in the future, because the sampled run has accepted it
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
# Distances that are "at" and "near" the threshold. The first is about the error of an estimate: .04 with 128 bins.
_AT, _NEAR = 0.05, 0.15
# Oversampling by distance from the threshold.
_FACTOR = {"at": 4.0, "near": 2.0, "clear": 1.0}
# Items let through are drawn half as often: one let through by mistake is read twice, one held back by mistake is lost.
_LET_THROUGH = 0.5
# At least two of each stratum: one alone says nothing about its variance.
_LEAST = 2


@dataclass(frozen=True, slots=True)
class Drawn(Generic[T]):
    """A drawn decision; it represents `weight` decisions of its stratum."""

    content: T
    decision: Mapping[str, Any]
    stratum: str
    weight: float


class Strata(Generic[T]):
    """Collects decisions one by one, then draws. Each stratum draws on its own, so the same decisions in the same order
    within each stratum, and the same `seed`, give the same sample.

    >>> strata = Strata[str](10, 1, Settings())
    >>> for n in range(50):
    ...     strata.add({"verdict": "duplicate", "stage": "exact"}, f"pair {n}")
    >>> drawn = strata.draw()
    >>> len(drawn), drawn[0].stratum, sum(one.weight for one in drawn)
    (10, 'exact, clear', 50.0)
    """

    def __init__(self, count: int, seed: int, settings: Settings) -> None:
        self._count, self._settings = count, settings
        self._seed = seed
        self._randoms: dict[str, random.Random] = {}
        self._sizes: dict[str, int] = {}
        self._kept: dict[str, list[tuple[Mapping[str, Any], T]]] = {}

    def __len__(self) -> int:
        """Return the number of decisions added."""
        return sum(self._sizes.values())

    def add(self, decision: Mapping[str, Any], content: T) -> None:
        """Add a decision. O(1)."""
        name = stratum_of(decision, self._settings)
        self._sizes[name] = size = self._sizes.get(name, 0) + 1
        kept = self._kept.setdefault(name, [])
        chance = self._randoms.setdefault(name, random.Random(f"{self._seed} {name}"))
        if len(kept) < self._count:
            kept.append((decision, content))
        elif (place := chance.randrange(size)) < self._count:
            kept[place] = (decision, content)

    def draw(self) -> list[Drawn[T]]:
        """Draw at most `count` decisions in random order, so that a part of them is still a sample of all strata."""
        chosen = []
        for name, number in allocate(dict(sorted(self._sizes.items())), self._count).items():
            weight = self._sizes[name] / number if number else 0.0
            for decision, content in self._randoms[name].sample(self._kept[name], number):
                chosen.append(Drawn(content, decision, name, weight))
        random.Random(self._seed).shuffle(chosen)
        return chosen


def allocate(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """Return how many decisions to draw from each stratum, at least two if `count` allows.

    The numbers are in proportion to the root of the stratum's size, times its oversampling factor.

    >>> allocate({"body, at": 100, "body, clear": 100, "exact, clear": 1}, 22)
    {'body, at': 17, 'body, clear': 4, 'exact, clear': 1}
    """
    shares = {name: _factor(name) * sqrt(size) for name, size in sizes.items()}
    numbers = dict.fromkeys(sizes, 0)
    for _ in range(min(count, sum(sizes.values()))):
        unfilled = [name for name in sizes if numbers[name] < sizes[name]]
        # Each stratum gets one, then a second one. Each further one goes to the stratum furthest below its share.
        numbers[min(unfilled, key=lambda name: (min(numbers[name], _LEAST), -shares[name] / (numbers[name] + 1)))] += 1
    return numbers


def _factor(name: str) -> float:
    stage, _, nearness = name.rpartition(", ")
    return _FACTOR[nearness] * (_LET_THROUGH if stage.startswith(Kind.UNIQUE) else 1.0)


def stratum_of(decision: Mapping[str, Any], settings: Settings) -> str:
    """Return the stratum of a decision: the stage, and the distance from the threshold.

    >>> stratum_of({"verdict": "duplicate", "stage": "body", "evidence": {"novelty": 0.37}}, Settings())
    'body, at'
    """
    margin = margin_of(decision, settings)
    nearness = "clear" if margin is None or abs(margin) >= _NEAR else "at" if abs(margin) < _AT else "near"
    kind = f"{decision['verdict']} " if decision["verdict"] != Kind.DUPLICATE else ""
    return f"{kind}{decision['stage']}, {nearness}"


# -- drawing ----------------------------------------------------------------------------------------------------------


class Pair(msgspec.Struct, frozen=True):
    """A pair to label, its items as they were compared."""

    earlier: Item
    later: Item
    decision: dict[str, Any]
    forward: bool  # whether the later one was let through
    stratum: str
    weight: float


class _Original(msgspec.Struct):
    """The part of a decision's `original` that is read. From Kafka it has a partition, from files a file's name."""

    offset: int
    partition: int = -1
    file: str = ""


class _Decision(msgspec.Struct):
    """The part of a decision that is read, in a header or a row of a duplicates file. The sample stores all of it."""

    verdict: Kind
    stage: Stage
    original: _Original | None = None
    evidence: Evidence | None = None
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What was drawn."""

    pairs: list[Pair]
    corpus: list[bytes]  # the records of the pairs' items, in order
    decisions: int  # how many were seen
    lost: int  # decisions whose original is gone


def from_kafka(settings: Settings, count: int, seed: int, report: Report = lambda seen: None) -> Found:
    """Draw from the duplicates topic, and read the originals at their offsets in the input topic."""
    topics, decode = settings.topics, Decoder(settings.item, settings.registry)
    strata, lost = Strata[tuple[Any, Place]](count, seed, settings), 0
    with TopicReader(settings) as reader:
        beginnings = reader.beginnings(topics.input)
        for seen, record in enumerate(reader.all(topics.duplicates), 1):
            decision = _decision(record) or {}
            original = decision.get("original")
            if not original or original["offset"] < beginnings.get(original.get("partition", -1), _NO_LIMIT):
                lost += 1
            else:
                strata.add(decision, (record, (original["partition"], original["offset"])))
            report(seen)
        drawn = strata.draw()
        originals = reader.at(topics.input, (draw.content[1] for draw in drawn))
    pairs, corpus = [], {}
    for draw in drawn:
        records = originals.get(draw.content[1]), draw.content[0]
        first, second = (r and decode(r.value, r.key, r.timestamp, r.partition, r.offset, r.headers) for r in records)
        if not (isinstance(first, Item) and isinstance(second, Item)):
            lost += 1
            continue
        pairs.append(Pair(first, second, dict(draw.decision), False, draw.stratum, draw.weight))
        for item, record in zip((first, second), records, strict=True):
            # In order of time, an original before its duplicates.
            corpus[item.time, item is second, item.id] = _as_line(record, item, settings)
    return Found(pairs, [corpus[key] for key in sorted(corpus)], len(strata), lost)


def _decision(record: Any) -> dict[str, Any] | None:
    value = next((value for name, value in reversed(record.headers) if name == EVIDENCE), None)
    try:
        return _checked(value) if value else None
    except _UNREADABLE:
        return None  # not written by stream_dedup


def _checked(value: bytes) -> dict[str, Any]:
    """Return the members of a JSON object that is a decision. Raises `_UNREADABLE`."""
    fields = msgspec.json.decode(value, type=dict[str, Any])
    msgspec.convert(fields, _Decision)
    return {"original": None} | fields


def _as_line(record: Any, item: Item, settings: Settings) -> bytes:
    """Return the record as a line with its id and time as fields, even if these came from key and timestamp.

    A source that only the envelope has becomes a field, too.
    """
    if settings.item.preset == "text":
        return msgspec.json.encode({"id": item.id, "text": item.text, "published": _iso(item.time)})
    found = Decoder(settings.item, settings.registry).read(record.value, record.headers)
    fields = decode_json(found.value.removeprefix(BOM_UTF8))
    paths = paths_of(settings.item, found.shape)
    lent = [("source", item.source)] if "source" in found.lent else []
    for name, content in (("id", item.id), ("published", _iso(item.time) if item.time >= 0 else None), *lent):
        parent = fields
        *outer, last = paths[name][0]
        for part in outer:
            parent = parent.setdefault(part, {}) if isinstance(parent, dict) else {}
        if isinstance(parent, dict):
            parent[last] = content
    return msgspec.json.encode(fields)


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def from_files(
    names: Sequence[str],
    duplicates: Path | None,
    settings: Settings,
    count: int,
    seed: int,
    report: Report = lambda seen: None,
    file_format: FileFormat | None = None,
) -> Found:
    """Draw items held back and let through, from files in the order of arrival.

    The inputs are judged here. With the `duplicates` file of a `filter` run, what it holds back is drawn.
    """
    strata, lost = Strata[tuple[Place, Place, bool]](count, seed, settings), 0
    if duplicates is not None:
        lost = _add_held(strata, duplicates, names)
    seen = 0
    with closing(Decider(settings)) as dedup:
        judge = LineJudge(dedup, _NO_LIMIT)
        judge.look_ahead(names)
        for lines in batched(LineReader(names, file_format, query=settings.item.query), settings):
            batch = judge.judge(lines)
            dedup.apply(batch)
            for line, verdict in zip(lines, batch.verdicts, strict=True):
                compared, passes = verdict.compared, verdict.kind in (Kind.UNIQUE, Kind.UPDATE) and verdict.forward
                is_drawn = passes or (duplicates is None and not verdict.forward)
                if compared and is_drawn and compared.id != verdict.id:  # labels name items by their ids
                    places = (compared.partition, compared.offset), (line.input, line.number)
                    strata.add(verdict.as_json(), (*places, passes))
            report(seen := seen + len(lines))
    return _with_items(names, strata.draw(), settings, len(strata), lost, file_format)


def _add_held(strata: Strata[tuple[Place, Place, bool]], duplicates: Path, names: Sequence[str]) -> int:
    """Add the items held back by a `filter` run; return how many have an original of an earlier run."""
    numbers, lost = {str(Path(name).resolve()): number for number, name in enumerate(names)}, 0
    for row in map(_row, read_lines(duplicates)):
        if row["verdict"] == Kind.BAD or not row["original"]:
            continue
        later, earlier = (
            numbers.get(str(Path(reference.get("file", "")).resolve())) for reference in (row, row["original"])
        )
        if later is None:
            raise InputError(f"{duplicates} speaks of {row.get('file')}; name it with --input")
        if earlier is None:  # from an earlier run with the same state
            lost += 1
        else:
            strata.add(row, ((earlier, row["original"]["offset"]), (later, row.get("line", 0)), False))
    return lost


def _row(line: bytes) -> dict[str, Any]:
    try:
        return _checked(line)
    except _UNREADABLE as error:
        raise InputError(f"no row of a duplicates file: {error}") from None


def _with_items(
    inputs: Sequence[str],
    drawn: list[Drawn[tuple[Place, Place, bool]]],
    settings: Settings,
    decisions: int,
    lost: int,
    file_format: FileFormat | None,
) -> Found:
    wanted = {place for draw in drawn for place in draw.content[:2]}
    read = (((line.input, line.number), line) for line in LineReader(inputs, file_format, query=settings.item.query))
    lines = {place: line for place, line in read if place in wanted}
    decode = Decoder(settings.item)
    pairs = []
    for draw in drawn:
        first, second = (item_of(decode, lines.get(place, Line(b"", *place))) for place in draw.content[:2])
        if not (isinstance(first, Item) and isinstance(second, Item)) or second.id != draw.decision["id"]:
            raise InputError("the inputs are not those that were filtered: a line that was drawn has changed")
        pairs.append(Pair(first, second, dict(draw.decision), draw.content[2], draw.stratum, draw.weight))
    return Found(pairs, [lines[place].value for place in sorted(lines)], decisions, lost)


# -- the directory ----------------------------------------------------------------------------------------------------


class Sample:
    """The sample in a directory; `add` appends labels. Raises InputError if a file cannot be read or written."""

    def __init__(self, directory: Path) -> None:
        self._labels_path = directory / "labels.jsonl"
        self.pairs = _read_pairs(directory / "pairs.jsonl")
        _remove_partial_line(self._labels_path)
        self.labels = read_labels(self._labels_path) if self._labels_path.exists() else []
        for label, pair in zip(self.labels, self.pairs, strict=False):
            if (label.earlier, label.later) != (pair.earlier.id, pair.later.id):
                raise InputError(
                    f"{self._labels_path}: the labels must be in the order of the pairs; delete the line of "
                    f"{label.later} and those after it"
                )

    @staticmethod
    def exists(directory: Path) -> bool:
        return (directory / "pairs.jsonl").exists()

    @staticmethod
    def write(
        directory: Path, pairs: Sequence[Pair], corpus: Sequence[bytes], drawn: Mapping[str, Any] | None = None
    ) -> None:
        """Write a new sample. `drawn`: the options with which it was drawn, as plain values.

        The pairs are written last and atomically: without them there is no sample.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
            replace_file(directory / "corpus.jsonl", (line + b"\n" for line in corpus))
            replace_file(directory / "drawn.json", [msgspec.json.encode(drawn or {}), b"\n"])
            replace_file(directory / "pairs.jsonl", (msgspec.json.encode(pair) + b"\n" for pair in pairs))
        except OSError as error:
            raise InputError(f"cannot write the sample to {directory}: {error.strerror}") from None

    @staticmethod
    def drawn_with(directory: Path) -> dict[str, Any]:
        """Return the options of `write`."""
        path = directory / "drawn.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.MsgspecError) as error:
            raise InputError(
                f"cannot read {path}: {error}; it names the options with which the pairs were drawn"
            ) from None

    def open_pairs(self) -> list[Pair]:
        """Return the pairs without a label, in the order of the sample. Labels have the same order."""
        return self.pairs[len(self.labels) :]

    def add(self, pair: Pair, same: bool, new: bool, unsure: bool) -> None:
        """Append a label, and return when it is on the disk."""
        words = SAME if same else DIFFERENT, NEW if new else NOTHING_NEW
        label = Label(pair.earlier.id, pair.later.id, words[0], pair.weight, unsure, words[1])
        known = {name: value for name, value in msgspec.structs.asdict(label).items() if value is not None}
        try:
            with self._labels_path.open("ab") as file:
                file.write(msgspec.json.encode(known) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"cannot write {self._labels_path}: {error.strerror}") from None
        self.labels.append(label)

    def judged(self) -> list[Judged]:
        """Return the labelled pairs with their decisions.

        Precision and missed are estimates for all decisions of the sampled run. Recall and repeated are not: the sample
        contains only articles that were held back, or let through with evidence.
        """
        found = []
        for pair, label in zip(self.pairs, self.labels, strict=False):
            decision, held = pair.decision, not pair.forward
            novelty = None if decision["stage"] in NOT_ASKED else (decision.get("evidence") or {}).get("novelty")
            is_found = held or decision["verdict"] == Kind.UPDATE
            found.append(Judged(label, held, is_found, novelty, label.earlier, pair.later.source))
        return found


def _read_pairs(path: Path) -> list[Pair]:
    decode = msgspec.json.Decoder(Pair).decode
    try:
        pairs = [decode(line) for line in path.read_bytes().splitlines()]
        for pair in pairs:
            msgspec.convert(pair.decision, _Decision)
        return pairs
    except OSError as error:
        raise InputError(f"cannot read the sample {path}: {error.strerror}") from None
    except _UNREADABLE as error:
        raise InputError(f"{path} is no sample: {error}") from None


def _remove_partial_line(path: Path) -> None:
    """Remove an incomplete last line, which a killed process may have left."""
    if path.exists():
        whole, newline, _ = path.read_bytes().rpartition(b"\n")
        if path.stat().st_size != len(whole) + len(newline):
            replace_file(path, [whole, newline])
