"""Create and check the five topics: partitions, retention, cleanup policy and record sizes, so that nothing is lost.

In: settings. Out: topics that exist (`create_topics`), and what they are like (`check_topics`). A topic that would
lose data is refused with the command that fixes it, at each start and each take-over. The rules, in one table for
making topics and for checking them:

- output, duplicates and dead letters take whatever the input takes: a batch as large as the input's largest plus our
  headers, and any timestamp; they keep the record's timestamp;
- neither duplicates nor dead letters are compacted;
- the changelog retains the whole window: it deletes by age only, and late enough;
- the changelog has two partitions for each index, of blocks and of merged blocks: two in scope global, twice as many
  as the input in scope partition.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError, for_code

from stream_dedup.errors import StreamError, TopicError, TransactionFailed
from stream_dedup.kafka import client, errors
from stream_dedup.kafka.client import KafkaAdminClient, TopicPartition
from stream_dedup.kafka.errors import KafkaError
from stream_dedup.kafka.record_batch import ENTRY_BYTES, PARTITIONS
from stream_dedup.phrases import counted
from stream_dedup.settings import Settings

_DAY_MS = 24 * 3600 * 1000
# The limit of a timestamp's distance that Kafka uses for "unlimited".
_UNLIMITED = 2**63 - 1
# Added to what the changelog must retain: for clocks that are ahead, and for late input.
_MARGIN_MS = _DAY_MS
# The longest time that records are expected to wait in an input topic that is not limited by age, or to more than this.
_LONGEST_WAIT_MS = 30 * _DAY_MS
_LIMIT, _CLEANUP, _TIMESTAMP, _RETENTION = (
    "max.message.bytes", "cleanup.policy", "message.timestamp.type", "retention.ms",
)  # fmt: skip
# Kafka 3.6 has replaced the first one by the others.
_TIME_LIMITS = (
    "message.timestamp.difference.max.ms", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Topic:
    """An existing topic. `id`: one that is deleted and created anew has another."""

    partitions: int
    config: Mapping[str, str]
    id: str = ""

    def number(self, name: str, default: int) -> int:
        return int(self.config.get(name) or default)

    @property
    def limit(self) -> int:
        """Bytes of the largest batch that it takes."""
        return self.number(_LIMIT, 2**20)

    @property
    def is_compacted(self) -> bool:
        """Whether it takes no record without a key."""
        return "compact" in self.config.get(_CLEANUP, "")


class _Rule(NamedTuple):
    """`value`: of a new topic, and in the command that fixes another one. `holds`: whether a topic may stay as it is;
    `problem`: what is wrong otherwise.
    """

    key: str
    value: object
    holds: Callable[[Topic], bool]
    problem: str


def topic_names(settings: Settings) -> list[str]:
    """The five topics, the input first."""
    topics = settings.topics
    return [topics.input, topics.output, topics.duplicates, topics.dead_letters, topics.changelog]


def new_config(settings: Settings, name: str, source: Topic) -> dict[str, str]:
    """The configuration of a new topic, other than the input. `source`: the input."""
    config: dict[str, object] = {rule.key: rule.value for rule in _rules(settings, name, source)}
    if name == settings.topics.changelog:
        # Retention counts by the broker's clock. By a worker's, one that is ahead by an hour could write nothing (Kafka
        # 4.0 refuses it), and one that is far behind would have its blocks deleted at once. Kafka deletes whole
        # segments: with one a day the changelog is retained for at most a day longer than needed.
        config |= {_TIMESTAMP: "LogAppendTime", "segment.ms": _DAY_MS}
    else:
        # Since Kafka 4.0 brokers refuse records from more than an hour ahead by default; a feed may have them.
        config |= {_CLEANUP: "delete"} | {key: _UNLIMITED for key in _TIME_LIMITS if key in source.config}
    return {key: str(value) for key, value in config.items()}


def changelog_partitions(settings: Settings, source: Topic) -> int:
    """The number of partitions that the changelog needs."""
    return PARTITIONS * (1 if settings.worker.is_global else source.partitions)


def changelog_retention_ms(settings: Settings, source: Topic) -> int:
    """How long the changelog must retain a block after its writing: window + retention of the input + margin.

    Let R be the retention of the input. After a stop or in a backlog, the oldest record still to be read is from
    now - R. It is compared with items from now - R - window on, whose blocks may have been written as early as that.
    """
    wait = source.number(_RETENTION, -1)
    if wait < 0 or wait > _LONGEST_WAIT_MS or "delete" not in source.config.get(_CLEANUP, "delete"):
        wait = _LONGEST_WAIT_MS
    return client.milliseconds(settings.window.length) + wait + _MARGIN_MS


def problems(settings: Settings, existing: Mapping[str, Topic]) -> list[str]:
    """A line for each problem, with the command that fixes it."""
    bootstrap = f"--bootstrap-server {settings.kafka.bootstrap_servers}"
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
                f"{name} {rule.problem}; {rule.key} is {topic.config.get(rule.key)}; fix it with: kafka-configs.sh "
                f"{bootstrap} --alter --entity-type topics --entity-name {name} --add-config {rule.key}={rule.value}"
                for rule in _rules(settings, name, source)
                if not rule.holds(topic)
            ]
    if source is not None and changelog in existing:
        present, needed = existing[changelog].partitions, changelog_partitions(settings, source)
        text = f"{changelog} has {counted(present, 'partition')}, scope {settings.worker.scope} needs {needed}"
        if present < needed:
            lines.append(
                f"{text}; fix it with: kafka-topics.sh {bootstrap} --alter --topic {changelog} --partitions {needed}"
            )
        elif present > needed:
            lines.append(
                f"{text}: it was made for another scope or input; name a new one as [topics] changelog, and create it "
                f"with: {create}"
            )
    return lines


def _rules(settings: Settings, name: str, source: Topic) -> list[_Rule]:
    """The rules of a topic, for an input like this."""
    topics, given = settings.topics, settings.topics.input
    if name == given:
        return []
    if name == topics.changelog:
        retention = changelog_retention_ms(settings, source)
        return [
            _Rule(_CLEANUP, "delete", lambda topic: topic.config.get(_CLEANUP) == "delete",
                  "is compacted, which would delete blocks that are still needed"),
            _Rule(_RETENTION, retention, lambda topic: not 0 <= topic.number(_RETENTION, -1) < retention,
                  f"retains less than {retention} ms: window, margin and the time that records may wait in {given}"),
            _Rule("retention.bytes", -1, lambda topic: topic.number("retention.bytes", -1) < 0,
                  "deletes by size"),
            _Rule(_LIMIT, 2**20, lambda topic: topic.limit >= ENTRY_BYTES + client.HEADER_ROOM,
                  "takes no block of full size"),
        ]  # fmt: skip
    limit = max(source.limit, client.BATCH_BYTES) + client.HEADER_ROOM
    rules = [
        _Rule(_LIMIT, limit, lambda topic: topic.limit >= limit,
              f"takes smaller records than {given}, which takes {source.limit} bytes, with our headers of up to "
              f"{client.HEADER_ROOM}"),
        _Rule(_TIMESTAMP, "CreateTime", lambda topic: topic.config.get(_TIMESTAMP) != "LogAppendTime",
              "would replace the records' timestamps"),
    ]  # fmt: skip
    rules += [_time_limit(key, source.number(key, _UNLIMITED), given) for key in _TIME_LIMITS if key in source.config]
    # The output may be compacted to a table of the latest version of each key. The other two are logs of what happened,
    # and the bytes of a dead letter exist nowhere else.
    if name != topics.output:
        rules.append(
            _Rule(_CLEANUP, "delete", lambda topic: not topic.is_compacted,
                  "is compacted: only the last of several records with one key would remain")
        )  # fmt: skip
    return rules


def _time_limit(key: str, allowed: int, given: str) -> _Rule:
    return _Rule(
        key,
        allowed,
        lambda topic: topic.number(key, _UNLIMITED) >= allowed,
        f"refuses timestamps that {given} takes",
    )


# A request in this version is a sign of Kafka 3.3, as kafka-python reads it. Up to Kafka 2.4 a member that was replaced
# could still commit offsets in its transaction (KIP-447), and up to 2.7 a topic has no id, so that one that was
# recreated looks like the one before (KIP-516). On 2.8.2 the tests that kill workers lost a batch of 50 items in one
# run of two, and what is between was not tried.
_NEEDED, _NEEDED_VERSION = "DescribeAcls", 3


def check_topics(settings: Settings) -> dict[str, Topic]:
    """Describe the five topics by their names, and check them.

    Raises TopicError that lists every problem, each with the command that fixes it.
    """
    with administrator(settings) as admin:
        _check_brokers(admin, settings)
        existing = _describe(admin, topic_names(settings))
    found = problems(settings, existing)
    if found:
        raise TopicError("the topics are not ready:\n  " + "\n  ".join(found))
    return existing


def committed_offsets(settings: Settings, group: str) -> dict[tuple[str, int], tuple[int, str]]:
    """What a group has committed: (topic, partition) -> offset, and the note beside it."""
    with administrator(settings) as admin:
        offsets = admin.list_group_offsets(group)[group]
    return {(place.topic, place.partition): (int(at.offset), str(at.metadata)) for place, at in offsets.items()}


def has_had_records(settings: Settings, topic: str) -> bool:
    """Whether anything was ever written to the topic, even if it was deleted since."""
    with administrator(settings) as admin:
        count, _ = _existing(admin, [topic]).get(topic, (0, ""))
        ends = log_end_offsets(admin, [TopicPartition(topic, number) for number in range(count)])
    return any(end > 0 for end in ends.values())


def log_end_offsets(admin: Any, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The log end offset of each, committed or not. `admin`: a KafkaAdminClient."""
    offsets = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    return {partition: int(offsets[partition].offset) for partition in partitions}


