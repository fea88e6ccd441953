"""The five topics: what they must be like so that nothing is lost, made and checked.

In: settings. Out: topics that exist (`create_topics`), or a `Layout` (`check_topics`); a topic that would lose
something is refused with the command that mends it. Checked at each start and each take-over:

- all five exist;
- what may come in may go out: output, duplicates and dead letters take a batch as large as the input's largest
  plus our headers, and any timestamp the input takes; they keep the record's timestamp;
- the changelog remembers the whole window: deleted by age only, and late enough; and it has two partitions for
  each index, of blocks and of folds: two in scope global, twice as many as the input in scope partition;
- nothing held back or broken is compacted away.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from kafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from stream_dedup.changelog.limits import ENTRY_BYTES, PARTITIONS
from stream_dedup.errors import TopicError
from stream_dedup.settings import Settings
from stream_dedup.stream import client

T = TypeVar("T")

# What brokers without topic ids say.
_NO_ID = "00000000-0000-0000-0000-000000000000"
# Kafka's "for ever" of a timestamp's distance.
_ANY = 2**63 - 1
# Two indexes would stand in one partition.
_FORMER = (
    ". But if a former release, which knew one partition an index, has written to it: name a new one as [topics] "
    "changelog, and create it with: stream-dedup topics create --config FILE"
)
# Deletion takes whole segments: with one a day the changelog is at most a day longer than it must be.
_SEGMENT_MS = 24 * 3600 * 1000
# An input without a limit by age could wait for ever; a standstill longer than this is counted as this long.
_LONGEST_WAIT_MS = 30 * 24 * 3600 * 1000
_LIMIT, _BEFORE, _AFTER = "max.message.bytes", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """What the worker needs to know of the topics: partitions, the largest batch each takes, which are compacted, that
    is take no record without a key, and their ids.

    A topic that is deleted and created anew has another id; "": the brokers (before Kafka 2.8) know of none. `kept`:
    for so long (ms) the changelog keeps a block at least.
    """

    partitions: Mapping[str, int]
    limits: Mapping[str, int]
    compacted: frozenset[str] = frozenset()
    ids: Mapping[str, str] = field(default_factory=dict)
    kept: int = 0


@dataclass(frozen=True, slots=True)
class _Topic:
    partitions: int
    config: Mapping[str, str]
    id: str = ""

    def number(self, name: str, default: int) -> int:
        return int(self.config.get(name) or default)

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.config.get("cleanup.policy", "")


def check_topics(settings: Settings) -> TopicMetadata:
    """The layout of the topics as they are.

    Raises TopicError with every problem, each with the command that mends it.
    """
    with _admin(settings) as admin:
        found = _describe(admin, _names(settings))
    problems = _problems(settings, found)
    if problems:
        raise TopicError("the topics are not ready:\n  " + "\n  ".join(problems))
    return TopicMetadata(
        {name: topic.partitions for name, topic in found.items()},
        {name: topic.number(_LIMIT, 2**20) for name, topic in found.items()},
        frozenset(name for name, topic in found.items() if topic.is_compacted),
        {name: topic.id for name, topic in found.items()},
        _remembered_ms(settings, found[settings.topics.input]),
    )


def topic_ids(settings: Settings) -> dict[str, str]:
    """The ids of the input and the changelog topic as they are now; one that does not exist is missing."""
    with _admin(settings) as admin:
        return _existing(admin, [settings.topics.input, settings.topics.changelog], _id)


def has_had_records(settings: Settings, topic: str) -> bool:
    """Whether anything was ever written to the topic, and be it deleted since."""
    with _admin(settings) as admin:
        counts = _existing(admin, [topic], lambda one: len(one["partitions"]))
        places = [TopicPartition(topic, one) for one in range(counts.get(topic, 0))]
        ends = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
    return any(ends[place].offset > 0 for place in places)


def create_topics(settings: Settings, partitions: int | None = None, replication: int | None = None) -> list[str]:
    """Makes those of the five topics that are missing; returns their names. What exists is left as it is.

    `partitions` is for the input topic (None: the brokers' default); the others follow it.
    """
    topics = settings.topics
    made: list[str] = []

    def make(name: str, count: int | None, config: Mapping[str, object]) -> None:
        spec = {
            "num_partitions": count or -1,
            "replication_factor": replication or -1,
            "configs": {key: str(value) for key, value in config.items()},
        }
        try:
            admin.create_topics({name: spec}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            return  # someone else was as quick
        made.append(name)

    with _admin(settings) as admin:
        found = _describe(admin, _names(settings))
        if topics.input not in found:
            make(topics.input, partitions, {})
            found |= _describe(admin, [topics.input])
        source = found[topics.input]
        written = {
            _LIMIT: max(source.number(_LIMIT, 2**20), client.BATCH_BYTES) + client.HEADER_ROOM,
            "message.timestamp.type": "CreateTime",
            "cleanup.policy": "delete",
        }
        # Since Kafka 4.0 records from more than an hour ahead are refused by default; a feed may have them.
        written |= {name: _ANY for name in (_BEFORE, _AFTER) if name in source.config}
        for name in (topics.output, topics.duplicates, topics.dead_letters):
            if name not in found:
                make(name, source.partitions, written)
        if topics.changelog not in found:
            remembered = {
                "cleanup.policy": "delete",
                "retention.ms": _remembered_ms(settings, source),
                "retention.bytes": -1,
                "segment.ms": _SEGMENT_MS,
                _LIMIT: 2**20,
            }
            make(topics.changelog, _remembering(settings, source.partitions), remembered)
    return made


class _admin:  # noqa: N801 - used as a function
    """An admin client for a `with` block; its errors come out as ours."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Any = None

    def __enter__(self) -> Any:
        try:
            self._client = client.make(KafkaAdminClient, client.connection(self._settings))
        except KafkaError as error:
            raise client.translate(error, self._doing) from None
        return self._client

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._client.close()
        if isinstance(error, KafkaError):
            raise client.translate(error, self._doing) from error

    @property
    def _doing(self) -> str:
        return f"asking Kafka at {self._settings.kafka.bootstrap_servers} for the topics"


def _names(settings: Settings) -> list[str]:
    topics = settings.topics
    return [topics.input, topics.output, topics.duplicates, topics.dead_letters, topics.changelog]


def _existing(admin: Any, names: list[str], what: Callable[[Any], T]) -> dict[str, T]:
    """`what` is to be known of each topic that exists, of its description by kafka-python."""
    found = {}
    for topic in admin.describe_topics(names):
        if topic["error_code"] == 0:
            found[topic["name"]] = what(topic)
        elif for_code(topic["error_code"]).__name__ != "UnknownTopicOrPartitionError":
            raise for_code(topic["error_code"])(topic["name"])
    return found


def _id(topic: Any) -> str:
    said = str(topic.get("topic_id") or "")
    return "" if said == _NO_ID else said


def _describe(admin: Any, names: list[str]) -> dict[str, _Topic]:
    partitions = _existing(admin, names, lambda topic: (len(topic["partitions"]), _id(topic)))
    if not partitions:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in partitions]
    configs = admin.describe_configs(resources, config_filter="all")["topic"]
    # Every topic has settings. The client keeps the broker's refusal to itself and shows none.
    refused = [name for name in partitions if not configs.get(name)]
    if refused:
        raise TopicError(
            "the topics' settings may not be read, so nobody can tell whether something would be lost:\n  "
            + "\n  ".join(
                f"{name}: the user needs the right DescribeConfigs; give it with: kafka-acls.sh --add "
                f"--allow-principal User:NAME --operation DescribeConfigs --topic {name}"
                for name in refused
            )
        )
    return {
        name: _Topic(count, {key: entry["value"] for key, entry in configs[name].items()}, topic_id)
        for name, (count, topic_id) in partitions.items()
    }


