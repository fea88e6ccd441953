"""Check that consecutive blocks of a partition cover the input without a gap, and say where they do not."""

import logging

from stream_dedup.split.frame import InputRange
from stream_dedup.stream.context import WorkerContext

log = logging.getLogger(__name__)


class GapWatch:
    """Remembers where the last block of each partition ended.

    A gap is reported and is no error: a person who resets the offsets of the fingerprint role makes one on purpose. A
    block that was deleted before it was read is another matter, which the consumer's offsets show (resume.py).
    """

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._ends: dict[int, int] = {}

    def check(self, where: InputRange) -> None:
        """Report the offsets between the last block of the partition and this one, if there are any."""
        before = self._ends.get(where.partition)
        self._ends[where.partition] = where.next
        if before is None or before == where.first:
            return
        if where.first > before:
            log.warning(
                "offsets %d to %d of %s-%d have no fingerprints: they were skipped, as by a reset of the offsets of "
                "group %s, or the blocks were lost", before, where.first - 1, where.topic, where.partition,
                self._context.settings.kafka.group_id,
            )  # fmt: skip
        else:
            log.warning(
                "offsets %d to %d of %s-%d come again, as after a reset of the offsets of group %s", where.first,
                before - 1, where.topic, where.partition, self._context.settings.kafka.group_id,
            )  # fmt: skip
        self._context.observer.blocks_not_contiguous(where.partition)
