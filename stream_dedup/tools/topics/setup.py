"""Create the five topics, and mend what loses records: `topics create` and `topics fix`; also for demo and tests.

kafka/topics.py has the rules that both follow, and by which a worker checks the topics.
"""

from collections.abc import Mapping

from stream_dedup.errors import TopicError
from stream_dedup.kafka import topics
from stream_dedup.kafka.client import ConfigResource, ConfigResourceType
from stream_dedup.kafka.errors import kafka_errors
from stream_dedup.kafka.runtime import REAL, Runtime, administrator
from stream_dedup.kafka.topics import Topic, check_brokers, describe, rules, topic_names, weaknesses
from stream_dedup.settings import Settings

# A loss of one broker loses nothing, and stops nothing, with three replicas of which two are current.
_DURABLE = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
# Why a broker does not create a topic, and what cures it.
_NOT_CREATED = {
    kafka_errors.InvalidReplicationFactorError: "give --replication with no more than there are brokers, such as "
    "--replication 1 for one, or start the others",
    kafka_errors.InvalidTopicError: "name another one in [topics]",
    kafka_errors.PolicyViolationError: "this cluster has a policy for topics: let those who run it create the five "
    "topics, and see with `topics check` that they lose nothing",
}


def new_config(settings: Settings, name: str, source: Topic) -> dict[str, str]:
    """Return the configuration of a new topic other than the input. `source`: the input."""
    config: dict[str, object] = {rule.key: rule.value for rule in rules(settings, name, source)}
    if name == settings.topics.changelog:
        # Retention counts by the broker's clock. By a worker's, one that is ahead by an hour could write nothing (Kafka
        # 4.0 refuses it), and one that is far behind would have its blocks deleted at once. Kafka deletes whole
        # segments: with one a day the changelog is retained for at most a day longer than needed.
        config |= {topics.TIMESTAMP: "LogAppendTime", "segment.ms": topics.DAY_MS}
    else:
        # Since Kafka 4.0 brokers refuse records from more than an hour ahead by default; a feed may have them.
        config |= {topics.CLEANUP: "delete"} | {
            key: topics.UNLIMITED for key in topics.TIME_LIMITS if key in source.config
        }
    return {key: str(value) for key, value in config.items()}


def create_topics(
    settings: Settings, partitions: int | None = None, replication: int | None = None, runtime: Runtime = REAL
) -> list[str]:
    """Create the missing ones of the five topics and return their names; existing topics stay unchanged.

    `partitions`: of the input topic, from which the others follow. None: the brokers' default.
    """
    input_name, *others = topic_names(settings)
    created: list[str] = []

    def create(name: str, count: int | None, config: Mapping[str, str]) -> None:
        spec = {"num_partitions": count or -1, "replication_factor": replication or -1, "configs": config}
        [answer] = admin.create_topics({name: spec}, raise_errors=False)["topics"]
        problem, text = kafka_errors.for_code(answer["error_code"]), answer["error_message"]
        if problem is kafka_errors.TopicAlreadyExistsError:
            return  # another process created it meanwhile
        if problem in _NOT_CREATED:
            raise TopicError(f"{name} cannot be created ({text or problem.description}); {_NOT_CREATED[problem]}")
        if problem is not kafka_errors.NoError:
            raise problem(text)
        admin.wait_for_topics([name])
        created.append(name)

    with administrator(settings, runtime) as admin:
        check_brokers(admin, settings)
        existing = describe(admin, topic_names(settings))
        if input_name not in existing:
            create(input_name, partitions, {})
            existing |= describe(admin, [input_name])
        source = existing[input_name]
        for name in others:
            if name not in existing:
                is_changelog = name == settings.topics.changelog
                count = topics.changelog_partitions(settings, source) if is_changelog else source.partitions
                create(name, count, new_config(settings, name, source))
    return created


def fix_topics(settings: Settings, runtime: Runtime = REAL) -> list[str]:
    """Set what `problems` and `weaknesses` find of settings and partitions; return what was changed."""
    with administrator(settings, runtime) as admin:
        existing = describe(admin, topic_names(settings))
        source, changelog = existing.get(settings.topics.input), settings.topics.changelog
        if source is None:
            raise TopicError(f"{settings.topics.input} does not exist, and the others follow from it")
        changed = []
        for name, topic in existing.items():
            config = {rule.key: str(rule.value) for rule in rules(settings, name, source) if not rule.holds(topic)}
            if name != settings.topics.input:
                config |= {key: _DURABLE[key] for key in weaknesses(topic) if key in _DURABLE}
            if config:
                admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, configs=config)])
                changed += [f"{name}: {key} is {value}" for key, value in config.items()]
        needed = topics.changelog_partitions(settings, source)
        if changelog in existing and existing[changelog].partitions < needed:
            admin.create_partitions({changelog: needed})
            changed.append(f"{changelog}: {needed} partitions")
    return changed