def create_topics(settings: Settings, partitions: int | None = None, replication: int | None = None) -> list[str]:
    """Create the missing ones of the five topics and return their names; existing topics stay unchanged.

    `partitions`: of the input topic, from which the others follow. None: the brokers' default.
    """
    given, *others = topic_names(settings)
    created: list[str] = []

    def create(name: str, count: int | None, config: Mapping[str, str]) -> None:
        spec = {"num_partitions": count or -1, "replication_factor": replication or -1, "configs": config}
        try:
            admin.create_topics({name: spec}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            return  # another process created it meanwhile
        created.append(name)

    with administrator(settings) as admin:
        _check_brokers(admin, settings)
        existing = _describe(admin, topic_names(settings))
        if given not in existing:
            create(given, partitions, {})
            existing |= _describe(admin, [given])
        source = existing[given]
        for name in others:
            if name not in existing:
                is_changelog = name == settings.topics.changelog
                count = changelog_partitions(settings, source) if is_changelog else source.partitions
                create(name, count, new_config(settings, name, source))
    return created


def _check_brokers(admin: Any, settings: Settings) -> None:
    """Raise StreamError for brokers that lack what exactly-once processing needs."""
    with suppress(ValueError):  # of the client, for brokers so new that they have requests it does not know
        offered = {key.name: most for key, (_, most) in admin.api_versions().items()}.get(_NEEDED, -1)
        if offered < _NEEDED_VERSION:
            raise StreamError(
                f"the brokers at {settings.kafka.bootstrap_servers} are too old: Kafka 3.3 or newer is needed. Update "
                "them, or use another cluster"
            )


@contextmanager
def administrator(settings: Settings, **options: Any) -> Iterator[Any]:
    """An admin client with these options for a `with` block; its errors become ours."""
    doing = f"asking Kafka at {settings.kafka.bootstrap_servers} for the topics"
    try:
        admin = client.make(KafkaAdminClient, client.connection(settings) | options)
    except KafkaError as error:
        failure = errors.translate(error, doing)
        if isinstance(failure, TransactionFailed):  # the worker tries again, a command prints it
            failure = TransactionFailed(str(errors.not_reached(error, settings)), lasting=failure.lasting)
        raise failure from None
    try:
        with errors.translated(doing):
            yield admin
    finally:
        admin.close()


def _existing(admin: Any, names: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Topic -> number of partitions and id, for each topic that exists."""
    found = {}
    for topic in admin.describe_topics(list(names)):
        if topic["error_code"] == 0:
            found[topic["name"]] = len(topic["partitions"]), str(topic["topic_id"])
        elif for_code(topic["error_code"]) is not UnknownTopicOrPartitionError:
            raise for_code(topic["error_code"])(topic["name"])
    return found


def _describe(admin: Any, names: Sequence[str]) -> dict[str, Topic]:
    partitions = _existing(admin, names)
    if not partitions:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in partitions]
    configs = admin.describe_configs(resources, config_filter="all")["topic"]
    # Every topic has settings. If the broker refuses to show them, the client returns none, without an error.
    refused = [name for name in partitions if not configs.get(name)]
    if refused:
        raise TopicError(
            "the topics' settings cannot be read, so it is unknown whether something would be lost:\n  "
            + "\n  ".join(
                f"{name}: the user needs the right DescribeConfigs; grant it with: kafka-acls.sh --add "
                f"--allow-principal User:NAME --operation DescribeConfigs --topic {name}"
                for name in refused
            )
        )
    return {
        name: Topic(count, {key: entry["value"] for key, entry in configs[name].items()}, topic_id)
        for name, (count, topic_id) in partitions.items()
    }
