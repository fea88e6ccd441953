"""What the five topics must be like, so that nothing is lost: one table, for making topics and for checking them.

In: settings, and the topics as the brokers describe them. Out: the configuration of a new topic, or a line for each
problem of an existing one, with the command that fixes it. Nothing here asks Kafka. The rules:

- output, duplicates and dead letters take whatever the input takes: a batch as large as the input's largest plus our
  headers, and any timestamp; they keep the record's timestamp;
- neither duplicates nor dead letters are compacted;
- the changelog retains the whole window: it deletes by age only, and late enough;
- the changelog has two partitions for each index, of blocks and of merged blocks: two in scope global, twice as many
  as the input in scope partition.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from stream_dedup.changelog.limits import ENTRY_BYTES, PARTITIONS
from stream_dedup.kafka import client
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
    """An existing topic. `id`: "" if the brokers have none."""

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
