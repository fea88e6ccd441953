"""Make what a partition task needs for its role: the processor, and the state store."""

from stream_dedup.errors import StreamError
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.roles.names import RoleName
from stream_dedup.stream.roles.no_state import NoState
from stream_dedup.stream.roles.processor import Processor
from stream_dedup.stream.state_store import StateStore
from stream_dedup.stream.topics import TopicMetadata


def make_processor(
    context: WorkerContext,
    task: str,
    partitions: frozenset[int],
    metadata: TopicMetadata,
    store: StateStore | NoState,
    thread: Bounded,
) -> Processor:
    """The processor of a partition task; `thread` is for work ahead of the next call."""
    # Imported here: a worker loads the modules of its own role only.
    role = context.role.name
    if role is RoleName.FINGERPRINT:
        from stream_dedup.stream.roles.fingerprint import FingerprintProcessor

        return FingerprintProcessor(context, metadata, thread)
    if role is RoleName.PUBLISH:
        from stream_dedup.stream.roles.publish import PublishProcessor

        [partition] = partitions
        return PublishProcessor(context, partition, metadata, thread)
    if not isinstance(store, StateStore):
        raise StreamError(f"role {role} needs an index")
    if role is RoleName.JUDGE:
        from stream_dedup.stream.roles.judge import JudgeProcessor

        return JudgeProcessor(context, task, store, thread)
    from stream_dedup.stream.roles.single import SingleProcessor

    return SingleProcessor(context, task, metadata, store, thread)


def make_store(context: WorkerContext, name: str, index: int, topic_id: str = "") -> StateStore | NoState:
    """The state store of the task `name`, with the number `index` in the changelog; see `StateStore`."""
    return StateStore(context, name, index, topic_id) if context.role.has_index else NoState(context, name)
