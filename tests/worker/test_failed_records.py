"""Batches that fail again and again are halved until they go through or one record is found; outages do not count."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.errors import Fenced, Refused, TransactionFailed
from stream_dedup.worker.failed_records import IN_A_ROW, FailedRecords
from stream_dedup.worker.observer import CommitStep
from stream_dedup.worker.pipeline import _InFlight
from stream_dedup.worker.resume import Committed, Note

LASTING = TransactionFailed("the broker says no", lasting=True)
OUTAGE = TransactionFailed("no broker")
FENCED = Fenced("UnknownMemberIdError")


def begun(offset: int, size: int, tries: int) -> Committed:
    return Committed(offset, Note("", "", 0, "", begun=size, tries=tries))


Fails = Callable[[Sequence[Any]], TransactionFailed | None]


def records(*offsets: int, partition: int = 0) -> list[Any]:
    return [SimpleNamespace(partition=partition, offset=offset) for offset in offsets]


def work(failed: FailedRecords, some: Sequence[Any], fails: Fails, most: int) -> list[int]:
    """Commit batches as the worker does, as large as allowed; return the sizes of those that went through."""
    passed: list[int] = []
    for _ in range(most):
        if not some:
            return passed
        batch = some[: failed.batch_limit or len(some)]
        error = fails(batch)
        if error is None:
            failed.committed({0: batch[-1].offset + 1})
            passed.append(len(batch))
            some = some[len(batch) :]
        else:
            failed.count(batch, error)
    raise AssertionError(f"{len(some)} records are still there after {most} tries")


@pytest.mark.parametrize(
    ("failures", "message"),
    [
        # A batch is halved after the third failure in a row; an outage neither counts nor ends the row.
        ([(records(*range(10)), LASTING)] * 2 + [(records(*range(10)), OUTAGE)] * 9, None),
        ([(records(*range(10)), LASTING)] * 3, "10 records have failed 3 times in a row (the broker says no)"),
        ([(records(*range(10)), LASTING), (records(1), OUTAGE)] * 3, "Transactions now hold 5 records"),
        # Only the named records are suspected.
        ([(records(*range(10)), TransactionFailed("", lasting=True, sources=[4, 5, 6, 7]))] * 3, "hold 2 records"),
        # A single record without a refusal stays, and is reported once.
        ([(records(7), LASTING)] * 3, "offset 7 of input partition 0 has failed 3 times"),
        ([(records(7), LASTING)] * 6, ""),
        # One that Kafka refuses becomes a dead letter, unless its dead letter is refused too.
        (
            [(records(6, 7), LASTING)] * 3 + [(records(7), Refused("no", [0]))],
            "found after 4 failures in a row: no. It becomes a dead letter; partition/offset: 0/7",
        ),
        ([(records(7), Refused("no", [0]))] * 3, "set-offset 8 --partitions 0"),
        ([(records(5, 6, 7), Refused("no", [0, 2]))], None),
    ],
)
def test_what_is_reported(failures: list[tuple[list[Any], TransactionFailed]], message: str | None) -> None:
    failed = FailedRecords()
    reports = [failed.count(*failure) for failure in failures]
    last = [report for report in reports if report is not None][-1:]
    assert [is_new for _, is_new in last] == ([] if message is None else [bool(message)])
    assert all(message in text for text, _ in last if message)


def test_a_commit_by_any_member_clears_records() -> None:
    failed = FailedRecords()
    for _ in range(3):
        failed.count(records(5, 6) + records(5, partition=1), Refused("no", [0, 1, 2]))
    failed.committed({0: 6})
    assert failed.refusals == {(0, 6): 3, (1, 5): 3}
    failed.committed({0: 7, 1: 6})
    assert (failed.refusals, failed.batch_limit) == ({}, None)
    assert failed.count(records(9), LASTING) is None


@given(st.integers(1, 300), st.data())
def test_one_bad_record_is_found_by_halves_and_all_others_go_through(count: int, data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, count - 1))
    failed, dead = FailedRecords(), []

    def fails(batch: Sequence[Any]) -> TransactionFailed | None:
        if bad not in [record.offset for record in batch]:
            return None
        if (0, bad) in failed.refusals:
            dead.append(bad)  # as the judge does
            return None
        return Refused("this one", [0]) if len(batch) == 1 else LASTING

    assert (sum(work(failed, records(*range(count)), fails, 60)), dead) == (count, [bad])
    assert (failed.refusals, failed.batch_limit) == ({}, None)


@given(st.integers(1, 300), st.integers(1, 300))
def test_where_smaller_transactions_go_through_all_do(count: int, most: int) -> None:
    failed = FailedRecords()
    passed = work(failed, records(*range(count)), lambda batch: LASTING if len(batch) > most else None, 700)
    assert (sum(passed), failed.refusals) == (count, {})
    assert max(passed) <= most


@given(st.integers(1, 300), st.data())
def test_one_slow_record_is_found_by_halves_and_all_others_go_through(count: int, data: st.DataObject) -> None:
    slow = data.draw(st.integers(0, count - 1))
    failed, dead, some, losses = FailedRecords(), [], records(*range(count)), 0
    while some:
        batch = some[: failed.batch_limit or len(some)]
        if any(record.offset == slow for record in batch) and (0, slow) not in failed.too_slow:
            losses += 1
            message = failed.count(batch, FENCED, 400.0)
            assert (message is None) == (losses < IN_A_ROW)
        else:
            dead += [offset for _, offset in failed.too_slow]
            failed.committed({0: batch[-1].offset + 1})
            some = some[len(batch) :]
    assert (dead, failed.too_slow, failed.batch_limit) == ([slow], {}, None)
    assert losses <= IN_A_ROW + count.bit_length()


def test_two_losses_say_nothing() -> None:
    failed = FailedRecords()
    assert [failed.count(records(7), FENCED, 400.0) for _ in range(2)] == [None, None]
    assert (failed.too_slow, failed.batch_limit) == ({}, None)
    found = failed.count(records(7), FENCED, 400.0)
    assert found is not None
    assert "the record at offset 7 of input partition 0 took 400 s by itself" in found[0]
    assert failed.too_slow == {(0, 7): "took 400 s, and cost the member its place in the group"}


@given(st.integers(1, 300), st.data())
def test_a_record_that_ends_each_process_is_found_and_all_others_go_through(count: int, data: st.DataObject) -> None:
    """What outlives a process: the offset, and the note beside it."""
    deadly = data.draw(st.integers(0, count - 1))
    position, note, dead, deaths = 0, (0, 0), [], 0
    while position < count:
        failed = FailedRecords()
        failed.opened({0: begun(position, *note)})
        while position < count:
            batch = records(*range(position, count))[: failed.batch_limit]
            note = failed.to_announce(batch) or note
            dead += [offset for _, offset in failed.too_slow]
            if any(one.offset == deadly and (0, deadly) not in failed.too_slow for one in batch):
                deaths += 1
                break
            position, note = batch[-1].offset + 1, (0, 0)
            failed.committed({0: position})
    assert dead == [deadly]
    assert deaths <= 2 * IN_A_ROW + count.bit_length()


def test_a_process_does_not_count_what_it_began_itself_nor_two_deaths_of_others() -> None:
    failed = FailedRecords()
    assert failed.opened({0: begun(5, 20, 2)}) == []
    assert failed.batch_limit is None
    assert failed.to_announce(records(*range(5, 25))) == (20, 3)
    assert failed.to_announce(records(*range(25, 45))) is None, "only the first of an opening"
    assert failed.opened({0: begun(5, 20, 3)}) == [], "after an outage"
    assert failed.to_announce(records(*range(5, 25))) == (20, 3)
    assert failed.opened({0: begun(5, 20, 3)}) == [], "nor if the group did not get to know of the next time"
    assert failed.batch_limit is None
    [message] = FailedRecords().opened({0: begun(5, 20, 3)})
    assert "work on 20 records from offset 5 of input partition 0 on. Transactions now hold 10 records" in message


@given(st.lists(st.tuples(st.sampled_from([(OUTAGE, 400.0), (OUTAGE, 0.0), (FENCED, 0.0)]), st.integers(1, 9))))
def test_neither_an_outage_nor_a_fence_after_short_work_blames_a_record(
    failures: list[tuple[tuple[TransactionFailed | Fenced, float], int]],
) -> None:
    failed = FailedRecords()
    for (error, seconds), count in failures:
        assert failed.count(records(*range(count)), error, seconds) is None
    assert (failed.too_slow, failed.refusals, failed.batch_limit) == ({}, {}, None)


@pytest.mark.parametrize(
    ("took", "offsets", "too_long"),
    [
        (30.0, FENCED, 30.0),
        (5.0, FENCED, 0.0),  # within the session of 10 s
        (30.0, None, 0.0),  # the group has taken the offsets: the member still had its place after the work
        (30.0, "not yet", 0.0),
    ],
)
def test_only_long_work_after_which_the_offsets_fail_may_have_cost_the_membership(
    took: float, offsets: Fenced | str | None, too_long: float
) -> None:
    sent: Future[None] = Future()
    if isinstance(offsets, Fenced):
        sent.set_exception(offsets)
    elif offsets is None:
        sent.set_result(None)
    report: Any = SimpleNamespace(records=records(7), seconds={CommitStep.JUDGE: took})
    batch = _InFlight(report, {}, sent, Future())
    assert batch.suspicious_seconds(10.0) == too_long
