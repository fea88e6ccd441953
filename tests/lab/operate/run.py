"""`make observe`: fire every alert with a real broker, two members under load and a real Prometheus.

    python -m tests.lab.operate.run [ALERT ...]     some alerts only; then no results are written

Every query of a panel or a rule must have data. Then the run causes one fault after another, from poison in the input
to a frozen broker. Each alert must fire while its fault lasts and resolve afterwards, and no record may be lost or come
twice. Alerts wait for seconds instead of minutes (`SHORT` in prometheus.py); thresholds and all else are those of
deploy/. It takes some fifteen minutes and writes tests/lab/results/operate.json.
"""

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from tests.broker import EmbeddedKafka, prepare
from tests.harness.check import outcome
from tests.harness.feed import Load
from tests.harness.member import Command
from tests.harness.topics import make_settings, ready, recreate
from tests.harness.wait import LONG_PATIENCE, holds, wait_until
from tests.lab.measured import record
from tests.lab.operate.prometheus import Prometheus
from tests.registry.server import AVRO, RegistryServer

RATE = 150.0
# Records in the input that no member has read. A second of load is normal; a fault's records wait behind them.
_MOST_BEHIND = 300
# How far the baseline of the share of duplicates reaches back; with a shorter one a jump looks normal.
_BASELINE_SECONDS = 45.0
_ALERT = "StreamDedup"  # what the names of alerts begin with
_FIRE_SECONDS, _RESOLVE_SECONDS = 120.0, 150.0
# A working member commits many times in this; even a take-over is shorter.
_STANDSTILL_SECONDS = 20.0
# Small transactions make a member slow, so that a feed of some hundred records a second is too much for it.
_WORKER = {"batch_items": 5, "session_timeout": "6s", "transaction_timeout": "8s"}


