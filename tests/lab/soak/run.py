"""A round of the soak: faults while records are fed, then a rest, then the check.

Each round has topics of its own, so that its records fit into memory and a violation names few of them.
"""

import os
import signal
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from stream_dedup.settings import Settings
from stream_dedup.tools.topics.setup import create_topics
from stream_dedup.worker.state_store import StateStore
from tests.harness.check import read_all
from tests.harness.topics import (
    administrator,
    copy_while_stopped,
    elect,
    inputs,
    reader_of,
    recreate,
    set_offsets,
    unfinished,
    wait_for_transactions,
)
from tests.harness.wait import PATIENCE
from tests.lab.soak.checker import History, Refusal, Report, Span, check, check_index
from tests.lab.soak.cluster import Cluster
from tests.lab.soak.plan import AT_STEP, BROKER_FAULTS, TOPIC_FAULTS, Fault, Plan
from tests.lab.soak.proxy import Proxy
from tests.lab.soak.stage import Changelog, Feeder, Team, settings_of
from tests.worker.support import context

# Of the changelog, at most; the rest is what a restore still finds.
_TRUNCATED_SHARE = 0.3
# Between a snapshot of the input and its return: as much is lost.
_TRUNCATED_SECONDS = 2.0


@dataclass
class Result:
    """What a round has shown."""

    report: Report
    faults: Counter[str]
    seconds: float


