"""Measure hiccups, take-overs and a rolling restart, at 1,000 items a second and a million originals.

    python -m tests.lab.operate.takeover

The changelog has made-up originals, first one and then 2,000 per transaction. No record may be lost or come twice.
The results go to tests/lab/results/operate.json:

- Hiccups: `_HICCUPS` transactions of the active member fail, alternately before their commit and after it. Measured is
  the time until its task is open again, and its own work in that time (the rest is a pause).
- Take-overs: the active member gets SIGKILL, `_KILLS` times, each time with a new standby. Measured is the time until
  the standby's first commit, which includes the session time-out after which the broker notices the death.
- A rolling restart: the active member gets SIGTERM, and after its successor has started the other one does. Measured is
  the longest time between two commits.
"""

import signal
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

from stream_dedup.settings import Settings
from tests.broker import EmbeddedKafka, prepare
from tests.harness.check import lost_and_repeated
from tests.harness.feed import Load
from tests.harness.member import Member
from tests.harness.topics import make_settings, ready, worked_off
from tests.harness.wait import LONG_PATIENCE
from tests.lab.benchmarks.restore import ORIGINALS_PER_TRANSACTION, fill_changelog
from tests.lab.measured import record

ORIGINALS = 10**6
RATE = 1000.0
# Default is 10 s. Clusters allow 6 s without a change (group.min.session.timeout.ms), the embedded one 1 s.
SESSION_SECONDS = 2.5
_KILLS = 3
_HICCUPS = 6
_STEADY_SECONDS = 8.0  # of undisturbed work before each event
_LIMIT_SECONDS = 5.0
_REOPEN_SECONDS = 0.5


def _opened(member: Member) -> Mapping[str, Any]:
    """Wait until the member has opened the task, with all originals."""
    opened = member.wait_for("opened", LONG_PATIENCE)
    assert opened["remembered"] >= ORIGINALS, opened
    return opened


class Team:
    """An active member and a standby; a member that ends is replaced."""

    def __init__(self, stack: ExitStack, settings: Settings) -> None:
        self._stack, self._settings = stack, settings
        self.everybody: list[Member] = []
        self.active = self._join()
        _opened(self.active)
        self.standby = self._join()
        self.wait_for_standby()

    def _join(self) -> Member:
        member = self._stack.enter_context(Member(self._settings, {"tell_standby": True}))
        self.everybody.append(member)
        return member.go()

    def wait_for_standby(self) -> None:
        """Wait until it has read the changelog, and gets no more originals than come in a second."""
        before = 0
        while True:
            remembered = self.standby.wait_for("stands_by", LONG_PATIENCE)["remembered"]
            if before >= ORIGINALS and remembered - before < RATE:
                return
            before = remembered

    def replace_active(self, number: int) -> float:
        """Send a signal to the active member; return the seconds until the standby's first commit. Start a new
        standby."""
        at = time.time()
        self.active.signal(number)
        heir = self.standby
        opened = _opened(heir)
        first = heir.wait_for("batch", LONG_PATIENCE)["at"]
        print(
            f"{signal.Signals(number).name}: the other has opened the task after {opened['at'] - at:.2f} s (of it "
            f"{opened['seconds']:.2f} s its own work), first commit after {first - at:.2f} s",
            flush=True,
        )
        self.active.wait_ended(LONG_PATIENCE)
        self.active, self.standby = heir, self._join()
        self.wait_for_standby()
        return float(first - at)

    def stumble(self) -> tuple[float, float]:
        """Let a transaction of the active member fail; return the seconds until its task is open, and those of work."""
        self.active.signal(signal.SIGUSR2)
        at = self.active.wait_for("stumble", LONG_PATIENCE)["at"]
        opened = _opened(self.active)
        first = self.active.wait_for("batch", LONG_PATIENCE)["at"]
        print(
            f"hiccup: open again after {opened['at'] - at:.2f} s (of it {opened['seconds']:.2f} s work), first commit "
            f"after {first - at:.2f} s",
            flush=True,
        )
        return float(opened["at"] - at), float(opened["seconds"])

    def longest_pause(self, since: float) -> float:
        commits = sorted(
            event["at"]
            for member in self.everybody
            for event in member.drain()
            if event["event"] == "batch" and event["at"] >= since
        )
        return max(after - before for before, after in pairwise(commits))


def measure(kafka: EmbeddedKafka, name: str, a_transaction: int) -> tuple[dict[str, float], bool]:
    """Run with one kind of changelog; return the figures, and whether they are good."""
    with ExitStack() as stack:
        worker = {"session_timeout": f"{SESSION_SECONDS}s"}
        settings = ready(make_settings(kafka.bootstrap, lambda role: f"{name}-{role}", worker=worker))
        began = time.monotonic()
        fill_changelog(settings, ORIGINALS, a_transaction)
        print(f"{ORIGINALS} originals in the changelog, a {name}, after {time.monotonic() - began:.0f} s", flush=True)
        team = Team(stack, settings)
        with Load(settings, RATE) as load:
            began, seconds, hiccups = time.monotonic(), [], []
            for _ in range(_HICCUPS):
                time.sleep(1)
                hiccups.append(team.stumble())
            for _ in range(_KILLS):
                time.sleep(_STEADY_SECONDS)
                seconds.append(team.replace_active(signal.SIGKILL))
            killed = load.sent
            time.sleep(_STEADY_SECONDS)
            since = time.time()
            for _ in range(2):
                team.replace_active(signal.SIGTERM)
            time.sleep(_STEADY_SECONDS)
            rate = load.sent / (time.monotonic() - began)
        worked_off(settings)
        pause = team.longest_pause(since)
        lost, repeated = lost_and_repeated(settings)

    def before(keys: Sequence[bytes]) -> int:
        """How many of these keys were fed before the rolling restart."""
        return sum(int(key.removeprefix(b"record-")) < killed for key in keys)

    results = {
        "reopen_s_1m": round(max(whole for whole, _ in hiccups), 2),
        "reopen_work_s_1m": round(max(work for _, work in hiccups), 2),
        "reopen_hiccups": _HICCUPS,
        "takeover_s_1m": round(max(seconds), 2),
        "takeover_median_s_1m": round(statistics.median(seconds), 2),
        "takeover_kills": _KILLS,
        "takeover_session_s": SESSION_SECONDS,
        "takeover_items_s": round(rate),
        "takeover_fed": killed,
        "takeover_lost": before(lost),
        "takeover_repeated": before(repeated),
        "rolling_pause_s": round(pause, 2),
        "rolling_fed": load.sent - killed,
        "rolling_lost": len(lost) - before(lost),
        "rolling_repeated": len(repeated) - before(repeated),
    }
    good = not lost and not repeated and max(seconds) < _LIMIT_SECONDS and pause < SESSION_SECONDS
    good = good and results["reopen_s_1m"] <= _REOPEN_SECONDS
    return results, good


def main() -> None:
    prepare()
    everything_good = True
    with EmbeddedKafka() as kafka:
        for name, a_transaction in ORIGINALS_PER_TRANSACTION.items():
            results, good = measure(kafka, name, a_transaction)
            # The keys of the flood have no suffix: they are compared from release to release.
            suffix = "" if name == "flood" else f"_{name}"
            results = {f"{key}{suffix}": value for key, value in results.items()}
            print(results, flush=True)
            record("operate", results)
            everything_good &= good
    sys.exit(0 if everything_good else 1)


if __name__ == "__main__":
    main()
