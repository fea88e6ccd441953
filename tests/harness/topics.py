"""What a test has on a cluster: settings with topics and a group of their own, and what an administrator does to them.

A test never shares a topic or a group, so that one broker serves the whole run.
"""

import shutil
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from stream_dedup.settings import PREFIX, Settings, load_settings
from stream_dedup.tools.topics.setup import create_topics
from tests.broker import EmbeddedKafka
from tests.harness.wait import LONG_PATIENCE, wait_until

Make = Callable[..., Settings]  # the fixture `make`
_ROLES = ("input", "output", "duplicates", "dead_letters", "changelog")
# For a broker that has just been restarted.
_SECONDS = 30.0
_PREFERRED = 0  # kafka-python's number of the election of preferred leaders


def make_settings(bootstrap: str, topic_name: Callable[[str], str], **tables: Mapping[str, Any]) -> Settings:
    """Settings with topics and a group of their own, and a session short enough to wait for."""
    return load_settings(
        kafka={"bootstrap_servers": bootstrap, "group_id": topic_name("group"), **tables.pop("kafka", {})},
        topics={role: topic_name(role.replace("_", "-")) for role in _ROLES},
        worker={"session_timeout": "1500ms", "transaction_timeout": "10s", **tables.pop("worker", {})},
        **tables,
    )


def ready(settings: Settings, partitions: int = 1) -> Settings:
    """The settings, whose topics exist now."""
    create_topics(settings, partitions=partitions)
    return settings


def under_another_scheme(settings: Settings, changelog: str, **fingerprint: Any) -> Settings:
    """The settings of workers after a migration, by default of other sketches; creates their changelog."""
    made = load_settings(
        kafka=settings.kafka.model_dump(),
        topics={**settings.topics.model_dump(), "changelog": changelog},
        worker=settings.worker.model_dump(),
        fingerprint=fingerprint or {"verify": "exact"},
    )
    return ready(made)


def variables_of(settings: Settings) -> dict[str, str]:
    """The environment of a process with what was set of these tables, the topics and the group among it."""
    return {
        f"{PREFIX}{table}__{name}".upper(): f"{value.total_seconds()}s" if isinstance(value, timedelta) else str(value)
        for table in ("kafka", "topics", "worker", "registry")
        for name, value in getattr(settings, table).model_dump(exclude_none=True, exclude_unset=True).items()
    }


def administrator(settings: Settings) -> Any:
    """A KafkaAdminClient for a `with` block."""
    return closing(KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap_servers))


def reader_of(settings: Settings, **config: Any) -> Any:
    """A read_committed consumer for a `with` block."""
    own = {"isolation_level": "read_committed", "enable_auto_commit": False, **config}
    return closing(KafkaConsumer(bootstrap_servers=settings.kafka.bootstrap_servers, **own))


def inputs(settings: Settings, consumer: Any) -> list[TopicPartition]:
    topic = settings.topics.input
    return [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]


def unfinished(settings: Settings, consumer: Any) -> int:
    """How many offsets of the input the consumer's group has not committed yet."""
    ends = consumer.end_offsets(inputs(settings, consumer))
    return sum(max(0, end - (consumer.committed(partition) or 0)) for partition, end in ends.items())


def worked_off(settings: Settings, seconds: float = LONG_PATIENCE) -> None:
    """Wait until the group has committed everything in the input topic."""
    with reader_of(settings, group_id=settings.kafka.group_id) as consumer:
        wait_until(lambda: not unfinished(settings, consumer), f"all of {settings.topics.input} is worked off", seconds)


def recreate(settings: Settings, topic: str, partitions: int | None = None) -> None:
    """Delete a topic and create it anew, as `stream-dedup topics create` does."""
    with administrator(settings) as admin:
        admin.delete_topics([topic])
        described = partial(admin.describe_topics, [topic])
        wait_until(lambda: described()[0]["error_code"] != 0, f"{topic} is gone", _SECONDS)
    create_topics(settings, partitions=partitions)


def wait_for_transactions(settings: Settings) -> None:
    """Wait until no transaction is open in the input."""
    with reader_of(settings) as committed, reader_of(settings, isolation_level="read_uncommitted") as every:
        places, what = inputs(settings, committed), f"no transaction is open in {settings.topics.input}"
        wait_until(lambda: committed.end_offsets(places) == every.end_offsets(places), what, _SECONDS)


def set_offsets(settings: Settings, offsets: Mapping[int, int] | None = None) -> None:
    """Set the group's offsets of some partitions as `kafka-consumer-groups.sh --reset-offsets` does; no worker runs.

    None: set all to what they are, which confirms them.
    """
    group = settings.kafka.group_id
    with administrator(settings) as admin, reader_of(settings, group_id=group) as consumer:
        present = {place.partition: consumer.committed(place) for place in inputs(settings, consumer)}
        wanted = {
            TopicPartition(settings.topics.input, number): OffsetAndMetadata(offset, "", -1)
            for number, offset in (present if offsets is None else offsets).items()
            if offset is not None
        }

        def is_set() -> bool:
            with suppress(KafkaError):  # refused while the session of a killed member lasts
                admin.alter_group_offsets(group, wanted)
            return all(consumer.committed(place, metadata=True) == offset for place, offset in wanted.items())

        wait_until(is_set, f"the offsets of {group} are set", _SECONDS)


def elect(settings: Settings, topic: str) -> bool:
    """Let the second replica of each partition lead; return whether a leader has changed."""
    with administrator(settings) as admin:

        def described() -> dict[int, Any]:
            return {
                partition["partition_index"]: partition for partition in admin.describe_topics([topic])[0]["partitions"]
            }

        before = described()
        replicas = {number: partition["replica_nodes"] for number, partition in before.items()}
        admin.alter_partition_reassignments(
            {TopicPartition(topic, number): [*nodes[1:], nodes[0]] for number, nodes in replicas.items()}
        )
        admin.elect_leaders(_PREFERRED, {topic: list(before)}, raise_errors=False)
        return any(partition["leader_id"] != before[number]["leader_id"] for number, partition in described().items())


def copy_while_stopped(broker: EmbeddedKafka, source: Path, target: Path) -> None:
    """Replace one directory of a broker's data by another, as when a disk is restored from a backup."""
    broker.stop()
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    broker.restart()
