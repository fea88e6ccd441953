"""Create and check the five topics: partitions, retention, cleanup policy and record sizes, so that nothing is lost.

In: settings. Out: topics that exist (`create_topics`), or their `TopicMetadata` (`check_topics`). A topic that would
lose data is refused with the command that fixes it. Each start and each take-over checks that

- all five exist;
- output, duplicates and dead letters take whatever the input takes: a batch as large as the input's largest plus our
  headers, and any timestamp; they keep the record's timestamp;
- the changelog retains the whole window: it deletes by age only, and late enough;
- the changelog has two partitions for each index, of blocks and of merged blocks: two in scope global, twice as many
  as the input in scope partition;
- neither duplicates nor dead letters are compacted.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from stream_dedup.changelog.limits import ENTRY_BYTES, PARTITIONS
from stream_dedup.changelog.partitions import log_end_offsets
from stream_dedup.errors import StreamError, TopicError, TransactionFailed
from stream_dedup.phrases import counted
from stream_dedup.settings import Settings
from stream_dedup.stream import client

T = TypeVar("T")

# Requests in these versions. Up to Kafka 2.4 a member that was replaced could still commit offsets in its transaction
# (KIP-447), and up to 2.7 a topic has no id, so that one that was recreated looks like the one before (KIP-516). The
# last one is a sign of Kafka 3.3, as kafka-python reads it: on 2.8.2 the tests that kill workers lost a batch of 50
# items in one run of two, and what is between was not tried.
_NEEDED = {"TxnOffsetCommit": 3, "OffsetFetch": 7, "Metadata": 10, "DescribeAcls": 3}
# The id that brokers without topic ids (before Kafka 2.8) report.
_NO_ID = "00000000-0000-0000-0000-000000000000"
# The limit of a timestamp's distance that Kafka uses for "unlimited".
_UNLIMITED = 2**63 - 1
# Kafka deletes whole segments. With one a day the changelog is retained for at most a day longer than needed.
_SEGMENT_MS = 24 * 3600 * 1000
# Added to what the changelog must retain: for clocks that are ahead, and for late input.
_MARGIN_MS = 24 * 3600 * 1000
# The longest time that records are expected to wait in an input topic that is not limited by age, or to more than this.
_LONGEST_WAIT_MS = 30 * 24 * 3600 * 1000
_LIMIT = "max.message.bytes"
# Kafka 3.6 has replaced the first one by the others.
_TIME_LIMITS = (
    "message.timestamp.difference.max.ms", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """What the worker knows about the topics, by name.

    `partitions`: their number. `limits`: bytes of the largest batch. `compacted`: topics that take no record without a
    key. `ids`: a topic that is deleted and created anew has another id; "": the brokers (before Kafka 2.8) have none.
    `changelog_retention_ms`: the time (ms) for which the changelog retains a block at least.
    """

    partitions: Mapping[str, int]
    limits: Mapping[str, int]
    compacted: frozenset[str] = frozenset()
    ids: Mapping[str, str] = field(default_factory=dict)
    changelog_retention_ms: int = 0


@dataclass(frozen=True, slots=True)
class _Topic:
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
        return "compact" in self.config.get("cleanup.policy", "")


def check_topics(settings: Settings) -> TopicMetadata:
    """Fetch the topics' metadata and check it.

    Raises TopicError that lists every problem, each with the command that fixes it.
    """
    with _AdminClient(settings) as admin:
        _check_brokers(admin, settings)
        existing = _describe(admin, _names(settings))
    problems = _problems(settings, existing)
    if problems:
        raise TopicError("the topics are not ready:\n  " + "\n  ".join(problems))
    return TopicMetadata(
        {name: topic.partitions for name, topic in existing.items()},
        {name: topic.limit for name, topic in existing.items()},
        frozenset(name for name, topic in existing.items() if topic.is_compacted),
        {name: topic.id for name, topic in existing.items()},
        _changelog_retention_ms(settings, existing[settings.topics.input]),
    )


def topic_ids(settings: Settings, names: Sequence[str]) -> dict[str, str]:
    """The present ids of these topics; a topic that does not exist is missing."""
    with _AdminClient(settings) as admin:
        return _existing(admin, list(names), _id)


def topic_ids_and_notes(settings: Settings, names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """As `topic_ids`, and what stands beside the group's offsets."""
    group, topic = settings.kafka.group_id, settings.topics.input
    with _AdminClient(settings) as admin:
        ids = _existing(admin, list(names), _id)
        offsets = admin.list_group_offsets(group)[group]
    return ids, [str(committed.metadata) for place, committed in offsets.items() if place.topic == topic]


def has_had_records(settings: Settings, topic: str) -> bool:
    """Whether anything was ever written to the topic, even if it was deleted since."""
    with _AdminClient(settings) as admin:
        counts = _existing(admin, [topic], lambda topic: len(topic["partitions"]))
        numbers = range(counts.get(topic, 0))
        partitions = [TopicPartition(topic, number) for number in numbers]
        ends = log_end_offsets(admin, partitions)
    return any(end > 0 for end in ends.values())


