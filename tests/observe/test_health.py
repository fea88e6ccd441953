"""Health: the status that follows from each history of the worker."""

import pytest

from stream_dedup.errors import RegistryAway, TransactionFailed
from stream_dedup.kafka.cluster import Wait
from stream_dedup.observe.health import Health, HealthState, Status
from stream_dedup.worker.observer import BatchReport, CommitStep
from tests.observe.watched import START, Clock

BOUND = 60.0
HOUR = 3600.0
GLOBAL = ["global"]


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(BOUND, monotonic=lambda: 5.0 + clock.passed, clock=clock)


def report(task: str) -> BatchReport:
    return BatchReport(task, [], [], {}, {}, 0, 0, {})


def polled(health: Health, **lag: int) -> Status:
    """Let the worker poll, with this lag of partitions p0, p1; return the status after it."""
    health.positions_advanced("global", {int(name[1:]): records for name, records in lag.items()})
    health.loop_completed(GLOBAL)
    return health.state().status


def test_it_is_starting_before_the_first_loop(health: Health, clock: Clock) -> None:
    clock.passed = 10
    assert health.state() == HealthState(Status.STARTING, START)
    clock.passed = 500
    health.restore_progress("global", 1, 2)
    assert health.state().status is Status.STARTING
    assert not health.state().healthy


def test_it_is_ok_with_a_task_and_standby_without(health: Health, clock: Clock) -> None:
    clock.passed = 3
    health.loop_completed([])
    assert health.state() == HealthState(Status.STANDBY, START + 3)
    assert health.state().healthy, "to stand by is its job"
    for clock.passed in (9, 10):
        health.loop_completed(GLOBAL)
    assert health.state() == HealthState(Status.OK, START + 9), "since the status began, not since the last turn"
    assert health.state().healthy


def test_it_is_starting_until_the_first_batch(health: Health) -> None:
    health.task_opened("global", [0, 1], 0, 0.1)
    assert polled(health, p0=54_000) is Status.STARTING
    assert not health.state().healthy
    health.step(CommitStep.JUDGE, "global")
    assert health.state().status is Status.STARTING
    health.batch(report("global"))
    assert polled(health, p0=53_000) is Status.OK


def test_it_is_starting_until_every_partition_is_known_to_be_empty(health: Health) -> None:
    health.task_opened("global", [0, 1], 0, 0.1)
    assert polled(health, p0=0) is Status.STARTING
    assert polled(health, p1=0) is Status.OK


def test_it_is_ok_when_polls_bring_nothing_for_long(health: Health, clock: Clock) -> None:
    """A producer's open transaction holds the records back; this worker does its job."""
    health.task_opened("global", [0], 0, 0.1)
    for clock.passed, status in ((0, Status.STARTING), (9.9, Status.STARTING), (10, Status.OK)):
        assert polled(health, p0=7) is status


def test_a_task_that_moved_away_is_not_waited_for(health: Health) -> None:
    health.task_opened("0", [0], 0, 0.1)
    health.task_opened("1", [1], 0, 0.1)
    health.positions_advanced("1", {1: 0})
    health.loop_completed(["0", "1"])
    assert health.state().status is Status.STARTING
    health.task_lost("0", "moved")
    health.loop_completed(["1"])
    assert health.state().status is Status.OK


def test_it_stalls_without_activity_and_recovers(health: Health, clock: Clock) -> None:
    health.loop_completed(GLOBAL)
    clock.passed = BOUND
    assert health.state().status is Status.OK
    clock.passed += 0.1
    assert health.state() == HealthState(Status.STALLED, START, alive=False)
    assert not health.state().healthy
    health.loop_completed(GLOBAL)
    assert health.state() == HealthState(Status.OK, START)


@pytest.mark.parametrize("sign", ["step", "restoring", "task_opened"])
def test_a_long_batch_or_restore_is_not_a_stall(health: Health, clock: Clock, sign: str) -> None:
    health.loop_completed([])
    for _ in range(10):
        clock.passed += BOUND - 1
        {
            "step": lambda: health.step(CommitStep.FLUSH, "global"),
            "restoring": lambda: health.restore_progress("global", 1, 2),
            "task_opened": lambda: health.task_opened("global", [0], 1, 1.0),
        }[sign]()
        assert health.state().healthy


