"""`make observe`: fire every alert with a real broker, two members under load and a real Prometheus.

    python -m tests.operate.run [ALERT ...]     some alerts only; then no results are written

Every query of a panel or a rule must have data. Then the run causes one fault after another, from poison in the input
to a frozen broker. Each alert must fire while its fault lasts and resolve afterwards, and no record may be lost or come
twice. Alerts wait for seconds instead of minutes (`SHORT` in prometheus.py); thresholds and all else are those of
deploy/. It takes some ten minutes and writes tests/results/operate.json.
"""

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kafka.admin import KafkaAdminClient

from stream_dedup.demo.embedded import EmbeddedKafka, prepare
from stream_dedup.kafka.topics import create_topics
from tests.measured import record
from tests.operate.prometheus import Prometheus
from tests.operate.stage import PATIENCE, Load, Member
from tests.worker.support import make_settings, outcome, ready

RATE = 150.0
# Records in the input that no member has read. A second of load is normal; a fault's records wait behind them.
_MOST_BEHIND = 300
# How far the baseline of the share of duplicates reaches back; with a shorter one a jump looks normal.
_BASELINE_SECONDS = 45.0
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
        self.settings = ready(make_settings(self.kafka.bootstrap, str, worker=_WORKER))
        self.a = stack.enter_context(Member("a", self.settings, directory))
        self.b = stack.enter_context(Member("b", self.settings, directory))
        self.load = stack.enter_context(Load(self.settings, RATE))
        self.prometheus = stack.enter_context(Prometheus([self.a.address, self.b.address]))
        self.load.is_behind = self.is_behind
        self.a.start().wait_until("ok")
        self.b.start().wait_until("standby")

    def active(self) -> tuple[Member, Member]:
        """Wait for one active member and one standby; return both."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for one, other in ((self.a, self.b), (self.b, self.a)):
                if one.status == "ok" and other.status == "standby":
                    return one, other
            time.sleep(0.2)
        raise AssertionError(
            f"not one active and one standby: {self.a.status}, {self.b.status}\n{self.a.log()[-3000:]}"
        )

    def is_behind(self) -> bool:
        """Whether the members are far behind the load: on a busy machine they take less than `RATE`."""
        lag = self.prometheus.value("sum(stream_dedup_lag_records)")
        return not self.may_lag and lag is not None and lag > _MOST_BEHIND

    def freeze_broker(self) -> None:
        os.kill(self.kafka.pid, signal.SIGSTOP)

    def thaw_broker(self) -> None:
        os.kill(self.kafka.pid, signal.SIGCONT)


# -- faults: each lasts as long as its `with` block --------------------------------------------------------


@contextmanager
def poison(stage: Stage) -> Iterator[None]:
    """A producer sends records that are not JSON."""
    stage.load.shares = {"poison": 0.3}
    yield
    stage.load.usual()


@contextmanager
def some_compressed(stage: Stage) -> Iterator[None]:
    """One producer compresses its values itself."""
    stage.load.shares = {"new": 0.4, "packed": 0.03}
    yield
    stage.load.usual()


@contextmanager
def empty_texts(stage: Stage) -> Iterator[None]:
    """A crawler delivers headlines without texts."""
    stage.load.shares = {"bare": 0.6, "new": 0.2}
    yield
    stage.load.usual()


@contextmanager
def another_shape(stage: Stage) -> Iterator[None]:
    """Most records come in another format."""
    stage.load.shares = {"feed": 0.9}
    yield
    stage.load.usual()


@contextmanager
def flood(stage: Stage) -> Iterator[None]:
    """A source sends its archive again and again."""
    stage.load.shares = {"copy": 0.97}
    yield
    stage.load.usual()


@contextmanager
def nothing_alike(stage: Stage) -> Iterator[None]:
    """Each text has words of its own, as after a change of format."""
    stage.load.shares = {"new": 0.97}
    yield
    stage.load.usual()


@contextmanager
def template(stage: Stage) -> Iterator[None]:
    """A source writes thousands of items that differ in a few words."""
    stage.load.shares = {"template": 0.9}
    yield
    stage.load.usual()


@contextmanager
def in_seconds(stage: Stage) -> Iterator[None]:
    """One producer writes seconds instead of milliseconds."""
    stage.load.in_seconds = 0.1
    yield
    stage.load.usual()


@contextmanager
def few_originals(stage: Stage) -> Iterator[None]:
    """The index has room for fewer originals than the window has."""
    files = [one.faults / "few-originals" for one in (stage.a, stage.b)]
    for file in files:
        file.touch()
    yield
    for file in files:
        file.unlink()


@contextmanager
def slow_broker(stage: Stage) -> Iterator[None]:
    """The broker stops for three seconds again and again, and works for less than half a second in between."""
    # Few records, so that not many quick transactions fit between the slow ones.
    over, stage.load.rate = threading.Event(), 5.0

    def hiccup() -> None:
        while not over.is_set():
            stage.freeze_broker()
            time.sleep(3)
            stage.thaw_broker()
            over.wait(0.4)

    thread = threading.Thread(target=hiccup)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        stage.load.rate = RATE


@contextmanager
def overload(stage: Stage) -> Iterator[None]:
    """More records come than a member can process in small transactions."""
    stage.may_lag = True
    stage.load.rate, stage.load.shares = 800.0, {"new": 1.0}
    yield
    stage.may_lag = False
    stage.load.rate = RATE
    stage.load.usual()


@contextmanager
def slow_merges(stage: Stage) -> Iterator[None]:
    """Each merge takes half a second more, as on a machine that swaps."""
    files = [one.faults / "slow-merges" for one in (stage.a, stage.b)]
    stage.load.shares = {"new": 0.9}
    for file in files:
        file.touch()
    yield
    for file in files:
        file.unlink()
    stage.load.usual()


@contextmanager
def refused_batches(stage: Stage) -> Iterator[None]:
    """The broker refuses batches of more than two records without naming a record."""
    files = [one.faults / "refused-batches" for one in (stage.a, stage.b)]
    for file in files:
        file.touch()
    yield
    for file in files:
        file.unlink()


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
    active.start().wait_until("ok", "standby")
    yield
    active.stop()
    order.unlink()
    active.start().wait_until("ok", "standby")


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
    active.start().wait_until("ok", "standby")


@contextmanager
def all_stopped(stage: Stage) -> Iterator[None]:
    """All members are stopped."""
    members = stage.active()
    for one in members:
        one.stop()
    yield
    for one in members:
        one.start().wait_until("ok", "standby")


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
    members = stage.active()
    for one in members:
        one.kill()
    order = members[0].faults / "freeze-broker"
    order.write_text(str(stage.kafka.pid))
    members[0].start()
    deadline = time.monotonic() + PATIENCE
    while order.exists():
        assert time.monotonic() < deadline, f"the changelog is not read:\n{members[0].log()[-3000:]}"
        time.sleep(0.1)
    yield
    stage.thaw_broker()
    members[0].wait_until("ok")
    members[1].start().wait_until("ok", "standby")


@contextmanager
def recreated_changelog(stage: Stage) -> Iterator[None]:
    """The changelog is deleted and created anew; afterwards the members are restarted until the loss is reported."""
    stage.active()
    admin = KafkaAdminClient(bootstrap_servers=stage.kafka.bootstrap)
    try:
        admin.delete_topics([stage.settings.topics.changelog])
    finally:
        admin.close()
    deadline = time.monotonic() + PATIENCE
    while not create_topics(stage.settings):
        assert time.monotonic() < deadline, "the changelog is not deleted"
        time.sleep(0.1)
    yield
    # The first member to take over reports the loss of older state; the next one has nothing to report.
    for _ in range(2):
        members = stage.active()
        for one in members:
            one.stop()
        for one in members:
            one.start().wait_until("ok", "standby")


FAULTS: list[tuple[Callable[[Stage], Any], tuple[str, ...]]] = [
    (poison, ("DeadLetters",)),
    (some_compressed, ("DeadLettersJump",)),
    (empty_texts, ("FieldMissing",)),
    (another_shape, ("ShapeChanged",)),
    (flood, ("DuplicateShareHigh",)),
    (nothing_alike, ("DuplicateShareLow",)),
    (template, ("CrowdedKeys",)),
    (in_seconds, ("OddTimes",)),
    (few_originals, ("Evicting",)),
    (slow_merges, ("MergeSlow",)),
    (slow_broker, ("CommitSlow",)),
    (blind_standby, ("StandbyBehind",)),
    (refused_batches, ("Stuck",)),
    (killed, ("Down", "NoStandby")),
    (all_stopped, ("NoActive", "MetricsMissing")),
    (no_broker, ("Stalled", "Failing")),
    (frozen_restore, ("RestoreLong",)),
    (recreated_changelog, ("StateLost",)),
    (little_memory, ("MemoryNearLimit",)),
    (overload, ("LagGrowing",)),
]


def main() -> None:
    wanted = set(sys.argv[1:])
    prepare(say=print)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stream-dedup-operate-") as directory, ExitStack() as stack:
        stage = Stage(stack, Path(directory))
        results = _queries(stage)
        names = {
            name.removeprefix("StreamDedup") for name in stage.prometheus.rules() if name.startswith("StreamDedup")
        }
        _sleep_until(began + _BASELINE_SECONDS)
        _wait(lambda: not stage.prometheus.firing(), _RESOLVE_SECONDS)  # the members' starts
        at_rest = stage.prometheus.firing()
        print(f"at rest: {sorted(at_rest) or 'no alert fires'}")
        fired, resolved = dict[str, float](), dict[str, float]()
        for fault, alerts in FAULTS:
            if not wanted or wanted & set(alerts):
                _cause(stage, fault, alerts, fired, resolved)
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
    """Wait until every query has data, for `PATIENCE` seconds at most; return the results."""
    queries = stage.prometheus.queries()
    lacking, deadline = queries, time.monotonic() + PATIENCE
    while lacking and time.monotonic() < deadline:
        time.sleep(1)
        lacking = stage.prometheus.without_data(lacking)
    for name, query in lacking.items():
        print(f"no data: {name}: {query}")
    print(f"{len(queries) - len(lacking)} of {len(queries)} queries have data")
    return {"queries": len(queries), "queries_with_data_share": round(1 - len(lacking) / len(queries), 4)}


def _cause(
    stage: Stage,
    fault: Callable[[Stage], Any],
    alerts: tuple[str, ...],
    fired: dict[str, float],
    resolved: dict[str, float],
) -> None:
    """Cause one fault: its alerts must fire while it lasts, and resolve afterwards."""
    # The rates still show the previous fault; wait until they do not, so that each alert has one cause.
    _wait(lambda: not stage.prometheus.firing(pending=True) & {f"StreamDedup{one}" for one in alerts}, _RESOLVE_SECONDS)
    began = time.monotonic()
    with fault(stage):
        for one in alerts:
            if _wait(lambda one=one: f"StreamDedup{one}" in stage.prometheus.firing(), _FIRE_SECONDS):
                fired[one] = time.monotonic() - began
    began = time.monotonic()
    for one in alerts:
        over = _wait(lambda one=one: f"StreamDedup{one}" not in stage.prometheus.firing(), _RESOLVE_SECONDS)
        if over and one in fired:
            resolved[one] = time.monotonic() - began
        up, down = (f"{times[one]:.0f} s" if one in times else "NEVER" for times in (fired, resolved))
        print(f"{fault.__name__}: {one} fired after {up}, resolved after {down}", flush=True)


def _settled(stage: Stage) -> dict[str, float | int]:
    """Count the records that were lost or came twice, once no more have come for a while."""
    stage.load.__exit__()
    sent = {f"record-{number}".encode() for number in range(stage.load.sent)}
    fates, before = outcome(stage.settings).fates, -1
    while sent - fates.keys() and len(fates) > before:
        before = len(fates)
        time.sleep(_STANDSTILL_SECONDS)
        fates = outcome(stage.settings).fates
    lost, repeated = len(sent - fates.keys()), sum(count - 1 for count in fates.values())
    return {"faults_sent": len(sent), "faults_lost": lost, "faults_repeated": repeated}


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.3)
    return True


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


if __name__ == "__main__":
    main()
