"""Bytes of a record -> Item, Tombstone or BadItem. (contract; being written)"""

from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import ItemSettings


class Decoder:
    def __init__(self, settings: ItemSettings) -> None: ...

    def __call__(
        self, value: bytes | None, key: bytes | None, time: int, partition: int = -1, offset: int = -1
    ) -> Item | Tombstone | BadItem:
        """Never raises for what a record holds: an undecodable one comes back as a BadItem value."""
        ...
