"""The checker finds each planted violation, and none in a run without faults: it must not be silent."""

import copy
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Kind
from stream_dedup.kafka.topics import Topic
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import Settings
from stream_dedup.tools.topics.headers import place_of
from stream_dedup.worker.outgoing import OutgoingRecords
from tests.lab.model.items import Made, Source
from tests.lab.soak.checker import Block, History, Refusal, Span, check, check_index
from tests.lab.soak.stage import settings_of

PARTITIONS, BATCH, ITEMS = 3, 40, 1000


@dataclass
class Case:
    """A run without faults: what the topics hold, and the index."""

    settings: Settings
    fed: list[Any]
    came: dict[str, list[Any]]
    blocks: list[Block]
    dedup: Decider

    def history(self, **more: Any) -> History:
        """What a reader finds, partition by partition: the order across them is lost."""
        fed = sorted(self.fed, key=lambda one: (one.partition, one.offset))
        return History(self.settings, [Span(fed, self.came, {0: self.blocks})], **more)

    def records(self, role: str) -> list[Any]:
        """What came to the topic with this role: output, duplicates or dead_letters."""
        return self.came[getattr(self.settings.topics, role)]

    def duplicate(self, nth: int = 5) -> Any:
        """The n-th record that was held back as a duplicate."""
        return [one for one in self.records("duplicates") if ("dedup-verdict", b"duplicate") in one.headers][nth]

    def original(self, record: Any) -> Any:
        """The record of the input that the verdict names."""
        evidence = next(json.loads(value)["original"] for name, value in record.headers if name == "dedup-evidence")
        return next(
            one for one in self.fed if (one.partition, one.offset) == (evidence["partition"], evidence["offset"])
        )

    def outcome_of(self, fed: Any) -> Any:
        every = (one for records in self.came.values() for one in records)
        return next(one for one in every if place_of(one) == (fed.partition, fed.offset))


def copied(case: Case) -> Case:
    fed, came, blocks = copy.deepcopy((case.fed, case.came, case.blocks))
    return replace(case, fed=fed, came=came, blocks=blocks)


@pytest.fixture
def case(undamaged: Case) -> Case:
    return copied(undamaged)


@pytest.fixture(scope="module")
def undamaged() -> Iterator[Case]:
    source = Source(random.Random(3), wild=0.0, updates=0.05)
    made = run(settings_of("127.0.0.1:9", "global", "planted"), source.make, ITEMS)
    yield made
    made.dedup.close()


def run(settings: Settings, make: Callable[[int], Made], count: int) -> Case:
    """Judge records in batches, as a worker without faults."""
    topics = settings.topics
    names = [topics.input, topics.output, topics.duplicates, topics.dead_letters]
    dedup, decode = Decider(settings), Decoder(settings.item)
    router = OutgoingRecords(settings, dict.fromkeys(names, Topic(PARTITIONS, {})), dedup.scheme_id)
    ends = dict.fromkeys(range(PARTITIONS), 0)
    fed: list[Any] = []
    came: dict[str, list[Any]] = defaultdict(list)
    blocks: list[Block] = []
    for _ in range(0, count, BATCH):
        some = []
        for _ in range(BATCH):
            made = make(int(time.time() * 1000))
            partition = sum(made.id.encode()) % PARTITIONS
            record = SimpleNamespace(**made.record._asdict(), topic=topics.input, partition=partition)
            record.offset, ends[partition] = ends[partition], ends[partition] + 1
            some.append(record)
        items = [decode(one.value, one.key, one.timestamp, one.partition, one.offset) for one in some]
        batch = dedup.judge(items)
        for i, (record, verdict) in enumerate(zip(some, batch.verdicts, strict=True)):
            for out in router.of(record, verdict, i):
                came[out.topic].append(SimpleNamespace(**structs.asdict(out), offset=len(came[out.topic])))
        dedup.apply(batch)
        fed += some
        blocks.append(Block(dict(ends)))
    return Case(settings, fed, dict(came), blocks, dedup)


def kinds(violations: list[str]) -> set[str]:
    return {violation.partition(":")[0] for violation in violations}


def test_a_run_without_faults_is_clean(case: Case) -> None:
    report = check(case.history())
    assert (report.items, report.lost, report.repeated, report.violations) == (len(case.fed), 0, 0, [])
    assert check_index(case.history(), case.dedup) == []
    verdicts = {value for records in case.came.values() for one in records for name, value in one.headers
                if name == "dedup-verdict"}  # fmt: skip
    assert verdicts == {str(kind).encode() for kind in Kind}, "every kind of verdict occurs"


def uncommitted_original(case: Case) -> None:
    """The original's transaction was aborted: neither it nor its record came out."""
    case.records("output").remove(case.outcome_of(case.original(case.duplicate())))


def later_original(case: Case) -> None:
    """The original was committed after the verdict that names it."""
    held_back = next(
        one for one in case.records("duplicates")
        if case.original(one).partition != place_of(one)[0] and _moment(case, *place_of(one)) < len(case.blocks) - 3
    )  # fmt: skip
    original = case.original(held_back)
    for i, block in enumerate(case.blocks):
        if i <= _moment(case, *place_of(held_back)):
            after = min(block.after[original.partition], original.offset)
            case.blocks[i] = Block({**block.after, original.partition: after})


def other_article(case: Case) -> None:
    held_back, other = case.duplicate(20), case.duplicate(0)
    theirs = next(pair for pair in other.headers if pair[0] == "dedup-evidence")
    held_back.headers = [theirs if name == "dedup-evidence" else (name, value) for name, value in held_back.headers]


