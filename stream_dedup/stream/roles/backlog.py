"""Refuse to go back from split mode to role `all` while blocks are left in between.

The input offsets of both modes are the same: those of the fingerprint workers. Items behind them whose blocks wait for
the judge or for publishing would be left out by a worker of role `all`, and published later, against another index.
"""

import time
from functools import partial
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from stream_dedup.errors import Stalled, StreamError
from stream_dedup.stream import client
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.roles.names import RoleName
from stream_dedup.stream.roles.role import Role
from stream_dedup.stream.topics import topic_ids

_POLL_MS = 100


def check_drained(context: WorkerContext) -> None:
    """Raise StreamError if blocks of split mode are left. Reads at most one fetch of each partition."""
    roles = [Role.of(name, context.settings) for name in (RoleName.JUDGE, RoleName.PUBLISH)]
    topics = [role.source for role in roles]
    existing = context.call_once("looking for topics of split mode", lambda: topic_ids(context.settings, topics))
    for role in roles:
        if role.source in existing and context.call_once(f"reading {role.source}", partial(_is_left, context, role)):
            raise StreamError(
                f"{role.source} has blocks that group {role.group_id} has not processed yet: split mode was stopped "
                "before it was done, and a worker of role all would leave these items out. Run workers with --role "
                "judge and --role publish until nothing waits in either topic. To give these items up, delete "
                f"{' and '.join(topics)}"
            )


def _is_left(context: WorkerContext, role: Role) -> bool:
    config = client.changelog_reader(context.settings) | {"group_id": role.group_id}
    consumer: Any = client.make(KafkaConsumer, config)
    try:
        places = [TopicPartition(role.source, number) for number in consumer.partitions_for_topic(role.source) or ()]
        beginnings, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
        positions = {place: max(int(consumer.committed(place) or 0), int(beginnings[place])) for place in places}
        behind = [place for place in places if positions[place] < ends[place]]
        consumer.assign(behind)
        for place in behind:
            consumer.seek(place, positions[place])
        until = time.monotonic() + context.call_timeout
        # The last offsets may be control records, which no poll returns.
        while any(consumer.position(place) < ends[place] for place in behind):
            if consumer.poll(_POLL_MS):
                return True
            if time.monotonic() > until:
                raise Stalled(f"{role.source} cannot be read to its end")
        return False
    finally:
        consumer.close(autocommit=False)
