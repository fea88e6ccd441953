"""Check the five topics: partitions, retention, cleanup policy and record sizes, so that nothing is lost.

At each start and each take-over, a topic that would lose data is refused with the command that fixes it. One table of
rules checks the topics and makes them (tools/topics/setup.py):

- output, duplicates and dead letters take whatever the input takes: a batch as large as the input's largest plus our
  headers, and any timestamp; they keep the record's timestamp;
- neither duplicates nor dead letters are compacted;
- the changelog retains the whole window: it deletes by age only, and late enough;
- the changelog has two partitions for each index, of blocks and of merged blocks: two in scope global, twice as many
  as the input in scope partition.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import UnknownTopicOrPartitionError, for_code

from stream_dedup.changelog import ENTRY_BYTES, PARTITIONS
from stream_dedup.errors import StreamError, TopicError
from stream_dedup.kafka import client
from stream_dedup.kafka.client import TopicPartition
from stream_dedup.kafka.errors import KafkaError
from stream_dedup.kafka.runtime import REAL, Runtime, administrator
from stream_dedup.phrases import counted
from stream_dedup.settings import Settings

log = logging.getLogger(__name__)

DAY_MS = 24 * 3600 * 1000
# The limit of a timestamp's distance that Kafka uses for "unlimited".
UNLIMITED = 2**63 - 1
# The longest time that records are expected to wait in an input topic that is not limited by age, or to more than this.
_LONGEST_WAIT_MS = 30 * DAY_MS
# For clocks that are ahead, and for late input.
_MARGIN_MS = DAY_MS
_LIMIT, CLEANUP, TIMESTAMP, _RETENTION = (
    "max.message.bytes", "cleanup.policy", "message.timestamp.type", "retention.ms",
)  # fmt: skip
# Kafka 3.6 has replaced the first one by the others.
TIME_LIMITS = (
    "message.timestamp.difference.max.ms", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Topic:
    """An existing topic."""

    partitions: int
    config: Mapping[str, str]
    id: str = ""  # a topic that is deleted and created anew has another one
    leaderless: tuple[int, ...] = ()  # the partitions that no broker leads
    replicas: int = 0  # of the partition with the fewest; 0: unknown
    brokers: int = 0  # of the cluster; 0: unknown

    def number(self, name: str, default: int) -> int:
        return int(self.config.get(name) or default)

    @property
    def limit(self) -> int:
        """Bytes of the largest batch that it takes."""
        return self.number(_LIMIT, 2**20)

    @property
    def is_compacted(self) -> bool:
        """Whether it takes no record without a key."""
        return "compact" in self.config.get(CLEANUP, "")


class _Rule(NamedTuple):
    """A rule for one setting of a topic."""

    key: str
    value: object  # of a new topic, and in the command that corrects an existing one
    holds: Callable[[Topic], bool]  # whether a topic may stay as it is
    problem: str  # what is wrong if it may not


def topic_names(settings: Settings) -> list[str]:
    """Return the five topics, the input first."""
    topics = settings.topics
    return [topics.input, topics.output, topics.duplicates, topics.dead_letters, topics.changelog]


def changelog_partitions(settings: Settings, source: Topic) -> int:
    """Return the number of partitions that the changelog needs."""
    return PARTITIONS * (1 if settings.worker.is_global else source.partitions)


def changelog_retention_ms(settings: Settings, source: Topic) -> int:
    """Return how long the changelog must retain a block after its writing, for an input like this (dedup/window.py).

    After a stop or in a backlog, the oldest record still to be read has waited in the input as long as that retains it.
    It is compared with items up to a window older, whose blocks may have been written as early as that.
    """
    wait = source.number(_RETENTION, -1)
    if wait < 0 or wait > _LONGEST_WAIT_MS or "delete" not in source.config.get(CLEANUP, "delete"):
        wait = _LONGEST_WAIT_MS
    return settings.window.length_ms + wait + _MARGIN_MS


_ONE_REPLICA = "replicas"


def weaknesses(topic: Topic) -> dict[str, str]:
    """Return what the loss of one broker may cost: the setting -> what is wrong. Empty on a single broker.

    >>> weaknesses(Topic(1, {}, replicas=1, brokers=3))
    {'replicas': 'has 1 replica on 3 brokers: with its broker its records are lost'}
    """
    weak = {}
    if topic.replicas == 1 and topic.brokers > 1:
        weak[_ONE_REPLICA] = f"has 1 replica on {topic.brokers} brokers: with its broker its records are lost"
    if topic.replicas > 2 and topic.number("min.insync.replicas", 1) < 2:
        weak["min.insync.replicas"] = (
            f"has {topic.replicas} replicas and min.insync.replicas 1: what one broker alone has counts as written"
        )
    if topic.replicas > 1 and topic.config.get("unclean.leader.election.enable") == "true":
        weak["unclean.leader.election.enable"] = "may get a leader that lacks records (unclean.leader.election.enable)"
    return weak


def _report_weaknesses(settings: Settings, existing: Mapping[str, Topic]) -> None:
    fix = f"stream-dedup topics fix{settings.config_option}"
    more = (
        "give it more by kafka-reassign-partitions.sh, or create it anew, while it is empty, with "
        f"`stream-dedup topics create --replication 3{settings.config_option}`"
    )
    for name, topic in existing.items():
        if name != settings.topics.input:
            for key, text in weaknesses(topic).items():
                log.warning("%s %s; %s", name, text, more if key == _ONE_REPLICA else f"fix it with: {fix}")


def problems(settings: Settings, existing: Mapping[str, Topic]) -> list[str]:
    """Return a line for each problem, with the command that fixes it."""
    fix = f"fix it with: stream-dedup topics fix{settings.config_option}"
    create = f"stream-dedup topics create{settings.config_option}"
    source, changelog = existing.get(settings.topics.input), settings.topics.changelog
    lines = []
    for name in topic_names(settings):
        topic = existing.get(name)
        if topic is None:
            spelling = "is [topics] input spelled right? If so, " if name == settings.topics.input else ""
            lines.append(f"{name} does not exist; {spelling}create it with: {create}")
        elif source is not None:
            lines += [
                f"{name} {rule.problem}; {rule.key} is {topic.config.get(rule.key)}, and must be {rule.value}; {fix}"
                for rule in rules(settings, name, source)
                if not rule.holds(topic)
            ]
    if source is not None and changelog in existing:
        present, needed = existing[changelog].partitions, changelog_partitions(settings, source)
        text = f"{changelog} has {counted(present, 'partition')}, scope {settings.worker.scope} needs {needed}"
        if present < needed:
            lines.append(f"{text}; {fix}")
        elif present > needed:
            lines.append(
                f"{text}: it was made for another scope or input; name a new one as [topics] changelog, and create it "
                f"with: {create}"
            )
    return lines


def rules(settings: Settings, name: str, source: Topic) -> list[_Rule]:
    """Return the rules of a topic, for an input like this."""
    topics, input_name = settings.topics, settings.topics.input
    if name == input_name:
        return []
    if name == topics.changelog:
        retention = changelog_retention_ms(settings, source)
        return [
            _Rule(CLEANUP, "delete", lambda topic: topic.config.get(CLEANUP) == "delete",
                  "is compacted, which would delete blocks that are still needed"),
            _Rule(_RETENTION, retention, lambda topic: not 0 <= topic.number(_RETENTION, -1) < retention,
                  f"retains less than {retention} ms: window, margin and the time that records may wait in "
                  f"{input_name}"),
            _Rule("retention.bytes", -1, lambda topic: topic.number("retention.bytes", -1) < 0,
                  "deletes by size"),
            _Rule(_LIMIT, 2**20, lambda topic: topic.limit >= ENTRY_BYTES + client.HEADER_ROOM,
                  "takes no block of full size"),
        ]  # fmt: skip
    limit = max(source.limit, client.BATCH_BYTES) + client.HEADER_ROOM
    rules = [
        _Rule(_LIMIT, limit, lambda topic: topic.limit >= limit,
              f"takes smaller records than {input_name}, which takes {source.limit} bytes, with our headers of up to "
              f"{client.HEADER_ROOM}"),
        _Rule(TIMESTAMP, "CreateTime", lambda topic: topic.config.get(TIMESTAMP) != "LogAppendTime",
              "would replace the records' timestamps"),
    ]  # fmt: skip
    rules += [
        _time_limit(key, source.number(key, UNLIMITED), input_name) for key in TIME_LIMITS if key in source.config
    ]
    # The output may be compacted to a table of the latest version of each key. The other two are logs of what happened,
    # and the bytes of a dead letter exist nowhere else.
    if name != topics.output:
        rules.append(
            _Rule(CLEANUP, "delete", lambda topic: not topic.is_compacted,
                  "is compacted: only the last of several records with one key would remain")
        )  # fmt: skip
    return rules


def _time_limit(key: str, allowed: int, input_name: str) -> _Rule:
    text = f"refuses timestamps that {input_name} takes"
    return _Rule(key, allowed, lambda topic: topic.number(key, UNLIMITED) >= allowed, text)


# The versions of requests that are needed. Before these, a member that was replaced could still commit offsets in its
# transaction, and offsets of an open transaction could be read (KIP-447).
_NEEDED = {"TxnOffsetCommit": 3, "OffsetFetch": 7}
# A broker that has those, and this request in just this version, is Kafka 2.5 to 3.2. On 2.8.2 the tests that kill
# workers lost a batch of 50 items in one run of two; later versions before 3.3 were not tried. Compatible brokers are
# not concerned: Redpanda has version 1.
_SIGN_OF_OLD, _OLD = "DescribeAcls", 2
# From this version of its request on a topic has an id (KIP-516).
_WITH_IDS, _IDS_SINCE = "Metadata", 10
_NO_ID = str(UUID(int=0))


def check_topics(settings: Settings, runtime: Runtime = REAL) -> dict[str, Topic]:
    """Describe the five topics by their names, and check them.

    Raises TopicError that lists every problem, each with the command that fixes it.
    """
    with administrator(settings, runtime) as admin:
        check_brokers(admin, settings)
        existing = describe(admin, topic_names(settings))
        brokers = _count_brokers(admin)
        names = [name for name in topic_names(settings) if name in existing]  # the brokers' order says nothing
        existing = {name: replace(existing[name], brokers=brokers) for name in names}
    if not all(topic.id for topic in existing.values()):
        log.warning(
            "the brokers at %s give topics no ids (%s before version %d), so one that is deleted and created anew "
            "looks like the one before: stop the workers before you do that, and give the new changelog another name",
            settings.kafka.bootstrap_servers, _WITH_IDS, _IDS_SINCE,
        )  # fmt: skip
    if lines := problems(settings, existing):
        raise TopicError("the topics are not ready:\n  " + "\n  ".join(lines))
    _report_weaknesses(settings, existing)
    return existing


def shortened(before: Topic, now: Topic) -> list[str]:
    """Return what was changed of an input so that records may be deleted earlier, before they are read.

    >>> shortened(Topic(1, {"retention.ms": "-1"}), Topic(1, {"retention.ms": "3600000", "retention.bytes": "-1"}))
    ['retention.ms is 3600000, and was -1']
    """
    changed = []
    for key in (_RETENTION, "retention.bytes", CLEANUP):
        old, new = before.config.get(key, ""), now.config.get(key, "")
        if key == CLEANUP:
            is_shorter = "compact" in new and "compact" not in old
        else:
            former_limit, limit = before.number(key, -1), now.number(key, -1)
            is_shorter = limit >= 0 and (former_limit < 0 or limit < former_limit)
        if is_shorter:
            changed.append(f"{key} is {new}, and was {old}")
    return changed


def has_had_records(settings: Settings, topic: str, runtime: Runtime = REAL) -> bool:
    """Return whether anything was ever written to the topic, even if it was deleted since."""
    with administrator(settings, runtime) as admin:
        counts = [existing.partitions for existing in _existing(admin, [topic]).values()]  # none if it does not exist
        ends = log_end_offsets(admin, [TopicPartition(topic, number) for count in counts for number in range(count)])
    return any(end > 0 for end in ends.values())


def log_end_offsets(admin: Any, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the log end offset of each, committed or not. `admin`: a KafkaAdminClient."""
    offsets = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    return {partition: int(offsets[partition].offset) for partition in partitions}