def test_work_on_a_batch_may_take_longer_before_a_restart(health: Health, clock: Clock) -> None:
    """The restarted member would begin the same batch, and the search for the record at fault would begin anew."""
    health.loop_completed(GLOBAL)
    health.step(CommitStep.JUDGE, "global")
    clock.passed = BOUND + 400  # it loses its place in the group after 300 s
    assert health.state() == HealthState(Status.STALLED, START, alive=True), "people are told"
    clock.passed = BOUND + 601
    assert not health.state().alive
    health.step(CommitStep.APPLY, "global")
    clock.passed += BOUND + 1
    assert not health.state().alive
    health.step(CommitStep.JUDGE, "global")
    health.error(TransactionFailed("it lost its place"), 1.0)
    clock.passed += BOUND + 1
    assert not health.state().alive, "the loop hangs, not the work on a batch"


@pytest.mark.parametrize("step", [step for step in CommitStep if step >= CommitStep.BEGIN])
def test_the_producer_does_not_end_the_time_for_the_batch_that_is_judged(
    step: CommitStep, health: Health, clock: Clock
) -> None:
    """Its thread commits one batch while the loop judges the next."""
    health.loop_completed(GLOBAL)
    health.step(CommitStep.JUDGE, "global")
    health.step(step, "global")
    clock.passed = BOUND + 500
    assert health.state().alive
    health.step(CommitStep.APPLY, "global")
    clock.passed += BOUND + 1
    assert not health.state().alive


def test_failures_alone_are_a_stall(health: Health, clock: Clock) -> None:
    """Each attempt opens the task, loops once, begins a transaction and fails: activity without progress."""
    health.loop_completed(GLOBAL)
    for _ in range(20):
        clock.passed += 5
        health.error(TransactionFailed("the commit failed"), 5.0)
        health.task_opened("global", [0], 1, 1.0)
        health.loop_completed(GLOBAL)
        health.step(CommitStep.BEGIN, "global")
    expected = HealthState(Status.STALLED, START + 5, "the commit failed")
    assert health.state() == expected, "since the first failure, and with the last one"


def test_a_second_loop_without_failure_ends_the_stall(health: Health, clock: Clock) -> None:
    health.error(TransactionFailed("x"), 0.2)
    health.loop_completed(GLOBAL)
    health.loop_completed(GLOBAL)
    clock.passed = BOUND
    health.error(TransactionFailed("y"), 0.2)
    clock.passed += BOUND - 1
    health.loop_completed(GLOBAL)
    assert health.state().healthy, "the failure of a minute ago is forgiven"


def test_unreachable_brokers_degrade_and_then_stall(health: Health, clock: Clock) -> None:
    """The loop continues: a poll returns no records, as on a quiet topic."""
    health.loop_completed(GLOBAL)
    for clock.passed, status in ((107, Status.DEGRADED), (100 + BOUND + 1, Status.STALLED)):
        health.brokers_unreachable(clock.passed - 100, "no broker answers")
        health.loop_completed(GLOBAL)
        assert health.state() == HealthState(status, START + 100, "no broker answers"), "since the last answer"
        assert health.state().healthy == (status is Status.DEGRADED)
    health.batch(report("global"))  # a broker has committed it
    assert health.state() == HealthState(Status.OK, START + 100 + BOUND + 1), "it was not well before"


@pytest.mark.parametrize("worked", [True, False], ids=["it worked before", "it never worked"])
@pytest.mark.parametrize("fails", [True, False], ids=["the loop goes round and fails", "a call of the client hangs"])
def test_an_outage_of_any_length_leaves_it_alive(health: Health, clock: Clock, worked: bool, fails: bool) -> None:
    """A restart does not bring brokers back, and after one the member has everything to restore."""
    if worked:
        health.loop_completed(GLOBAL)
    for clock.passed in range(0, 600, 5):
        if clock.passed >= 7:
            health.brokers_unreachable(clock.passed, "no broker answers")
        if fails:
            health.heartbeat()
            health.error(TransactionFailed("the brokers are away"), 5.0)
        assert health.state().alive
    assert health.state().status is Status.STALLED
    assert not health.state().healthy, "readiness and alerts tell of the brokers"
    health.brokers_reachable()
    assert health.state().alive, "silence counts from now on"
    clock.passed += BOUND + 1
    assert not health.state().alive


def test_a_restore_of_an_hour_leaves_it_alive_while_it_reads_and_no_longer(health: Health, clock: Clock) -> None:
    while clock.passed < HOUR:
        clock.passed += BOUND / 2
        health.heartbeat()
        health.restore_progress("global", int(clock.passed), 10_000)
        assert health.state() == HealthState(Status.STARTING, START)
    stood_at = int(clock.passed)
    for waited in range(0, int(BOUND) + 11, 10):
        clock.passed = stood_at + waited
        health.heartbeat()
        health.restore_progress("global", stood_at, 10_000)
        assert health.state().alive == (waited <= BOUND), "the loop goes round, but nothing is read"
    health.restore_progress("global", stood_at + 1, 10_000)
    assert health.state().alive


