"""Open the envelopes of queues and of changes of a database, whose content is one item: as an object, JSON or Base64.

SNS, SQS, Pub/Sub, Kinesis, EventBridge, what kcat and Kafka's REST proxy print, and Debezium. CloudEvents and lists are
opened in formats.py. Nothing but the content describes the article: ids and times are those of the message.
"""

from typing import Any, NamedTuple

from stream_dedup.news.clean import from_base64
from stream_dedup.news.item_lists import is_item
from stream_dedup.news.names import STRINGS, meant_by
from stream_dedup.news.plain_values import opened

# Members that hold the content as an object, or in one of its members.
_OBJECTS = ("message", "kinesis", "Sns", "detail")


class Content(NamedTuple):
    """The item of an envelope. `is_deleted`: the envelope says that the item was deleted."""

    item: dict[str, Any]
    is_deleted: bool = False


def content_of(record: dict[str, Any]) -> Content | None:
    """Return the content of an envelope; None if the record is none. O(bytes).

    >>> content_of({"MessageId": "7", "Message": '{"title": "Elm bridge opens"}'})
    Content(item={'title': 'Elm bridge opens'}, is_deleted=False)
    >>> content_of({"before": {"id": 7}, "after": None, "op": "d", "source": {"db": "cms"}})
    Content(item={'id': 7}, is_deleted=True)
    """
    inner = record.get("payload")
    change = inner if isinstance(inner, dict) and "schema" in record else record
    if "op" in change and "after" in change:  # Debezium, with and without its schema; MongoDB's rows are strings
        for name in ("after", "before"):
            row = change.get(name)
            row = opened(row) if isinstance(row, str) else row
            if isinstance(row, dict):
                return Content(row, is_deleted=name == "before")
    if meant_by(record, "title"):
        return None
    for text in [value for name, value in record.items() if name in STRINGS and isinstance(value, str)]:
        held = opened(from_base64(text))
        if isinstance(held, dict) and (content := content_of(held) or (Content(held) if is_item(held) else None)):
            return content
    for name in _OBJECTS:
        if isinstance(held := record.get(name), dict):
            return content_of(held) or (Content(held) if is_item(held) else None)
    return None