class Stage:
    """The broker, members, load and Prometheus that the faults act on."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        self.may_lag = False
        self.kafka = stack.enter_context(EmbeddedKafka())
        self.registry = stack.enter_context(RegistryServer())
        self.registry.register("AVRO", AVRO)
        own = {"worker": _WORKER, "registry": {"url": self.registry.url}}
        self.settings = ready(make_settings(self.kafka.bootstrap, str, **own))
        self.a = stack.enter_context(Command("a", self.settings, directory))
        self.b = stack.enter_context(Command("b", self.settings, directory))
        self.load = stack.enter_context(Load(self.settings, RATE))
        self.prometheus = stack.enter_context(Prometheus([self.a.address, self.b.address]))
        self.load.is_behind = self.is_behind
        self.a.start().wait_until("ok")
        self.b.start().wait_until("standby")

    def active(self) -> tuple[Command, Command]:
        """Wait for one active member and one standby; return both."""
        pair = ("ok", "standby")
        if not holds(lambda: pair in ((self.a.status, self.b.status), (self.b.status, self.a.status)), LONG_PATIENCE):
            states = f"{self.a.status}, {self.b.status}"
            raise AssertionError(f"not one active and one standby: {states}\n{self.a.log()[-3000:]}")
        return (self.a, self.b) if self.a.status == "ok" else (self.b, self.a)

    def is_behind(self) -> bool:
        """Whether the members are far behind the load, or none works: on a busy machine they take less than `RATE`."""
        lag = self.prometheus.value("sum(stream_dedup_lag_records)")
        return not self.may_lag and (lag is None or lag > _MOST_BEHIND)

    def signal_broker(self, number: int) -> None:
        os.kill(self.kafka.pid, number)


# -- faults that are more than other records: each lasts as long as its `with` block -----------------------


@contextmanager
def slow_broker(stage: Stage) -> Iterator[None]:
    """The broker stops for three seconds again and again, and works for a tenth of a second in between."""
    over = threading.Event()

    def hiccup() -> None:
        while not over.is_set():
            stage.signal_broker(signal.SIGSTOP)
            time.sleep(3)
            stage.signal_broker(signal.SIGCONT)
            over.wait(0.1)

    thread = threading.Thread(target=hiccup)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def overload(stage: Stage) -> Iterator[None]:
    """More records come than a member can process in small transactions."""
    stage.may_lag = True
    yield
    stage.may_lag = False


def start(*members: Command) -> None:
    for member in members:
        member.start().wait_until("ok", "standby")


@contextmanager
def little_memory(stage: Stage) -> Iterator[None]:
    """A member believes that it has half of the memory that it needs, and then that it has enough."""
    active, _ = stage.active()
    query = f'process_resident_memory_bytes{{instance="{active.address}"}}'
    taken = stage.prometheus.value(query)
    assert taken, query
    active.stop()
    order = active.faults / "little-memory"
    order.write_text(f"{0.5 * taken:.0f}")
    start(active)
    yield
    active.stop()
    order.unlink()
    start(active)


@contextmanager
def blind_standby(stage: Stage) -> Iterator[None]:
    """The standby cannot read the changelog."""
    _, standby = stage.active()
    (standby.faults / "blind-standby").touch()
    yield
    (standby.faults / "blind-standby").unlink()


@contextmanager
def killed(stage: Stage) -> Iterator[None]:
    """The active member is killed, and restarted when the block ends."""
    active, _ = stage.active()
    active.kill()
    yield
    start(active)


@contextmanager
def all_stopped(stage: Stage) -> Iterator[None]:
    """All members are stopped."""
    members = stage.active()
    for member in members:
        member.stop()
    yield
    start(*members)


@contextmanager
def no_broker(stage: Stage) -> Iterator[None]:
    """The broker is killed, and comes back with its data."""
    stage.active()
    stage.kafka.kill()
    yield
    stage.kafka.restart()


@contextmanager
def frozen_restore(stage: Stage) -> Iterator[None]:
    """All members are killed, and the broker freezes while the first one back reads the changelog."""
    first, second = stage.active()
    for member in (first, second):
        member.kill()
    order = first.faults / "freeze-broker"
    order.write_text(str(stage.kafka.pid))
    first.start()
    wait_until(lambda: not order.exists(), "the changelog is read", LONG_PATIENCE)
    yield
    stage.signal_broker(signal.SIGCONT)
    first.wait_until("ok")
    start(second)


@contextmanager
def recreated_changelog(stage: Stage) -> Iterator[None]:
    """The changelog is deleted and created anew; afterwards the members are restarted until the loss is reported."""
    stage.active()
    recreate(stage.settings, stage.settings.topics.changelog)
    yield
    # The first member to take over reports the loss of older state; the next one has nothing to report.
    for _ in range(2):
        with all_stopped(stage):
            pass


@contextmanager
def open_transaction(stage: Stage) -> Iterator[None]:
    """A producer leaves its transaction open in the input, and what comes after it waits."""
    stage.active()
    stage.may_lag = True
    config = {"bootstrap_servers": stage.kafka.bootstrap, "transactional_id": "hanging"}
    with closing(KafkaProducer(**config, transaction_timeout_ms=600_000)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(stage.settings.topics.input, b"{}", partition=0).get(10)
        yield
        producer.abort_transaction()
    stage.may_lag = False


@contextmanager
def no_registry(stage: Stage) -> Iterator[None]:
    """The schema registry is away while a producer begins to write Avro, whose schema no member knows yet."""
    stage.registry.stop()
    yield
    stage.registry.start()


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and the alerts that say so.

    `load`: what `Load` sends meanwhile; `file`: the built-in fault of both members (member.py); `more`: all else, in a
    context manager.
    """

    name: str
    alerts: tuple[str, ...]
    load: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""
    more: Callable[[Stage], AbstractContextManager[None]] = lambda stage: nullcontext()

    @contextmanager
    def lasting(self, stage: Stage) -> Iterator[None]:
        """Let it last as long as the `with` block."""
        files = [member.faults / self.file for member in (stage.a, stage.b) if self.file]
        for name, value in self.load.items():
            setattr(stage.load, name, value)
        for file in files:
            file.touch()
        with self.more(stage):
            yield
        for file in files:
            file.unlink()
        stage.load.rate = RATE
        stage.load.usual()


FAULTS = [
    Fault("a producer sends records that are not JSON", ("DeadLetters",), {"shares": {"poison": 0.3}}),
    Fault("one producer compresses values itself", ("DeadLettersJump",), {"shares": {"new": 0.4, "packed": 0.03}}),
    Fault("headlines come without texts", ("FieldMissing",), {"shares": {"bare": 0.6, "new": 0.2}}),
    Fault("most records come in another format", ("ShapeChanged",), {"shares": {"feed": 0.9}}),
    Fault("a source sends its archive again and again", ("DuplicateShareHigh",), {"shares": {"copy": 0.97}}),
    Fault("each text has words of its own", ("DuplicateShareLow",), {"shares": {"new": 0.97}}),
    Fault("thousands of items differ in a few words", ("CrowdedKeys",), {"shares": {"template": 0.9}}),
    Fault("one producer writes seconds for milliseconds", ("OddTimes",), {"in_seconds": 0.1}),
    Fault("the index has less room than the window", ("Evicting",), file="few-originals"),
    Fault("each merge takes half a second more", ("MergeSlow",), {"shares": {"new": 0.9}}, "slow-merges"),
    # Few records, so that not many quick transactions fit between the slow ones.
    Fault("the broker stops again and again", ("CommitSlow",), {"rate": 5.0}, more=slow_broker),
    Fault("the standby cannot read the changelog", ("StandbyBehind",), more=blind_standby),
    Fault("the broker refuses batches of several records", ("Stuck",), file="refused-batches"),
    Fault("the active member is killed", ("Down", "NoStandby"), more=killed),
    Fault("all members are stopped", ("NoActive", "MetricsMissing"), more=all_stopped),
    # Few records, since all wait for a minute and more, and are worked off afterwards.
    Fault("a producer leaves a transaction open", ("Waiting", "BacklogStays"), {"rate": 50.0}, more=open_transaction),
    Fault("a mirror is an hour late", ("Stale",), {"late": 3600.0}),
    Fault("the schema registry is away", ("RegistryAway",), {"shares": {"framed": 0.05}}, more=no_registry),
    Fault("the broker is killed", ("Stalled", "Failing"), more=no_broker),
    Fault("the broker freezes during a restore", ("RestoreLong",), more=frozen_restore),
    Fault("the changelog is recreated", ("StateLost",), more=recreated_changelog),
    Fault("a member has half of the memory it needs", ("MemoryNearLimit",), more=little_memory),
    Fault("more comes than a member takes", ("LagGrowing",), {"rate": 800.0, "shares": {"new": 1.0}}, more=overload),
]