@pytest.mark.parametrize("end", ["opened", "lost", "failed", "reassigned", "read"])
def test_a_restore_that_is_over_asks_for_no_more_progress(health: Health, clock: Clock, end: str) -> None:
    health.restore_progress("3", 5, 10)
    {
        "opened": lambda: health.task_opened("3", [3], 1, 1.0),
        "lost": lambda: health.task_lost("3", "x"),
        "failed": lambda: health.error(TransactionFailed("x"), 1.0),
        "reassigned": lambda: health.rebalanced([]),
        "read": lambda: health.restore_progress("3", 10, 10),
    }[end]()
    clock.passed = HOUR
    health.heartbeat()
    assert health.state().alive


def test_a_loop_that_begins_no_round_is_stuck_whatever_its_status(health: Health, clock: Clock) -> None:
    health.loop_completed(GLOBAL)
    for _ in range(60):
        clock.passed += BOUND
        health.heartbeat()
        assert health.state().alive, "a member that stays away from its group for long has rounds, and nothing else"
    clock.passed += BOUND + 1
    assert not health.state().alive


def test_a_member_that_never_worked_is_not_ready_without_brokers(health: Health, clock: Clock) -> None:
    """Otherwise a rolling update with a wrong address would stop the members that work."""
    for clock.passed, status in ((7, Status.DEGRADED), (BOUND + 1, Status.STALLED)):
        health.brokers_unreachable(clock.passed, "no broker answers")
        assert (health.state().status, health.state().healthy) == (status, False)
    assert health.state().as_json()["reason"] == "no broker answers"
    health.brokers_reachable()
    assert health.state().status is Status.STARTING


def test_a_distrusted_broker_degrades_and_no_more(health: Health, clock: Clock) -> None:
    problems = {"b:9093": "b:9093: expired", "c:9093": "c:9093: expired"}
    health.brokers_distrusted(problems)
    assert not health.state().healthy, "it has never worked: a rolling update must not replace the others"
    health.loop_completed(GLOBAL)
    clock.passed = 2 * BOUND
    health.brokers_distrusted(problems)
    health.loop_completed(GLOBAL)
    reason = "b:9093: expired; c:9093: expired"
    assert health.state() == HealthState(Status.DEGRADED, START, reason, some_work=True)
    assert health.state().healthy
    health.brokers_distrusted({})
    assert health.state().status is Status.OK


def test_a_registry_that_is_away_degrades_until_the_next_batch_however_long_it_takes(
    health: Health, clock: Clock
) -> None:
    health.registry_away("global", "the schema registry cannot be reached")
    assert not health.state().healthy, "it has never worked: a wrong address must not replace the others"
    health.loop_completed(GLOBAL)
    for clock.passed in range(0, 10 * int(BOUND), 5):
        health.heartbeat()
        health.error(RegistryAway("the schema registry cannot be reached"), 5.0)
        health.registry_away("global", "the schema registry cannot be reached")
        health.loop_completed(GLOBAL)
    health.batch(report("other"))  # it says nothing about this task
    assert health.state() == HealthState(Status.DEGRADED, START, "the schema registry cannot be reached")
    assert health.state().healthy
    health.batch(report("global"))
    assert health.state().status is Status.OK


def test_what_the_worker_waits_for_is_named_with_the_beginning_of_the_wait(health: Health, clock: Clock) -> None:
    clock.passed = 7
    health.error(TransactionFailed("no broker knows the topics"), 1.0)
    assert health.state() == HealthState(Status.STARTING, START, "no broker knows the topics")
    health.waiting(Wait.GROUP, 7.0, "for 7 s no coordinator")
    assert health.state() == HealthState(Status.DEGRADED, START, "for 7 s no coordinator", worked=False)
    assert not health.state().healthy
    health.loop_completed(GLOBAL)
    clock.passed = 8
    health.waiting(Wait.GROUP, 8.0, "for 8 s no coordinator")
    health.rebalanced([0])
    assert health.state() == HealthState(Status.DEGRADED, START, "for 8 s no coordinator")
    assert health.state().healthy
    health.waiting(Wait.GROUP, 0.0, "")
    health.waiting(Wait.PRODUCERS, 3.0, "")
    health.loop_completed(GLOBAL)
    assert health.state().status is Status.OK
