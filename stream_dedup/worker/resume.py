"""Decide at which input offsets a task resumes, and whether its index has all that was committed up to them.

An offset is worthless without the topic it belongs to, because a topic that is deleted and created anew begins at 0
again. And where offsets are gone, the beginning of the input is right for a first start only. So a worker leaves a note
beside each offset (`Note`), and decides by the notes, by what the changelog holds, and by where the topics begin
(`ResumeFacts`). Each error names the command that mends it. Nothing here asks Kafka.

Offsets that a person sets (`groups set-offset`, kafka-consumer-groups.sh) have no note and are always believed: this
is how a person says where to resume.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec

from stream_dedup.changelog.headers import RestoreResult
from stream_dedup.errors import RecordsGone, StreamError, TopicError
from stream_dedup.kafka.fetch import UNKNOWN
from stream_dedup.settings import Settings

log = logging.getLogger(__name__)

# If less than this share of the originals is restored, the cause is not their age.
_COMPLETE_SHARE = 0.5
# Below this number of originals a share says nothing.
_FEW = 20


_NAMES = {"input_id": "input", "changelog_id": "changelog", "changelog": "changelog_name"}


class Note(msgspec.Struct, frozen=True, rename=_NAMES, omit_defaults=True):
    """What a worker stores beside each offset it commits."""

    input_id: str  # of the input topic
    changelog_id: str  # of the changelog topic
    at: Annotated[int, msgspec.Meta(ge=0, le=2**62)]  # when it was committed, ms
    output: str  # the name of the topic
    changelog: str = ""  # the name of the topic; "": an older worker stored none
    # Records from this offset on at which work was begun: at most 20,000, the most of [worker] batch_items.
    begun: Annotated[int, msgspec.Meta(ge=0, le=20_000)] = 0
    # how often in a row the work on these records was begun (failed_records.py)
    tries: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0

    def text(self) -> str:
        return msgspec.json.encode(self).decode()

    @staticmethod
    def parse(text: str | None) -> "Note | None":
        """Read a note. None: it was not written by a worker.

        >>> Note.parse(Note("465bf025", "11ecd0ea", 7, "news", "log").text())
        Note(input_id='465bf025', changelog_id='11ecd0ea', at=7, output='news', changelog='log', begun=0, tries=0)
        >>> Note.parse(""), Note.parse("a person's own words")
        (None, None)
        """
        try:
            return msgspec.json.decode(text or "", type=Note)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class Committed:
    """The group's offset of one partition. `epoch`: the leader epoch of the record before it (kafka/fetch.py)."""

    offset: int
    note: Note | None = None
    epoch: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class ResumeFacts:
    """What is known when a task opens."""

    partitions: frozenset[int]  # the task's
    committed: Mapping[int, Committed]  # the group's offsets of these partitions
    group_has_others: bool  # the group has offsets of other partitions of this topic
    beginnings: Mapping[int, int]  # the first offsets of the partitions
    restored: RestoreResult  # what the changelog holds
    originals: int  # how many were restored
    input_id: str  # of the topic
    changelog_id: str  # of the topic
    output_has_records: bool  # the output topic has had records
    now_ms: int  # wall time
    changelog_retention_ms: int  # how long a block is kept

    @property
    def last_note(self) -> Note | None:
        """The note of the group's last commit."""
        return last_of(committed.note for committed in self.committed.values())


def last_of(notes: Iterable[Note | None]) -> Note | None:
    """Return the note of the last commit."""
    return max((note for note in notes if note is not None), key=lambda note: note.at, default=None)


