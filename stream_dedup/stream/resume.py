"""Where a task goes on, and whether its memory is whole: decided from what the group, the changelog and the topics say.

In: the group's offsets with the note beside each, what the changelog has said, where the topics begin. Out: positions,
or an error with the command that mends it; and what has to be said to a person. Nothing here asks Kafka. Why: an offset
is worth nothing without the topic it belongs to (one that is deleted and created anew begins at 0 again), and where
offsets are gone, the beginning of the input is right for a first start alone.

Whoever sets the group's offsets by hand (kafka-consumer-groups.sh --reset-offsets) leaves no note, and is believed:
so a person tells where to go on.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stream_dedup.changelog.headers import Restored
from stream_dedup.errors import RecordsGone, StreamError, TopicError
from stream_dedup.settings import Settings

# Of the originals that were there, the share from which on some are missing for other reasons than their age.
_WHOLE = 0.5
# Below this many originals a share says nothing.
_FEW = 20


@dataclass(frozen=True, slots=True)
class Note:
    """What a worker leaves beside each offset it commits: the ids of both topics, and when (ms)."""

    input_id: str
    changelog_id: str
    at: int

    def text(self) -> str:
        return json.dumps({"input": self.input_id, "changelog": self.changelog_id, "at": self.at})

    @staticmethod
    def parse(text: str | None) -> "Note | None":
        """None: no worker of ours wrote it, or one from before there were notes.

        >>> Note.parse(Note("465bf025", "11ecd0ea", 7).text())
        Note(input_id='465bf025', changelog_id='11ecd0ea', at=7)
        >>> Note.parse(""), Note.parse("a person's own words")
        (None, None)
        """
        try:
            said = json.loads(text or "")
            return Note(str(said["input"]), str(said["changelog"]), int(said["at"]))
        except (ValueError, TypeError, KeyError):
            return None


@dataclass(frozen=True, slots=True)
class Committed:
    """The group's offset of one partition."""

    offset: int
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known when a task opens.

    `group`: the group's offsets of the task's partitions; `is_elsewhere`: it has some of others; `beginnings`: first
    offsets of the task's partitions; `restored`: what the changelog said, `originals`: how many came of it; `ids`: of
    the topics; `is_written`: the output has had records; `now` (ms); `kept`: so long (ms) the changelog keeps a block.
    """

    partitions: frozenset[int]
    group: Mapping[int, Committed]
    is_elsewhere: bool
    beginnings: Mapping[int, int]
    restored: Restored
    originals: int
    ids: Mapping[str, str]
    is_written: bool
    now: int
    kept: int

    @property
    def last(self) -> Note | None:
        """The note of the group's last commit."""
        notes = [one.note for one in self.group.values() if one.note is not None]
        return max(notes, key=lambda note: note.at, default=None)


def where(settings: Settings, known: Known) -> dict[int, int]:
    """Where each partition goes on: at the group's offset; where it has none, at the changelog's; where nothing was
    ever done, at the beginning.

    Raises TopicError for offsets of another topic, RecordsGone for what was deleted, StreamError where nothing says
    where.
    """
    topic = settings.topics.input
    here = known.ids.get(topic, "")
    others = [one for one, told in known.group.items() if told.note is not None and _differ(told.note.input_id, here)]
    standing = known.restored.standing
    missing = sorted(known.partitions - known.group.keys())
    if standing is not None and missing and standing.topic != topic:
        raise TopicError(
            f"the offsets in {settings.topics.changelog} belong to {standing.topic}, and [topics] input is {topic}. To "
            "read it with what is remembered, say where to begin, with every member stopped: "
            f"{_reset(settings, missing, known)} --to-earliest --execute; to begin anew, name another [kafka] group_id "
            "and [topics] changelog"
        )
    if others or (missing and standing is not None and _differ(standing.topic_id, here)):
        raise TopicError(recreated(settings, sorted({*others, *missing}), known))
    positions = {}
    for partition in sorted(known.partitions):
        if partition in known.group:
            positions[partition] = known.group[partition].offset
        elif partition in known.restored.offsets:
            positions[partition] = known.restored.offsets[partition]
        else:
            if _was_here(known):
                raise StreamError(_nowhere(settings, missing, known))
            positions[partition] = known.beginnings[partition]
    gone = {
        one: (at, known.beginnings[one], known.beginnings[one])
        for one, at in positions.items()
        if at < known.beginnings[one]
    }
    if gone:
        raise RecordsGone(out_of_range(settings, gone))
    return positions


def _was_here(known: Known) -> bool:
    """Whether this is no first start of the partitions of which nothing is known."""
    has_had_blocks = known.restored.blocks > 0 or known.restored.begin > 0
    if known.is_elsewhere or known.group or known.restored.offsets:
        # The group lives, and a partition that was added later, or had no record so far, is new to it. A task of one
        # partition that has written blocks had an offset, too.
        return has_had_blocks and len(known.partitions) == 1 and not known.restored.offsets
    return has_had_blocks or known.is_written


