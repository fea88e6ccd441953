"""`make soak`: the tests of what a broker's version may change, on the Kafkas that people have.

They are about transactions and their faults, take-over, restore, offsets, topics, trial, and connections. All tests of
the marker `kafka` take some twenty minutes a version: KAFKA_VERSION=3.9.1 .venv/bin/pytest -m kafka tests/worker
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# The oldest with KRaft for production, the last with ZooKeeper, the first without; `make test` has the newest.
VERSIONS = ("3.3.2", "3.9.1", "4.0.0")
CHOSEN = [
    "worker/test_faults", "worker/test_takeover", "worker/test_restore", "worker/test_resume_kafka",
    "tools/topics/test_trial_kafka", "worker/test_damaged_changelog",
    "kafka/test_topics", "kafka/test_security", "kafka/test_broker_watch",
]  # fmt: skip
TESTS = Path(__file__).parents[2]


@pytest.mark.soak
@pytest.mark.parametrize("version", VERSIONS)
def test_the_worker_keeps_its_promises_on_another_kafka(version: str, kafka_prepared: None) -> None:
    files = [str(TESTS / f"{name}.py") for name in CHOSEN]
    # KRaft has users of SCRAM since 3.5.
    options = ["-q", "-m", "kafka and not soak", "-k", "not SCRAM" if version == "3.3.2" else ""]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        env=os.environ | {"KAFKA_VERSION": version}, capture_output=True, text=True, timeout=3000, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-5000:]
