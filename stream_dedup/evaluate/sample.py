"""A sample of pairs for a person to label, on the disk: drawn once, labelled at any time, gone on with after a stop.

A directory holds it:

- `pairs.jsonl`: each pair with its two items as they were compared, what was decided, and its weight;
- `labels.jsonl`: what the person said, a line each, appended as it is said; `evaluate --labels` reads it;
- `corpus.jsonl`: the items' records, for `evaluate` to judge anew under other settings.

What was really decided stands in the pairs, so precision and missed need no second judging.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.errors import InputError
from stream_dedup.evaluate.labels import NEW, NOTHING_NEW, Agreement, Label, agreement, read_labels
from stream_dedup.evaluate.novelty import Rates, counts, rates
from stream_dedup.evaluate.strata import Drawn
from stream_dedup.news.item import Item

SAME, DIFFERENT = "copy", "different"


class Side(msgspec.Struct, frozen=True):
    """An item as it was compared."""

    id: str
    title: str
    text: str
    source: str
    time: int

    @classmethod
    def of(cls, item: Item) -> "Side":
        return cls(item.id, item.title, item.text, item.source, item.time)


class Pair(msgspec.Struct, frozen=True):
    """A pair to label. `forward`: the later item was let through."""

    earlier: Side
    later: Side
    decision: dict[str, Any]
    forward: bool
    stratum: str
    weight: float


class Sample:
    """The sample in a directory; `labels` grow by `add`. Raises InputError where a file cannot be read or written."""

    def __init__(self, directory: Path) -> None:
        self._labels_path = directory / "labels.jsonl"
        self.pairs = _read_pairs(directory / "pairs.jsonl")
        _cut_half_a_line(self._labels_path)
        self.labels = read_labels(self._labels_path) if self._labels_path.exists() else []

    @staticmethod
    def exists(directory: Path) -> bool:
        return (directory / "pairs.jsonl").exists()

    @staticmethod
    def write(directory: Path, pairs: Sequence[Pair], corpus: Sequence[bytes]) -> None:
        """A new sample; the pairs come last, at once, so that half a sample is none."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "corpus.jsonl").write_bytes(b"".join(line + b"\n" for line in corpus))
            part = directory / ".pairs.jsonl.part"
            part.write_bytes(b"".join(msgspec.json.encode(pair) + b"\n" for pair in pairs))
            part.replace(directory / "pairs.jsonl")
        except OSError as error:
            raise InputError(f"cannot write the sample to {directory}: {error.strerror}") from None

    def open_pairs(self) -> list[Pair]:
        """Those without a label, in the sample's order."""
        done = {(label.earlier, label.later) for label in self.labels}
        return [pair for pair in self.pairs if (pair.earlier.id, pair.later.id) not in done]

    def add(self, pair: Pair, same: bool, new: bool, unsure: bool) -> None:
        """A person's word; on the disk when this returns."""
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

    def agreement(self) -> Agreement | None:
        """Of the labels so far with what was decided; None: there are none.

        Its precision is that of all decisions the sample was drawn from. Its recall counts only what the sample can
        see: of same articles those held back, or let through with evidence.
        """
        decided = {pair.later.id: _verdict(pair) for pair in self.pairs}
        labels = [label for label in self.labels if label.later in decided]
        return agreement(labels, decided) if labels else None

    def novelty(self) -> Rates:
        """Missed, of the labels so far that say what is new; its repeated counts only what the sample can see."""
        decided = {pair.later.id: pair for pair in self.pairs}
        labels = [label for label in self.labels if label.later in decided and counts(label)]
        pairs = [decided[label.later] for label in labels]
        sites = [pair.later.source or f"id {pair.later.id}" for pair in pairs]
        return rates(labels, [not pair.forward for pair in pairs], sites)


def pair_of(drawn: Drawn[Any], earlier: Item, later: Item, forward: bool) -> Pair:
    """The pair of a decision drawn, its two items found."""
    return Pair(Side.of(earlier), Side.of(later), dict(drawn.decision), forward, drawn.stratum, drawn.weight)


def _verdict(pair: Pair) -> Verdict:
    decision = pair.decision
    return Verdict(pair.later.id, Kind(decision["verdict"]), Stage(decision["stage"]), pair.forward)


def _read_pairs(path: Path) -> list[Pair]:
    decode = msgspec.json.Decoder(Pair).decode
    try:
        return [decode(line) for line in path.read_bytes().splitlines()]
    except OSError as error:
        raise InputError(f"cannot read the sample {path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise InputError(f"{path} is no sample: {error}") from None


def _cut_half_a_line(path: Path) -> None:
    """A kill may have left half of the last label."""
    if path.exists():
        whole, newline, _ = path.read_bytes().rpartition(b"\n")
        if path.stat().st_size != len(whole) + len(newline):
            path.write_bytes(whole + newline)
