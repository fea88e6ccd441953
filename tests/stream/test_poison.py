"""Batches that fail again and again are halved until they go through or one record is found; outages do not count."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import errors as kafka_errors

from stream_dedup.errors import Refused, TransactionFailed
from stream_dedup.kafka.errors import translate
from stream_dedup.worker.poison import PoisonSearch

LASTING = TransactionFailed("the broker says no", lasting=True)
OUTAGE = TransactionFailed("no broker")


def records(*offsets: int, partition: int = 0) -> list[Any]:
    return [SimpleNamespace(partition=partition, offset=offset) for offset in offsets]


def work(
    poison: PoisonSearch,
    some: Sequence[Any],
    fails: Callable[[Sequence[Any]], TransactionFailed | None],
    most: int = 100,
) -> list[int]:
    """Commit batches as the worker does, as large as allowed; return the sizes of those that went through."""
    passed: list[int] = []
    for _ in range(most):
        if not some:
            return passed
        batch = some[: poison.batch_limit({0}) or len(some)]
        error = fails(batch)
        if error is None:
            poison.committed(batch)
            passed.append(len(batch))
            some = some[len(batch) :]
        else:
            poison.failed(batch, error)
    raise AssertionError(f"{len(some)} records are still there after {most} tries")


def test_the_third_failure_in_a_row_is_reported_and_halves_the_batch() -> None:
    poison = PoisonSearch()
    some = records(*range(10))
    assert poison.failed(some, LASTING) is None
    assert poison.failed(some, LASTING) is None
    assert poison.batch_limit({0}) is None
    stuck = poison.failed(some, LASTING)
    assert stuck is not None
    assert stuck.is_new
    assert "10 records have failed 3 times in a row (the broker says no)" in stuck.message
    assert "0: 0 to 9. Transactions now hold 5 records" in stuck.message
    assert (poison.batch_limit({0}), poison.batch_limit({1})) == (5, None)


def test_a_commit_clears_its_records() -> None:
    poison = PoisonSearch()
    some = records(*range(10))
    poison.failed(some, LASTING)
    poison.failed(some, LASTING)
    poison.committed(some)
    assert poison.failed(some, LASTING) is None


@pytest.mark.parametrize("times", [3, 50])
def test_an_outage_never_counts(times: int) -> None:
    poison = PoisonSearch()
    for _ in range(times):
        assert poison.failed(records(1, 2, 3), OUTAGE) is None
    assert poison.batch_limit({0}) is None
    # Between two lasting failures it neither counts nor ends the row.
    assert [poison.failed(records(1), error) is None for error in (LASTING, OUTAGE, LASTING, OUTAGE)] == [True] * 4
    assert poison.failed(records(1), LASTING) is not None


@given(st.integers(1, 300), st.data())
def test_one_bad_record_is_found_by_halves_and_all_others_go_through(count: int, data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, count - 1))
    poison = PoisonSearch()
    dead: list[int] = []

    def fails(batch: Sequence[Any]) -> TransactionFailed | None:
        offsets = [record.offset for record in batch]
        if bad not in offsets:
            return None
        if (0, bad) in poison.refusals:
            dead.append(bad)  # as the judge does
            return None
        return Refused("this one", [0]) if len(batch) == 1 else LASTING

    passed = work(poison, records(*range(count)), fails, most=60)
    assert (sum(passed), dead) == (count, [bad])
    assert not poison.refusals
    assert poison.batch_limit({0}) is None


@given(st.integers(1, 300), st.integers(1, 300))
def test_where_smaller_transactions_go_through_all_do(count: int, most: int) -> None:
    poison = PoisonSearch()
    passed = work(poison, records(*range(count)), lambda batch: LASTING if len(batch) > most else None, most=700)
    assert sum(passed) == count
    assert max(passed) <= most
    assert not poison.refusals


def test_a_record_that_fails_alone_without_a_refusal_stays_and_is_reported_once() -> None:
    poison = PoisonSearch()
    reports = [poison.failed(records(7), LASTING) for _ in range(6)]
    assert [one is not None for one in reports] == [False, False, True, True, True, True]
    assert [one.is_new for one in reports if one] == [True, False, False, False]
    assert reports[2] is not None
    assert "offset 7 of input partition 0" in reports[2].message
    assert "--to-offset 8" in reports[2].message
    assert not poison.refusals
    assert poison.batch_limit({0}) == 1


def test_a_record_whose_dead_letter_is_refused_too_is_reported() -> None:
    poison = PoisonSearch()
    reports = [poison.failed(records(7), Refused("no", [0])) for _ in range(4)]
    assert [one is not None and one.is_new for one in reports] == [False, False, True, False]
    assert reports[2] is not None
    assert "tried again" in reports[2].message


def test_the_report_of_a_found_record_says_that_it_becomes_a_dead_letter() -> None:
    poison = PoisonSearch()
    for _ in range(3):
        poison.failed(records(6, 7), LASTING)
    found = poison.failed(records(7), Refused("no", [0]))
    assert found is not None
    assert found.is_new
    assert found.message == "found after 4 failures in a row: no. It becomes a dead letter; partition/offset: 0/7"


def test_only_the_named_records_are_suspected() -> None:
    poison = PoisonSearch()
    some = records(*range(10))
    for _ in range(3):
        poison.failed(some, TransactionFailed("a batch", lasting=True, sources=[4, 5, 6, 7]))
    assert poison.batch_limit({0}) == 2
    poison.committed(some[4:8])
    assert poison.batch_limit({0}) is None


def test_all_refused_records_are_noted_at_once() -> None:
    poison = PoisonSearch()
    assert poison.failed(records(5, 6, 7), Refused("no", [0, 2])) is None
    assert poison.refusals == {(0, 5): 1, (0, 7): 1}
    poison.committed(records(5, 6, 7))
    assert not poison.refusals


def test_records_that_another_member_has_committed_are_cleared() -> None:
    poison = PoisonSearch()
    for _ in range(3):
        poison.failed(records(5, 6) + records(5, partition=1), Refused("no", [0, 1, 2]))
    poison.forget_before({0: 6})
    assert poison.refusals == {(0, 6): 3, (1, 5): 3}
    poison.forget_before({0: 7, 1: 6})
    assert (poison.refusals, poison.batch_limit({0, 1})) == ({}, None)


@pytest.mark.parametrize(
    ("error", "lasting"),
    [
        (kafka_errors.InvalidRecordError("no"), True),
        (kafka_errors.UnknownError("what the broker did not expect"), True),
        (kafka_errors.KafkaError("wrapped", kafka_errors.InvalidRecordError("no")), True),
        (kafka_errors.KafkaTimeoutError("Expiring 3 record(s)"), False),
        (kafka_errors.KafkaConnectionError("gone"), False),
        (kafka_errors.NotLeaderForPartitionError(), False),
        (kafka_errors.NotEnoughReplicasError(), False),
        (kafka_errors.RebalanceInProgressError(), False),
        (kafka_errors.KafkaError("wrapped", kafka_errors.NodeNotReadyError("1")), False),
        (kafka_errors.TransactionAbortedError(), False),
    ],
)
def test_which_errors_are_lasting(error: kafka_errors.KafkaError, lasting: bool) -> None:
    ours = translate(error, "sending")
    assert isinstance(ours, TransactionFailed)
    assert ours.lasting == lasting
