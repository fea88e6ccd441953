"""SIGTERM to `stream-dedup run`: it ends within ten seconds, whatever Python and the index still have to do."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import Observer
from stream_dedup.worker.worker import Worker
from tests.harness.check import lost_and_repeated, outcome, read_all
from tests.harness.feed import Load, feed, made_up
from tests.harness.member import Command
from tests.harness.topics import Make, variables_of
from tests.lab.benchmarks.restore import fill_changelog
from tests.observe.test_logs import full_pipe
from tests.worker.support import run_until

pytestmark = pytest.mark.kafka
SECONDS = 10.0  # container runtimes kill after them
ORIGINALS = 100_000


@pytest.mark.slow
def test_it_ends_within_ten_seconds_of_sigterm(settings: Settings, tmp_path: Path) -> None:
    fill_changelog(settings, ORIGINALS, 2000)
    with Command("a", settings, tmp_path) as member, Load(settings, 500.0):
        (member.faults / "long-exit").touch()
        member.start().wait_until("ok")
        time.sleep(1)
        code, seconds = member.stop()
        assert code == 0
        assert seconds < SECONDS
        assert "stopped; each batch in work is committed or will be read again" in member.log()
    judged = sum(outcome(settings).fates.values())
    run_until(settings, len(read_all(settings, settings.topics.input)) - judged)
    lost, repeated = lost_and_repeated(settings)
    assert not lost
    assert not repeated


def test_it_works_and_ends_although_nobody_reads_its_log(make: Make) -> None:
    settings = make(observe={"host": ""})
    reader, writer = full_pipe()
    command = [sys.executable, "-m", "stream_dedup", "run"]
    with subprocess.Popen(command, env=os.environ | variables_of(settings), stderr=writer) as process:
        try:
            for count in (40, 80):
                feed(settings, made_up(40, seed=count))
                while outcome(settings).fates.total() < count:
                    time.sleep(2)
            process.terminate()
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
    os.close(writer)
    os.close(reader)


def test_a_merging_index_does_not_delay_the_stop(make: Make) -> None:
    class Merging(Decider):
        def close(self) -> None:
            over.wait(60)  # as long as a merge of a large index on a starved machine
            super().close()

    over = threading.Event()
    settings = make(3, worker={"scope": "partition"})
    feed(settings, made_up(60), partition=None)
    began, stop = [0.0], threading.Event()

    class Stopping(Observer):
        def loop_completed(self, tasks: Sequence[str]) -> None:
            if len(tasks) == 3:
                began[0] = time.monotonic()
                stop.set()

    Worker(settings, observer=Stopping(), decider=Merging).run(stop)
    seconds = time.monotonic() - began[0]
    over.set()
    assert seconds < SECONDS
