"""Child processes that never outlive this process.

`launch` starts a command with its output in a file; `end` kills it. A child that is still running ends at the
interpreter's exit, and on Linux also when this process is killed. A broker left behind would hold 300 MB and two ports.
"""

import atexit
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

# PR_SET_PDEATHSIG = 1: the kernel kills a process when its parent dies. A small process requests this and then becomes
# the command; a `preexec_fn` would be unsafe in a process with threads.
LAUNCHER = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent ended before the start")
os.execv(sys.argv[2], sys.argv[2:])
"""


@cache
def _spawner(process_id: int) -> ThreadPoolExecutor:
    """Return the thread that starts all children of this process; a forked process needs its own.

    For the kernel the parent is the thread that started the child, and a test's helper thread may end long before its
    broker should. This thread lasts until the interpreter's exit.
    """
    return ThreadPoolExecutor(1, thread_name_prefix=f"embedded-kafka-{process_id}")


_running: set[subprocess.Popen[bytes]] = set()
os.register_at_fork(after_in_child=_running.clear)  # a forked process must not end its parent's brokers


@atexit.register
def _kill_all() -> None:
    for process in list(_running):
        end(process)


def launch(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start `command` with its output appended to `log`; it ends with this process."""
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid()), *command]

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603 - our own command line # nosec B603
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(),
                start_new_session=True,  # Ctrl-C must reach only this process, which needs its broker to end cleanly
            )

    process = _spawner(os.getpid()).submit(start).result()
    _running.add(process)
    return process


def _environment() -> dict[str, str]:
    """Return our environment without variables that pass flags to Java: a second garbage collector is an error."""
    return {k: v for k, v in os.environ.items() if k not in {"JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"}}


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and wait for its end."""
    process.kill()
    process.wait()
    _running.discard(process)
