"""The fixtures of the tests on a real Kafka."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stream_dedup.settings import Settings
    from stream_dedup.tools.demo.embedded import EmbeddedKafka
    from tests.harness.topics import Make


@pytest.fixture
def make(kafka: "EmbeddedKafka", topic_name: Callable[[str], str]) -> "Make":
    """Make settings with these tables, and with a group and topics of their own.

    The topics are created with this number of partitions; 0: they are not created.
    """
    from tests.harness.topics import make_settings, ready  # not above: kafka-python warns when it is imported

    def make(partitions: int = 1, **tables: Mapping[str, Any]) -> "Settings":
        made = make_settings(kafka.bootstrap, topic_name, **tables)
        return ready(made, partitions) if partitions else made

    return make


@pytest.fixture
def settings(make: "Make") -> "Settings":
    """Settings with topics of one partition, which exist."""
    return make()
