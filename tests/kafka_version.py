"""Run the tests against another Kafka than the demo's: KAFKA_VERSION=3.9.1 pytest -m kafka.

jgo finds each version on Maven Central, and the JDK of the wheel runs them all, from 3.3.2 on.
"""

import os

from stream_dedup.demo import jars
from tests.broker import EmbeddedKafka

VERSION = os.environ.get("KAFKA_VERSION", jars.KAFKA_VERSION)
NUMBER = tuple(map(int, VERSION.split(".")))


def apply() -> None:
    """Let `EmbeddedKafka` start the chosen version."""
    jars.KAFKA_VERSION = VERSION
    if NUMBER < (4,):
        # Their controller fences a dead broker only while another one is alive. So a killed broker waits at its restart
        # until its session has timed out.
        EmbeddedKafka._deregister = lambda self: None  # type: ignore[method-assign]
