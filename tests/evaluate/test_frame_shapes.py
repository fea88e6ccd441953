"""A drawn record becomes a line whose own fields contain what its key and timestamp said."""

from typing import Any

import msgspec
import pytest

from stream_dedup.evaluate.frame import _as_line
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from tests.news.test_presets import IDS, RECORDS

TIMESTAMP = 1_700_000_000_000


@pytest.mark.parametrize(("name", "shape", "record", "id"), RECORDS, ids=IDS)
def test_a_line_is_read_as_the_record_was(name: str, shape: str, record: dict[str, Any], id: str) -> None:
    settings = load_settings()
    decode = Decoder(settings.item)
    value = msgspec.json.encode(record)
    item = decode(value, b"key", TIMESTAMP)
    assert isinstance(item, Item)
    line = _as_line(value, item, settings)
    assert decode(line, None, None) == item
    assert decode.read(line).shape == shape
