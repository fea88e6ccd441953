"""Workers in processes of their own: a `Member` is forked and reports events, a `Command` runs as deployed.

A member is quick to start and says what it does: for tests of the protocol. A command has HTTP, a log and an exit code:
for tests of the deployment. Both can be killed at any moment, and have faults built in (forked.py, command.py).
"""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import forkserver
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self
from unittest.mock import patch

from stream_dedup.settings import PREFIX, Settings
from stream_dedup.tools.demo.embedded import free_ports
from tests.harness.topics import variables_of
from tests.harness.wait import LONG_PATIENCE, PATIENCE

_ROOT = Path(__file__).parents[2]


def free_pair() -> int:
    """A free port before another free one, which is that of health."""
    while True:
        [port] = free_ports(1)
        with suppress(OSError, OverflowError), socket.create_server(("127.0.0.1", port + 1)):
            return port


@dataclass
class Member:
    """A worker in a forked process (forked.py), which saves the second that Python takes to start; `go()` starts it."""

    settings: Settings
    orders: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        start_fork_server()
        self.events: list[dict[str, Any]] = []
        self._queue: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._pipe, self._its_end = _PROCESSES.Pipe(duplex=False)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self.process = _PROCESSES.Process(
            target=_run_member, args=(self.settings, dict(self.orders), self._its_end), daemon=True
        )

    def _listen(self) -> None:
        with self._pipe, suppress(EOFError):
            while True:
                self._queue.put(self._pipe.recv())

    def go(self) -> Self:
        self.process.start()
        self._its_end.close()
        self._listener.start()
        self.wait_for("ready")
        return self

    def wait_for(self, kind: str, seconds: float = PATIENCE, **fields: Any) -> dict[str, Any]:
        """Wait for the next event of this kind with these fields."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                event = self._queue.get(timeout=min(left, 0.5))
            except Empty:
                if not self.process.is_alive() and self._queue.empty():
                    break
                continue
            self.events.append(event)
            if event["event"] == kind and all(event.get(name) == value for name, value in fields.items()):
                return event
        state = f"ended with {self.process.exitcode}"
        if self.process.is_alive():
            state = "runs, its threads are in its stderr"
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGUSR1)
            time.sleep(1)
        raise AssertionError(f"no event {kind} {fields} in {seconds} s; the member {state}: {self.events[-5:]}")

    def drain(self) -> list[dict[str, Any]]:
        """All events so far."""
        while not self._queue.empty():
            self.events.append(self._queue.get())
        return self.events

    def signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait_ended(self, seconds: float = PATIENCE) -> int | None:
        """The exit code; None: it still runs."""
        self.process.join(seconds)
        return self.process.exitcode

    def wait_killed(self, seconds: float = PATIENCE) -> None:
        assert self.wait_ended(seconds) == -signal.SIGKILL, self.drain()[-5:]

    def kill(self) -> None:
        self.process.kill()
        self.process.join(10)

    def stop(self, seconds: float = PATIENCE) -> float:
        """Send SIGTERM; return the seconds until it ended cleanly."""
        began = time.monotonic()
        self.process.terminate()
        assert self.wait_ended(seconds) == 0, self.drain()[-5:]
        return time.monotonic() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.pid is None:
            self._pipe.close()
            self._its_end.close()
            return
        if self.process.is_alive():
            self.signal(signal.SIGCONT)
            self.kill()
        self._listener.join(10)
        self.process.close()


# Environment variables that the fork server gets besides this process's own, and with it all members.
FORK_SERVER_VARIABLES: dict[str, str] = {}
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.harness.preload"])


def start_fork_server() -> None:
    """Start the process that members are forked from, if it does not run. It has one thread, so a fork is safe."""
    with patch.dict(os.environ, FORK_SERVER_VARIABLES):
        for name in [name for name in os.environ if name.startswith("COV_")]:
            del os.environ[name]
        forkserver.ensure_running()


def _run_member(*arguments: Any) -> None:
    from tests.harness.forked import run  # not here: it would be imported by every test

    run(*arguments)


class Command:
    """`stream-dedup run` in a process (command.py), on ports that stay the same when it is restarted.

    `faults`: the folder whose files switch faults on. `within`: a command that runs it, such as with limits.
    `is_unread`: its log goes into a pipe that is never read.
    """

    def __init__(
        self, name: str, settings: Settings, directory: Path, *, within: Iterable[str] = (), is_unread: bool = False
    ) -> None:
        self.faults = directory / f"faults-{name}"
        self.faults.mkdir(exist_ok=True)
        port = free_pair()
        self.address, self.health_address = f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"
        self._within, self._is_unread = list(within), is_unread
        self._log = directory / f"{name}.log"
        self._variables = variables_of(settings) | {f"{PREFIX}OBSERVE__PORT": str(port), "FAULTS": str(self.faults)}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the process."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._within, sys.executable, "-m", "tests.harness.command"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.PIPE if self._is_unread else log,
                cwd=_ROOT, env=os.environ | self._variables,
            )  # fmt: skip
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_started(self) -> bool:
        return self._process is not None

    @property
    def exit_code(self) -> int | None:
        """The code with which it has ended by itself."""
        return self._process and self._process.poll()

    @property
    def status(self) -> str:
        """The status in /healthz; empty if there is no response."""
        try:
            with urllib.request.urlopen(f"http://{self.address}/healthz", timeout=5) as answer:
                return str(json.load(answer)["status"])
        except urllib.error.HTTPError as error:
            with error:
                return str(json.load(error)["status"])
        except OSError:
            return ""

    def wait_until(self, *statuses: str) -> None:
        deadline = time.monotonic() + LONG_PATIENCE
        while self.status not in statuses:
            assert self._process is not None
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, f"{self.status}, not {statuses}:\n{self.log()}"
            time.sleep(0.1)

    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def kill(self) -> None:
        """Send SIGKILL, like the failure of a machine."""
        self._end(signal.SIGKILL)

    def stop(self) -> tuple[int, float]:
        """Send SIGTERM, like a deployment; return the exit code and the seconds until then."""
        began = time.monotonic()
        return self._end(signal.SIGTERM), time.monotonic() - began

    def _end(self, number: int) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(number)
        code = self._process.wait(LONG_PATIENCE)
        if self._process.stderr is not None:
            self._process.stderr.close()
        self._process = None
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