class Round:
    """One plan on a cluster. `items_s`: fed per second."""

    def __init__(self, plan: Plan, cluster: Cluster, items: int, items_s: float) -> None:
        self._plan, self._cluster, self._items, self._items_s = plan, cluster, items, items_s
        self._name = name = f"soak-{plan.seed}-{uuid.uuid4().hex[:6]}"
        self._settings = settings_of(cluster.proxied, plan.scope, name, plan.batch_items)
        self._direct = settings_of(cluster.direct, plan.scope, name, plan.batch_items)
        self._tasks = plan.partitions if plan.scope == "partition" else 1
        self._faulty: set[object] = set()  # broker faults that last
        self._spans: list[Span] = []  # that are over
        self._next: dict[str, dict[int, int]] = {}  # topic -> partition -> first offset of the present span
        self._former: list[str] = []  # changelogs
        self._faults: Counter[str] = Counter()

    def run(self) -> Result:
        try:
            return self._run()
        finally:  # free the disk for the rounds that follow
            with administrator(self._direct) as admin:
                admin.delete_topics([*self._direct.topics.model_dump().values(), *self._former], raise_errors=False)

    def _run(self) -> Result:
        began, plan, direct = time.monotonic(), self._plan, self._direct
        create_topics(direct, partitions=plan.partitions)
        self.changelog = Changelog(direct, self._tasks)
        at_step = [fault for fault in plan.faults if fault.kind in AT_STEP]
        others = [fault for fault in plan.faults if fault.kind not in AT_STEP]
        violations: list[str] = []
        with ExitStack() as stack:
            self.team = team = stack.enter_context(Team(self._settings, plan.members, at_step, self._faults))
            feeder = Feeder(direct, plan.seed, self._items, self._items_s, plan.partitions)
            self._feeder = stack.enter_context(feeder)
            # The faults come while it is fed, however long that takes.
            pause = max(0.0, self._items / self._items_s - sum(fault.delay for fault in others)) / (len(others) + 1)
            for fault in others:
                team.run(pause + fault.delay)
                if fault.kind in (*BROKER_FAULTS, *TOPIC_FAULTS):
                    team.until(lambda: not self._faulty)  # one at a time: no cluster survives two dead brokers of three
                if _FAULTS[fault.kind](self, fault):
                    self._faults[fault.kind] += 1
            team.until(lambda: not self._faulty and feeder.is_done)
            least, since = float("inf"), time.monotonic()
            while left := self._left():
                if left < least:
                    least, since = left, time.monotonic()
                if time.monotonic() - since > PATIENCE:
                    violations.append(f"progress: {left} offsets are left, and for {PATIENCE:.0f} s none was processed")
                    break
                team.run(1.0)
            team.stop_all()
            violations += team.ended
        self._end_span()
        history = History(direct, self._spans, self.changelog.cut)
        report = check(history)
        if not violations:
            for task in range(self._tasks):
                report.violations += self._index(history, task)
        report.violations += violations
        return Result(report, self._faults, time.monotonic() - began)

    def _left(self) -> int:
        """The number of offsets that are left; a huge number if no broker answers, as on a machine that is too busy."""
        with suppress(KafkaError), reader_of(self._direct, group_id=self._direct.kafka.group_id) as consumer:
            return unfinished(self._direct, consumer)
        return sys.maxsize

    def _end_span(self, fed: Sequence[Any] | None = None) -> None:
        """Read what has come since the last span; no worker runs. `fed`: the records of an input that was deleted."""
        time.sleep(1)  # the markers of the last commit
        topics, came = self._direct.topics, {}
        for topic in (topics.output, topics.duplicates, topics.dead_letters):
            came[topic] = read_all(self._direct, topic, start=self._next.setdefault(topic, {}))
            self._next[topic] |= {record.partition: record.offset + 1 for record in came[topic]}
        records = self._fed() if fed is None else fed
        self._spans.append(Span(records, came, self.changelog.end_span(), is_deleted=fed is not None))

    def _fed(self) -> list[Any]:
        """The records of the input that came since the last span."""
        topic = self._direct.topics.input
        return read_all(self._direct, topic, start=self._next.get(topic))

    def _ends(self) -> dict[int, int]:
        """The end of each partition of the input."""
        with reader_of(self._direct) as consumer:
            return {place.partition: end for place, end in consumer.end_offsets(inputs(self._direct, consumer)).items()}

    def _index(self, history: History, task: int) -> list[str]:
        """Restore an index from the changelog, and compare it with what went out."""
        store = StateStore(context(self._direct), str(task) if history.is_split else "global", task)
        try:
            store.complete(lambda done, total: None)
            return check_index(history, store.dedup, task)
        finally:
            store.close()

    # -- faults: each returns whether it happened ---------------------------------------------------------------

    def fence(self, fault: Fault) -> bool:
        task = str(fault.target % self._tasks) if self._plan.scope == "partition" else "global"

        def begin() -> None:
            with suppress(KafkaError):
                name = f"{self._direct.kafka.group_id}-{task}"
                with closing(KafkaProducer(bootstrap_servers=self._cluster.direct, transactional_id=name)) as producer:
                    producer.init_transactions()
                    self._faults["producer_fenced"] += 1

        threading.Thread(target=begin, daemon=True).start()
        return False  # counted when it has happened

    @contextmanager
    def _drained(self) -> Iterator[bool]:
        """In the block nothing is fed, and the workers write nothing. False: they have not finished their work."""
        self._feeder.pause()
        try:
            wait_for_transactions(self._direct)
            yield self.team.until(lambda: not self._left(), PATIENCE, 0.5)
        finally:
            self._feeder.resume()

    def recreate_changelog(self, fault: Fault) -> bool:
        """Recreate it while the workers have nothing to do, so that the checker misses no block.

        The workers go on with what they remember. Members that take over later begin with less.
        """
        with self._drained() as is_drained:
            if is_drained:
                self.changelog.recreate()
            return is_drained

    def damage_changelog(self, fault: Fault) -> bool:
        """Write another program's record, which a restore must skip, or a damaged block, which it must refuse.

        The cure of a damaged block is another changelog, which a person confirms.
        """
        is_ours, team, topic = fault.step % 2 == 1, self.team, self._direct.topics.changelog
        # A damaged block has the next number only while no other is written; one with a known number is ignored.
        with self._drained() as is_drained:
            if not is_drained or not self.changelog.damage(fault.target, is_ours=is_ours):
                return False

        def kill_all() -> None:
            for target in range(len(team.lives)):
                team.signal(target, signal.SIGKILL)  # so that one restores

        if not is_ours:
            kill_all()
            return True
        refusal = Refusal(("CorruptBlock",), topic, ("stream-dedup migrate",))
        happened = team.stop_refusing(refusal, kill_all, PATIENCE)
        self.changelog.forget()
        self._former.append(topic)
        name = f"{self._name}-changelog-{len(self._former)}"
        self._settings, self._direct = (_with_changelog(settings, name) for settings in (self._settings, self._direct))
        create_topics(self._direct)
        self.changelog.follow(self._direct)
        set_offsets(self._direct)  # it confirms the new changelog, as the worker's message says
        team.resume(self._settings)
        return happened

    def recreate_input(self, fault: Fault) -> bool:
        """The workers must end, and their message must have the command that starts at the new topic's beginning."""
        self._feeder.pause()
        wait_for_transactions(self._direct)
        topic = self._direct.topics.input
        fed = self._fed()
        refusal = Refusal(("TopicError",), topic, ("groups set-offset earliest", "create it"))
        happened = self.team.stop_refusing(
            refusal, lambda: recreate(self._direct, topic, self._feeder.partitions), PATIENCE
        )
        self._end_span(fed)
        self._next.pop(topic, None)
        set_offsets(self._direct, dict.fromkeys(range(self._feeder.partitions), 0))
        self.team.resume(self._settings)
        self._feeder.resume()
        return happened

    def truncate_input(self, fault: Fault) -> bool:
        """Set a partition back to a snapshot. What was read before belongs to a span that is over."""
        [node], [disk] = self._cluster.nodes, self._cluster.disks
        topic, partition = self._direct.topics.input, fault.target % self._feeder.partitions
        [stored] = disk.path.rglob(f"{topic}-{partition}")
        with TemporaryDirectory(prefix="stream-dedup-snapshot-") as directory:
            snapshot = Path(directory) / stored.name
            with self._drained() as is_drained:
                before = self._ends()
                copy_while_stopped(node, stored, snapshot)
            self.team.run(_TRUNCATED_SECONDS)
            with self._drained() as is_drained_again:
                if not (is_drained and is_drained_again and self._ends()[partition] > before[partition]):
                    return False
                fed = self._fed()
                refusal = Refusal(("RecordsGone",), topic, (f" --partitions {partition}",))
                restore = partial(copy_while_stopped, node, snapshot, stored)
                happened = self.team.stop_refusing(refusal, restore, PATIENCE)
                self._end_span(fed)
                self._next[topic] = self._ends()
                set_offsets(self._direct, {partition: self._next[topic][partition]})
                self.team.resume(self._settings)
            return happened

    def add_partition(self, fault: Fault) -> bool:
        with administrator(self._direct) as admin:
            admin.create_partitions({self._direct.topics.input: self._feeder.partitions + 1})
        self._feeder.partitions += 1
        return True

    def _node(self, fault: Fault) -> Any:
        return self._cluster.nodes[fault.target % len(self._cluster.nodes)]

    def kill_broker(self, fault: Fault) -> bool:
        node = self._node(fault)
        node.kill()
        return self._until(fault, node.restart)

    def fill_disk(self, fault: Fault) -> bool:
        node, disk = self._node(fault), self._cluster.disks[fault.target % len(self._cluster.nodes)]
        disk.fill(node.pid)
        has_ended = self.team.until(lambda: not node.is_running, PATIENCE)

        def recover() -> None:
            disk.make_room()
            node.kill()  # if it could not even end
            node.restart()

        self._until(fault, recover)
        return has_ended

    def elect_leaders(self, fault: Fault) -> bool:
        topics = [*self._direct.topics.model_dump().values(), "__consumer_offsets", "__transaction_state"]
        return elect(self._direct, topics[fault.target % len(topics)])

    def restart_broker(self, fault: Fault) -> bool:
        self._node(fault).restart()
        return True

    def freeze_broker(self, fault: Fault) -> bool:
        pid = self._node(fault).pid
        os.kill(pid, signal.SIGSTOP)
        return self._until(fault, lambda: os.kill(pid, signal.SIGCONT))

    def disturb(self, fault: Fault, begin: Callable[[Proxy], object]) -> bool:
        """Let the network fail, to all nodes or to one."""
        node = fault.target % (len(self._cluster.nodes) + 1)
        proxies = self._cluster.proxies[node : node + 1] or self._cluster.proxies
        for proxy in proxies:
            begin(proxy)
        return self._until(fault, lambda: [proxy.heal() for proxy in proxies])

    def _until(self, fault: Fault, end: Callable[[], object]) -> bool:
        mark = object()
        self._faulty.add(mark)

        def over() -> None:
            end()
            self._faulty.discard(mark)

        self.team.after(fault.seconds, over)
        return True


