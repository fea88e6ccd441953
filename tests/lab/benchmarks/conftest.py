"""Limit test collection to modules that need no peers, since `make test` does not install them."""

from pathlib import Path

_WITHOUT_PEERS = {"conftest.py", "interleave.py", "results.py"}
collect_ignore = [
    "apart",
    *(path.name for path in Path(__file__).parent.glob("*.py") if path.name not in _WITHOUT_PEERS),
]
