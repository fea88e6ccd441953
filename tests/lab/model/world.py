"""A world in which workers run a schedule: a broker, processes that start and die, feeders, and trouble.

When the trouble is over and there was time to recover, the guarantees of docs/operating.md are checked (invariants.py).
The workers are the real class with the real index. Each runs in a process of its own, which can be killed at a step of
the commit protocol, frozen or stopped, and is restarted as by a supervisor.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from kafka import TopicPartition
from kafka import errors as kafka_errors

from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import StreamDedupError
from stream_dedup.settings import Settings
from stream_dedup.tools.topics.setup import create_topics
from stream_dedup.worker.observer import CommitStep, Observer
from stream_dedup.worker.restore import index_partitions
from stream_dedup.worker.worker import Worker
from tests.lab.model import invariants
from tests.lab.model.broker import Broker, Fault
from tests.lab.model.edges import runtime_on, small
from tests.lab.model.items import ODD, ODD_BYTES, Made, Source, number_of, settings_for
from tests.lab.model.log import Record
from tests.lab.model.schedule import Plan
from tests.lab.model.simulation import Killed, Process, Simulation, Stop

# Seconds after the last trouble in which everything must be judged: enough for a dead member's session and transaction,
# the longest pause between retries, and a few retries. Real runs need a tenth of it.
PATIENCE = 90.0
# Seconds for which a member that cannot work, or a task that cannot open, may delay the work of others.
TOLERANCE = 60.0
_DAY = 24 * 3600.0
_ERRORS: Mapping[str, Callable[[], Exception]] = {
    "timeout": lambda: kafka_errors.KafkaTimeoutError("no answer in time"),
    "connection": lambda: kafka_errors.KafkaConnectionError("the connection is lost"),
    "coordinator": lambda: kafka_errors.CoordinatorNotAvailableError("no coordinator"),
    "sequence": lambda: kafka_errors.OutOfOrderSequenceNumberError("out of order"),
}


@lru_cache
def settings_of(scope: str, batch_items: int, has_rules: bool) -> Settings:
    rules = {"pass": ["0.example"], "prefer": ["1.example"]} if has_rules else {}
    times = {"session_timeout": "3s", "transaction_timeout": "6s"}
    return settings_for("model:9092", str, rules, scope=scope, batch_items=batch_items, **times)


class Index(Decider):
    """The real decider; records whether it was closed. `before`: the process's previous index, if any."""

    is_closed = False
    made_in = closed_in = 0  # the process's epoch, see Life.may_forget
    life: "Life | None" = None

    def __init__(self, settings: Settings, before: "Index | None" = None) -> None:
        super().__init__(settings)

    def close(self) -> None:
        self.is_closed = True
        if self.life is not None:
            self.closed_in = self.life.epoch
        super().close()


class Life(Observer):
    """A process with a worker, from its start to its end. It counts its steps, and is killed or frozen at one."""

    def __init__(self, world: "World", slot: int, number: int) -> None:
        self.world, self.slot = world, slot
        self.process = Process(f"worker{slot}.{number}")
        self.stop = Stop(world.simulation)
        self.steps: Counter[CommitStep] = Counter()
        self.epoch = 0
        self.opened: set[str] = set()
        self.indexes: list[Index] = []
        self.worker: Worker | None = None
        self.failure: Exception | None = None
        self.is_over = False
        self.orders: list[tuple[CommitStep, int, str, float]] = []
        world.simulation.spawn(self.process.name, self.process, self._run)

    def _run(self) -> None:
        world = self.world
        try:
            self.worker = Worker(world.settings, observer=self, runtime=world.runtime, decider=self.make_index)
            self.worker.run(self.stop)
        except (StreamDedupError, LookupError) as error:  # the latter is the library's, and a bug of ours
            self.failure = error
        finally:
            self.is_over = True
            if self.process.dead_since is None:
                self.process.dead_since = world.simulation.now  # its clients went with it
                world.broker.group(world.settings.kafka.group_id).check_sessions()
                world.ended(self)

    def may_forget(self) -> None:
        """Start an epoch in which an index may be restored anew: pending batches may be lost, or the task has moved."""
        self.epoch += 1

    def make_index(self, settings: Settings) -> Index:
        """An empty index. Whoever had one, had no reason to throw it away, and wants another, reads all again."""
        world, before = self.world, self.indexes
        if any(one.is_closed and one.made_in == one.closed_in == self.epoch for one in before):
            world.thrown.append(f"thrown: {self.process.name} reads all again and has had no reason to forget it")
        index = world.index(settings, before[-1] if before else None)
        index.life, index.made_in = self, self.epoch
        self.indexes.append(index)
        return index

    def step(self, step: CommitStep, task: str) -> None:
        self.steps[step] += 1
        if step is CommitStep.APPLY:
            self.may_forget()
        for order in list(self.orders):
            at, count, what, seconds = order
            if at == step and self.steps[step] >= count and order in self.orders:
                self.orders.remove(order)
                if what == "kill":
                    self.world.end_life(self, seconds)
                    raise Killed
                self.freeze(seconds)
                self.world.simulation.sleep(0)

    def task_opened(self, task: str, partitions: Any, remembered: int, seconds: float) -> None:
        self.opened.add(task)

    def task_lost(self, task: str, reason: str) -> None:
        self.opened.discard(task)

    def rebalanced(self, partitions: Any) -> None:
        if self.world.plan.scope == "partition":
            self.may_forget()

    def freeze(self, seconds: float) -> None:
        self.process.frozen_until = max(self.process.frozen_until, self.world.simulation.now + seconds)
        self.world.broker.group(self.world.settings.kafka.group_id).check_sessions()