def resume_offsets(settings: Settings, facts: ResumeFacts) -> dict[int, int]:
    """Choose where each partition resumes: the group's offset, else the changelog's, else (first start) the beginning.

    Raises TopicError if the offsets belong to another topic or to a deployment with another output or changelog,
    RecordsGone if the next records were deleted, StreamError if there are no offsets and this is not a first start.
    """
    topic = settings.topics.input
    foreign = [
        partition
        for partition, committed in facts.committed.items()
        if committed.note is not None and committed.note.input_id != facts.input_id
    ]
    task_summary = facts.restored.task_summary
    missing = sorted(facts.partitions - facts.committed.keys())
    if task_summary is not None and missing and task_summary.topic != topic:
        raise TopicError(
            f"offsets in {settings.topics.changelog} belong to {task_summary.topic}, and this worker reads {topic}. To "
            "read it and keep the originals remembered so far, say where to begin, with every member stopped: "
            f"{_reset_command(settings, 'earliest', missing, facts)}; to begin anew, set another "
            "[kafka] group_id and [topics] changelog"
        )
    if foreign or (missing and task_summary is not None and task_summary.topic_id != facts.input_id):
        raise TopicError(recreated_message(settings, sorted({*foreign, *missing}), facts))
    check_output(settings, facts.last_note)
    check_changelog(settings, facts.committed, facts.restored)
    if missing and not facts.committed and facts.restored.offsets:
        log.warning(
            "the group has no offsets of %s (brokers drop those of a group without members, after seven days by "
            "default); resuming at the changelog's: %s", topic, facts.restored.offsets,
        )  # fmt: skip
    known = {**facts.restored.offsets, **{partition: commit.offset for partition, commit in facts.committed.items()}}
    # Both come from one transaction. If the group's are older, the cluster has lost the end of their topic.
    newer = {
        partition: facts.restored.offsets[partition]
        for partition, commit in facts.committed.items()
        if _belongs(commit, facts) and commit.offset < facts.restored.offsets.get(partition, 0)
    }
    if newer:
        log.error(
            "the group's offsets of %s are older than those of %s: the cluster has lost the end of __consumer_offsets. "
            "Resuming at the changelog's: %s", topic, settings.topics.changelog, newer,
        )  # fmt: skip
    known |= newer
    if facts.partitions - known.keys() and _has_run_before(facts):
        raise StreamError(_offsets_lost(settings, missing, facts))
    positions = {partition: known.get(partition, facts.beginnings[partition]) for partition in sorted(facts.partitions)}
    gone = {
        partition: (offset, facts.beginnings[partition], facts.beginnings[partition])
        for partition, offset in positions.items()
        if offset < facts.beginnings[partition]
    }
    if gone:
        raise RecordsGone(out_of_range_message(settings, gone))
    return positions


def _belongs(committed: Committed, facts: ResumeFacts) -> bool:
    """Return whether the commit and the last block of this changelog belong together: their topics are the same."""
    note, summary = committed.note, facts.restored.task_summary
    return (
        note is not None
        and note.changelog_id == facts.changelog_id
        and summary is not None
        and summary.topic_id == note.input_id == facts.input_id
    )


def _has_run_before(facts: ResumeFacts) -> bool:
    """Return whether a worker has already worked on the partitions without an offset."""
    has_had_blocks = facts.restored.blocks > 0 or facts.restored.begin > 0
    if facts.group_has_others or facts.committed or facts.restored.offsets:
        # The group is in use; a partition that was added later, or had no record so far, is new to it. But a task of
        # one partition that has written blocks once had an offset, too.
        return has_had_blocks and len(facts.partitions) == 1 and not facts.restored.offsets
    return has_had_blocks or facts.output_has_records