def main() -> None:
    wanted = set(sys.argv[1:])
    prepare()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stream-dedup-operate-") as directory, ExitStack() as stack:
        stage = Stage(stack, Path(directory))
        results = _queries(stage)
        names = {name.removeprefix(_ALERT) for name in stage.prometheus.rules() if name.startswith(_ALERT)}
        time.sleep(max(0.0, began + _BASELINE_SECONDS - time.monotonic()))
        holds(lambda: not stage.prometheus.firing(), _RESOLVE_SECONDS)  # the members' starts
        at_rest = stage.prometheus.firing()
        print(f"at rest: {sorted(at_rest) or 'no alert fires'}")
        fired, resolved = dict[str, float](), dict[str, float]()
        for fault in FAULTS:
            if not wanted or wanted & set(fault.alerts):
                _cause(stage, fault, fired, resolved)
        results |= _settled(stage)
    results |= {
        "alerts": len(names),
        "alerts_at_rest": len(at_rest),
        "alerts_fired_share": round(len(fired) / len(names), 4),
        "alerts_resolved_share": round(len(resolved) / len(names), 4),
        "observe_minutes": round((time.monotonic() - began) / 60, 1),
    }
    print(results)
    missing = names - resolved.keys()
    if wanted:
        print(f"not requested, or failed: {sorted(missing)}")
        return
    record("operate", results)
    bad = missing or at_rest or results["queries_with_data_share"] != 1 or results["faults_lost"]
    sys.exit(1 if bad or results["faults_repeated"] else 0)


def _queries(stage: Stage) -> dict[str, float | int]:
    """Wait until every query has data, for `LONG_PATIENCE` seconds at most; return the results."""
    queries = stage.prometheus.queries()
    lacking, deadline = queries, time.monotonic() + LONG_PATIENCE
    while lacking and time.monotonic() < deadline:
        time.sleep(1)
        lacking = stage.prometheus.without_data(lacking)
    for name, query in lacking.items():
        print(f"no data: {name}: {query}")
    print(f"{len(queries) - len(lacking)} of {len(queries)} queries have data")
    return {"queries": len(queries), "queries_with_data_share": round(1 - len(lacking) / len(queries), 4)}


def _cause(stage: Stage, fault: Fault, fired: dict[str, float], resolved: dict[str, float]) -> None:
    """Cause one fault: its alerts must fire while it lasts, and resolve afterwards."""
    # The rates still show the previous fault, and its records may wait; each alert must have one cause.
    own = {f"{_ALERT}{alert}" for alert in fault.alerts}
    holds(lambda: not stage.is_behind() and not stage.prometheus.firing(pending=True) & own, LONG_PATIENCE)
    began = time.monotonic()
    with fault.lasting(stage):
        for alert in fault.alerts:
            if holds(lambda alert=alert: f"{_ALERT}{alert}" in stage.prometheus.firing(), _FIRE_SECONDS):
                fired[alert] = time.monotonic() - began
    began = time.monotonic()
    for alert in fault.alerts:
        over = holds(lambda alert=alert: f"{_ALERT}{alert}" not in stage.prometheus.firing(), _RESOLVE_SECONDS)
        if over and alert in fired:
            resolved[alert] = time.monotonic() - began
        up, down = (f"{times[alert]:.0f} s" if alert in times else "NEVER" for times in (fired, resolved))
        print(f"{fault.name}: {alert} fired after {up}, resolved after {down}", flush=True)


def _settled(stage: Stage) -> dict[str, float | int]:
    """Count the records that were lost or came twice, once no more have come for a while."""
    stage.load.__exit__()
    sent = {f"record-{number}".encode() for number in range(stage.load.sent)}
    came, before = outcome(stage.settings), -1
    while sent - came.fates.keys() and len(came.every) > before:
        before = len(came.every)
        time.sleep(_STANDSTILL_SECONDS)
        came = outcome(stage.settings)
    lost, repeated = came.lost_and_repeated(sent)
    return {"faults_sent": len(sent), "faults_lost": len(lost), "faults_repeated": len(repeated)}


if __name__ == "__main__":
    main()
