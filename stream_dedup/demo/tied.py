"""A child process that never outlives this one.

In: a command line and a file for its output. Out: a running process, to be ended by `end`. If nobody does, it
ends at the interpreter's exit, and on Linux also when this process is killed outright: a broker that was left
behind would hold 300 MB and two ports until somebody wonders.
"""

import atexit
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

# PR_SET_PDEATHSIG = 1: the kernel ends a process when its parent dies. It is asked for in a small process that
# then becomes the command, not in a `preexec_fn`, which is unsafe as soon as there are threads.
LAUNCHER = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent ended before the start")
os.execv(sys.argv[2], sys.argv[2:])
"""


@cache
def _spawner(process_id: int) -> ThreadPoolExecutor:
    """The one thread that starts brokers, of this process: a forked one needs its own.

    "Parent" means to the kernel the thread that started the child, and a fault test's helper thread may end
    long before its broker should. This one lasts until the interpreter's exit.
    """
    return ThreadPoolExecutor(1, thread_name_prefix=f"embedded-kafka-{process_id}")


_running: set[subprocess.Popen[bytes]] = set()
os.register_at_fork(after_in_child=_running.clear)  # the parent's brokers are not the child's to end


@atexit.register
def _kill_all() -> None:
    for process in list(_running):
        end(process)


def launch(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start `command`, its output appended to `log`, tied to this process's life."""
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid()), *command]

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603 - our own command line
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(),
                start_new_session=True,  # Ctrl-C is for this process, which still needs its broker to end well
            )

    process = _spawner(os.getpid()).submit(start).result()
    _running.add(process)
    return process


def _environment() -> dict[str, str]:
    """Ours without what would slip other flags to this Java: a second collector ends it at once."""
    return {k: v for k, v in os.environ.items() if k not in {"JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"}}


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL, and wait until the process is gone."""
    process.kill()
    process.wait()
    _running.discard(process)
