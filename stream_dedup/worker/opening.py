"""The four steps of opening a task, in a thread of its own: check, fence, restore, resume. task.py starts the thread.

docs/architecture.md tells why this order is safe: at a start, at a take-over and after any failure. The fence aborts a
former owner's open transaction; one that is already committing completes. From then on no other process writes the
changelog, and the committed offsets are stable; offsets known before are not used. There is little to restore if the
store has followed the changelog as a standby, or belonged to this task before a failure (state_store.py).

Scope global has one task for all partitions, which the assignor (kafka/assignor.py) gives to the active member. Scope
partition has one for each. The code and the fence are the same.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from stream_dedup.changelog.headers import RestoreResult
from stream_dedup.errors import ChangelogError
from stream_dedup.kafka import client
from stream_dedup.kafka.client import TopicPartition
from stream_dedup.kafka.fetch import UNKNOWN
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.kafka.topics import Topic, changelog_retention_ms, has_had_records
from stream_dedup.worker import resume
from stream_dedup.worker.failed_records import FailedRecords
from stream_dedup.worker.group import Group
from stream_dedup.worker.judge import Judge
from stream_dedup.worker.outgoing import OutgoingRecords
from stream_dedup.worker.pipeline import Pipeline
from stream_dedup.worker.state_store import StateStore

log = logging.getLogger(__name__)


def open_pipeline(
    partitions: frozenset[int], group: Group, store: StateStore, failed: FailedRecords, check: Callable[[], None]
) -> Pipeline:
    """Open the task of this store. It takes long, so it calls `check` often, which may raise to cancel it.

    After an error everything that was made here is closed. The caller keeps `store` and `failed` in any case.
    """
    name, context = store.name, store.context
    settings, names, began = context.settings, context.settings.topics, context.runtime.monotonic()
    producer: TaskProducer | None = None

    def close_producer() -> None:
        if producer is not None:
            producer.close()

    with ExitStack() as undo:
        undo.callback(close_producer)  # last, because it may wait for its broker
        packer = context.thread(f"{name}-packer")
        undo.callback(packer.end)
        # Connecting takes some 60 ms. It runs beside check and fence, so that the store can read as soon as these end.
        connected = packer.start("connecting to the changelog", store.reader.connect)
        try:
            # 1. Check.
            topics = context.check_topics()
            store.check_topic(topics[names.changelog].id)
            outgoing = OutgoingRecords(settings, topics, store.dedup.scheme_id)
            judge = Judge(store, outgoing, failed)
            undo.callback(judge.close)
            check()
            # 2. Fence.
            config, timeout = client.producer(settings, store.owner), context.call_timeout
            producer = TaskProducer(config, timeout, context.remaining, list(topics), context.runtime)
        finally:
            context.runtime.wait([connected])  # it has a time limit; two threads may not use the store
        connected.result()

        # 3. Restore.
        def progress(done: int, total: int) -> None:
            check()
            context.observer.restore_progress(name, done, total)

        check()
        restored = store.complete(progress)
        if restored.migration is not None and not restored.migration.complete:
            raise ChangelogError(
                f"a migration is filling {store.topic} and is not complete: run `stream-dedup migrate` "
                "with these settings again, or delete the topic to begin with an empty index"
            )

        # 4. Resume.
        facts = _resume_facts(partitions, group, store, topics, restored)
        positions = resume.resume_offsets(settings, facts)
        for partition, offset in positions.items():
            commit = facts.committed.get(partition)
            epoch = commit.epoch if commit is not None and commit.offset == offset else UNKNOWN
            group.epochs.begin(TopicPartition(names.input, partition), offset, epoch)
        loss = resume.state_loss(settings, facts)
        if loss is not None:
            log.error("%s", loss, extra={"task": name})
            context.observer.state_lost(loss)
        failed.committed(positions)
        for message in failed.opened(facts.committed):
            log.error("%s", message, extra={"task": name})
            context.observer.batch_stuck(name)
        seconds = context.runtime.monotonic() - began
        pipeline = Pipeline(
            store, failed, judge, packer, producer, outgoing, facts, positions, group.epochs, opened_in=seconds
        )
        undo.pop_all()
        return pipeline


def _resume_facts(
    partitions: frozenset[int], group: Group, store: StateStore, topics: Mapping[str, Topic], restored: RestoreResult
) -> resume.ResumeFacts:
    """Collect what resume.py decides by. Other partitions and the output matter only if an offset is missing."""
    context, settings, names = store.context, store.context.settings, store.context.settings.topics
    input_id, committed = topics[names.input].id, group.committed(partitions)
    elsewhere, output_has_records = {}, False
    if partitions - committed.keys():
        elsewhere = group.committed(group.partitions() - partitions)
        output_has_records = context.call_once(
            "looking at the output", lambda: has_had_records(settings, names.output, context.runtime)
        )
    return resume.ResumeFacts(
        partitions=partitions,
        committed=committed,
        group_has_others=any(commit.note is None or commit.note.input_id == input_id for commit in elsewhere.values()),
        beginnings=group.beginnings(partitions),
        restored=restored,
        originals=len(store),
        input_id=input_id,
        changelog_id=topics[names.changelog].id,
        output_has_records=output_has_records,
        now_ms=context.now_ms(),
        changelog_retention_ms=changelog_retention_ms(settings, topics[names.input]),
    )
