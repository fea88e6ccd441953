"""tests/results/operate.json: one flat object, to which each run that measures operation adds its keys."""

import json
from collections.abc import Mapping
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results" / "operate.json"


def add(values: Mapping[str, float | int | str], path: Path = RESULTS) -> None:
    """Add `values` to the file, replacing those of the same keys.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "results" / "operate.json"
    ...     add({"b": 1}, path); add({"a": 2, "b": 3}, path); path.read_text()
    '{\\n  "a": 2,\\n  "b": 3\\n}\\n'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    existing = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(json.dumps(dict(sorted({**existing, **values}.items())), indent=2) + "\n", encoding="utf-8")
