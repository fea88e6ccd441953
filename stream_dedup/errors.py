"""Every error of the project, in one tree; docs/errors.md says what the worker does about each.

Every message names the cause and the cure. `except StreamDedupError` catches all of these errors and no others.
"""

from collections.abc import Sequence


class StreamDedupWarning(UserWarning):
    """The Python interface accepts a value that is probably a mistake."""


class StreamDedupError(Exception):
    """Base class of every error of this project."""


class ConfigError(StreamDedupError):
    """A setting is wrong or missing."""


class BadItem(StreamDedupError):  # noqa: N818 - "bad item" is the glossary's term
    """An item cannot be judged.

    `reason` is a short fixed word, used as a metric label and a header; `detail` is for people; `id` is the item's id,
    empty if it could not be read. Whoever finds the fault makes this error, mostly the decoder. A batch carries it in
    the place of the item, so records and verdicts keep the same order.
    """

    def __init__(self, reason: str, detail: str, id: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.id = id


class ChangelogError(StreamDedupError):
    """The stored state cannot be read."""


class CorruptBlock(ChangelogError):  # noqa: N818
    """A changelog block's checksum, length or version does not fit."""


class SchemeMismatch(ChangelogError):  # noqa: N818
    """The stored state was written under another fingerprint scheme."""


class InputError(StreamDedupError):
    """An input or output file cannot be used, or a killed run cannot be resumed with it."""


class UsageError(StreamDedupError):
    """A call with wrong arguments: an item of a wrong type, a batch applied twice, one file for two outputs."""


class MergeFailed(StreamDedupError):  # noqa: N818
    """A background merge failed; the runs that it would have replaced are still in use."""


class StreamError(StreamDedupError):
    """A step on Kafka failed. After some kinds the worker opens the task again; after others it ends."""


class TopicError(StreamError):
    """A topic is missing, or its configuration would lose data."""


class RecordsGone(StreamError):  # noqa: N818
    """The next records of the input no longer exist: deleted before the worker read them, or lost by the cluster."""


class TransactionFailed(StreamError):  # noqa: N818
    """A step of the commit protocol failed; the outcome of the transaction may be unknown.

    `lasting`: the same records may fail again, unlike after an outage, a time-out or a fence.
    `sources`: the indexes of the records in the batch that caused it; empty if unknown.
    """

    def __init__(self, message: str, *, lasting: bool = False, sources: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.lasting = lasting
        self.sources = tuple(sources)


class Refused(TransactionFailed):
    """Kafka rejects the records at these indexes of the batch, whatever else the batch contains."""

    def __init__(self, message: str, sources: Sequence[int]) -> None:
        super().__init__(message, lasting=True, sources=sources)


class Stalled(StreamError):  # noqa: N818
    """A blocking call of the client exceeded its time limit."""


class Outdated(StreamError):  # noqa: N818
    """The changelog does not match what was read from it; the worker reads it again from the beginning."""


class MigrationError(StreamError):
    """A migration cannot start or finish; the message says what to do."""


class LoginRefused(StreamError):  # noqa: N818
    """The brokers refuse the login. A secret in a file may be replaced; the worker waits for that."""


class RegistryAway(StreamError):  # noqa: N818
    """The schema registry does not answer, or refuses the login; the records that need a schema wait."""


class Fenced(StreamError):  # noqa: N818
    """Another member took over; this one must not write any more."""


class Interrupted(StreamError):  # noqa: N818
    """A stop or a rebalance came while the worker was opening a task; it discards the partial state."""
