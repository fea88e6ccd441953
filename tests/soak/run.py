"""A round of the soak: faults while a feeder feeds, then rest, then the check.

In: a plan, a cluster. Out: a `Result`: items, faults by kind, lost, repeated, violations. Each round has topics of its
own, so that a round's records fit into memory and a violation names few of them.
"""

import os
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.kafka.bounded import no_deadline
from stream_dedup.kafka.topics import create_topics
from stream_dedup.settings import Settings
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.observer import Observer
from stream_dedup.worker.state_store import StateStore
from tests.soak.checker import History, Refusal, Report, Span, check, check_index
from tests.soak.cluster import Cluster
from tests.soak.plan import BROKER_FAULTS, TOPIC_FAULTS, Fault, Plan
from tests.soak.proxy import Proxy
from tests.soak.stage import (
    Changelog,
    Feeder,
    Team,
    admin_of,
    begin_at_the_beginning,
    elect,
    recreate,
    settings_of,
    settle,
    unfinished,
)
from tests.worker.support import read_all

# Without any progress after the last fault: sessions, time-outs of transactions, retries, on a busy machine.
PATIENCE = 120.0
_AT_STEP = ("worker_killed_at_step", "zombie_at_step", "transaction_timed_out")
# Of the changelog, at most; the rest is what a restore still finds.
_TRUNCATED_SHARE = 0.3


@dataclass
class Result:
    """What a round has shown."""

    nodes: int
    report: Report
    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


