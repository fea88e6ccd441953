"""Find two items by their ids in the topics of a worker, to explain a decision without a file of them.

The later one is looked for where items end: among the held-back ones, then in the output. The header of its decision
names partition and offset of its original, which is then read from there; any other earlier item is looked for in turn.
"""

from collections.abc import Callable, Sequence
from typing import Any

from stream_dedup.errors import InputError
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.phrases import moment
from stream_dedup.settings import Settings
from stream_dedup.tools.topics.give_back import decision_of
from stream_dedup.tools.topics.reader import TopicReader
from stream_dedup.worker.judge import item_of

Found = tuple[Item, str]
"""An item, and where it was found."""


def find_pair(
    settings: Settings,
    earlier: str,
    later: str,
    since: int,
    report: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[Found]:
    """Return both items. `since`: ms; no record before that time is looked at. `report`: as in `TopicReader.newest`.

    Raises InputError for an id that is in none of the topics, and StreamError where Kafka cannot be read.
    """
    topics, decode = settings.topics, Decoder(settings.item, settings.registry)
    with TopicReader(settings) as reader:

        def find(name: str) -> tuple[Any, Item]:
            def is_it(record: Any) -> bool:
                return isinstance(item := item_of(record, decode), Item) and item.id == name

            for topic in (topics.duplicates, topics.output):
                record = reader.newest(topic, is_it, since, report)
                if record is not None and isinstance(item := item_of(record, decode), Item):
                    return record, item
            raise InputError(
                f"neither {topics.duplicates} nor {topics.output} has an item with the id {name!r} since "
                f"{moment(since)}; look further back with --since 30d, or name a file that has it with --in"
            )

        record, item = find(later)
        original = (decision_of(record) or {}).get("original") or {}
        named = _original(reader, topics.input, original, decode) if original.get("id") == earlier else None
        if named is None or named[0].id != earlier:  # the verdict names another one, or the record has expired
            first = find(earlier)
            named = first[1], _place(first[0])
    return [named, (item, _place(record))]


def _original(reader: TopicReader, topic: str, original: dict[str, Any], decode: Decoder) -> Found | None:
    place = original.get("partition", -1), original.get("offset", -1)
    records: Sequence[Any] = list(reader.at(topic, [place]).values())
    items = [(item, f"{_place(record)}, which the verdict names") for record in records
             if isinstance(item := item_of(record, decode), Item)]  # fmt: skip
    return items[0] if items else None


def _place(record: Any) -> str:
    return f"{record.topic}/{record.partition}/{record.offset}"
