"""tests/results/soak.json: what all runs of the soak have shown together."""

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.soak.plan import KINDS

RESULTS = Path(__file__).parents[1] / "results" / "soak.json"


def add(nodes: int, figures: Mapping[str, float], faults: Mapping[str, int], path: Path = RESULTS) -> None:
    """Add a round on this many nodes to the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "results" / "soak.json"
    ...     add(1, {"items": 10, "lost": 0}, {"zombie": 2}, path)
    ...     add(3, {"items": 5, "lost": 1}, {"zombie": 1, "broker_killed": 1}, path)
    ...     known = json.loads(path.read_text())
    >>> known["faults"], known["items"], known["lost"], known["rounds_1_node"], known["rounds_3_nodes"]
    (4, 15, 1, 1, 1)
    >>> known["faults_by_kind"]["zombie"], known["faults_by_kind"]["network_cut"]
    (3, 0)
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # runs on one node and on three may go on side by side
        file.seek(0)
        known: dict[str, Any] = json.loads(file.read() or "{}")
        rounds = {"rounds": 1, "rounds_1_node": int(nodes == 1), "rounds_3_nodes": int(nodes == 3)}
        for name, value in {**rounds, **figures, "faults": sum(faults.values())}.items():
            known[name] = round(known.get(name, 0) + value, 1)
        before = known.get("faults_by_kind", {})
        known["faults_by_kind"] = {kind: before.get(kind, 0) + faults.get(kind, 0) for kind in KINDS}
        file.truncate(0)
        file.write(json.dumps(dict(sorted(known.items())), indent=2) + "\n")
