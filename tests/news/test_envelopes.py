"""The content of a message, and the row of a change, are the item; nothing else of the envelope describes it."""

import json
from base64 import b64encode
from typing import Any

import pytest

from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import ItemSettings

ARTICLE = {"id": "7", "title": "Elm bridge opens", "text": "It opened on Monday.", "url": "https://elm.example/7"}
ITEM = Item("7", "Elm bridge opens", "It opened on Monday.", "elm.example", 5, 2, 9)
JSON = json.dumps(ARTICLE)
BASE64 = b64encode(JSON.encode()).decode()
SOURCE = {"connector": "postgresql", "name": "cms", "db": "cms", "table": "article"}


def decoded(record: dict[str, Any]) -> object:
    return Decoder(ItemSettings())(json.dumps(record).encode(), b"key", 5, 2, 9)


@pytest.mark.parametrize(
    "record",
    [
        {"Type": "Notification", "MessageId": "m", "Message": JSON, "Timestamp": "2024-01-01T00:00:00Z"},
        {"MessageId": "m", "ReceiptHandle": "r", "Body": JSON},
        {"MessageId": "m", "Body": json.dumps({"MessageId": "n", "Message": JSON})},
        {"messageId": "m", "body": JSON, "eventSource": "aws:sqs"},
        {"topic": "news", "partition": 0, "offset": 3, "key": "k", "payload": JSON},
        {"topic": "news", "key": "k", "value": BASE64},
        {"message": {"data": BASE64, "messageId": "m", "publishTime": "2024-01-01T00:00:00Z"}, "subscription": "s"},
        {"kinesis": {"data": BASE64, "partitionKey": "k"}},
        {"detail-type": "article", "source": "cms", "id": "e", "detail": ARTICLE},
        {"before": None, "after": ARTICLE, "source": SOURCE, "op": "c"},
        {"before": None, "after": JSON, "source": SOURCE, "op": "r"},
        {"schema": {"type": "struct"}, "payload": {"before": ARTICLE, "after": ARTICLE, "source": SOURCE, "op": "u"}},
    ],
)
def test_the_content_is_the_item(record: dict[str, Any]) -> None:
    assert decoded(record) == ITEM


def test_a_deletion_withdraws_the_item_of_the_row() -> None:
    assert decoded({"before": {"id": 7, "title": None}, "after": None, "source": SOURCE, "op": "d"}) == Tombstone(
        "7", 5, 2, 9
    )


def test_an_item_with_a_headline_of_its_own_is_no_envelope() -> None:
    item = decoded({"title": "T", "payload": JSON})
    assert isinstance(item, Item)
    assert (item.id, item.title) == ("key", "T")
