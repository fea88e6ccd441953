"""Where a task resumes: which offsets are trusted, and which losses of state are reported."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from stream_dedup.changelog.headers import MigrationCheckpoint, RestoreResult, TaskSummary
from stream_dedup.errors import RecordsGone, StreamError, TopicError
from stream_dedup.settings import load_settings
from stream_dedup.worker.resume import (
    Committed,
    Note,
    ResumeFacts,
    out_of_range_message,
    resume_offsets,
    state_loss,
    truncated_message,
)

SETTINGS = load_settings(kafka={"bootstrap_servers": "broker:9092", "group_id": "group"})
INPUT = SETTINGS.topics.input
HOUR, DAY = 3_600_000, 24 * 3_600_000
NOW = 1_700_000_000_000
CURRENT = Note("input-1", "changelog-1", NOW - HOUR, SETTINGS.topics.output)
COMMAND = "stream-dedup groups set-offset"


def committed(offset: int, **other: Any) -> Committed:
    return Committed(offset, replace(CURRENT, **other))


def facts(
    group: Mapping[int, Committed] | None = None,
    *,
    partitions: tuple[int, ...] = (0, 1),
    restored: RestoreResult | None = None,
    **other: Any,
) -> ResumeFacts:
    fields: dict[str, Any] = {
        "group_has_others": False,
        "beginnings": dict.fromkeys(partitions, 0),
        "originals": 0,
        "input_id": "input-1",
        "changelog_id": "changelog-1",
        "output_has_records": False,
        "now_ms": NOW,
        "changelog_retention_ms": 15 * DAY,
    }
    return ResumeFacts(
        partitions=frozenset(partitions),
        committed=group or {},
        restored=restored or RestoreResult(),
        **(fields | other),
    )


def written(
    offsets: dict[int, int], topic: str = INPUT, topic_id: str = "input-1", originals: int = 0
) -> RestoreResult:
    return RestoreResult(blocks=3, offsets=offsets, task_summary=TaskSummary(topic, topic_id, originals))


def test_a_first_start_begins_at_the_beginning_and_the_group_wins_over_the_changelog() -> None:
    assert resume_offsets(SETTINGS, facts(beginnings={0: 0, 1: 7})) == {0: 0, 1: 7}
    assert resume_offsets(SETTINGS, facts({0: committed(5)}, restored=written({0: 4, 1: 9}))) == {0: 5, 1: 9}


def test_blocks_and_commits_without_notes_are_trusted() -> None:
    before = RestoreResult(blocks=3, offsets={0: 4, 1: 9})
    assert resume_offsets(SETTINGS, facts(restored=before)) == {0: 4, 1: 9}
    assert resume_offsets(SETTINGS, facts({0: Committed(3), 1: Committed(2)}, restored=before)) == {0: 3, 1: 2}


@pytest.mark.parametrize(
    "found",
    [
        facts({0: committed(5, input_id="input-0"), 1: committed(5, input_id="input-0")}),
        facts(restored=written({0: 5, 1: 5}, topic_id="input-0")),
        facts({0: committed(5), 1: committed(5, input_id="input-0")}),
    ],
)
def test_offsets_of_a_topic_that_was_recreated_are_refused(found: ResumeFacts) -> None:
    with pytest.raises(TopicError, match="was deleted and created anew") as caught:
        resume_offsets(SETTINGS, found)
    part = " --partitions 1" if found.committed.keys() == {0, 1} and found.committed[0] == committed(5) else ""
    assert f"{COMMAND} earliest{part}" in str(caught.value)


def test_offsets_of_another_topic_are_refused_and_offsets_set_by_a_person_are_trusted() -> None:
    foreign = written({0: 5, 1: 5}, topic="other.raw", topic_id="input-0")
    with pytest.raises(TopicError, match=r"belong to other\.raw"):
        resume_offsets(SETTINGS, facts(restored=foreign))
    assert resume_offsets(SETTINGS, facts({0: Committed(0), 1: Committed(3)}, restored=foreign)) == {0: 0, 1: 3}
    with pytest.raises(TopicError, match=r"set-offset .* --partitions 1"):
        resume_offsets(SETTINGS, facts({0: Committed(0)}, restored=foreign))


@pytest.mark.parametrize(
    "found",
    [
        facts(output_has_records=True),
        facts(restored=RestoreResult(begin=12)),
        facts(restored=RestoreResult(blocks=2, migration=MigrationCheckpoint([], True))),
        facts(partitions=(3,), restored=RestoreResult(begin=12), group_has_others=True),
    ],
)
def test_without_any_offsets_a_task_that_has_run_before_does_not_start(found: ResumeFacts) -> None:
    with pytest.raises(StreamError, match="to resume at") as caught:
        resume_offsets(SETTINGS, found)
    part = " --partitions 3" if found.group_has_others else ""
    assert f"{COMMAND} TIME{part}" in str(caught.value)


@pytest.mark.parametrize(
    "found",
    [
        # Added later; the group has offsets of the others. Its changelog partition was never written.
        facts({0: committed(5)}, output_has_records=True),
        facts(restored=written({0: 5}), output_has_records=True),
        facts(partitions=(1,), group_has_others=True, output_has_records=True),
        # The first transaction was aborted: the output has never had a record, the changelog no block.
        facts({0: committed(5)}, restored=RestoreResult(begin=0)),
    ],
)
def test_a_partition_that_is_new_begins_at_its_beginning(found: ResumeFacts) -> None:
    assert resume_offsets(SETTINGS, found)[1] == 0


def test_the_group_of_a_deployment_with_another_output_is_refused() -> None:
    own, other = SETTINGS.topics.output, "other-news"
    resume_offsets(SETTINGS, facts({0: committed(3), 1: committed(2)}))
    former = committed(2, output=other, at=NOW - 2 * HOUR)
    resume_offsets(SETTINGS, facts({0: committed(3), 1: former}))  # confirmed since
    with pytest.raises(TopicError, match=f"writes to {other}, and here .* is {own}.*set-offset current"):
        resume_offsets(SETTINGS, facts({0: committed(3, at=NOW - 2 * HOUR), 1: committed(2, output=other)}))


def test_every_deleted_range_has_a_command_of_its_own() -> None:
    with pytest.raises(RecordsGone) as caught:
        resume_offsets(SETTINGS, facts({0: committed(5), 1: committed(5)}, beginnings={0: 5, 1: 9}))
    message = str(caught.value)
    assert "offsets 5 to 8 of partition 1" in message
    assert f"{COMMAND} 9 --partitions 1" in message
    assert f"{COMMAND}:0" not in message
    message = out_of_range_message(SETTINGS, {0: (5, 7, 9), 2: (30, 0, 20)})
    assert f"{COMMAND} 7 --partitions 0" in message
    assert f"{COMMAND} 20 --partitions 2" in message
    assert "partition 2 ends at 20, and offset 30 comes next" in message


both = {0: committed(5), 1: committed(7)}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (facts({0: committed(5, changelog_id="changelog-0"), 1: committed(3, changelog_id="changelog-0")}), "anew"),
        (facts(both, restored=RestoreResult(begin=9)), "holds nothing, although the last commit is 1.0 h old"),
        (facts({0: Committed(5), 1: Committed(5)}, restored=RestoreResult(begin=9)), "no longer holds anything"),
        (facts(both, restored=written({}, originals=1000), originals=400), "has restored 400 of 1000 originals"),
    ],
)
def test_a_loss_of_state_is_reported(found: ResumeFacts, message: str) -> None:
    loss = state_loss(SETTINGS, found)
    assert loss is not None
    assert message in loss
    assert "stream-dedup migrate" in loss


def test_a_copy_of_the_changelog_is_complete_if_it_holds_every_commit() -> None:
    group = {0: committed(5, changelog_id="changelog-0"), 1: committed(3, changelog_id="changelog-0")}
    assert state_loss(SETTINGS, facts(group, restored=written({0: 5, 1: 3}))) is None
    loss = state_loss(SETTINGS, facts(group, restored=written({0: 4, 1: 3})))
    assert loss is not None
    assert f"a copy that ends before the offsets {{0: 5}} of {INPUT}" in loss
    # Complete to the end, but not from the beginning.
    loss = state_loss(SETTINGS, facts(group, restored=written({0: 5, 1: 3}, originals=1000), originals=400))
    assert loss is not None
    assert "400 of 1000" in loss


@pytest.mark.parametrize(
    "found",
    [
        facts(),
        facts(both, restored=written({0: 5, 1: 7}, originals=1000), originals=990),
        # The newest commit counts; the older one is from before the changelog was replaced.
        facts({0: committed(5, changelog_id="changelog-0", at=NOW - DAY), 1: committed(7)}, restored=written({})),
        # A migration has made it to replace the former changelog.
        facts(
            {0: committed(5, changelog_id="changelog-0")},
            restored=RestoreResult(4, migration=MigrationCheckpoint([], True)),
        ),
        # After sixteen days without a commit no window reaches back to an original.
        facts({0: committed(5, at=NOW - 16 * DAY)}, restored=RestoreResult(begin=9)),
        # A person says where a first start begins.
        facts({0: Committed(400), 1: Committed(400)}),
        facts(both, restored=written({0: 5, 1: 7}, originals=8), originals=1),
    ],
)
def test_a_complete_state_is_not_reported(found: ResumeFacts) -> None:
    assert state_loss(SETTINGS, found) is None


def test_offsets_of_the_group_that_are_older_than_the_changelogs_are_not_used() -> None:
    """The cluster has lost the end of __consumer_offsets; what a person has set may go back."""
    newer = written({0: 9, 1: 7})
    assert resume_offsets(SETTINGS, facts({0: committed(5), 1: committed(7)}, restored=newer)) == {0: 9, 1: 7}
    assert resume_offsets(SETTINGS, facts({0: Committed(5), 1: committed(7)}, restored=newer)) == {0: 5, 1: 7}
    other = committed(5, changelog_id="changelog-0")
    assert resume_offsets(SETTINGS, facts({0: other, 1: other}, restored=newer)) == {0: 5, 1: 5}


def test_a_changelog_that_ends_before_what_was_committed_with_it_is_reported() -> None:
    loss = state_loss(SETTINGS, facts(both, restored=written({0: 5, 1: 3})))
    assert loss is not None
    assert "ends at the offsets {1: 3}" in loss
    assert state_loss(SETTINGS, facts({0: committed(5), 1: Committed(7)}, restored=written({0: 5, 1: 3}))) is None


def test_a_cut_partition_has_a_command_of_its_own() -> None:
    message = truncated_message(SETTINGS, {0: 10, 2: None})
    assert "partition 0 has lost records from offset 10 on that were read and went out" in message
    assert f"{COMMAND} 10 --partitions 0" in message
    assert f"{COMMAND} TIME --partitions 2" in message
