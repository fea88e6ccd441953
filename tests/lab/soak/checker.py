"""Prove from the topics alone that nothing was lost, repeated, or judged without a reason.

A `History` has every record of the input and of the three output topics, and the offsets in the changelog, as a
read_committed reader finds them when no worker runs. Each transaction writes a block to the changelog with the input
offsets after it, and these only grow. So the order of commits is known, and every outcome has a `moment`: the number
of its transaction in its task. tests/lab/model/outcomes.py defines which outcomes are right at a moment. The index is
compared with the originals that went out: an index that is restored from the changelog must find each of them by
fingerprint and by id, and nothing else.

An input that is deleted and created anew begins a new `Span`: its offsets start at 0 again. The records of a deleted
input that no commit reached need no outcome; the others do.
"""

import json
import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Kind
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings
from stream_dedup.tools.topics.headers import place_of
from stream_dedup.worker.outgoing import EVIDENCE, ORIGINAL, VERDICT
from tests.lab.model.broker import Committed
from tests.lab.model.items import Made, source_of
from tests.lab.model.log import Record
from tests.lab.model.outcomes import fate, header, verdicts

_PROBES = 2000  # judged at once


class Block(NamedTuple):
    """An entry of the changelog: the input offsets after its transaction."""

    after: Mapping[int, int]

    @property
    def progress(self) -> int:
        """Grows with every transaction of the task."""
        return sum(self.after.values())


@dataclass
class Span:
    """What came while the input was one topic: from its creation to its deletion, or to the end.

    `fed`: its records. `came`: topic -> outcomes of them. `blocks`: of each task (0 if there is one for all), from both
    of its changelog partitions, in any order.
    """

    fed: Sequence[Any]
    came: Mapping[str, Sequence[Any]]
    blocks: Mapping[int, Sequence[Block]]
    is_deleted: bool = False

    @cached_property
    def commits(self) -> dict[int, list[Block]]:
        """The transactions of each task in order: one block of each."""
        commits = {}
        for task, blocks in self.blocks.items():
            by_offsets = {tuple(sorted(one.after.items())): one for one in blocks}
            commits[task] = sorted(by_offsets.values(), key=lambda one: one.progress)
        return commits

    def ends(self, task: int, partition: int) -> list[int]:
        """The offset of the partition after each transaction of its task; it has none before its first one."""
        last, column = 0, []
        for block in self.commits.get(task, ()):
            last = block.after.get(partition, last)
            column.append(last)
        return column


class Refusal(NamedTuple):
    """How a worker must end that must not go on: with one of these errors, which names the place and the cure."""

    kinds: tuple[str, ...]
    place: str
    cures: tuple[str, ...]

    def check(self, error: Mapping[str, str]) -> list[str]:
        """Compare the error of a worker that has ended."""
        kind, text = error.get("kind"), error.get("error", "")
        if kind not in self.kinds:
            return [f"refusal: a worker ended with {kind}, not {' or '.join(self.kinds)}: {text}"]
        wrong = [] if self.place in text else [f"refusal: the error does not name {self.place}: {text}"]
        if not any(cure in text for cure in self.cures):
            wrong.append(f"refusal: the error names none of the cures {self.cures}: {text}")
        return wrong