def _with_changelog(settings: Settings, topic: str) -> Settings:
    return settings.model_copy(update={"topics": settings.topics.model_copy(update={"changelog": topic})})


_FAULTS: Mapping[str, Callable[[Round, Fault], bool]] = {
    "worker_killed": lambda on, fault: on.team.signal(fault.target, signal.SIGKILL),
    "worker_stopped": lambda on, fault: on.team.signal(fault.target, signal.SIGTERM),
    "worker_frozen": lambda on, fault: on.team.signal(fault.target, signal.SIGSTOP, fault.seconds),
    "zombie": lambda on, fault: on.team.signal(fault.target, signal.SIGSTOP, fault.seconds),
    "transaction_failed": lambda on, fault: on.team.fail_transaction(fault.target),
    "clock_jumped": lambda on, fault: on.team.jump(fault.target, fault.count, fault.seconds),
    "rebalance_storm": lambda on, fault: on.team.storm(fault.seconds),
    "producer_fenced": Round.fence,
    "broker_killed": Round.kill_broker,
    "broker_restarted": Round.restart_broker,
    "broker_frozen": Round.freeze_broker,
    "network_cut": lambda on, fault: on.disturb(fault, Proxy.cut),
    "network_stalled": lambda on, fault: on.disturb(fault, Proxy.stall),
    "network_delayed": lambda on, fault: on.disturb(fault, lambda proxy: setattr(proxy, "delay", 0.05)),
    "answers_lost": lambda on, fault: on.disturb(fault, Proxy.swallow),
    "disk_full": Round.fill_disk,
    "leader_elected": Round.elect_leaders,
    "changelog_truncated": lambda on, fault: on.changelog.truncate(fault.target, _TRUNCATED_SHARE),
    "changelog_recreated": Round.recreate_changelog,
    "changelog_damaged": Round.damage_changelog,
    "input_recreated": Round.recreate_input,
    "input_truncated": Round.truncate_input,
    "partitions_added": Round.add_partition,
}
