"""A partition loses its end, as when its broker is restored from a snapshot, and gets other records in its place."""

import gc
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stream_dedup.errors import MigrationError, Outdated, RecordsGone
from stream_dedup.settings import Settings
from stream_dedup.tools.topics.migration import Migration, MigrationProgress
from tests.broker import EmbeddedKafka
from tests.harness.check import assert_exactly_once, from_scratch, outcome, read_all
from tests.harness.feed import Sent, feed, made_up
from tests.harness.topics import administrator, make_settings, ready, under_another_scheme
from tests.harness.wait import wait_until
from tests.tools.topics.test_migration import clock
from tests.worker.support import fails, open_store, run_until, running
from tests.worker.test_resume_kafka import others, reset_offsets

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


class RestoredKafka(EmbeddedKafka):
    """A broker whose partitions 0, or all it has, can be set back to a snapshot."""

    def __init__(self, directory: Path) -> None:
        super().__init__(data=directory / "data")
        self._stored, self._snapshots = directory / "data", directory / "snapshots"

    def snapshot(self, topic: str = "") -> None:
        """Of a topic; of everything, with the metadata of the controller, if none is named."""
        self.stop()
        shutil.copytree(self._stored / topic_directory(topic), self._snapshots / topic)
        self.restart()

    def restore(self, topic: str = "") -> None:
        self.stop()
        shutil.rmtree(self._stored / topic_directory(topic))
        shutil.copytree(self._snapshots / topic, self._stored / topic_directory(topic))
        self.restart()


def topic_directory(topic: str) -> str:
    return f"{topic}-0" if topic else ""


@pytest.fixture
def broker(kafka_prepared: None, tmp_path: Path) -> Iterator[RestoredKafka]:
    with RestoredKafka(tmp_path) as kafka:
        yield kafka
    gc.collect()  # the client's refused connections, while their warnings are expected


@pytest.fixture
def own(broker: RestoredKafka, topic_name: Callable[[str], str]) -> Settings:
    return ready(make_settings(broker.bootstrap, topic_name, worker={"batch_items": 2}))


def assert_the_message_helps(settings: Settings, message: str, sent: list[Sent], judged: int) -> None:
    """After the command, nothing that the broker has is lost, and nothing comes twice."""
    assert "partition 0 has lost records from offset 10 on" in message
    assert "groups set-offset 10 --partitions 0" in message
    with administrator(settings) as admin:
        reset_offsets(admin, settings, {0: 10})
    run_until(settings, judged)
    assert_exactly_once(settings, sent)


def test_a_stopped_worker_does_not_skip_what_stands_in_the_place_of_lost_records(
    own: Settings, broker: RestoredKafka
) -> None:
    sent = feed(own, made_up(10))
    broker.snapshot(own.topics.input)
    sent += feed(own, others(10))
    run_until(own, 20)
    broker.restore(own.topics.input)
    sent += feed(own, others(15, seed=8))
    message = fails(own, "is not the log that was read", RecordsGone)
    assert fails(own, "is not the log that was read", RecordsGone) == message, "at every start"
    assert_the_message_helps(own, message, sent, 15)


@pytest.mark.parametrize("written", [0, 15])
def test_a_running_worker_ends_with_the_command_and_so_does_the_next(
    own: Settings, broker: RestoredKafka, written: int
) -> None:
    sent = feed(own, made_up(10))
    broker.snapshot(own.topics.input)
    with running(own) as watching:
        watching.wait_judged(10)
        sent += feed(own, others(10))
        watching.wait_judged(20)
        broker.restore(own.topics.input)
        sent += feed(own, others(written, seed=8))
        wait_until(lambda: RecordsGone in map(type, watching.errors), "the worker ends")
    message = str(watching.errors[-1])
    sent += feed(own, others(20, seed=9))
    fails(own, "is not the log that was read", RecordsGone)
    assert_the_message_helps(own, message, sent, written + 20)


def test_a_changelog_that_has_lost_its_end_is_reported(
    own: Settings, broker: RestoredKafka, caplog: pytest.LogCaptureFixture
) -> None:
    sent = feed(own, made_up(10))
    run_until(own, 10)
    broker.snapshot(own.topics.changelog)
    sent += feed(own, others(10))
    run_until(own, 10)
    broker.restore(own.topics.changelog)
    sent += feed(own, others(5, seed=8))
    run_until(own, 5)
    assert_exactly_once(own, sent)
    assert "ends at the offsets {0: 10}" in caplog.text
    assert "the cluster has lost its end. Copies of forgotten originals go out once more" in caplog.text


def test_a_standby_reads_a_changelog_that_has_lost_its_end_anew(own: Settings, broker: RestoredKafka) -> None:
    """What stands in the place of lost blocks it has not read, and a take-over needs it."""
    feed(own, made_up(4))
    run_until(own, 4)
    broker.snapshot(own.topics.changelog)
    feed(own, others(6))
    run_until(own, 6)
    with closing(open_store(own)) as standby:
        wait_until(lambda: standby.follow() or standby.reader.restored.offsets == {0: 10}, "it has read everything")
        broker.restore(own.topics.changelog)
        feed(own, others(20, seed=8))
        run_until(own, 20)
        with pytest.raises(Outdated):
            wait_until(standby.follow, "it notices", 20)


@pytest.mark.parametrize("written", [3, 30])
def test_a_running_worker_goes_back_with_the_whole_cluster(own: Settings, broker: RestoredKafka, written: int) -> None:
    """Epochs and offsets of the group go back, too, so that new records have the epochs of those that were lost.

    The producers send again what was lost, with other things before it: the former originals are no more.
    """
    sent = feed(own, made_up(10))
    with running(own) as watching:
        watching.wait_judged(10)
        wait_until(lambda: len(outcome(own).every) == 10, "it is visible")
        broker.snapshot()
        lost = list(others(10))
        feed(own, lost)
        watching.wait_judged(20)
        wait_until(lambda: len(outcome(own).every) == 20, "it is visible")
        broker.restore()
        sent += feed(own, [*others(written, seed=8), *lost])

        def is_over() -> bool:
            return len(outcome(own).every) == len(sent)

        wait_until(lambda: is_over() or RecordsGone in map(type, watching.errors), "it works, or ends with the command")
    with running(own):  # the offsets of the group are right already
        wait_until(is_over, "everything comes out")
    came = assert_exactly_once(own, sent)
    expected = from_scratch(own, read_all(own, own.topics.input))
    assert {key: verdict for key, (verdict, *_) in came.verdicts().items()} == {
        key: verdict for key, (verdict, *_) in expected.items()
    }


def test_a_migration_that_goes_on_does_not_skip_what_stands_in_the_place_of_lost_outputs(
    own: Settings, broker: RestoredKafka
) -> None:
    feed(own, others(10))
    run_until(own, 10)
    broker.snapshot(own.topics.output)
    feed(own, others(10, seed=8))
    run_until(own, 10)
    new = under_another_scheme(own, f"{own.topics.changelog}-new")
    read = len(read_all(own, own.topics.output))

    def interrupt(progress: MigrationProgress) -> None:
        if progress.read == read:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Migration(new, interrupt, clock).run()
    broker.restore(own.topics.output)
    feed(own, others(30, seed=9))
    run_until(own, 30)
    with pytest.raises(MigrationError, match=r"restored from an older copy\. Delete .*-new, create"):
        Migration(new, lambda _: None, clock).run()
