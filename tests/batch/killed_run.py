"""Run `filter` in a process that may be killed.

In, on standard input: a line of JSON a run. Out, on standard output: a line with its exit code. A run is a fork of
this process, whose kernels are loaded, so a kill at a random moment hits the run's work and not its start.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any

from stream_dedup.batch.filter import filter_files, judge_lines
from stream_dedup.settings import load_settings


def kill_before(step: int, nth: int) -> Callable[[IntEnum], None]:
    """Kill this process (SIGKILL) before it does the step for the nth time."""
    left = [nth]

    def announce(current: IntEnum) -> None:
        left[0] -= current == step
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return announce


def run_filter(request: dict[str, Any]) -> None:
    filter_files(
        request["inputs"],
        Path(request["output"]),
        Path(request["duplicates"]),
        settings=load_settings(worker={"batch_items": 5}),
        state=Path(request["state"]) if request["state"] else None,
        force=False,  # what a killed run has written is its own
        announce=kill_before(*request["kill"]) if request["kill"] else lambda _: None,
    )


def main() -> None:
    list(judge_lines([b'{"id": 1, "text": "loads the kernels"}'], load_settings()))
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            run_filter(request)
            os._exit(0)
        if request["after"] is not None:
            time.sleep(request["after"])
            os.kill(child, signal.SIGKILL)  # its id is still valid if it has ended: nobody has waited for it
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
