"""The fixtures of the tests on a real Kafka."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stream_dedup.demo.embedded import EmbeddedKafka
    from stream_dedup.settings import Settings
    from tests.harness.topics import Make


@pytest.fixture
def make(kafka: "EmbeddedKafka", topic_name: Callable[[str], str]) -> "Make":
    """Makes settings with these tables, and with a group and topics of their own. These exist, with this number of
    partitions; 0: they are not created.
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
