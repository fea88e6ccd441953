"""`make soak`: a day in minutes (day.py). DAY_SECONDS and DAY_RATE change it; see tests/lab/results/soak.json."""

import gc
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.broker import EmbeddedKafka
from tests.harness.topics import make_settings, ready
from tests.lab import measured
from tests.lab.soak.day import Day

SECONDS = float(os.environ.get("DAY_SECONDS", "120"))
RATE = float(os.environ.get("DAY_RATE", "300"))


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.timeout(SECONDS * 4 + 1800)
def test_a_day_loses_nothing_and_repeats_nothing(
    kafka_prepared: None, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    with EmbeddedKafka(data=tmp_path / "data") as broker:
        worker = {"session_timeout": "6s", "batch_items": 32}
        settings = ready(make_settings(broker.bootstrap, topic_name, worker=worker), 2)
        figures = Day(settings, broker, tmp_path, SECONDS, RATE).run()
    gc.collect()  # the client's refused connections
    measured.record("soak", {"day": {**asdict(figures), "seconds": SECONDS, "rate": RATE}})
    assert (figures.lost, figures.repeated, figures.ended) == (0, 0, [])
    assert figures.reasons.get("too-slow") == 1
    assert figures.cut_away > 0