def _problems(settings: Settings, found: Mapping[str, _Topic]) -> list[str]:
    topics = settings.topics
    problems = [
        f"{name} does not exist; {'is [topics] input spelled right? If so, ' if name == topics.input else ''}create it "
        "with: stream-dedup topics create --config FILE"
        for name in _names(settings)
        if name not in found
    ]
    source = found.get(topics.input)
    if source is not None:
        for name in (topics.output, topics.duplicates, topics.dead_letters):
            if name in found:
                problems += _written_topic(settings, name, found[name], source)
    if topics.changelog in found:
        problems += _changelog(settings, found[topics.changelog], source)
    return problems


def _written_topic(settings: Settings, name: str, topic: _Topic, source: _Topic) -> list[str]:
    problems = []
    need = max(source.number(_LIMIT, 2**20), client.BATCH_BYTES) + client.HEADER_ROOM
    have = topic.number(_LIMIT, 2**20)
    if have < need:
        problems.append(
            f"{name} takes at most {have} bytes, {settings.topics.input} lets in {source.number(_LIMIT, 2**20)}, and "
            f"our headers need {client.HEADER_ROOM} more; {_alter(settings, name, _LIMIT, need)}"
        )
    if topic.config.get("message.timestamp.type") == "LogAppendTime":
        problems.append(
            f"{name} would replace the records' timestamps; "
            + _alter(settings, name, "message.timestamp.type", "CreateTime")
        )
    else:
        for limit in (_BEFORE, _AFTER):
            allowed = source.number(limit, _ANY)
            if topic.number(limit, _ANY) < allowed:
                problems.append(
                    f"{name} refuses timestamps that {settings.topics.input} takes ({limit}); "
                    + _alter(settings, name, limit, allowed)
                )
    # The output may be compacted, as a table of the latest version of each key; the others are a record of what
    # happened, and the bytes of a dead letter are nowhere else.
    if name != settings.topics.output and topic.is_compacted:
        problems.append(
            f"{name} is compacted: of several records with one key only the last would stay; "
            + _alter(settings, name, "cleanup.policy", "delete")
        )
    return problems