def replaced(known: Known) -> tuple[list[int], list[int]]:
    """The partitions that go on where the changelog says: those whose offset the group has lost, and those of which it
    never had one, because they had no record yet.
    """
    from_changelog = sorted((known.partitions - known.group.keys()) & known.restored.offsets.keys())
    return ([], from_changelog) if known.group else (from_changelog, [])


def state_loss(settings: Settings, known: Known) -> str | None:
    """What is missing of the memory, as far as it can be known, and what follows; None: nothing."""
    changelog, last, restored = settings.topics.changelog, known.last, known.restored
    written = restored.standing.originals if restored.standing is not None else 0
    if last is not None and _differ(last.changelog_id, known.ids.get(changelog, "")):
        if restored.migration is not None and restored.migration.complete:
            return None  # it was made to take the former one's place
        found = f"{changelog} was deleted and created anew, or another one is named, since the last commit"
    elif last is not None and not restored.blocks and known.now - last.at < known.kept:
        found = f"{changelog} holds nothing, although the last commit is {(known.now - last.at) / 3600_000:.1f} h old"
    elif last is None and known.group and not restored.blocks and restored.begin > 0:
        found = f"{changelog} holds nothing any more"
    elif written >= _FEW and known.originals < written * _WHOLE:
        found = f"{changelog} has given {known.originals} of {written} originals: its beginning is gone"
    else:
        return None
    return (
        f"{found}. Copies of what is forgotten go out once more. To get it back: stop every member, and run "
        "`stream-dedup migrate` with another [topics] changelog, which reads it from output and duplicates "
        "(scope global); else it is whole again after one window"
    )


def recreated(settings: Settings, partitions: Iterable[int], known: Known | None = None) -> str:
    topic = settings.topics.input
    return (
        f"{topic} was deleted and created anew since the group's offsets were committed: they belong to the former "
        "topic, and would skip the records of this one. Say where to begin, with every member stopped: "
        f"{_reset(settings, partitions, known)} --to-earliest --execute"
    )


def out_of_range(settings: Settings, gone: Mapping[int, tuple[int, int, int]]) -> str:
    """`gone`: partition -> where it was to go on, its first offset, its end."""
    lines = []
    for partition, (asked, begin, end) in sorted(gone.items()):
        if asked < begin:
            went = f"offsets {asked} to {begin - 1} of partition {partition} were deleted before they were read"
            to, then = begin, "what was deleted is lost, nothing comes twice"
        else:
            went = f"partition {partition} ends at {end}, and offset {asked} comes next: the cluster has lost its end"
            to, then = end, "what was written since below that offset is skipped"
        lines.append(
            f"{went}. To go on at {to}: {_at(settings)}:{partition} --reset-offsets --to-offset {to} --execute; {then}"
        )
    return (
        f"{settings.topics.input} no longer has the records that come next. With every member stopped, the other "
        "partitions stay as they are:\n  " + "\n  ".join(lines)
    )


def _nowhere(settings: Settings, partitions: Iterable[int], known: Known) -> str:
    names = settings.topics
    seen = f"{names.changelog} has had blocks" if known.restored.begin or known.restored.blocks else ""
    seen = " and ".join(filter(None, [seen, f"{names.output} has had records" if known.is_written else ""]))
    return (
        f"{seen}, but nothing says where to go on in {names.input}: the group {settings.kafka.group_id} has no offsets "
        "(brokers drop those of a group without members, after seven days by default) and the changelog tells none "
        "either. From the beginning everything would go out again. Say where, with every member stopped: "
        f"{_reset(settings, partitions, known)} --to-datetime 2026-01-31T00:00:00.000 --execute (the time of the last "
        f"record in {names.output}; or --to-earliest, to judge all of the input again, or --to-latest)"
    )


def _reset(settings: Settings, partitions: Iterable[int], known: Known | None) -> str:
    """The command for these partitions, which leaves those alone that are well."""
    chosen = sorted(partitions)
    is_all = known is None or (set(chosen) == known.partitions and not known.is_elsewhere)
    return f"{_at(settings)}{'' if is_all else ':' + ','.join(map(str, chosen))} --reset-offsets"


def _at(settings: Settings) -> str:
    kafka = settings.kafka
    return (
        f"kafka-consumer-groups.sh --bootstrap-server {kafka.bootstrap_servers} --group {kafka.group_id} "
        f"--topic {settings.topics.input}"
    )


def _differ(one: str, other: str) -> bool:
    """Two ids of topics; one that is unknown differs from none."""
    return bool(one and other and one != other)
