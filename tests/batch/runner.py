"""Starts runs that may be killed, in processes of their own; see killed_run.py."""

import json
import signal
import subprocess
import sys
from enum import IntEnum
from pathlib import Path


class Runner:
    """Runs `filter`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.batch.killed_run"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(
        self,
        inputs: list[Path],
        directory: Path,
        state: Path | None,
        kill: tuple[IntEnum, int] | None = None,
        after: float | None = None,
    ) -> bool:
        """Whether the run ended by itself. `after`: seconds until it is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {
            "inputs": [str(one) for one in inputs],
            "output": str(directory / "unique.jsonl"),
            "duplicates": str(directory / "duplicates.jsonl"),
            "state": state and str(state),
            "kill": kill,
            "after": after,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code in (0, -signal.SIGKILL)
        return code == 0

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
