"""Every error of the project, in one tree.

    StreamDedupError
    ├── ConfigError            a setting is wrong or missing; the message names it and the cure
    ├── BadItem                one item cannot be judged; it is dead-lettered with its bytes
    ├── ChangelogError         the remembered state cannot be read
    │   ├── CorruptBlock       checksum, length or version does not fit
    │   └── SchemeMismatch     the state was made under another scheme
    ├── InputError             a file that was named cannot be read or resumed
    ├── UsageError             the Python interface was called wrongly; the message has the cure
    ├── MergeFailed            the index could not merge its tables in the background; lookups still find everything
    └── StreamError            the worker on Kafka
        ├── TopicError         a topic is missing or would lose data; the message has the mending command
        ├── RecordsGone        the input no longer has what comes next; the message has the mending command
        ├── TransactionFailed  a step of the commit protocol failed; the task is opened anew
        │   └── Refused        Kafka does not take some records; they become dead letters
        ├── Stalled            a step did not end within its bound; the task is opened anew
        ├── Outdated           the changelog is not the one that was read; the memory is read anew
        ├── MigrationError     a migration cannot begin or end as things are
        ├── Fenced             another member took over; this one must not write
        └── Interrupted        a stop or a rebalance came while a task was being opened

Whoever catches `StreamDedupError` catches all of them, and nothing of another library hides inside.
"""

from collections.abc import Sequence


class StreamDedupWarning(UserWarning):
    """What the Python interface lets pass, but hardly can be meant; `warnings` says where it goes."""


class StreamDedupError(Exception):
    """Base of every error of this project."""


class ConfigError(StreamDedupError):
    """A setting is wrong or missing."""


class BadItem(StreamDedupError):  # noqa: N818 - the field's word is "bad item"; it is also a verdict
    """One item cannot be judged.

    `reason` is a short fixed word (it becomes a metric label and a header), `detail` is for a person,
    `id` is the item's id where that much could be read. Raised by the decoder; a batch carries it in the
    place of the item, so that the order of records and verdicts stays one.
    """

    def __init__(self, reason: str, detail: str, id: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.id = id


class ChangelogError(StreamDedupError):
    """The remembered state cannot be read."""


class CorruptBlock(ChangelogError):  # noqa: N818
    """A changelog block's checksum, length or version does not fit."""


class SchemeMismatch(ChangelogError):  # noqa: N818
    """The remembered state was made under another fingerprint scheme."""


class InputError(StreamDedupError):
    """A file that was named cannot be read, or a killed run cannot be resumed with it."""


class UsageError(StreamDedupError):
    """The Python interface was called wrongly: an item of a wrong type, a batch applied twice."""


class MergeFailed(StreamDedupError):  # noqa: N818
    """A merge in the background raised; the runs it would have replaced are still in place."""


class StreamError(StreamDedupError):
    """The worker on Kafka cannot go on as it is."""


class TopicError(StreamError):
    """A topic is missing, or its configuration would lose data."""


class RecordsGone(StreamError):  # noqa: N818
    """The input no longer has the records that come next: deleted before they were read, or lost by the cluster."""


class TransactionFailed(StreamError):  # noqa: N818
    """A step of the commit protocol failed; the outcome of the transaction may be unknown.

    `lasting`: the broker or the client gave an answer that it may give again to the same records; an outage, a time-out
    or a fence is none. `sources`: the places in the batch of the records that it is about, empty if nobody knows.
    """

    def __init__(self, message: str, *, lasting: bool = False, sources: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.lasting = lasting
        self.sources = tuple(sources)


class Refused(TransactionFailed):
    """Kafka does not take the records at these places in the batch, whatever else is in it."""

    def __init__(self, message: str, sources: Sequence[int]) -> None:
        super().__init__(message, lasting=True, sources=sources)


class Stalled(StreamError):  # noqa: N818
    """A blocking client call did not end within its bound."""


class Outdated(StreamError):  # noqa: N818
    """What was read of the changelog does not fit what it holds now: it is read anew from its beginning."""


class MigrationError(StreamError):
    """A migration cannot begin or end as things are; the message says what to do."""


class Fenced(StreamError):  # noqa: N818
    """Another member owns the work now; nothing may be written any more."""


class Interrupted(StreamError):  # noqa: N818
    """A stop or a rebalance came while a task was being opened; what was begun is dropped."""
