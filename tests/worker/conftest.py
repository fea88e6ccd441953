"""The fixture of the tests on a real Kafka."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stream_dedup.demo.embedded import EmbeddedKafka
    from stream_dedup.settings import Settings


@pytest.fixture
def settings(kafka: "EmbeddedKafka", topic_name: Callable[[str], str]) -> "Settings":
    """Settings with topics of one partition, which exist, and a group of their own."""
    from tests.worker.support import make_settings, ready  # not above: kafka-python warns when it is imported

    return ready(make_settings(kafka.bootstrap, topic_name))
