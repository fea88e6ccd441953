"""How a command ends by signals, and that closed standard streams do not matter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WAITS = """
import signal, os, threading, time
from stream_dedup.cli import stop_on_signals
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
stop = stop_on_signals()
for name, pause in {signals}:
    os.kill(os.getpid(), getattr(signal, name))
    time.sleep(pause)
print("clean", stop.wait(10))  # Python runs a handler between two instructions, not at once
"""


@pytest.mark.parametrize(
    ("signals", "code"),
    [
        ([("SIGHUP", 0)], 0),
        ([("SIGTERM", 0.04), ("SIGTERM", 0)], 0),
        ([("SIGTERM", 0.04), ("SIGHUP", 0.04), ("SIGINT", 0)], 0),
        ([("SIGTERM", 0.3), ("SIGTERM", 0)], -15),
    ],
)
def test_signals_that_come_together_are_one_clean_stop(signals: list[tuple[str, float]], code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WAITS.format(signals=signals)], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert (done.stdout == "clean True\n") is (code == 0)


def test_a_closed_standard_error_goes_to_nowhere_and_not_to_a_file(tmp_path: Path) -> None:
    code = "import stream_dedup.cli.main as m; m.main()"
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "{code}" topics check 2>&- >&-', sys.executable],
        env={**os.environ, "STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:9"}, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 1