@dataclass
class History:
    """What the topics hold, span by span.

    `cut`: task -> the span and the progress of the last of its transactions whose blocks were deleted.
    """

    settings: Settings
    spans: Sequence[Span]
    cut: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_split(self) -> bool:
        return self.settings.worker.scope == "partition"

    @cached_property
    def made(self) -> dict[int, Made]:
        """The input, numbered."""
        every = ((index, one) for index, span in enumerate(self.spans) for one in span.fed)
        return {number: _made(number, one, index) for number, (index, one) in enumerate(every)}

    @cached_property
    def numbers(self) -> dict[tuple[int, int, int], int]:
        """Span, partition and offset -> number."""
        return {one.place: number for number, one in self.made.items()}

    @cached_property
    def outcomes(self) -> dict[int, list[Committed]]:
        """Number -> outcomes, without strangers."""
        found: dict[int, list[Committed]] = defaultdict(list)
        for index, topic, one in self._came():
            place = (index, *place_of(one))
            number = self.numbers.get(place)
            if number is not None:
                record = Record(one.key, one.value, one.headers, one.timestamp)
                found[number].append(Committed(topic, one.partition, one.offset, record, self.moment(*place)))
        return found

    def _came(self) -> Iterator[tuple[int, str, Any]]:
        for index, span in enumerate(self.spans):
            for topic, records in span.came.items():
                for one in records:
                    yield index, topic, one

    @cached_property
    def strangers(self) -> list[str]:
        """Outcomes of records that were never committed to the input, or that name none."""
        return [
            f"aborted: {topic}/{one.partition}/{one.offset} comes from {place_of(one)}, where no record is"
            for index, topic, one in self._came()
            if (index, *place_of(one)) not in self.numbers
        ]

    @cached_property
    def unreached(self) -> set[int]:
        """The numbers of records that were deleted with their topic before a transaction reached them."""
        return {
            number
            for number, one in self.made.items()
            if self.spans[one.place[0]].is_deleted and not self._is_covered(one)
        }

    def task(self, partition: int) -> int:
        return partition if self.is_split else 0

    def moment(self, span: int, partition: int, offset: int) -> int:
        """The number of the transaction that has processed this place of the input."""
        return self._before(span, self.task(partition)) + bisect_right(self._ends[span, partition], offset)

    def _before(self, span: int, task: int) -> int:
        """The number of the task's transactions in earlier spans."""
        return sum(len(one.commits.get(task, ())) for one in self.spans[:span])

    def _is_covered(self, one: Made) -> bool:
        """Whether a transaction has processed the record."""
        ends = self._ends[one.place[:2]]
        return bool(ends) and one.place[2] < ends[-1]

    @cached_property
    def _ends(self) -> dict[tuple[int, int], list[int]]:
        """Span and partition -> its offset after each transaction of its task."""
        places = sorted({one.place[:2] for one in self.made.values()})
        return {(span, one): self.spans[span].ends(self.task(one), one) for span, one in places}

    def disorder(self) -> Iterator[str]:
        """Sentences about commits that no order explains."""
        for (_, partition), ends in self._ends.items():
            for before, after in pairwise(ends):
                if after < before:
                    yield f"order: the offset of partition {partition} went back from {before} to {after}"
        for number in self.outcomes:
            if not self._is_covered(self.made[number]):
                yield f"order: {self.made[number]} has an outcome, but no block of the changelog covers it"

    def original_of(self, came: Committed) -> Made | None:
        """The record that a verdict names. Records of several spans may have its place."""
        original = json.loads(header(came.record, EVIDENCE) or "{}").get("original") or {}
        known = self.at(original.get("partition", -1), original.get("offset", -1))
        if len(known) > 1:
            before = (
                one for one in known if any(out.moment <= came.moment for out in self.outcomes.get(one.number, ()))
            )
            named = [one for one in before if one.id == header(came.record, ORIGINAL)]
            known = named or known
        return next(iter(known), None)

    def at(self, partition: int, offset: int) -> list[Made]:
        """The records of the input at this place, of the last span first."""
        numbers = (self.numbers.get((span, partition, offset)) for span in reversed(range(len(self.spans))))
        return [self.made[number] for number in numbers if number is not None]

    @cached_property
    def forgettable(self) -> set[int]:
        """The numbers of originals whose blocks were deleted."""
        limits = {
            task: self._before(index, task)
            + sum(block.progress <= progress for block in self.spans[index].commits.get(task, ()))
            for task, (index, progress) in self.cut.items()
        }
        return {
            number
            for number, came in self.outcomes.items()
            if came[0].moment < limits.get(self.task(self.made[number].place[1]), 0)
        }

    def originals(self, task: int) -> dict[str, Made]:
        """Id -> the original that a task remembers in the end, according to what went out."""
        remembered: dict[str, Made] = {}
        let_through = sorted(
            (came[0].moment, self.made[number].place, number)
            for number, came in self.outcomes.items()
            if came[0].topic == self.settings.topics.output and self.task(self.made[number].place[1]) == task
        )
        for _, _, number in let_through:
            one, came = self.made[number], self.outcomes[number][0]
            verdict = header(came.record, VERDICT)
            if verdict == "tombstone":
                remembered.pop(one.id, None)
            elif verdict in ("unique", "update"):
                remembered[one.id] = one
        return remembered