class Round:
    """One plan on a cluster."""

    def __init__(self, plan: Plan, cluster: Cluster, items: int, items_s: float) -> None:
        self._plan, self._cluster, self._items, self._items_s = plan, cluster, items, items_s
        self._name = name = f"soak-{plan.seed}-{uuid.uuid4().hex[:6]}"
        self._settings = settings_of(cluster.proxied, plan.scope, name, plan.batch_items)
        self._direct = settings_of(cluster.direct, plan.scope, name, plan.batch_items)
        self._tasks = plan.partitions if plan.scope == "partition" else 1
        self._partitions = plan.partitions
        self._faulty: set[object] = set()  # broker faults that last
        self._spans: list[Span] = []  # that are over
        self._next: dict[str, dict[int, int]] = {}  # topic -> partition -> first offset of the present span
        self._former: list[str] = []  # changelogs
        self.faults: Counter[str] = Counter()

    def run(self) -> Result:
        try:
            return self._run()
        finally:
            self._delete_topics()

    def _run(self) -> Result:
        began, plan = time.monotonic(), self._plan
        create_topics(self._direct, partitions=plan.partitions)
        self._changelog = Changelog(self._direct, self._tasks)
        at_step = [fault for fault in plan.faults if fault.kind in _AT_STEP]
        others = [fault for fault in plan.faults if fault.kind not in _AT_STEP]
        violations: list[str] = []
        with ExitStack() as stack:
            self._team = team = stack.enter_context(Team(self._settings, plan.members, at_step, self.faults))
            self._feeder = stack.enter_context(
                Feeder(self._direct, plan.seed, self._items, self._items / self._items_s, plan.partitions)
            )
            # The faults come while it is fed, however long that takes.
            pause = max(0.0, self._items / self._items_s - sum(one.delay for one in others)) / (len(others) + 1)
            for fault in others:
                team.run(pause + fault.delay)
                while self._faulty and fault.kind in (*BROKER_FAULTS, *TOPIC_FAULTS):
                    team.run(0.2)  # one at a time: no cluster survives two dead brokers of three
                if getattr(self, f"_{fault.kind}")(fault):
                    self.faults[fault.kind] += 1
            while self._faulty or not self._feeder.is_done:
                team.run(0.5)
            least, since = float("inf"), time.monotonic()
            while left := unfinished(self._direct):
                if left < least:
                    least, since = left, time.monotonic()
                if time.monotonic() - since > PATIENCE:
                    violations.append(f"progress: {left} offsets are left, and for {PATIENCE:.0f} s none was processed")
                    break
                team.run(1.0)
            team.stop_all()
            violations += team.ended
        history = self._history()
        report = check(history)
        if not violations:
            for task in range(self._tasks):
                report.violations += self._index(history, task)
        report.violations += violations
        return Result(len(self._cluster.nodes), report, self.faults, time.monotonic() - began)

    def _history(self) -> History:
        self._end_span()
        return History(self._direct, self._spans, self._changelog.cut)

    def _end_span(self, fed: Sequence[Any] | None = None) -> None:
        """Read what has come since the last span; all workers are stopped. `fed`: of an input that is deleted."""
        time.sleep(1)  # the markers of the last commit
        topics, came = self._direct.topics, {}
        for topic in (topics.output, topics.duplicates, topics.dead_letters):
            came[topic] = read_all(self._direct, topic, start=self._next.setdefault(topic, {}))
            self._next[topic] |= {one.partition: one.offset + 1 for one in came[topic]}
        is_deleted = fed is not None
        if fed is None:
            fed = read_all(self._direct, topics.input)
        self._spans.append(Span(fed, came, self._changelog.end_span(), is_deleted))

    def _delete_topics(self) -> None:
        """Free the disk for the rounds that follow."""
        with admin_of(self._direct) as admin:
            admin.delete_topics([*self._direct.topics.model_dump().values(), *self._former], raise_errors=False)

    def _index(self, history: History, task: int) -> list[str]:
        """Restore an index from the changelog, and compare it with what went out."""
        context = WorkerContext(self._direct, Observer(), time.time, Deduplicator, no_deadline)
        store = StateStore(context, str(task) if history.is_split else "global", task)
        try:
            store.complete(lambda done, total: None)
            return check_index(history, store.dedup, task)
        finally:
            store.close()

    # -- faults of workers: each returns whether it happened --------------------------------------------------

    def _worker_killed(self, fault: Fault) -> bool:
        return self._team.kill(fault.target)

    def _worker_stopped(self, fault: Fault) -> bool:
        return self._team.stop(fault.target)

    def _worker_frozen(self, fault: Fault) -> bool:
        return self._team.freeze(fault.target, fault.seconds)

    _zombie = _worker_frozen

    def _transaction_failed(self, fault: Fault) -> bool:
        return self._team.fail_transaction(fault.target)

    def _clock_jumped(self, fault: Fault) -> bool:
        return self._team.jump(fault.target, fault.count, fault.seconds)

    def _rebalance_storm(self, fault: Fault) -> bool:
        return self._team.storm(fault.seconds)

    def _producer_fenced(self, fault: Fault) -> bool:
        task = str(fault.target % self._tasks) if self._plan.scope == "partition" else "global"

        def fence() -> None:
            with suppress(KafkaError):
                name = f"{self._direct.kafka.group_id}-{task}"
                with closing(KafkaProducer(bootstrap_servers=self._cluster.direct, transactional_id=name)) as producer:
                    producer.init_transactions()
                    self.faults["producer_fenced"] += 1

        threading.Thread(target=fence, daemon=True).start()
        return False  # counted when it has happened

    # -- faults of topics ------------------------------------------------------------------------------------

    def _changelog_truncated(self, fault: Fault) -> bool:
        return self._changelog.truncate(fault.target, _TRUNCATED_SHARE)

    @contextmanager
    def _drained(self) -> Iterator[bool]:
        """Nothing is fed in the block, and the workers have nothing to do, so that they write nothing to the changelog.
        False: they did not come to an end.
        """
        self._feeder.pause()
        try:
            settle(self._direct)
            deadline = time.monotonic() + PATIENCE
            while unfinished(self._direct) and time.monotonic() < deadline:
                self._team.run(0.5)
            yield not unfinished(self._direct)
        finally:
            self._feeder.resume()

    def _changelog_recreated(self, fault: Fault) -> bool:
        """Under workers that have nothing to do, so that no block is lost to the checker; they go on with what they
        remember, and members that take over later begin with less.
        """
        with self._drained() as is_drained:
            if is_drained:
                self._changelog.recreate()
            return is_drained

    def _changelog_damaged(self, fault: Fault) -> bool:
        """Another program's record, which who restores must skip, or a damaged block, which it must refuse. The cure is
        another changelog.
        """
        is_ours = fault.step % 2 == 1
        # A damaged block has the next number only while no other is written; one with a known number is ignored.
        with self._drained() as is_drained:
            if not is_drained or not self._changelog.damage(fault.target, is_ours=is_ours):
                return False
        topic = self._direct.topics.changelog
        if is_ours:
            self._team.refusal = Refusal(("CorruptBlock",), topic, ("stream-dedup migrate",))
        for target in range(len(self._team.slots)):
            self._team.kill(target)  # so that one restores
        if not is_ours:
            return True
        happened = self._team.wait_for_refusal(PATIENCE)
        if not happened:
            self._team.ended.append(f"refusal: no worker has refused the record in {topic} for {PATIENCE:.0f} s")
        self._team.stop_all()
        self._changelog.forget()
        self._former.append(topic)
        name = f"{self._name}-changelog-{len(self._former)}"
        self._settings, self._direct = (_with_changelog(one, name) for one in (self._settings, self._direct))
        create_topics(self._direct)
        self._changelog.follow(self._direct)
        self._team.resume(self._settings)
        return happened

    def _input_recreated(self, fault: Fault) -> bool:
        """The workers end, with the command that begins at the new topic's beginning."""
        self._feeder.pause()
        settle(self._direct)
        topic = self._direct.topics.input
        fed = read_all(self._direct, topic)
        self._team.refusal = Refusal(("TopicError",), topic, ("--to-earliest --execute", "create it"))
        recreate(self._direct, topic, self._partitions)
        happened = self._team.wait_for_refusal(PATIENCE)
        if not happened:
            self._team.ended.append(f"refusal: no worker has noticed for {PATIENCE:.0f} s that {topic} is another one")
        self._team.stop_all()
        self._end_span(fed)
        begin_at_the_beginning(self._direct)
        self._team.resume(self._settings)
        self._feeder.resume()
        return happened

    def _partitions_added(self, fault: Fault) -> bool:
        self._partitions += 1
        with admin_of(self._direct) as admin:
            admin.create_partitions({self._direct.topics.input: self._partitions})
        self._feeder.partitions.value = self._partitions
        return True

    # -- faults of brokers and the network -------------------------------------------------------------------

    def _node(self, fault: Fault) -> Any:
        return self._cluster.nodes[fault.target % len(self._cluster.nodes)]

    def _broker_killed(self, fault: Fault) -> bool:
        node = self._node(fault)
        node.kill()
        return self._until(fault, node.restart)

    def _disk_full(self, fault: Fault) -> bool:
        node, disk = self._node(fault), self._cluster.disks[fault.target % len(self._cluster.nodes)]
        disk.fill(node.pid)
        deadline = time.monotonic() + PATIENCE
        while node.is_running and time.monotonic() < deadline:
            self._team.run(0.2)
        has_ended = not node.is_running

        def recover() -> None:
            disk.make_room()
            node.kill()  # if it could not even end
            node.restart()

        self._until(fault, recover)
        return has_ended

    def _leader_elected(self, fault: Fault) -> bool:
        topics = [*self._direct.topics.model_dump().values(), "__consumer_offsets", "__transaction_state"]
        return elect(self._direct, topics[fault.target % len(topics)])

    def _broker_restarted(self, fault: Fault) -> bool:
        self._node(fault).restart()
        return True

    def _broker_frozen(self, fault: Fault) -> bool:
        pid = self._node(fault).pid
        os.kill(pid, signal.SIGSTOP)
        return self._until(fault, lambda: os.kill(pid, signal.SIGCONT))

    def _network_cut(self, fault: Fault) -> bool:
        return self._network(fault, Proxy.cut)

    def _network_stalled(self, fault: Fault) -> bool:
        return self._network(fault, Proxy.stall)

    def _answers_lost(self, fault: Fault) -> bool:
        return self._network(fault, Proxy.swallow)

    def _network_delayed(self, fault: Fault) -> bool:
        return self._network(fault, lambda proxy: setattr(proxy, "delay", 0.05))

    def _network(self, fault: Fault, begin: Callable[[Proxy], None]) -> bool:
        """To all nodes, or to one."""
        node = fault.target % (len(self._cluster.nodes) + 1)
        proxies = self._cluster.proxies[node : node + 1] or self._cluster.proxies
        for one in proxies:
            begin(one)

        def heal() -> None:
            for one in proxies:
                one.heal()

        return self._until(fault, heal)

    def _until(self, fault: Fault, end: Callable[[], object]) -> bool:
        mark = object()
        self._faulty.add(mark)

        def over() -> None:
            end()
            self._faulty.discard(mark)

        self._team.after(fault.seconds, over)
        return True


def _with_changelog(settings: Settings, topic: str) -> Settings:
    return settings.model_copy(update={"topics": settings.topics.model_copy(update={"changelog": topic})})
