"""A sample of pairs for a person to label, stored in a directory: drawn once, labelled at any time, resumable.

The directory holds:

- `pairs.jsonl`: each pair with its two items as they were compared, the decision, and its weight;
- `labels.jsonl`: the labels, appended one by one; `evaluate --labels` reads them;
- `corpus.jsonl`: the records of the items, so that `evaluate` can judge them again under other settings;
- `drawn.json`: the options with which the pairs were drawn.

The pairs contain the original decisions, so precision and missed need no second run.
"""

import os
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from stream_dedup.dedup.verdict import Evidence, Kind, Stage
from stream_dedup.errors import InputError
from stream_dedup.evaluate.advice import Advice, advise
from stream_dedup.evaluate.labels import NEW, NOTHING_NEW, Agreement, Label, compare, read_labels
from stream_dedup.evaluate.novelty import NOT_ASKED, Rates, counts, rates
from stream_dedup.evaluate.strata import Drawn
from stream_dedup.news.item import Item

SAME, DIFFERENT = "copy", "different"
_DRAWN = "drawn.json"


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
    """A pair to label. `forward`: whether the later item was let through."""

    earlier: Side
    later: Side
    decision: dict[str, Any]
    forward: bool
    stratum: str
    weight: float


class _Decision(msgspec.Struct):
    """What `Sample` needs of a pair's decision."""

    verdict: Kind
    stage: Stage
    evidence: Evidence | None = None


class Sample:
    """The sample in a directory; `add` appends labels. Raises InputError if a file cannot be read or written."""

    def __init__(self, directory: Path) -> None:
        self._labels_path = directory / "labels.jsonl"
        self.pairs = _read_pairs(directory / "pairs.jsonl")
        _remove_partial_line(self._labels_path)
        self.labels = read_labels(self._labels_path) if self._labels_path.exists() else []

    @staticmethod
    def exists(directory: Path) -> bool:
        return (directory / "pairs.jsonl").exists()

    @staticmethod
    def write(
        directory: Path, pairs: Sequence[Pair], corpus: Sequence[bytes], drawn: Mapping[str, Any] | None = None
    ) -> None:
        """Write a new sample, drawn with these options (plain values).

        The pairs are written last and atomically: without them there is no sample.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "corpus.jsonl").write_bytes(b"".join(line + b"\n" for line in corpus))
            (directory / _DRAWN).write_bytes(msgspec.json.encode(drawn or {}) + b"\n")
            part = directory / ".pairs.jsonl.part"
            part.write_bytes(b"".join(msgspec.json.encode(pair) + b"\n" for pair in pairs))
            part.replace(directory / "pairs.jsonl")
        except OSError as error:
            raise InputError(f"cannot write the sample to {directory}: {error.strerror}") from None

    @staticmethod
    def drawn_with(directory: Path) -> dict[str, Any]:
        """Return the options of `write`; empty if a former version wrote the sample."""
        path = directory / _DRAWN
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, Any]) if path.exists() else {}
        except (OSError, msgspec.MsgspecError) as error:
            raise InputError(
                f"cannot read {path}: {error}; it names the options with which the pairs were drawn"
            ) from None

    def open_pairs(self) -> list[Pair]:
        """Return the pairs without a label, in the order of the sample."""
        return self._match()[1]

    def _match(self) -> tuple[list[tuple[Label, Pair]], list[Pair]]:
        """Return the labels with their pairs, and the pairs without a label.

        Two items may be drawn more than once, for each delivery of the later one: the n-th label of two ids is that of
        their n-th pair.
        """
        waiting: dict[tuple[str, str], deque[Label]] = defaultdict(deque)
        for label in self.labels:
            waiting[label.earlier, label.later].append(label)
        labelled, unlabelled = [], []
        for pair in self.pairs:
            if labels := waiting[pair.earlier.id, pair.later.id]:
                labelled.append((labels.popleft(), pair))
            else:
                unlabelled.append(pair)
        return labelled, unlabelled

    def add(self, pair: Pair, same: bool, new: bool, unsure: bool) -> None:
        """Append a label; it is on the disk when this returns."""
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
        """Compare the labels so far with the decisions; None without labels.

        The precision is an estimate for all decisions of the sampled run. The recall covers only what the sample can
        contain: of the same articles those held back, or let through with evidence.
        """
        labelled, _ = self._match()
        found = [not pair.forward or pair.decision["verdict"] == Kind.UPDATE for _, pair in labelled]
        return compare([label for label, _ in labelled], found) if labelled else None

    def novelty(self) -> Rates:
        """Compute missed from the labels so far; repeated covers only what the sample can contain."""
        _, labels, held, sites = self._counted()
        return rates(labels, held, sites)

    def advice(self, present: float) -> Advice:
        """Recommend a value of `decision.novelty` from the labels so far; present: the setting."""
        pairs, labels, held, sites = self._counted()
        novelty = [
            None if pair.decision["stage"] in NOT_ASKED else (pair.decision.get("evidence") or {}).get("novelty")
            for pair in pairs
        ]
        return advise(labels, novelty, held, sites, present)

    def _counted(self) -> tuple[list[Pair], list[Label], list[bool], list[str]]:
        """Return the pairs that count for the second question, with label, whether held back, and site."""
        found = [(pair, label) for label, pair in self._match()[0] if counts(label)]
        pairs, labels = [pair for pair, _ in found], [label for _, label in found]
        sites = [pair.later.source or f"id {pair.later.id}" for pair in pairs]
        return pairs, labels, [not pair.forward for pair in pairs], sites


def pair_of(drawn: Drawn[Any], earlier: Item, later: Item, forward: bool) -> Pair:
    """Make the pair of a drawn decision and its two items."""
    return Pair(Side.of(earlier), Side.of(later), dict(drawn.decision), forward, drawn.stratum, drawn.weight)


def _read_pairs(path: Path) -> list[Pair]:
    decode = msgspec.json.Decoder(Pair).decode
    try:
        pairs = [decode(line) for line in path.read_bytes().splitlines()]
        for pair in pairs:
            msgspec.convert(pair.decision, _Decision)
        return pairs
    except OSError as error:
        raise InputError(f"cannot read the sample {path}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path} is no sample: {error}") from None


def _remove_partial_line(path: Path) -> None:
    """Remove a last line without a newline, which a killed process may have left."""
    if path.exists():
        whole, newline, _ = path.read_bytes().rpartition(b"\n")
        if path.stat().st_size != len(whole) + len(newline):
            path.write_bytes(whole + newline)
