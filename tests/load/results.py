"""tests/results/load.json: what the last run of each test of the load has measured."""

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "load.json"


def record(test: str, figures: Mapping[str, Any], path: Path = RESULTS) -> None:
    """Replace the figures of a test.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "results" / "load.json"
    ...     record("one", {"ratio": 1.23456, "items": 10}, path)
    ...     record("two", {"ratio": 2}, path)
    ...     record("one", {"ratio": 1.5}, path)
    ...     json.loads(path.read_text())
    {'one': {'ratio': 1.5}, 'two': {'ratio': 2}}
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known: dict[str, Any] = json.loads(file.read() or "{}")
        known[test] = {
            name: round(value, 3) if isinstance(value, float) else value for name, value in sorted(figures.items())
        }
        file.truncate(0)
        file.write(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