def state_loss(settings: Settings, facts: ResumeFacts) -> str | None:
    """Say what is missing of the index, as far as it can be known, and what follows. None: nothing is missing."""
    changelog, last, restored = settings.topics.changelog, facts.last_note, facts.restored
    written = restored.task_summary.originals if restored.task_summary is not None else 0
    unreached = _unreached(facts.committed, restored)
    is_another = last is not None and last.changelog_id != facts.changelog_id
    # Each commit writes a block with its offsets. Offsets that a person has set say nothing.
    cut = {p: restored.offsets[p] for p in unreached if p in restored.offsets and _belongs(facts.committed[p], facts)}
    # A copy of the former changelog that holds all that was committed is as good as that one.
    if is_another and not _can_stand_for_another(facts.committed, restored):
        loss = f"{changelog} was deleted and created anew, or [topics] changelog was changed, since the last commit"
        if restored.offsets:
            loss += f"; it is a copy that ends before the offsets {unreached} of {settings.topics.input}"
    elif last is not None and not restored.blocks and facts.now_ms - last.at < facts.changelog_retention_ms:
        hours = (facts.now_ms - last.at) / 3600_000
        loss = f"{changelog} holds nothing, although the last commit is {hours:.1f} h old"
    elif last is None and facts.committed and not restored.blocks and restored.begin > 0:
        loss = f"{changelog} no longer holds anything"
    elif cut:
        loss = (
            f"{changelog} ends at the offsets {cut} of {settings.topics.input}, and {unreached} were committed with "
            "its last blocks: the cluster has lost its end"
        )
    elif written >= _FEW and facts.originals < written * _COMPLETE_SHARE:
        loss = f"{changelog} has restored {facts.originals} of {written} originals: its beginning is gone"
    else:
        return None
    return (
        f"{loss}. Copies of forgotten originals go out once more. To restore them: stop every member, and run "
        "`stream-dedup migrate` with another [topics] changelog, which reads them from output and duplicates "
        "(scope global); otherwise the index is complete again after one window"
    )


def check_output(settings: Settings, last: Note | None) -> None:
    """Raise TopicError if the group's last commit is of a worker with another output.

    Two deployments with one group would take turns: after each take-over the other output would lack items. `last`: the
    note of the last commit.
    """
    output = settings.topics.output
    if last is None or last.output == output:
        return
    raise TopicError(
        f"the group {settings.kafka.group_id} writes to {last.output}, and here [topics] output is {output}. If "
        "another deployment uses the group, give this one a [kafka] group_id and a [topics] changelog of its own. If "
        f"the output was changed on purpose, confirm it, with every member stopped: "
        f"{offset_command(settings, 'current')}"
    )


def check_changelog(settings: Settings, committed: Mapping[int, Committed], restored: RestoreResult) -> None:
    """Raise TopicError if the group's last commit is of a worker with another changelog, which ours does not replace.

    `restored`: all that ours holds. In a rolling update a member with another one would stand by with an empty index.
    """
    last, changelog = last_of(commit.note for commit in committed.values()), settings.topics.changelog
    if last is None or last.changelog in ("", changelog) or _can_stand_for_another(committed, restored):
        return
    raise TopicError(
        f"the group {settings.kafka.group_id} keeps its memory in {last.changelog}, and here [topics] changelog is "
        f"{changelog}, which lacks what was committed: copies would go out once more. All members of a group need the "
        "same. If it was changed on purpose, fill a new topic with `stream-dedup migrate` first (scope global); or, to "
        f"begin with what {changelog} holds, confirm it, with every member stopped: "
        f"{offset_command(settings, 'current')}"
    )


def _unreached(committed: Mapping[int, Committed], restored: RestoreResult) -> dict[int, int]:
    """Return the group's offsets that the changelog does not reach."""
    return {p: commit.offset for p, commit in committed.items() if restored.offsets.get(p, 0) < commit.offset}


def _can_stand_for_another(committed: Mapping[int, Committed], restored: RestoreResult) -> bool:
    """Return whether the changelog can stand for another one.

    It can if a migration has filled it and no worker has used it since, or if it is a copy of all that was committed.
    """
    if not restored.offsets:
        return restored.migration is not None and restored.migration.complete
    return restored.blocks > 0 and not _unreached(committed, restored)