def _changelog(settings: Settings, topic: _Topic, source: _Topic | None) -> list[str]:
    name = settings.topics.changelog
    problems = []
    if topic.config.get("cleanup.policy") != "delete":
        problems.append(
            f"{name} has cleanup.policy {topic.config.get('cleanup.policy')}, which would drop blocks that are "
            f"still needed; {_alter(settings, name, 'cleanup.policy', 'delete')}"
        )
    need = _remembered_ms(settings, source) if source is not None else 0
    have = topic.number("retention.ms", -1)
    if 0 <= have < need:
        problems.append(
            f"{name} keeps {have} ms; window, margin and the time that records may wait in {settings.topics.input} are "
            f"{need} ms; " + _alter(settings, name, "retention.ms", need)
        )
    if topic.number("retention.bytes", -1) >= 0:
        problems.append(f"{name} forgets by size (retention.bytes); " + _alter(settings, name, "retention.bytes", -1))
    if topic.number(_LIMIT, 2**20) < ENTRY_BYTES + client.HEADER_ROOM:
        problems.append(f"{name} takes no full block; {_alter(settings, name, _LIMIT, 2**20)}")
    if source is not None:
        wanted = _remembering(settings, source.partitions)
        if topic.partitions < wanted:
            problems.append(
                f"{name} has {topic.partitions} partitions, scope {settings.worker.scope} needs {wanted}; mend it "
                f"with: kafka-topics.sh {_at(settings)} --alter --topic {name} --partitions {wanted}"
                + (_FORMER if settings.worker.scope == "partition" and topic.partitions == source.partitions else "")
            )
        elif topic.partitions > wanted:
            problems.append(
                f"{name} has {topic.partitions} partitions, scope {settings.worker.scope} needs {wanted}: it was made "
                "for another scope or input; name a new one as [topics] changelog, and create it with: "
                "stream-dedup topics create --config FILE"
            )
    return problems


def _remembered_ms(settings: Settings, source: _Topic) -> int:
    """How long the changelog must keep a block, by the time of its writing: window + input's retention + margin.

    The window is of event time. A block is written at w about items from w or before; the oldest record that can still
    wait in the input is from now - R, R being the input's retention, after a stop as in a backlog. It is compared with
    items from now - R - window on, and those may have been written about as early as that. The margin is for clocks
    that are ahead, and for input that comes late.
    """
    wait = source.number("retention.ms", -1)
    if wait < 0 or wait > _LONGEST_WAIT_MS or "delete" not in source.config.get("cleanup.policy", "delete"):
        wait = _LONGEST_WAIT_MS
    return client.milliseconds(settings.window.length + settings.worker.changelog_margin) + wait


def _remembering(settings: Settings, input_partitions: int) -> int:
    """Partitions of the changelog."""
    return PARTITIONS * (1 if settings.worker.scope == "global" else input_partitions)


def _at(settings: Settings) -> str:
    return f"--bootstrap-server {settings.kafka.bootstrap_servers}"


def _alter(settings: Settings, topic: str, name: str, value: object) -> str:
    return (
        f"mend it with: kafka-configs.sh {_at(settings)} --alter --entity-type topics --entity-name {topic} "
        f"--add-config {name}={value}"
    )
