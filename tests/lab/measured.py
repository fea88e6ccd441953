"""tests/lab/results/*.json: what long runs have measured; the pages take their figures from there.

A file is one sorted object. It is changed under a lock, because runs may go on side by side.
"""

import fcntl
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def change(name: str, action: Callable[[dict[str, Any]], None], folder: Path = RESULTS) -> None:
    """Apply `action` to the object in the file `name`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     change("load", lambda known: known.update(two=2, one=1), Path(directory))
    ...     change("load", lambda known: known.update(one=1.5), Path(directory))
    ...     json.loads((Path(directory) / "load.json").read_text())
    {'one': 1.5, 'two': 2}
    """
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.json").open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known: dict[str, Any] = json.loads(file.read() or "{}")
        action(known)
        file.truncate(0)
        file.write(json.dumps(dict(sorted(known.items())), indent=2) + "\n")


def record(name: str, figures: Mapping[str, Any]) -> None:
    """Replace some figures in the file `name`."""
    change(name, lambda known: known.update(_rounded(figures)))


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(one) for key, one in sorted(value.items())}
    return round(value, 3) if isinstance(value, float) else value