def known_but_unique(case: Case) -> None:
    """A copy was let through, as by an index that had lost its original."""
    known = next(
        one for one in case.records("duplicates")
        if _moment(case, *place_of(one)) > _moment(case, case.original(one).partition, case.original(one).offset)
    )  # fmt: skip
    case.records("duplicates").remove(known)
    known.headers = [
        (name, b"unique" if name == "dedup-verdict" else value)
        for name, value in known.headers
        if name not in ("dedup-evidence", "dedup-original")
    ]
    case.records("output").append(known)


def go_back(case: Case) -> None:
    block = case.blocks[5]
    last = case.blocks[-1].after
    case.blocks.append(Block({**last, 0: block.after[0], 1: last[1] + last[0]}))


PLANTS: list[tuple[Callable[[Case], object], str]] = [
    (lambda case: case.records("duplicates").pop(7), "lost"),
    (lambda case: case.records("duplicates").append(case.records("output")[3]), "twice"),
    (lambda case: case.fed.pop(10), "aborted"),  # its record is aborted, but has an outcome
    (uncommitted_original, "original"),
    (later_original, "original"),
    (other_article, "verdict"),
    (known_but_unique, "verdict"),
    (lambda case: vars(case.records("output")[4]).update(value=b"other bytes"), "bytes"),
    (lambda case: case.records("dead_letters").append(case.records("output").pop(2)), "innocent"),
    (lambda case: case.records("output").append(case.records("dead_letters").pop(0)), "bad"),
    (go_back, "order"),
    (lambda case: case.blocks.pop(), "order"),  # the last transaction left no block in the changelog
]


@pytest.mark.parametrize(("plant", "expected"), PLANTS)
def test_a_planted_violation_is_found(case: Case, plant: Callable[[Case], object], expected: str) -> None:
    plant(case)
    report = check(case.history())
    assert expected in kinds(report.violations)
    assert (report.lost > 0) == ("lost" in kinds(report.violations))
    assert (report.repeated > 0) == ("twice" in kinds(report.violations))


def late(former: Case, undamaged: Case) -> object:
    """An offset of the former topic in the new one: a record came out before the commit that names it."""
    is_late = lambda one: one.offset > 0 and not is_reached(one, former.blocks[-1])  # noqa: E731
    return former.records("output").append(next(filter(is_late, undamaged.records("output"))))


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (lambda former, _: None, set()),  # records that no transaction reached need no outcome
        (lambda former, _: former.records("duplicates").pop(7), {"lost"}),
        (late, {"order"}),
        (None, {"verdict"}),  # every copy in the successor is unique, although the changelog is whole
    ],
)
def test_a_deleted_input_needs_the_outcomes_that_a_transaction_reached(
    undamaged: Case, plant: Callable[[Case, Case], object] | None, expected: set[str]
) -> None:
    """The successor has the same offsets, and its outcomes are those of an empty index."""
    former, successor = copied(undamaged), copied(undamaged)
    del former.blocks[20:]
    for records in former.came.values():
        records[:] = [one for one in records if is_reached(one, former.blocks[-1])]
    if plant is not None:
        plant(former, undamaged)
    spans = [
        Span(former.fed, former.came, {0: former.blocks}, is_deleted=True),
        Span(successor.fed, successor.came, {0: successor.blocks}),
    ]
    cut = {0: (0, former.blocks[-1].progress)} if plant is not None else {}
    report = check(History(undamaged.settings, spans, cut))
    assert expected <= kinds(report.violations)
    assert (report.items, report.lost, report.repeated) == (2 * len(undamaged.fed), int(expected == {"lost"}), 0)
    assert bool(report.violations) == bool(expected)


@pytest.mark.parametrize(
    "planted", [{"kind": "KeyError"}, {"error": "see [topics] changelog"}, {"error": "news-0: bad"}]
)
def test_a_refusal_of_another_kind_or_without_place_or_cure_is_found(planted: dict[str, str]) -> None:
    refusal = Refusal(("ChangelogError", "CorruptBlock"), "news", ("[topics] changelog",))
    good = {"kind": "CorruptBlock", "error": "news-0 at offset 7: damaged; name another in [topics] changelog"}
    assert refusal.check(good) == []
    assert kinds(refusal.check(good | planted)) == {"refusal"}


# -- the index -----------------------------------------------------------------------------------------------


def wrong(history: History, case: Case, is_left_out: Callable[[Any], bool]) -> list[str]:
    """What is found about an index of the input without some records."""
    decode = Decoder(case.settings.item)
    with Decider(case.settings) as dedup:
        for start in range(0, len(case.fed), BATCH):
            some = [one for one in case.fed[start : start + BATCH] if not is_left_out(one)]
            items = [decode(one.value, one.key, one.timestamp, one.partition, one.offset) for one in some]
            dedup.apply(dedup.judge(items))
        return check_index(history, dedup)


def test_an_index_that_lacks_a_row_or_did_not_forget_is_found(case: Case) -> None:
    history = case.history()
    first, *_, last = history.originals(0).values()  # nothing follows the last that would take its place
    found = wrong(history, case, lambda one: (0, one.partition, one.offset) == last.place)
    assert kinds(found) == {"index"}
    assert all(repr(last.id) in violation for violation in found)
    assert any("remembers" in violation for violation in wrong(history, case, lambda one: one.value is None))
    deleted = replace(history, cut={0: (0, case.blocks[history.moment(*first.place)].progress)})
    missing, allowed = (
        any(
            f"lacks {first}" in text
            for text in wrong(one, case, lambda one: (0, one.partition, one.offset) == first.place)
        )
        for one in (history, deleted)
    )
    assert (missing, allowed) == (True, False), "it may be missing where its block was deleted"


def is_reached(came: Any, last: Block) -> bool:
    partition, offset = place_of(came)
    return offset < last.after[partition]


def _moment(case: Case, partition: int, offset: int) -> int:
    return case.history().moment(0, partition, offset)
