"""Show the consumer group, and set its offsets of the input by hand: cures that need no tools of Kafka."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stream_dedup.errors import StreamError, UsageError
from stream_dedup.kafka.client import OffsetAndMetadata, OffsetSpec, OffsetTimestamp, TopicPartition
from stream_dedup.kafka.errors import kafka_errors
from stream_dedup.kafka.runtime import REAL, Runtime, administrator
from stream_dedup.kafka.topics import topic_names
from stream_dedup.phrases import counted
from stream_dedup.settings import Settings

_HAS_MEMBERS = (kafka_errors.UnknownMemberIdError, kafka_errors.RebalanceInProgressError)


@dataclass(frozen=True, slots=True)
class Member:
    """A member as the brokers know it. role: active, standby (it has no partition), or joining."""

    id: str
    host: str
    role: str
    partitions: list[int]  # of the input


@dataclass(frozen=True, slots=True)
class GroupView:
    """The consumer group as the brokers have it."""

    state: str
    members: list[Member]
    offsets: dict[int, tuple[int, int]]  # partition -> the committed offset (-1: none), and the end


def show(settings: Settings, runtime: Runtime = REAL) -> GroupView:
    """Return the group as the brokers have it."""
    group = settings.kafka.group_id
    with administrator(settings, runtime) as admin:
        described = admin.describe_groups([group])[group]
        places = _places(admin, settings)
        ends = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
        committed = admin.list_group_offsets(group)[group]
    state = str(described.get("group_state") or described.get("state"))
    members = [_member(member, settings.topics.input, state) for member in described["members"]]
    offsets = {
        place.partition: (int(committed[place].offset) if place in committed else -1, int(ends[place].offset))
        for place in places
    }
    return GroupView(state, sorted(members, key=lambda member: (member.role, member.id)), offsets)


def _member(described: Any, topic: str, state: str) -> Member:
    assignment = described["member_assignment"] or {"assigned_partitions": []}
    partitions = [
        number for part in assignment["assigned_partitions"] if part["topic"] == topic for number in part["partitions"]
    ]
    role = "joining" if state != "Stable" else "active" if partitions else "standby"
    return Member(str(described["member_id"]), str(described["client_host"]).lstrip("/"), role, sorted(partitions))


def set_offsets(
    settings: Settings, target: str, partitions: Collection[int] = (), runtime: Runtime = REAL
) -> dict[int, int]:
    """Set the group's offsets, of all partitions unless some are named; return them.

    `target`: an offset, `earliest`, `latest`, `current`, or a time in ISO 8601, for the first record from then on.
    Offsets that a person sets carry no note, so the next worker believes them (worker/resume.py).
    """
    group = settings.kafka.group_id
    with administrator(settings, runtime) as admin:
        places = _places(admin, settings)
        unknown = set(partitions) - {place.partition for place in places}
        if unknown:
            raise UsageError(f"{settings.topics.input} has no partition {', '.join(map(str, sorted(unknown)))}")
        chosen = [place for place in places if not partitions or place.partition in partitions]
        targets = _targets(admin, group, target, chosen)
        answers = admin.alter_group_offsets(
            group, {place: OffsetAndMetadata(offset, "", -1) for place, offset in targets.items()}
        )
        for place, problem in answers.items():
            if issubclass(problem, _HAS_MEMBERS):
                raise StreamError(f"the group {group} has members: stop every one, and run this again")
            if problem is not kafka_errors.NoError:
                raise problem(f"setting the offset of partition {place.partition}")
    return {place.partition: offset for place, offset in targets.items()}


@dataclass(frozen=True, slots=True)
class Reset:
    """What beginning anew does. `deleted`: topic -> offsets that are deleted. `offsets`: of the input, as set."""

    deleted: dict[str, int]
    offsets: dict[int, int]


def reset(settings: Settings, target: str, *, confirmed: bool, runtime: Runtime = REAL) -> Reset:
    """Empty what the worker wrote, forget what it remembers, and read the input from `target` on (`set_offsets`).

    Unless `confirmed` it changes nothing, and says what it would do. Killed half-way it can be run again: the offsets
    come first, so that no worker goes on behind an emptied changelog.
    """
    _, *written = topic_names(settings)
    with administrator(settings, runtime) as admin:
        if members := admin.describe_groups([settings.kafka.group_id])[settings.kafka.group_id]["members"]:
            raise StreamError(
                f"the group {settings.kafka.group_id} has {counted(len(members), 'member')}: stop every one, and run "
                "this again"
            )
        offsets = _targets(admin, settings.kafka.group_id, target, _places(admin, settings))
        places = [place for name in written for place in _places(admin, settings, name)]
        begins = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.EARLIEST))
        ends = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
        deleted = dict.fromkeys(written, 0)
        for place in places:
            deleted[place.topic] += int(ends[place].offset) - int(begins[place].offset)
        if confirmed:
            set_offsets(settings, target, (), runtime)
            admin.delete_records({place: int(ends[place].offset) for place in places if ends[place].offset})
    return Reset(deleted, {place.partition: offset for place, offset in offsets.items()})


def _places(admin: Any, settings: Settings, name: str = "") -> list[TopicPartition]:
    name = name or settings.topics.input
    [topic] = admin.describe_topics([name])
    if topic["error_code"]:
        raise kafka_errors.for_code(topic["error_code"])(name)
    return sorted(TopicPartition(topic["name"], part["partition_index"]) for part in topic["partitions"])


def _targets(admin: Any, group: str, target: str, places: list[TopicPartition]) -> dict[TopicPartition, int]:
    def ends(spec: Any) -> dict[TopicPartition, int]:
        return {
            place: int(found.offset)
            for place, found in admin.list_partition_offsets(dict.fromkeys(places, spec)).items()
        }

    if target == "current":
        committed = admin.list_group_offsets(group)[group]
        if missing := [place.partition for place in places if place not in committed]:
            raise UsageError(f"the group {group} has no offset of partition {', '.join(map(str, missing))}")
        return {place: int(committed[place].offset) for place in places}
    if target in ("earliest", "latest"):
        return ends(OffsetSpec.EARLIEST if target == "earliest" else OffsetSpec.LATEST)
    if target.isdecimal():
        first, last = ends(OffsetSpec.EARLIEST), ends(OffsetSpec.LATEST)
        for place in places:
            if not first[place] <= int(target) <= last[place]:
                raise UsageError(
                    f"partition {place.partition} has the offsets {first[place]} to {last[place]}, and not {target}"
                )
        return dict.fromkeys(places, int(target))
    try:
        moment = datetime.fromisoformat(target)
    except ValueError:
        raise UsageError(
            f"{target!r} is no offset, earliest, latest, current, or time as 2026-01-31T00:00:00Z"
        ) from None
    if moment.tzinfo is None:
        raise UsageError(f"{target} has no time zone: append Z for UTC, or +01:00")
    # -1: no record is that young.
    last, found = ends(OffsetSpec.LATEST), ends(OffsetTimestamp(int(moment.timestamp() * 1000)))
    return {place: offset if offset >= 0 else last[place] for place, offset in found.items()}