def recreated_message(settings: Settings, partitions: Iterable[int], facts: ResumeFacts | None = None) -> str:
    """Say that the topic is not the one that the group's offsets belong to."""
    return (
        f"{settings.topics.input} was deleted and created anew since the group's offsets were committed: they belong "
        "to the former topic, and would skip records of this one. Say where to begin, with every member stopped: "
        f"{_reset_command(settings, 'earliest', partitions, facts)}"
    )


def out_of_range_message(settings: Settings, gone: Mapping[int, tuple[int, int, int]]) -> str:
    """Say that the next records do not exist. `gone`: partition -> next offset, first offset, end."""
    lines = []
    for partition, (wanted, begin, end) in sorted(gone.items()):
        if wanted < begin:
            cause = f"offsets {wanted} to {begin - 1} of partition {partition} were deleted before they were read"
            target, effect = begin, "the deleted records are lost, no record comes twice"
        else:
            cause = f"partition {partition} ends at {end}, and offset {wanted} comes next: the cluster has lost its end"
            target, effect = end, "records written since below that offset are skipped"
        lines.append(f"{cause}. To resume at {target}: {offset_command(settings, str(target), [partition])}; {effect}")
    return (
        f"{settings.topics.input} no longer has the records that come next. With every member stopped, the other "
        "partitions stay as they are:\n  " + "\n  ".join(lines)
    )


def truncated_message(settings: Settings, cut: Mapping[int, int | None]) -> str:
    """Say that partitions have lost records that were read.

    `cut`: partition -> the first lost offset, None if the broker does not know it.
    """
    lines = []
    for partition, end in sorted(cut.items()):
        place, target = f"from offset {end} on", str(end)
        effect = "; no record is skipped, and what its producer sends again is judged as a copy"
        if end is None:
            place, target = "at its end", "TIME"
            effect = f" (TIME: that of the last record in {settings.topics.output}, as 2026-01-31T00:00:00Z)"
        lines.append(
            f"partition {partition} has lost records {place} that were read and went out; what stands there now was "
            f"not read. To read it: {offset_command(settings, target, [partition])}{effect}"
        )
    return (
        f"{settings.topics.input} is not the log that was read: a broker was restored from an older copy, or a replica "
        "that lacked records became the leader. With every member stopped, the other partitions stay as they are:\n  "
        + "\n  ".join(lines)
    )


def _offsets_lost(settings: Settings, partitions: Iterable[int], facts: ResumeFacts) -> str:
    changelog = settings.topics.changelog
    signs = [f"{changelog} has had blocks"] if facts.restored.begin or facts.restored.blocks else []
    signs += [f"{settings.topics.output} has had records"] if facts.output_has_records else []
    return (
        f"{' and '.join(signs)}, but there are no offsets of {settings.topics.input} to resume at: the group "
        f"{settings.kafka.group_id} has none (brokers drop those of a group without members, after seven days by "
        f"default), and neither has the changelog. From the beginning everything would "
        "go out again. Say where to resume, with every member stopped: "
        f"{_reset_command(settings, 'TIME', partitions, facts)} "
        f"(TIME: that of the last record in {settings.topics.output}, as 2026-01-31T00:00:00Z; or earliest, to judge "
        "all of the input again, or latest)"
    )


def _reset_command(settings: Settings, target: str, partitions: Iterable[int], facts: ResumeFacts | None) -> str:
    """Return the command that resets these partitions and leaves the others alone."""
    chosen = sorted(partitions)
    is_all = facts is None or (set(chosen) == facts.partitions and not facts.group_has_others)
    return offset_command(settings, target, () if is_all else chosen)


def offset_command(settings: Settings, target: str, partitions: Iterable[object] = ()) -> str:
    """Return the command that sets the group's offsets of these partitions of the input, or of all."""
    chosen = ",".join(map(str, partitions))
    return f"stream-dedup groups set-offset {target}{chosen and f' --partitions {chosen}'}{settings.config_option}"