@dataclass
class Report:
    """The result of a check. `violations`: sentences, the lost and the repeated included."""

    items: int = 0
    lost: int = 0
    repeated: int = 0
    violations: list[str] = field(default_factory=list)


def check(history: History) -> Report:
    """Check everything but the index."""
    made, outcomes, topics = history.made, history.outcomes, history.settings.topics
    lost = [made[number] for number in made if not outcomes.get(number) and number not in history.unreached]
    report = Report(len(made), len(lost), sum(len(came) > 1 for came in outcomes.values()))
    report.violations += [f"lost: {one} has no outcome" for one in lost]
    report.violations += history.strangers
    report.violations += history.disorder()
    for number, came in outcomes.items():
        report.violations += fate(made[number], came, topics.dead_letters)
    report.violations += verdicts(
        made, outcomes, topics.output, history.original_of,
        is_split=history.is_split, forgettable=history.forgettable,
    )  # fmt: skip
    return report


def check_index(history: History, dedup: Decider, task: int = 0) -> list[str]:
    """Compare an index that was restored from the changelog with the originals that went out.

    Each fingerprint and each id that ever came is probed: the index must name an original exactly if one is remembered.
    """
    remembered = history.originals(task)
    holders: dict[int, list[Made]] = defaultdict(list)
    for one in remembered.values():
        holders[one.fingerprint].append(one)
    seen = [one for one in history.made.values() if one.fingerprint and history.task(one.place[1]) == task]
    now = max((one.record.timestamp for one in seen), default=0)
    fingerprints = sorted({one.fingerprint for one in seen})
    names = sorted({one.id for one in seen})
    taken, chance = set(fingerprints), random.Random(len(seen))
    fresh = (value for value in iter(lambda: chance.getrandbits(63) | 1, 0) if value not in taken)
    by_fingerprint = [(f"probe-{n}", one, holders.get(one, [])) for n, one in enumerate(fingerprints)]
    by_id = [(name, next(fresh), [remembered[name]] if name in remembered else []) for name in names]
    wrong = []
    for probes, expected in ((by_fingerprint, Kind.DUPLICATE), (by_id, Kind.UPDATE)):
        for start in range(0, len(probes), _PROBES):
            some = probes[start : start + _PROBES]
            items = [Item(name, "", "", source_of(name), now, 0, 0, fingerprint=value) for name, value, _ in some]
            batch = dedup.judge(items)
            for (name, value, allowed), verdict in zip(some, batch.verdicts, strict=True):
                original = verdict.original
                if original is None or verdict.kind is Kind.UNIQUE:
                    if any(one.number not in history.forgettable for one in allowed):
                        wrong.append(f"index: it lacks {allowed[0]} (probe {name}, {value:016x})")
                elif verdict.kind is not expected or not any(
                    one.place[1:] == (original.partition, original.offset) for one in allowed
                ):
                    # Of a deleted block a merged one may be left, with an original that was replaced since.
                    known = history.at(original.partition, original.offset)
                    if not any(one.number in history.forgettable for one in known):
                        wrong.append(f"index: it remembers {original} (probe {name}, {value:016x}), not {allowed}")
    return wrong


def _made(number: int, record: Any, span: int) -> Made:
    """The truth about a record of the input."""
    fed = Record(record.key, record.value, record.headers, record.timestamp)
    place = (span, record.partition, record.offset)
    if record.value is None:
        return Made(number, fed, (record.key or b"").decode(), 0, "tombstone", place)
    try:
        fields = json.loads(record.value)
        return Made(number, fed, str(fields["id"]), int(fields.get("fp", "0"), 16), "item", place)
    except ValueError:
        return Made(number, fed, "", 0, "bad", place)
