"""What distinguishes the roles of a worker: the topic that it reads, its consumer group, and whether it has an index.

    role          reads                  writes                              members
    all           input                  output, duplicates, dead letters,   as [worker] scope says
                                         changelog
    fingerprint   input                  fingerprints                        share the partitions
    judge         fingerprints           verdicts, changelog                 one active, the others stand by
    publish       verdicts, and input    output, duplicates, dead letters    share the partitions

Everything else is the same code: group, partition tasks, commit protocol, retries, health. `fingerprint` uses the
consumer group of `all`, and `judge` its transactional id and changelog. So a worker of role `all` can be replaced by
split mode, and split mode by such a worker, and each goes on where the other has stopped; and two that run at the same
time shut each other out.
"""

from dataclasses import dataclass
from typing import Any

from stream_dedup.errors import ConfigError
from stream_dedup.settings import Settings
from stream_dedup.stream.record_batch import content_bytes
from stream_dedup.stream.roles.names import RoleName
from stream_dedup.stream.roles.sizes import sizes_of

# The judge's transactions hold more items, because it works on an item for some half of the time of the other roles.
_JUDGE_FACTOR = 4
# A poll of the role publish takes this much of a partition. Verdicts of 4,000 items or so: their records are fetched
# apart, and the group must be polled again before long.
_VERDICT_FETCH = 2**18
_FETCH = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Role:
    """A role under certain settings.

    transactional_prefix: of its producers' transactional ids. A judge has that of a worker of role `all`: they exclude
    each other, and own the same changelog. source: the topic that the consumer group reads; sink: the topic of its
    results, which shows whether it has run before; is_global: one member has all partitions, in one task; has_index: it
    decides, and writes the changelog; most_items: in a transaction; fetch_bytes: of a partition in one fetch.
    """

    name: RoleName
    group_id: str
    transactional_prefix: str
    source: str
    sink: str
    is_global: bool
    has_index: bool
    most_items: int
    fetch_bytes: int

    @classmethod
    def of(cls, name: RoleName, settings: Settings) -> "Role":
        """Raises ConfigError for a role that the settings exclude.

        >>> from stream_dedup.settings import load_settings
        >>> role = Role.of(RoleName.PUBLISH, load_settings())
        >>> role.group_id, role.source, role.transactional_id("3")
        ('stream-dedup-publish', 'news.verdicts', 'stream-dedup-publish-3')
        """
        topics, group = settings.topics, settings.kafka.group_id
        is_global = settings.worker.scope == "global"
        items, fetch = settings.worker.batch_items, min(settings.worker.batch_bytes, _FETCH)
        if name is RoleName.ALL:
            return cls(name, group, group, topics.input, topics.output, is_global, True, items, fetch)
        if not is_global:
            raise ConfigError(
                f'[worker] scope = "partition" and --role {name}: in split mode one judge decides about all '
                'partitions; set scope = "global", or leave --role out'
            )
        own = f"{group}-{name}"
        if name is RoleName.FINGERPRINT:
            return cls(name, group, own, topics.input, topics.fingerprints, False, False, items, fetch)
        if name is RoleName.JUDGE:
            many = _JUDGE_FACTOR * items
            return cls(name, own, group, topics.fingerprints, topics.verdicts, True, True, many, fetch)
        fetch = min(fetch, _VERDICT_FETCH)
        return cls(name, own, own, topics.verdicts, topics.output, False, False, items, fetch)

    @property
    def is_split(self) -> bool:
        """Whether it is a step of split mode."""
        return self.name is not RoleName.ALL

    def weigh(self, record: Any) -> tuple[int, int]:
        """Items and bytes of the input that a record of `source` stands for."""
        if self.name in (RoleName.JUDGE, RoleName.PUBLISH):
            return sizes_of(record)
        return 1, content_bytes(record)

    def transactional_id(self, task: str) -> str:
        """The transactional id of a task's producer."""
        return f"{self.transactional_prefix}-{task}"
