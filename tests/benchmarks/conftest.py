"""Collected here is only what runs without the peers, which `make test` does not install."""

from pathlib import Path

_WITHOUT_PEERS = {"conftest.py", "interleave.py", "readers.py", "results.py", "test_readers.py", "test_results.py"}
collect_ignore = ["apart", *(one.name for one in Path(__file__).parent.glob("*.py") if one.name not in _WITHOUT_PEERS)]
