"""Waits end with a condition, never after a fixed time. Their limits are for a machine that is busy."""

import time
from collections.abc import Callable

PATIENCE = 120.0
LONG_PATIENCE = 2 * PATIENCE  # for runs with faults, or with a million originals


def holds(condition: Callable[[], object], seconds: float, every: float = 0.05) -> bool:
    """Wait until the condition holds, at most for some seconds; return whether it does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


def wait_until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    assert holds(condition, seconds), f"not within {seconds:.0f} s: {what}"