def check_brokers(admin: Any, settings: Settings) -> None:
    """Raise StreamError for brokers that lack what exactly-once processing needs."""
    with suppress(ValueError):  # of the client, for brokers so new that they have requests it does not know
        offered = {key.name: newest for key, (_, newest) in admin.api_versions().items()}
        lacking = [f"{name} {version}" for name, version in _NEEDED.items() if offered.get(name, -1) < version]
        if lacking or offered.get(_SIGN_OF_OLD) == _OLD:
            raise StreamError(
                f"the brokers at {settings.kafka.bootstrap_servers} are too old: Kafka 3.3 or newer is needed"
                f"{', or what is compatible and has ' + ' and '.join(lacking) if lacking else ''}. Update them, or use "
                "another cluster"
            )


def _count_brokers(admin: Any) -> int:
    """Count the brokers of the cluster; 0 where the client cannot read the answer (before Kafka 3.7) or may not."""
    with suppress(KafkaError, ValueError, KeyError):  # KeyError: of kafka-python 3.0.12, which misses a field
        return len(admin.describe_cluster()["brokers"])
    return 0


def _existing(admin: Any, names: Sequence[str]) -> dict[str, Topic]:
    """Return the topics that exist, without their config."""
    existing = {}
    for topic in admin.describe_topics(list(names)):
        if topic["error_code"] == 0:
            topic_id = str(topic.get("topic_id") or "").replace(_NO_ID, "")
            leaderless = sorted(part["partition_index"] for part in topic["partitions"] if part["leader_id"] < 0)
            replicas = min((len(part.get("replica_nodes", ())) for part in topic["partitions"]), default=0)
            existing[topic["name"]] = Topic(len(topic["partitions"]), {}, topic_id, tuple(leaderless), replicas)
        elif for_code(topic["error_code"]) is not UnknownTopicOrPartitionError:
            raise for_code(topic["error_code"])(topic["name"])
    return existing


def as_they_are(admin: Any, names: Sequence[str]) -> dict[str, Topic]:
    """Describe the topics that exist. Every topic has a config; without the right to read it, it is empty here."""
    existing = _existing(admin, names)
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in existing]
    configs = admin.describe_configs(resources, config_filter="all")["topic"] if existing else {}
    return {
        name: replace(topic, config={key: entry["value"] for key, entry in configs.get(name, {}).items()})
        for name, topic in existing.items()
    }


def describe(admin: Any, names: Sequence[str]) -> dict[str, Topic]:
    existing = as_they_are(admin, names)
    refused = [name for name, topic in existing.items() if not topic.config]
    if refused:
        raise TopicError(
            "the topics' settings cannot be read, so it is unknown whether something would be lost:\n  "
            + "\n  ".join(
                f"{name}: the user needs the right DescribeConfigs; grant it with: kafka-acls.sh --add "
                f"--allow-principal User:NAME --operation DescribeConfigs --topic {name}"
                for name in refused
            )
        )
    return existing