class World:
    """A broker, workers, and methods that feed and break. `run` returns the violations."""

    index: type[Index] = Index  # plants.py replaces it

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.violations: list[str] = []
        self.excuses: set[str] = set()  # why workers may end with an error
        self.simulation = Simulation(plan.seed)
        self.broker = Broker(self.simulation)
        self.runtime = runtime_on(self.broker)
        self.settings = settings_of(plan.scope, plan.batch_items, plan.seed % 2 == 1)
        self.data = random.Random(plan.seed + 1)
        self.source = Source(self.data, odd=plan.odd, wild=plan.wild)
        self.made: dict[int, Made] = {}
        self.lives: list[Life | None] = [None] * plan.members
        self.dead: list[Life] = []
        self.numbers = 0
        self.is_done = False
        self.is_closing = False
        self.refused: set[int] = set()
        self.seen: set[int] = set()  # the numbers of records with an outcome
        self.looked: dict[str, list[int]] = {}  # topic -> the numbers of the committed records read so far
        self.thrown: list[str] = []  # indexes that were dropped without a reason

    # -- running -----------------------------------------------------------------------------------------

    def run(self) -> list[str]:
        with small():
            try:
                self.simulation.spawn("world", self.broker.process, self._live)
                self.simulation.run(lambda: self.is_done, 10_000 * _DAY)
            finally:
                self.simulation.end()
                for life in [*self.dead, *filter(None, self.lives)]:
                    for index in life.indexes:
                        index.close()
        return self.violations

    def _live(self) -> None:
        self._set_up()
        for slot in range(self.plan.members):
            self._start(slot)
        for event in self.plan.events:
            self.simulation.sleep(event.delay)
            getattr(self, event.name)(*event.arguments)
        self._calm()
        self.wait_for(lambda: not invariants.missing(self) or self._has_refused(), PATIENCE)
        invariants.check(self)
        self.is_done = True

    def _set_up(self) -> None:
        topics, plan, broker = self.settings.topics, self.plan, self.broker
        broker.create(topics.input, plan.inputs)
        wide = {"max.message.bytes": "2000000"}
        if plan.outputs != plan.inputs or plan.compact:
            extra = {"cleanup.policy": "compact"} if plan.compact else {}
            broker.create(topics.output, plan.outputs, {**wide, **extra})
            broker.create(topics.duplicates, plan.outputs, wide)
            broker.create(topics.dead_letters, plan.outputs, wide)
        create_topics(self.settings, runtime=self.runtime)

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        return self.simulation.wait_for(condition, seconds, 0.25)

    def _calm(self) -> None:
        """End all trouble."""
        self.broker.faults.clear()
        for life in self.lives:
            if life is not None:
                life.orders.clear()

    def _has_refused(self) -> bool:
        """Whether a worker has ended with an error, so that waiting for the lag is useless."""
        return any(life.failure is not None for life in self.dead)

    # -- processes ---------------------------------------------------------------------------------------

    def _start(self, slot: int) -> None:
        if self.lives[slot] is None and not self.is_closing:
            self.numbers += 1
            self.lives[slot] = Life(self, slot, self.numbers)

    def ended(self, life: Life) -> None:
        """Note that a process has ended by itself; restart it."""
        self.dead.append(life)
        self.lives[life.slot] = None
        self.simulation.call_at(self.simulation.now + 3, lambda: self._start(life.slot))

    def end_life(self, life: Life, restart_after: float) -> None:
        """Kill a process and restart it later."""
        if life.process.dead_since is not None:
            return
        life.process.dead_since = self.simulation.now
        self.broker.group(self.settings.kafka.group_id).check_sessions()
        self.dead.append(life)
        if self.lives[life.slot] is life:
            self.lives[life.slot] = None
            self.simulation.call_at(self.simulation.now + restart_after, lambda: self._start(life.slot))

    # -- events ------------------------------------------------------------------------------------------

    def feed(
        self, partition: int, count: int, transactional: bool = False, commits: bool = True, held: float = 0
    ) -> None:
        topic = self.settings.topics.input
        partition %= len(self.broker.topics[topic].logs)
        place, incarnation = TopicPartition(topic, partition), self.broker.topics[topic].incarnation
        producer, name = None, f"feeder-{self.source.count}"
        if transactional:
            producer = self.broker.begin_producer(name, 1e9)
            self.broker.add_place(name, *producer, place)
        for start in range(0, count, 3):
            some = [self.source.make(self.broker.now_ms()) for _ in range(min(3, count - start))]
            base = self.broker.feed(
                place, [one.record for one in some], producer, {ODD: ODD_BYTES} if self.plan.odd else None
            )
            for i, one in enumerate(some):
                one.place = (incarnation, partition, base + i)
                if commits or not transactional:
                    self.made[one.number] = one
        if producer is not None:
            end = partial(self.broker.end_transaction, name, *producer, commits)
            self.simulation.call_at(self.simulation.now + held, end)

    def _at(self, slot: int) -> Life | None:
        return self.lives[slot % self.plan.members]

    def kill(self, slot: int, restart_after: float) -> None:
        if (life := self._at(slot)) is not None:
            self.end_life(life, restart_after)

    def kill_at(self, slot: int, step: int, count: int, restart_after: float, what: str = "kill") -> None:
        if (life := self._at(slot)) is not None:
            at = CommitStep(step)
            life.orders.append((at, life.steps[at] + count, what, restart_after))

    def freeze_at(self, slot: int, step: int, count: int, seconds: float) -> None:
        self.kill_at(slot, step, count, seconds, "freeze")

    def freeze(self, slot: int, seconds: float) -> None:
        if (life := self._at(slot)) is not None:
            life.freeze(seconds)

    def stop(self, slot: int, seconds: float) -> None:
        """Stop a worker, as by SIGTERM; it is restarted later."""
        if (life := self._at(slot)) is not None:
            life.stop.set()

    def trouble(
        self, api: str, error: str, seconds: float, hang: float = 0.0, done: float = 0.0, calls: int = 2**30, **of: Any
    ) -> None:
        """Let calls fail: of all, or of the process or partition that `of` names."""
        until = self.simulation.now + seconds
        self.broker.faults.append(Fault(api, until, _ERRORS[error], hang=hang, done=done, left=calls, **of))

    def delete_read(self) -> None:
        """Delete all records that have an outcome, and control records too, as by retention."""
        open_ones = {self.made[number].place for number in invariants.missing(self)}
        topic = self.broker.topics[self.settings.topics.input]
        for partition, log in enumerate(topic.logs):
            first = min((offset for _, one, offset in open_ones if one == partition), default=log.stable)
            log.delete_before(min(first, log.stable))

    def delete_unread(self, partition: int) -> None:
        """Delete records before they are read, as by retention. A deletion of control records alone needs no notice."""
        name = self.settings.topics.input
        topic = self.broker.topics[name]
        partition %= len(topic.logs)
        log, place = topic.logs[partition], TopicPartition(name, partition)
        found = self.broker.group(self.settings.kafka.group_id).offsets.get(place)
        committed = found.offset if found is not None else 0
        ends = (batch.base + batch.count for batch in log.batches if batch.commits is None)
        if any(committed < end <= log.stable for end in ends):  # a commit may stand inside a batch
            self.excuses.add("unread records were deleted")
        for number in invariants.missing(self):
            one = self.made[number]
            if one.place[:2] == (topic.incarnation, partition) and one.place[2] < log.stable:
                one.waived = True
        log.delete_before(log.stable)

    def cripple_active(self, api: str) -> None:
        """Let the active member's producer fail, and no other; its heartbeats go on."""
        self._calm()
        if not self.wait_for(lambda: any(life is not None and life.opened for life in self.lives), 60):
            return
        active = next(life for life in self.lives if life is not None and life.opened)
        others = [life for life in self.lives if life is not None and life is not active]
        for failing, calls in ((api, 2**30), ("commit", 1), ("init", 2**30)):  # it fails now, and cannot open again
            self.trouble(failing, "timeout", TOLERANCE + 10, calls=calls, process=active.process)
        self.feed(0, 2)
        self._others_go_on("a member that cannot work keeps the active role", lambda made: True, others)

    def break_task(self, partition: int) -> None:
        """Make the changelog partitions of one task unavailable: the task fails, and no member can open it."""
        self._calm()
        places = index_partitions(self.settings.topics.changelog, partition)
        for api in ("offsets", "fetch", "produce"):
            for place in places:
                self.trouble(api, "timeout", TOLERANCE + 10, place=place)
        for one in range(len(self.broker.topics[self.settings.topics.input].logs)):
            self.feed(one, 1)
        self._others_go_on(
            "a task that cannot open holds up the healthy ones", lambda made: made.place[1] != partition,
            [life for life in self.lives if life is not None],
        )  # fmt: skip

    def _others_go_on(self, what: str, concerned: Callable[[Made], bool], others: list[Life]) -> None:
        def is_done() -> bool:
            return not any(concerned(self.made[number]) for number in invariants.missing(self)) or self._has_refused()

        if not self.wait_for(is_done, TOLERANCE) and any(life.process.dead_since is None for life in others):
            late = [n for n in invariants.missing(self) if concerned(self.made[n])]
            self.violations.append(f"stuck: {what}: {len(late)} records wait for {TOLERANCE:.0f} s: {late[:5]}")
        self.broker.faults.clear()

    def refuse_some(self, share: float) -> None:
        """Let the broker refuse some of the records of output and duplicates from now on."""
        topics = self.settings.topics

        def refuses(topic: str, record: Record) -> bool:
            number = number_of(record)
            is_refused = number % 100 < share * 100 and topic in (topics.output, topics.duplicates)
            if is_refused:
                self.refused.add(number)
            return is_refused

        self.broker.refuses = refuses

    def recreate_input(self, count: int) -> None:
        """Stop all workers, delete and create the input anew, and put other records at the same offsets."""
        self._pause_all()
        topic = self.settings.topics.input
        for number in invariants.missing(self):
            self.made[number].waived = True
        self.broker.delete(topic)
        self.broker.create(topic, self.plan.inputs)
        self.excuses.add("the input was recreated")
        for partition in range(self.plan.inputs):
            self.feed(partition, count)
        self._resume_all()

    def long_stop(self, days: float) -> None:
        """Stop all workers, for longer than offsets or the changelog are kept."""
        self._pause_all()
        self.simulation.sleep(days * _DAY)
        self.broker.group(self.settings.kafka.group_id).expire()
        for log in self.broker.topics[self.settings.topics.changelog].logs:
            config = self.broker.topics[self.settings.topics.changelog].config
            log.delete_older(self.broker.now_ms() - int(config["retention.ms"]))
        if days > 7:
            self.excuses.add("the group's offsets have expired")
        self._resume_all()

    def _pause_all(self) -> None:
        self.is_closing = True
        for life in self.lives:
            if life is not None:
                life.stop.set()
        self.wait_for(lambda: not any(self.lives) and not self.broker.group(self.settings.kafka.group_id).members, 60)
        self.simulation.sleep(10)  # open transactions have timed out

    def _resume_all(self) -> None:
        self.is_closing = False
        for slot in range(self.plan.members):
            self._start(slot)

    def add_partitions(self, more: int, lag: float = 0.0) -> None:
        topic = self.settings.topics.input
        count = len(self.broker.topics[topic].logs) + more
        self.broker.add_partitions(topic, count, lag)
        if self.plan.scope == "partition":
            self.excuses.add("the changelog has too few partitions")
        for partition in range(count):
            self.feed(partition, 1)