def create_topics(settings: Settings, partitions: int | None = None, replication: int | None = None) -> list[str]:
    """Create the missing ones of the five topics and return their names; existing topics stay unchanged.

    `partitions`: of the input topic, from which the others follow. None: the brokers' default.
    """
    topics = settings.topics
    created: list[str] = []

    def create(name: str, count: int | None, config: Mapping[str, object]) -> None:
        spec = {
            "num_partitions": count or -1,
            "replication_factor": replication or -1,
            "configs": {key: str(value) for key, value in config.items()},
        }
        try:
            admin.create_topics({name: spec}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            return  # another process created it meanwhile
        created.append(name)

    with _AdminClient(settings) as admin:
        _check_brokers(admin, settings)
        existing = _describe(admin, _names(settings))
        if topics.input not in existing:
            create(topics.input, partitions, {})
            existing |= _describe(admin, [topics.input])
        source = existing[topics.input]
        written_to = {
            _LIMIT: _required_limit(source),
            "message.timestamp.type": "CreateTime",
            "cleanup.policy": "delete",
        }
        # Since Kafka 4.0 brokers refuse records from more than an hour ahead by default; a feed may have them.
        written_to |= {name: _UNLIMITED for name in _TIME_LIMITS if name in source.config}
        for name in (topics.output, topics.duplicates, topics.dead_letters):
            if name not in existing:
                create(name, source.partitions, written_to)
        if topics.changelog not in existing:
            changelog = {
                "cleanup.policy": "delete",
                # Retention counts by the broker's clock. By a worker's, one that is ahead by an hour could write
                # nothing (Kafka 4.0 refuses it), and one that is far behind would have its blocks deleted at once.
                "message.timestamp.type": "LogAppendTime",
                "retention.ms": _changelog_retention_ms(settings, source),
                "retention.bytes": -1,
                "segment.ms": _SEGMENT_MS,
                _LIMIT: 2**20,
            }
            create(topics.changelog, _changelog_partitions(settings, source.partitions), changelog)
    return created


def _check_brokers(admin: Any, settings: Settings) -> None:
    """Raise StreamError for brokers that lack what exactly-once processing needs."""
    with suppress(ValueError):  # of the client, for brokers so new that they have requests it does not know
        offered = {key.name: most for key, (_, most) in admin.api_versions().items()}
        for name, needed in _NEEDED.items():
            if offered.get(name, -1) < needed:
                raise StreamError(
                    f"the brokers at {settings.kafka.bootstrap_servers} are too old: Kafka 3.3 or newer is needed "
                    f"({name} in version {needed}; theirs is {offered.get(name, 'missing')}). Update them, or use "
                    "another cluster"
                )


class _AdminClient:
    """An admin client for a `with` block; raises its errors as ours."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Any = None

    def __enter__(self) -> Any:
        try:
            self._client = client.make(KafkaAdminClient, client.connection(self._settings))
        except KafkaError as error:
            failure = client.translate(error, self._action)
            if isinstance(failure, TransactionFailed):  # the worker tries again, a command prints it
                failure = TransactionFailed(str(client.not_reached(error, self._settings)), lasting=failure.lasting)
            raise failure from None
        return self._client

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._client.close()
        if isinstance(error, KafkaError):
            raise client.translate(error, self._action) from error

    @property
    def _action(self) -> str:
        return f"asking Kafka at {self._settings.kafka.bootstrap_servers} for the topics"


def _names(settings: Settings) -> list[str]:
    topics = settings.topics
    return [topics.input, topics.output, topics.duplicates, topics.dead_letters, topics.changelog]


def _existing(admin: Any, names: list[str], extract: Callable[[Any], T]) -> dict[str, T]:
    """Topic -> the value that `extract` takes from its description by kafka-python, for each topic that exists."""
    values = {}
    for topic in admin.describe_topics(names):
        if topic["error_code"] == 0:
            values[topic["name"]] = extract(topic)
        elif for_code(topic["error_code"]).__name__ != "UnknownTopicOrPartitionError":
            raise for_code(topic["error_code"])(topic["name"])
    return values


def _id(topic: Any) -> str:
    topic_id = str(topic.get("topic_id") or "")
    return "" if topic_id == _NO_ID else topic_id


def _describe(admin: Any, names: list[str]) -> dict[str, _Topic]:
    partitions = _existing(admin, names, lambda topic: (len(topic["partitions"]), _id(topic)))
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
        name: _Topic(count, {key: entry["value"] for key, entry in configs[name].items()}, topic_id)
        for name, (count, topic_id) in partitions.items()
    }


def _problems(settings: Settings, existing: Mapping[str, _Topic]) -> list[str]:
    topics = settings.topics
    problems = [
        f"{name} does not exist; {'is [topics] input spelled right? If so, ' if name == topics.input else ''}create it "
        f"with: stream-dedup topics create{settings.config_option}"
        for name in _names(settings)
        if name not in existing
    ]
    source = existing.get(topics.input)
    if source is not None:
        for name in (topics.output, topics.duplicates, topics.dead_letters):
            if name in existing:
                problems += _check_written_topic(settings, name, existing[name], source)
    if topics.changelog in existing:
        problems += _check_changelog(settings, existing[topics.changelog], source)
    return problems


def _check_written_topic(settings: Settings, name: str, topic: _Topic, source: _Topic) -> list[str]:
    problems = []
    required = _required_limit(source)
    if topic.limit < required:
        problems.append(
            f"{name} takes at most {topic.limit} bytes, {settings.topics.input} takes {source.limit}, and "
            f"our headers need {client.HEADER_ROOM} more; {_alter(settings, name, _LIMIT, required)}"
        )
    if topic.config.get("message.timestamp.type") == "LogAppendTime":
        problems.append(
            f"{name} would replace the records' timestamps; "
            + _alter(settings, name, "message.timestamp.type", "CreateTime")
        )
    else:
        for limit in _TIME_LIMITS:
            allowed = source.number(limit, _UNLIMITED)
            if topic.number(limit, _UNLIMITED) < allowed:
                problems.append(
                    f"{name} refuses timestamps that {settings.topics.input} takes ({limit}); "
                    + _alter(settings, name, limit, allowed)
                )
    # The output may be compacted to a table of the latest version of each key. The other two are logs of what
    # happened, and the bytes of a dead letter exist nowhere else.
    if name != settings.topics.output and topic.is_compacted:
        problems.append(
            f"{name} is compacted: only the last of several records with one key would remain; "
            + _alter(settings, name, "cleanup.policy", "delete")
        )
    return problems


def _check_changelog(settings: Settings, topic: _Topic, source: _Topic | None) -> list[str]:
    name = settings.topics.changelog
    problems = []
    if topic.config.get("cleanup.policy") != "delete":
        problems.append(
            f"{name} has cleanup.policy {topic.config.get('cleanup.policy')}, which would delete blocks that are "
            f"still needed; {_alter(settings, name, 'cleanup.policy', 'delete')}"
        )
    required = _changelog_retention_ms(settings, source) if source is not None else 0
    actual = topic.number("retention.ms", -1)
    if 0 <= actual < required:
        problems.append(
            f"{name} retains {actual} ms; window, margin and the time that records may wait in {settings.topics.input} "
            f"are {required} ms; " + _alter(settings, name, "retention.ms", required)
        )
    if topic.number("retention.bytes", -1) >= 0:
        problems.append(f"{name} deletes by size (retention.bytes); " + _alter(settings, name, "retention.bytes", -1))
    if topic.limit < ENTRY_BYTES + client.HEADER_ROOM:
        problems.append(f"{name} takes no block of full size; {_alter(settings, name, _LIMIT, 2**20)}")
    if source is not None:
        needed = _changelog_partitions(settings, source.partitions)
        present = f"{name} has {counted(topic.partitions, 'partition')}, scope {settings.worker.scope} needs {needed}"
        if topic.partitions < needed:
            problems.append(
                f"{present}; fix it with: kafka-topics.sh {_bootstrap_option(settings)} --alter --topic {name} "
                f"--partitions {needed}"
            )
        elif topic.partitions > needed:
            problems.append(
                f"{present}: it was made for another scope or input; name a new one as [topics] changelog, and create "
                f"it with: stream-dedup topics create{settings.config_option}"
            )
    return problems


def _required_limit(source: _Topic) -> int:
    """Bytes of the largest batch that the written topics must take."""
    return max(source.limit, client.BATCH_BYTES) + client.HEADER_ROOM


def _changelog_retention_ms(settings: Settings, source: _Topic) -> int:
    """How long the changelog must retain a block after its writing: window + retention of the input + margin.

    Let R be the retention of the input. After a stop or in a backlog, the oldest record still to be read is from
    now - R. It is compared with items from now - R - window on, whose blocks may have been written as early as that.
    """
    wait = source.number("retention.ms", -1)
    if wait < 0 or wait > _LONGEST_WAIT_MS or "delete" not in source.config.get("cleanup.policy", "delete"):
        wait = _LONGEST_WAIT_MS
    return client.milliseconds(settings.window.length) + wait + _MARGIN_MS


def _changelog_partitions(settings: Settings, input_partitions: int) -> int:
    """The number of partitions that the changelog needs."""
    return PARTITIONS * (1 if settings.worker.is_global else input_partitions)


def _bootstrap_option(settings: Settings) -> str:
    return f"--bootstrap-server {settings.kafka.bootstrap_servers}"


def _alter(settings: Settings, topic: str, name: str, value: object) -> str:
    return (
        f"fix it with: kafka-configs.sh {_bootstrap_option(settings)} --alter --entity-type topics "
        f"--entity-name {topic} --add-config {name}={value}"
    )
